package store_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

func TestAWholeLifeInEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			config := pgtest.Pool(t).Config()
			config.ConnConfig.DefaultQueryExecMode = mode
			live(t, connectConfig(t, config), "")
		})
	}
}

func TestAWholeLifeInAnotherSchema(t *testing.T) {
	t.Parallel()
	live(t, pgtest.Pool(t), "audit_x")
}

// Behind a transaction pooler each statement or transaction meets another
// session, and must leave it as it was.
func TestAWholeLifeBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	config := pgtest.Pool(t).Config()
	var sessions, changed atomic.Int32
	config.AfterRelease = func(conn *pgx.Conn) bool {
		sessions.Add(1)
		if !pristine(conn) {
			changed.Add(1)
		}
		return false // the next one gets a new session
	}
	live(t, connectConfig(t, config), "")
	eventually(t, "the sessions end", func() bool { return sessions.Load() > 50 })
	same(t, "sessions left with settings, locks or temporary tables", changed.Load(), 0)
}

func pristine(conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const leftSQL = `
SELECT (SELECT count(*) FROM pg_settings WHERE source = 'session' AND name NOT IN ('client_encoding'))
    + (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')
    + (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema())`
	var left int
	return conn.QueryRow(ctx, leftSQL).Scan(&left) == nil && left == 0
}

// live walks through every function of the package once, as two runs and their
// drains would.
func live(t *testing.T, pool *pgxpool.Pool, schema string) {
	ctx := t.Context()
	s := migrated(t, pool, store.Options{Schema: schema})
	l := &life{t: t, ctx: ctx, store: s}
	l.run = acquire(t, s, "shop", store.RoleRun, "run_1")
	l.begin()
	l.list()
	l.gate()
	l.drain()
	l.unrecorded()
	l.audit()
	l.end()
}

type life struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // the test's own
	store *store.Store
	run   *store.Lease
	drn   *store.Lease
}

