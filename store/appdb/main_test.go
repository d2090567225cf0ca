package appdb

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/providers"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// modes are all of pgx's, by their names in a connection string.
var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// An app is an application's database: its owner fills it, nightaudit reads it
// with the right to SELECT alone.
type app struct {
	owner   *pgxpool.Pool
	readURL string
}

// newApp creates the tables by the statements in ddl.
func newApp(t testing.TB, ddl string, tables ...string) app {
	t.Helper()
	url := pgtest.URL(t)
	a := app{owner: pgtest.Connect(t, url)}
	a.exec(t, ddl)
	a.readURL = pgtest.ReadOnlyURL(t, url, tables...)
	return a
}

func (a app) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := a.owner.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// reader connects as the read-only role in one of the modes.
func (a app) reader(t testing.TB, mode string) *pgxpool.Pool {
	t.Helper()
	separator := "?"
	if strings.Contains(a.readURL, "?") {
		separator = "&"
	}
	return pgtest.Connect(t, a.readURL+separator+"default_query_exec_mode="+mode)
}

// open opens a ledger as the read-only role.
func (a app) open(t testing.TB, o Options) *Ledger {
	t.Helper()
	return open(t, a.reader(t, "cache_statement"), o)
}

func open(t testing.TB, db DB, o Options) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), db, o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("Open(%+v): %v", o, err)
	}
	return l
}

func byID(ids ...string) []providers.Event {
	events := make([]providers.Event, len(ids))
	for i, id := range ids {
		events[i] = providers.Event{ID: id, Key: id}
	}
	return events
}

// states asks for the ids and fails the test on an error.
func states(t testing.TB, l *Ledger, events []providers.Event) []State {
	t.Helper()
	entries, err := l.Ask(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]State, len(entries))
	for i, e := range entries {
		got[i] = e.State
	}
	return got
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

func during(from, to string) providers.Window { return providers.Window{From: at(from), To: at(to)} }

// simple is the ledger of a table with nothing but ids.
var simple = Options{Table: "processed_events", Key: map[string]string{"event_id": "event.id"}}

var _ DB = (*pgx.Conn)(nil)
