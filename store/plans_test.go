package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store"
)

// A plan is one node of what EXPLAIN (ANALYZE, FORMAT JSON) shows.
type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Rejected float64 `json:"Rows Removed by Join Filter"`
	Plans    []plan  `json:"Plans"`
}

// touched is how many rows the plan read or compared in all.
func (p plan) touched() float64 {
	rows := (p.Rows + p.Filtered + p.Rejected) * p.Loops
	for _, child := range p.Plans {
		rows += child.touched()
	}
	return rows
}

// repeatedScans are the tables that the plan reads from end to end more than once.
func (p plan) repeatedScans() []string {
	var tables []string
	if p.Node == "Seq Scan" && p.Loops > 1 {
		tables = append(tables, p.Relation)
	}
	for _, child := range p.Plans {
		tables = append(tables, child.repeatedScans()...)
	}
	return tables
}

// explain runs a statement as the store does and takes it back: planned for its
// arguments, or for any, as it may be when it was prepared and has run often.
func (f *fixture) explain(planned, sql string, named pgx.NamedArgs) plan {
	f.t.Helper()
	ctx := f.t.Context()
	tx, err := f.pool.Begin(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(contextAfter(f.t)) }()
	sql, args, err := named.RewriteQuery(ctx, tx.Conn(), sql, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	numbers := make([]string, len(args))
	for i := range args {
		numbers[i] = fmt.Sprintf("$%d", i+1)
	}
	for _, setup := range []string{
		"SET LOCAL plan_cache_mode = " + planned,
		"SET LOCAL max_parallel_workers_per_gather = 0", // a scan that is shared counts as repeated
		"PREPARE asked AS " + sql,
	} {
		if _, err := tx.Exec(ctx, setup, pgx.QueryExecModeSimpleProtocol); err != nil {
			f.t.Fatal(err)
		}
	}
	explainSQL := `EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) EXECUTE asked (` + strings.Join(numbers, ", ") + `)`
	var text string
	err = tx.QueryRow(ctx, explainSQL, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "DEALLOCATE asked"); err != nil {
		f.t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		f.t.Fatal(err)
	}
	return plans[0].Plan
}

// The two ways in which Postgres plans a prepared statement.
var plannings = []string{"force_custom_plan", "force_generic_plan"}

const many = 50_000

// fillSQL plans replays a second apart, in as many lanes as are asked for, over a
// year of closed windows.
const fillSQL = `
WITH stored AS (
    INSERT INTO nightaudit.findings (id, source, stream, scope, kind, key, cause, detail, state, resolution, event_id,
        event_account, event_type, api_version, subject, class, listed_by, first_run_id, last_run_id)
    SELECT 'fnd_' || n, 'shop', 'events', 'event', 'missing_event', 'evt_' || n, '', '', 'open', '', 'evt_' || n,
        '', 'order.updated', '', '', 'missing', @run_id, @run_id, @run_id
    FROM generate_series(1, @many::integer) AS n
)
INSERT INTO nightaudit.replays (id, finding_id, source, stream, event_key, event_id, event_account, event_type, event_created,
    api_version, class, lane, state, run_id)
SELECT 'rpl_' || n, 'fnd_' || n, 'shop', 'events', 'evt_' || n, 'evt_' || n, '', 'order.updated',
    @midnight::timestamptz + n * interval '1 second', '', 'snapshot', 'order/' || n % @lanes::integer, @state::text, @run_id
FROM generate_series(1, @many::integer) AS n`

const yearSQL = `
INSERT INTO nightaudit.windows (source, stream, run_id, window_from, window_to, listed, done, missing, stuck, late, ignored,
    unreadable, planned, known)
SELECT 'shop', 'events', @run_id, @midnight::timestamptz + (n - 8000) * interval '1 hour',
    @midnight::timestamptz + (n - 7999) * interval '1 hour', 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM generate_series(1, 8760) AS n`

func filled(t *testing.T, lanes int, state store.ReplayState) *fixture {
	t.Helper()
	pool := pgtest.Pool(t)
	f := &fixture{t: t, pool: pool, store: migrated(t, pool, store.Options{})}
	f.newRun()
	args := pgx.NamedArgs{"many": many, "lanes": lanes, "state": string(state), "midnight": midnight, "run_id": f.run.RunID()}
	f.exec(fillSQL, args)
	f.exec(yearSQL, args)
	f.exec(`ANALYZE`)
	return f
}

func TestALongQueueCostsNoStatementMoreThanAFewLooksAtIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lanes, claimed int
		claimReads     float64 // rows, at most
	}{
		{500, 256, 20 * 256},
		{1, 1, 6 * many}, // each is a candidate once
	} {
		t.Run(fmt.Sprintf("%d replays in %d lanes", many, c.lanes), func(t *testing.T) {
			t.Parallel()
			f := filled(t, c.lanes, store.ReplayQueued)
			// A plan for any limit sorts the queue first. Postgres keeps to the one
			// for this limit, since that is cheaper.
			for planned, most := range map[string]float64{"force_custom_plan": c.claimReads, "force_generic_plan": 6 * many} {
				p := f.explain(planned, store.ClaimSQL, pgx.NamedArgs{
					"source": "shop", "since": midnight, "except": []string{}, "limit": 256, "claim_seconds": 60.0,
				})
				same(t, "claimed", p.Rows, c.claimed)
				f.bounded(planned+": claiming", p, most)
			}
			f.settles()
		})
	}
}

// settles checks what is done to all lanes, or to those of a few replays.
func (f *fixture) settles() {
	f.t.Helper()
	f.exec(`UPDATE nightaudit.replays SET state = 'held', hold = 'tie' WHERE event_key IN ('evt_25000', 'evt_25001')`)
	f.exec(`
INSERT INTO nightaudit.witnesses (source, stream, event_key, event_id, event_account, event_type, event_created, lane)
SELECT source, stream, event_key, event_id, event_account, event_type, event_created, lane
FROM nightaudit.replays
LIMIT 5000`)
	for _, planned := range plannings {
		for name, sql := range map[string]string{
			"joining holds": store.JoinHoldSQL, "leaving holds": store.LeaveHoldSQL,
			"forgetting witnesses": store.ForgetSQL, "recovering": store.RecoverSQL,
		} {
			f.bounded(planned+": "+name, f.explain(planned, sql, pgx.NamedArgs{"source": "shop"}), 10*many)
		}
		p := f.explain(planned, store.OvertakeSQL, pgx.NamedArgs{"ids": []string{"rpl_30000", "rpl_30001"}})
		f.bounded(planned+": overtaking", p, 100)
	}
}

func TestTheGateReadsEachReplayAndEachWindowOnce(t *testing.T) {
	t.Parallel()
	f := filled(t, 500, store.ReplayPlanned)
	for _, planned := range plannings {
		for name, sql := range map[string]string{"counting": store.AtGateSQL, "queueing": store.QueueSQL} {
			p := f.explain(planned, sql, pgx.NamedArgs{"source": "shop"})
			f.bounded(fmt.Sprintf("%s: %s %d replays after a year of windows", planned, name, many), p, 10*many)
		}
	}
}

// bounded fails the test if a plan touches more rows than most.
func (f *fixture) bounded(what string, p plan, most float64) {
	f.t.Helper()
	if p.touched() > most {
		f.t.Errorf("%s: touched %.0f rows, want at most %.0f", what, p.touched(), most)
	}
	same(f.t, what+": tables scanned repeatedly", p.repeatedScans(), []string{})
}
