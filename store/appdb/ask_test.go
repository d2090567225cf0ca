package appdb

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/providers"
)

func TestAskTellsWhatBecameOfEachEvent(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text, provider text, status text, handled_at timestamptz);
INSERT INTO processed_events VALUES
	('evt_done', 'stripe', 'done', '2026-01-01 01:00Z'),
	('evt_failed', 'stripe', 'failed', '2026-01-01 01:00Z'),
	('evt_old_pending', 'stripe', 'pending', '2026-01-01 00:00Z'),
	('evt_young_pending', 'stripe', 'pending', '2026-01-02 01:59:30Z'),
	('evt_no_status', 'stripe', NULL, NULL),
	('evt_of_another', 'github', 'done', '2026-01-01 01:00Z'),
	('evt_reset', 'stripe', 'pending', '2026-01-01 03:00Z'),
	('evt_reset', 'stripe', 'done', '2026-01-01 02:00Z'),
	('evt_reset', 'stripe', 'failed', '2026-01-01 01:00Z'),
	('evt_retried', 'stripe', 'failed', '2026-01-01 01:00Z'),
	('evt_retried', 'stripe', 'pending', '2026-01-01 03:00Z'),
	('evt_retried', 'stripe', 'pending', '2026-01-01 02:00Z'),
	(NULL, 'stripe', 'done', '2026-01-01 01:00Z')`, "processed_events")
	o := simple
	o.HandledAt, o.Where, o.Done, o.Failed = "handled_at", "provider = 'stripe'", "status = 'done'", "status = 'failed'"

	for _, c := range []struct {
		what, id string
		want     Entry
	}{
		{"no row", "evt_absent", Entry{State: Absent}},
		{"a row that is done", "evt_done", Entry{State: Done, Since: at("2026-01-01T01:00:00Z")}},
		{"a row that failed", "evt_failed", Entry{State: Failed, Since: at("2026-01-01T01:00:00Z")}},
		{"a row pending for 26 hours", "evt_old_pending", Entry{State: Pending, Since: at("2026-01-01T00:00:00Z")}},
		{"a row pending for 30 seconds", "evt_young_pending", Entry{State: Pending, Since: at("2026-01-02T01:59:30Z")}},
		{"a row whose status is NULL", "evt_no_status", Entry{State: Pending}},
		{"a row that where leaves out", "evt_of_another", Entry{State: Absent}},
		{"done once, then reset to pending", "evt_reset", Entry{State: Done, Since: at("2026-01-01T02:00:00Z")}},
		{"failed once, and tried again twice", "evt_retried", Entry{State: Pending, Since: at("2026-01-01T02:00:00Z")}},
		{"an event without an id", "", Entry{State: Unrepresentable, Why: "the event has no id for column event_id"}},
	} {
		for _, mode := range modes {
			t.Run(c.what+" in mode "+mode, func(t *testing.T) {
				t.Parallel()
				got, err := open(t, a.reader(t, mode), o).Ask(t.Context(), byID(c.id))
				if want := []Entry{c.want}; err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("Ask(%q):\n got %+v, %v\nwant %+v", c.id, got, err, want)
				}
			})
		}
	}
}

func TestConditionsThatAreNotMapped(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text, status text);
INSERT INTO processed_events VALUES ('evt_failed', 'failed'), ('evt_new', NULL), ('evt_done', 'done')`, "processed_events")
	for _, c := range []struct {
		what, done, failed string
		want               []State
	}{
		{"neither: a row is done", "", "", []State{Done, Done, Done}},
		{"done alone: other rows are pending", "status = 'done'", "", []State{Pending, Pending, Done}},
		{"failed alone: other rows are done", "", "status = 'failed'", []State{Failed, Done, Done}},
		{"both", "status = 'done'", "status = 'failed'", []State{Failed, Pending, Done}},
		{"an OR stays inside its parentheses", "status = 'x' OR status = 'done'", "status = 'y' OR status = 'failed'", []State{Failed, Pending, Done}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			o := simple
			o.Done, o.Failed = c.done, c.failed
			if got := states(t, a.open(t, o), byID("evt_failed", "evt_new", "evt_done")); !reflect.DeepEqual(got, c.want) {
				t.Errorf("done %q, failed %q: got %v, want %v", c.done, c.failed, got, c.want)
			}
		})
	}
}

