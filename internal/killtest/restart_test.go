package killtest

import (
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store/embedded"
)

// crash ends a server at once, as kill -9 of its machine would, and waits until
// it is there again.
func crash(t testing.TB, server *embedded.Server, db *pgxpool.Pool) {
	t.Helper()
	pid := server.PID()
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server runs again", func() bool { return server.PID() != pid && db.Ping(t.Context()) == nil })
}

// blockedOn runs nightaudit until it waits, in the middle of a listing, for a
// table that is locked; then it ends the server, and gives the process.
func (w *world) blockedOn(server *embedded.Server, db *pgxpool.Pool, table string) *process {
	t := w.t
	t.Helper()
	reached, release := w.holdPage(8)
	p := w.reconcile("--repair", "--output", "json")
	await(t, p, "page 8", reached)
	lock, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(t.Context()) }() // its connection is broken by then
	if _, err := lock.Exec(t.Context(), `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	release()
	eventually(t, "nightaudit waits for the lock", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("nightaudit ended before it waited for the lock; it said:\n%s", p.out.String())
		default:
		}
		return one[bool](t, db, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE application_name = 'nightaudit' AND wait_event_type = 'Lock')`)
	})
	crash(t, server, db)
	return p
}

func TestItsDatabaseCrashesDuringARunAndTheNextRunCompletes(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	w := newWorld(t, databases{own: server.URL("")})
	w.oneDay(0.1)
	p := w.blockedOn(server, w.own, "nightaudit.payloads")
	p.mustExit(reconcile.ExitIncomplete)
	says(t, p, "storing findings of events")
	if got := w.door.sent.Load(); got != 0 {
		t.Errorf("replays of the run that could not store its findings: got %d, want none", got)
	}
	expireLeases(t, w.own)
	w.reconcile("--repair").mustExit(reconcile.ExitInSync)
	w.settled(w.own)
}

// A ledger that breaks off in the middle of an answer says nothing of the events
// that it did not come to: they are not missing.
func TestTheLedgersDatabaseCrashesDuringARunAndNothingIsReplayed(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	w := newWorld(t, databases{ledger: server.URL(""), reader: server.URL("")})
	w.oneDay(0.1)
	p := w.blockedOn(server, w.ledger, "public.processed_events")
	p.mustExit(reconcile.ExitIncomplete)
	says(t, p, `"outcome": "incomplete"`, "public.processed_events")
	if got := w.door.sent.Load(); got != 0 {
		t.Errorf("replays on the strength of a ledger that broke off: got %d, want none", got)
	}
	none(t, w.own, "replays that the gate let go", `SELECT event_id FROM nightaudit.replays WHERE state <> 'planned'`)
	none(t, w.own, "events in sub-windows that were closed", `SELECT window_to::text FROM nightaudit.windows WHERE listed > 0`)
	w.reconcile("--repair").mustExit(reconcile.ExitInSync)
	w.settled(w.own)
}

func says(t testing.TB, p *process, want ...string) {
	t.Helper()
	for _, words := range want {
		if said := p.out.String(); !strings.Contains(said, words) {
			t.Errorf("what nightaudit said: got\n%s\nwant it to hold %q", said, words)
		}
	}
}
