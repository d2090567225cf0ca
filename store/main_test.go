package store_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(holderVariable); url != "" {
		os.Exit(holdLease(url))
	}
	os.Exit(pgtest.Main(tidyRun{m}))
}

// midnight is when the worlds of these tests begin; their first window is the
// hour after it.
var (
	midnight  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	firstHour = providers.Window{From: midnight, To: midnight.Add(time.Hour)}
)

const stream = "events"

// A fixture is a store with one run under way, of the source "shop".
type fixture struct {
	t     testing.TB
	pool  *pgxpool.Pool
	store *store.Store
	run   *store.Lease
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	pool := shared.take(t)
	f := &fixture{t: t, pool: pool, store: opened(t, pool, store.Options{})}
	f.run = f.newRun()
	if err := f.run.CreateStream(t.Context(), stream, store.Stream{Watermark: midnight}); err != nil {
		t.Fatal(err)
	}
	return f
}

// migrated brings the schema that o names to its newest version and opens it.
func migrated(t testing.TB, pool *pgxpool.Pool, o store.Options) *store.Store {
	t.Helper()
	if _, err := store.Migrate(t.Context(), pool, o.Schema, nil); err != nil {
		t.Fatal(err)
	}
	return opened(t, pool, o)
}

func opened(t testing.TB, db store.DB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newRun ends the run that is under way, if any, and starts the next.
func (f *fixture) newRun() *store.Lease {
	f.t.Helper()
	if f.run != nil {
		if err := f.run.Release(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
	id := store.NewID("run", time.Now())
	lease := acquire(f.t, f.store, "shop", store.RoleRun, id)
	r := &store.Run{ID: id, Source: "shop", Cause: "hand", Mode: "repair", Host: "host 1", Version: "test"}
	if err := lease.StartRun(f.t.Context(), r); err != nil {
		f.t.Fatal(err)
	}
	f.run = lease
	return lease
}

func acquire(t testing.TB, s *store.Store, source string, role store.Role, runID string) *store.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), source, role, "host 1", runID)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// event is an event of the first hour, a number of minutes after midnight, about
// an object ("" is none).
func event(key string, minute int, object string) providers.Event {
	return providers.Event{
		Key: key, ID: key, Type: "order.updated", Created: midnight.Add(time.Duration(minute) * time.Minute),
		Subject: providers.Subject{Kind: "order", ID: object}, Payload: []byte(`{"id":"` + key + `"}`),
	}
}

// missing is the drift of an event that the ledger does not have.
func missing(key string, minute int, object string) store.Drift {
	return store.Drift{
		Event: event(key, minute, object), Class: store.Missing, Kind: store.MissingEvent,
		Cause: store.DeliveryFailed, Detail: "not in the ledger", Replay: true, Carry: providers.Snapshot,
	}
}

func findingOf(key string) string {
	return store.FindingID("shop", stream, store.ScopeEvent, store.MissingEvent, key)
}

// record stores drifts in the run that is under way.
func (f *fixture) record(drifts ...store.Drift) store.Work {
	f.t.Helper()
	work, err := f.run.Record(f.t.Context(), stream, drifts)
	if err != nil {
		f.t.Fatal(err)
	}
	return work
}

// closeWindow closes a window in which n events were missing, all of them new work.
func (f *fixture) closeWindow(w providers.Window, n int) {
	f.t.Helper()
	counts := store.Counts{Listed: n, Missing: n}
	if err := f.run.CommitWindow(f.t.Context(), stream, w, counts, store.Work{Planned: n}); err != nil {
		f.t.Fatal(err)
	}
}

// openGate lets all planned replays through and gives how many there were.
func (f *fixture) openGate() int {
	f.t.Helper()
	queued, err := f.run.OpenGate(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return queued
}

// queue records drifts of the first hour, closes it, and queues their replays.
func (f *fixture) queue(drifts ...store.Drift) {
	f.t.Helper()
	f.record(drifts...)
	f.closeWindow(firstHour, len(drifts))
	f.openGate()
}

// replay is the newest replay of an event.
func (f *fixture) replay(key string) store.Replay {
	f.t.Helper()
	newest, err := f.store.NewestReplays(f.t.Context(), []string{findingOf(key)})
	if err != nil {
		f.t.Fatal(err)
	}
	r, ok := newest[findingOf(key)]
	if !ok {
		f.t.Fatalf("event %s: no replay", key)
	}
	return r
}

// finding is what is stored of an event.
func (f *fixture) finding(key string) store.Finding {
	f.t.Helper()
	return f.findingByID(findingOf(key))
}

func (f *fixture) findingByID(id string) store.Finding {
	f.t.Helper()
	all, err := f.store.Findings(f.t.Context(), store.FindingFilter{Closed: true})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, found := range all {
		if found.ID == id {
			return found
		}
	}
	f.t.Fatalf("finding %s: not stored", id)
	return store.Finding{}
}

// history is the story of a finding, oldest first, as "kind state: why".
func (f *fixture) history(id string) []string {
	f.t.Helper()
	return column[string](f, `SELECT kind || ' ' || state || ': ' || why FROM nightaudit.finding_history WHERE finding_id = $1 ORDER BY at`, id)
}

// exec changes the tables behind the store's back, as time or a crash would.
func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.pool.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// column reads the one column that a query gives.
func column[T any](f *fixture, sql string, args ...any) []T {
	f.t.Helper()
	rows, err := f.pool.Query(f.t.Context(), sql, args...)
	if err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return values
}

// value reads the one value that a query gives.
func value[T any](f *fixture, sql string, args ...any) T {
	f.t.Helper()
	values := column[T](f, sql, args...)
	if len(values) != 1 {
		f.t.Fatalf("%s: got %d rows, want one", sql, len(values))
	}
	return values[0]
}

// eventually waits for what another process or goroutine does.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 20 s for this, and it did not happen: %s", what)
		}
	}
}

// same fails the test unless got and want print alike.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// mentions fails the test unless err says all of the words.
func mentions(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error: got %v, want one that says %q", err, w)
		}
	}
}

// contextAfter is for what a test cleans up, when its own context has ended.
func contextAfter(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