func TestAskKeepsOrderAndAnswersRepeatedEvents(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text); INSERT INTO processed_events VALUES ('b'), ('a')`, "processed_events")
	l := a.open(t, simple)
	if got, want := states(t, l, byID("a", "x", "b", "a", "", "x")), []State{Done, Absent, Done, Done, Unrepresentable, Absent}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := states(t, l, nil); len(got) != 0 {
		t.Errorf("no events: got %v, want none", got)
	}
}

// Postgres refuses more than 65,535 parameters of one statement.
func TestAskTakesMoreEventsThanAStatementHasParameters(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text PRIMARY KEY);
INSERT INTO processed_events SELECT 'evt_' || n FROM generate_series(1, 70000) AS n WHERE n <> 4711`, "processed_events")
	var events []providers.Event
	for n := range 70000 {
		events = append(events, providers.Event{ID: fmt.Sprintf("evt_%d", n+1)})
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var missing []string
			for i, s := range states(t, open(t, a.reader(t, mode), simple), events) {
				if s != Done {
					missing = append(missing, events[i].ID)
				}
			}
			if want := []string{"evt_4711"}; !reflect.DeepEqual(missing, want) {
				t.Errorf("70000 events, 69999 recorded: got missing %v, want %v", missing, want)
			}
		})
	}
}

func TestCompositeKeys(t *testing.T) {
	t.Parallel()
	platform := providers.Event{ID: "evt_1"}
	connected := providers.Event{ID: "evt_1", Account: "acct_1"}
	other := providers.Event{ID: "evt_1", Account: "acct_2"}
	const nullable, notNull = "text", "text NOT NULL"
	for _, c := range []struct {
		what, account, rows string
		want                []State // of platform, connected, other
	}{
		{"the same id in another account is another event", nullable, `('evt_1', 'acct_1')`, []State{Absent, Done, Absent}},
		{"the own account as NULL", nullable, `('evt_1', NULL)`, []State{Done, Absent, Absent}},
		{"the own account as an empty text", nullable, `('evt_1', '')`, []State{Done, Absent, Absent}},
		{"the own account as an empty text in a column that is never NULL", notNull, `('evt_1', '')`, []State{Done, Absent, Absent}},
		{"id and account of two different rows are no event", nullable, `('evt_1', 'acct_9'), ('evt_9', 'acct_1')`, []State{Absent, Absent, Absent}},
		{"accounts as numbers hold the own one as NULL", "bigint", `('evt_1', NULL)`, []State{Done, Unrepresentable, Unrepresentable}},
		{"accounts as numbers, never NULL, do not hold it", "bigint NOT NULL", `('evt_1', 7)`, []State{Unrepresentable, Unrepresentable, Unrepresentable}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, `CREATE TABLE processed_events (event_id text, account `+c.account+`);
INSERT INTO processed_events VALUES `+c.rows, "processed_events")
			o := simple
			o.Key = map[string]string{"event_id": "event.id", "account": "event.account"}
			for _, mode := range modes {
				if got := states(t, open(t, a.reader(t, mode), o), []providers.Event{platform, connected, other}); !reflect.DeepEqual(got, c.want) {
					t.Errorf("rows %s in mode %s: got %v, want %v", c.rows, mode, got, c.want)
				}
			}
		})
	}
}