func (l *life) ok(what string, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

func (l *life) begin() {
	now, err := l.store.Clock(l.ctx)
	l.ok("Clock", err)
	if off := time.Since(now).Abs(); off > time.Minute {
		l.t.Errorf("Clock: got %s, which is %s off", now, off)
	}
	l.ok("Renew", l.run.Renew(l.ctx))
	l.ok("StartRun", l.run.StartRun(l.ctx, &store.Run{ID: "run_1", Source: "shop", Cause: "hand", Mode: "repair", Host: "host 1"}))
	st, err := l.store.Stream(l.ctx, "shop", stream)
	l.ok("Stream", err)
	same(l.t, "a new stream", st == nil, true)
	l.ok("CreateStream", l.run.CreateStream(l.ctx, stream, store.Stream{Watermark: midnight}))
	l.ok("SetInclude", l.run.SetInclude(l.ctx, stream, []string{"order.*", `a"b,{c}`}))
	st, err = l.store.Stream(l.ctx, "shop", stream)
	l.ok("Stream", err)
	same(l.t, "stream", *st, store.Stream{Watermark: midnight, Include: []string{"order.*", `a"b,{c}`}})
	live := true
	endpoints := []providers.Endpoint{{ID: "we_1", URL: "https://shop.example.com", Types: []string{"b", "a"}, Livemode: &live}}
	for range 2 {
		l.ok("AddLook", l.run.AddLook(l.ctx, stream, midnight, endpoints))
	}
	looks, err := l.store.Looks(l.ctx, "shop", stream)
	l.ok("Looks", err)
	same(l.t, "looks", len(looks), 1)
}

// list stores one event of each class; a and b are about the same order.
func (l *life) list() {
	due := midnight.Add(2 * time.Hour)
	late := missing("late", 30, "")
	late.Class, late.Kind, late.DueAt = store.Late, store.StuckEvent, &due
	unreadable := store.Drift{Event: providers.Event{Key: "unreadable"}, Class: store.Unreadable, Kind: store.UnreadableEvent}
	yes := true
	b := missing("b", 2, "o1")
	b.Event.Livemode = &yes
	batch := []store.Drift{missing("a", 1, "o1"), b, missing("healed", 3, ""), late, unreadable}
	work, err := l.run.Record(l.ctx, stream, batch)
	l.ok("Record", err)
	same(l.t, "work", work, store.Work{Planned: 3})
	var counts store.Counts
	for _, d := range batch {
		counts.Add(d.Class)
	}
	l.ok("CommitWindow", l.run.CommitWindow(l.ctx, stream, firstHour, counts, work))
	listed, over, err := l.store.Traffic(l.ctx, "shop", stream, midnight)
	l.ok("Traffic", err)
	same(l.t, "traffic", []any{listed, over}, []any{5, time.Hour})
	open, err := l.store.OpenEvents(l.ctx, "shop", "", 100)
	l.ok("OpenEvents", err)
	same(l.t, "open findings about events with an id", len(open), 4)
	l.ok("Heal", l.run.Heal(l.ctx, []string{findingOf("healed")}))
	for _, f := range open {
		if f.Key == "late" {
			l.ok("FallDue", l.run.FallDue(l.ctx, []store.Due{{Finding: f, Kind: store.StuckEvent, Cause: store.RecordedNotDone,
				Replay: true, Carry: providers.Fact}}))
		}
	}
}

func (l *life) gate() {
	scales, _, err := l.store.Weigh(l.ctx, "shop")
	l.ok("Weigh", err)
	same(l.t, "scales", []int{scales.Planned, scales.Missing, scales.Late, scales.Compared()}, []int{3, 3, 1, 5})
	l.ok("HoldGate", l.run.HoldGate(l.ctx, "implausible"))
	holds, err := l.store.Holds(l.ctx, "shop")
	l.ok("Holds", err)
	same(l.t, "holds", holds, map[store.Hold]int{store.HoldGate: 3})
	freed, err := l.run.Free(l.ctx, store.HoldGate, "released by a person")
	l.ok("Free", err)
	same(l.t, "freed", freed, 3)
	queued, err := l.run.OpenGate(l.ctx)
	l.ok("OpenGate", err)
	same(l.t, "queued by a gate without planned replays", queued, 0)
	counts, err := l.store.CountReplays(l.ctx, "shop")
	l.ok("CountReplays", err)
	same(l.t, "replays", counts, map[store.ReplayState]int{store.ReplayQueued: 3})
}

func (l *life) drain() {
	l.drn = acquire(l.t, l.store, "shop", store.RoleDrain, "run_1")
	l.ok("Recover", l.drn.Recover(l.ctx))
	waiting, err := l.store.WaitingSnapshots(l.ctx, "shop")
	l.ok("WaitingSnapshots", err)
	same(l.t, "waiting snapshots", len(waiting[stream]), 2)
	lane := waiting[stream][0].Lane
	l.ok("AddWitnesses", l.drn.AddWitnesses(l.ctx, stream, []store.Witness{{Event: event("w", 50, "o1"), Lane: lane}}))
	l.ok("Witnessed", l.drn.Witnessed(l.ctx, []string{waiting[stream][0].ID}, firstHour.To))
	witnesses, err := l.store.Witnesses(l.ctx, "shop", []string{lane})
	l.ok("Witnesses", err)
	same(l.t, "witnesses: the two replays of the lane and the one added", len(witnesses[lane]), 3)

	heads := l.claim(nil)
	same(l.t, "heads", keys(heads), []string{"a", "late"})
	l.ok("Unclaim", l.drn.Unclaim(l.ctx, []string{heads[0].ID, heads[1].ID}))
	heads = l.claim([]string{heads[1].ID})
	same(l.t, "heads without the one excepted", keys(heads), []string{"a"})
	l.attempt(heads[0])
	l.judge(heads[0], store.ReplayAcknowledged)
	watched, err := l.store.Watched(l.ctx, "shop", "", 10)
	l.ok("Watched", err)
	same(l.t, "watched", len(watched), 1)
	l.judge(watched[0].Replay, store.ReplayRepaired)
}

func (l *life) claim(except []string) []store.Replay {
	l.t.Helper()
	now, err := l.store.Clock(l.ctx)
	l.ok("Clock", err)
	claimed, err := l.drn.Claim(l.ctx, now, except, 10)
	l.ok("Claim", err)
	return claimed
}

func (l *life) attempt(r store.Replay) {
	l.t.Helper()
	a := &store.Attempt{ReplayID: r.ID, Endpoint: "https://shop.example.com"}
	l.ok("Begin", l.drn.Begin(l.ctx, []*store.Attempt{a}))
	body, err := l.store.Payload(l.ctx, r.FindingID)
	l.ok("Payload", err)
	same(l.t, "payload", string(body), `{"id":"`+r.Event.Key+`"}`)
	a.Outcome, a.Status, a.BodyBytes, a.Snippet = "acknowledged", 200, int64(len(body)), `it's "ok" \ ;--`
	l.ok("End", l.store.End(l.ctx, *a))
	last, err := l.store.LastAttempts(l.ctx, []string{r.ID})
	l.ok("LastAttempts", err)
	same(l.t, "attempt", []any{last[r.ID].Number, last[r.ID].Status, last[r.ID].Snippet}, []any{a.Number, 200, a.Snippet})
}

func (l *life) judge(r store.Replay, state store.ReplayState) {
	l.t.Helper()
	l.ok("Judge", l.drn.Judge(l.ctx, []store.Verdict{{Replay: r, State: state, Reason: "so it is"}}))
}

// unrecorded takes b, which follows a, through a night in which it is lost.
func (l *life) unrecorded() {
	heads := l.claim(nil)
	same(l.t, "heads after the first of the lane", keys(heads), []string{"b", "late"})
	same(l.t, "live mode", *heads[0].Event.Livemode, true)
	l.attempt(heads[0])
	l.judge(heads[0], store.ReplayAcknowledged)
	l.judge(heads[0], store.ReplayUnrecorded)
	now, err := l.store.Clock(l.ctx)
	l.ok("Clock", err)
	again, err := l.drn.RequeueUnrecorded(l.ctx, now)
	l.ok("RequeueUnrecorded", err)
	same(l.t, "queued again", again, 1)
	l.judge(heads[0], store.ReplaySuperseded)
	l.ok("ForgetWitnesses", l.drn.ForgetWitnesses(l.ctx))
	l.ok("Release", l.drn.Release(l.ctx))
}

func (l *life) audit() {
	f := store.NewFinding("shop", stream, "run_1", store.ScopeEndpoint, store.EndpointDisabled, "we_1")
	l.ok("See", l.run.See(l.ctx, f))
	l.ok("CloseUnseen", l.run.CloseUnseen(l.ctx, stream, store.EndpointDisabled))
	l.ok("Acknowledge", l.store.Acknowledge(l.ctx, f.ID))
	acked, err := l.store.IsAcknowledged(l.ctx, f.ID)
	l.ok("IsAcknowledged", err)
	same(l.t, "acknowledged", acked, true)
	gap := store.NewFinding("shop", stream, "run_1", store.ScopeSource, store.CoverageGap, "gap")
	l.ok("CommitGap", l.run.CommitGap(l.ctx, stream, midnight.Add(24*time.Hour), gap))
	open, err := l.store.Findings(l.ctx, store.FindingFilter{Source: "shop", Kind: store.CoverageGap, Limit: 5})
	l.ok("Findings", err)
	same(l.t, "open gaps", len(open), 1)
	newest, err := l.store.NewestReplays(l.ctx, []string{findingOf("a"), findingOf("b")})
	l.ok("NewestReplays", err)
	same(l.t, "replays", []any{newest[findingOf("a")].State, newest[findingOf("b")].State}, []any{"repaired", "superseded"})
	states, err := l.store.ListedStates(l.ctx, "run_1")
	l.ok("ListedStates", err)
	same(l.t, "states", states[stream], map[string]int{"queued": 1, "repaired": 2, "superseded": 1})
}

func (l *life) end() {
	report := json.RawMessage(`{"b": 1,  "a": "it's"}`)
	l.ok("FinishRun", l.run.FinishRun(l.ctx, "run_1", store.DriftRemains, report))
	runs, err := l.store.Runs(l.ctx, "shop", 10)
	l.ok("Runs", err)
	same(l.t, "runs", []any{len(runs), runs[0].Outcome}, []any{1, store.DriftRemains})
	r, err := l.store.Report(l.ctx, "shop", "")
	l.ok("Report", err)
	same(l.t, "report, byte for byte", string(r.Report), string(report))
	l.ok("Release", l.run.Release(l.ctx))
}

func keys(replays []store.Replay) []string {
	out := make([]string, len(replays))
	for i, r := range replays {
		out[i] = r.Event.Key
	}
	return out
}