func TestRowsOfTheOtherModeAreNotTheEvent(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text, livemode boolean);
INSERT INTO processed_events VALUES
	('evt_live', true), ('evt_imported', false), ('evt_both', false), ('evt_both', true), ('evt_unknown', NULL)`, "processed_events")
	ids := []string{"evt_live", "evt_imported", "evt_both", "evt_unknown", "evt_absent"}
	column := simple
	column.Livemode = "livemode"
	key := simple
	key.Key = map[string]string{"event_id": "event.id", "livemode": "event.livemode"}

	live := true
	for _, c := range []struct {
		what string
		o    Options
		mode *bool
		want []Entry
	}{
		{"a live event", column, &live, []Entry{{State: Done}, {State: Absent, OtherMode: true}, {State: Done}, {State: Done}, {State: Absent}}},
		{"a live event, the mode in the key", key, &live, []Entry{{State: Done}, {State: Absent, OtherMode: true}, {State: Done}, {State: Absent}, {State: Absent}}},
		{"an event of a provider without modes", column, nil, []Entry{{State: Done}, {State: Done}, {State: Done}, {State: Done}, {State: Absent}}},
		{"the mode not mapped", simple, &live, []Entry{{State: Done}, {State: Done}, {State: Done}, {State: Done}, {State: Absent}}},
	} {
		for _, mode := range modes {
			t.Run(c.what+" in mode "+mode, func(t *testing.T) {
				t.Parallel()
				events := byID(ids...)
				for i := range events {
					events[i].Livemode = c.mode
				}
				got, err := open(t, a.reader(t, mode), c.o).Ask(t.Context(), events)
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("Ask(%v):\n got %+v, %v\nwant %+v", ids, got, err, c.want)
				}
			})
		}
	}
}

func TestRowCommittedAfterTheFirstLookIsFoundByTheSecond(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (seq int, event_id text)`, "processed_events")
	l := a.open(t, simple)
	open, err := a.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.Exec(t.Context(), `INSERT INTO processed_events VALUES (3, 'evt_3')`); err != nil {
		t.Fatal(err)
	}
	a.exec(t, `INSERT INTO processed_events VALUES (4, 'evt_4')`)
	if got, want := states(t, l, byID("evt_3", "evt_4")), []State{Absent, Done}; !reflect.DeepEqual(got, want) {
		t.Errorf("while the transaction of evt_3 is open: got %v, want %v", got, want)
	}
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := states(t, l, byID("evt_3", "evt_4")), []State{Done, Done}; !reflect.DeepEqual(got, want) {
		t.Errorf("after it committed: got %v, want %v", got, want)
	}
}

// slowDDL makes a table whose rows cost 50 ms each, from the 20th on.
const slowDDL = `
CREATE TABLE stored (n int, event_id text, handled_at timestamptz);
INSERT INTO stored SELECT n, 'evt_' || n, '2026-01-01Z' FROM generate_series(1, 1000) AS n;
CREATE FUNCTION slow(n int) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN IF n > 20 THEN PERFORM pg_sleep(0.05); END IF; RETURN true; END$$;
CREATE VIEW processed_events AS SELECT * FROM stored WHERE slow(n)`

// sqlState is the server's code in err, or what else happened.
func sqlState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

func TestAnswerCutShortIsNoAnswer(t *testing.T) {
	t.Parallel()
	a := newApp(t, slowDDL, "processed_events")
	o := simple
	o.HandledAt = "handled_at"
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pool := a.reader(t, mode)
			l := open(t, pool, o)
			connected := pool.Stat().NewConnsCount()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()

			var events []providers.Event
			for n := range 1000 {
				events = append(events, providers.Event{ID: fmt.Sprintf("evt_%d", n+1)})
			}
			entries, err := l.Ask(ctx, events)
			if sqlState(err) != "57014" || entries != nil {
				t.Errorf("Ask while the server times out: got %d entries, %v, want none and SQLSTATE 57014", len(entries), err)
			}
			if !strings.Contains(err.Error(), "asking the ledger public.processed_events for 1000 events") {
				t.Errorf("the error does not tell what was being done: %v", err)
			}
			if err := pool.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			if n := pool.Stat().NewConnsCount(); n != connected {
				t.Errorf("connections made for a query that timed out: got %d, want none", n-connected)
			}
		})
	}
}

func TestCancelledAskIsAnErrorAndLeavesThePoolUsable(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text); INSERT INTO processed_events VALUES ('evt_1')`, "processed_events")
	l := a.open(t, simple)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("told to stop")
	cancel(stop)
	if entries, err := l.Ask(ctx, byID("evt_1")); !errors.Is(err, stop) || entries != nil {
		t.Errorf("Ask with a context that has ended: got %v, %v, want the cause", entries, err)
	}
	if got := states(t, l, byID("evt_1")); got[0] != Done {
		t.Errorf("Ask afterwards: got %v, want done", got)
	}
}

// A transaction pooler may give each transaction another connection to the
// server.
func TestNothingOutlivesATransaction(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id uuid, handled_at timestamptz);
INSERT INTO processed_events SELECT gen_random_uuid(), '2026-01-01Z' FROM generate_series(1, 3000);
INSERT INTO processed_events VALUES ('6f1e2d3c-0000-4000-8000-00000000abcd', '2026-01-01Z')`, "processed_events")
	for _, mode := range []string{"exec", "simple_protocol"} {
		config := a.reader(t, mode).Config()
		config.AfterRelease = func(*pgx.Conn) bool { return false }
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		o := simple
		o.HandledAt = "handled_at"
		l := open(t, pool, o)
		for range 3 {
			if got := states(t, l, byID("6F1E2D3C-0000-4000-8000-00000000ABCD")); got[0] != Done {
				t.Errorf("mode %s: got %v, want done", mode, got)
			}
		}
		n := 0
		if err := l.Recorded(t.Context(), during("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), func(Recorded) error { n++; return nil }); err != nil || n != 3001 {
			t.Errorf("mode %s: Recorded gave %d rows, %v, want 3001", mode, n, err)
		}
	}
}

func TestSessionIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text)`, "processed_events")
	pool := a.reader(t, "cache_statement")
	l := open(t, pool, simple)
	states(t, l, byID("evt_1"))
	var timeout, idle, readOnly string
	err := pool.QueryRow(t.Context(), `SELECT current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_read_only')`).
		Scan(&timeout, &idle, &readOnly)
	if err != nil || timeout != "0" || idle != "0" || readOnly != "off" {
		t.Errorf("after Ask: got statement_timeout %s, idle %s, read only %s, %v, want 0, 0, off", timeout, idle, readOnly, err)
	}
}

// The owner may write; nightaudit does not, even when a condition would.
func TestConditionThatWritesIsRefused(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text);
INSERT INTO processed_events VALUES ('evt_1');
CREATE FUNCTION seen(id text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN DELETE FROM processed_events WHERE event_id = id; RETURN true; END$$`, "processed_events")
	o := simple
	o.Done = "seen(event_id)"
	_, err := open(t, a.owner, o).Ask(t.Context(), byID("evt_1"))
	if got := sqlState(err); got != "25006" {
		t.Errorf("a condition that deletes: got %s, want SQLSTATE 25006 (read_only_sql_transaction)", got)
	}
}

func BenchmarkAsk(b *testing.B) {
	a := newApp(b, `
CREATE TABLE processed_events (event_id text PRIMARY KEY, event_type text, handled_at timestamptz);
INSERT INTO processed_events SELECT 'evt_' || md5(n::text), 'invoice.paid', now() FROM generate_series(1, 200000) AS n;
ANALYZE processed_events`, "processed_events")
	o := simple
	o.HandledAt = "handled_at"
	var ids []string
	rows, err := a.owner.Query(b.Context(), `SELECT event_id FROM processed_events ORDER BY md5(event_id) LIMIT 1000`)
	if err != nil {
		b.Fatal(err)
	}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	for _, mode := range modes {
		b.Run(mode, func(b *testing.B) {
			l := open(b, a.reader(b, mode), o)
			for b.Loop() {
				if got := states(b, l, byID(ids...)); got[999] != Done {
					b.Fatalf("got %v, want done", got[999])
				}
			}
			b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
