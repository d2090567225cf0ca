package killtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/internal/simulator"
)

// configText is the config of every world.
const configText = simulator.Config + `
    replay: { rate: 1000/s, concurrency: 4, verify_within: 20s, max_missing_ratio: %g }
    window: { settle: 1s }
    rate: 1000/s
`

// A world is a provider and an application, both in this process, and what
// nightaudit, which is none of it, needs to reconcile them.
type world struct {
	t      testing.TB
	stripe *simulator.Stripe
	app    *simulator.App
	door   *door         // of the application
	ledger *pgxpool.Pool // the application's database, as the application
	own    *pgxpool.Pool // nightaudit's database; nil if it is embedded
	dir    string
	env    []string
	from   time.Time // what history reaches back to
}

// databases say where a world lives, and what the config says of it. The zero
// value is two databases of the test's own on the shared server.
type databases struct {
	own    string // nightaudit's; "" is one on the shared server
	ledger string // the application's, likewise
	reader string // the application's as nightaudit connects to it; "" makes a role that can only read
	dir    string // of the config, and of an embedded database; "" is one of the test's own

	// maxMissing is the config's max_missing_ratio; 0 is 1, so that nothing is held.
	maxMissing float64
}

// newWorld has an account without events and an application that handled none.
func newWorld(t testing.TB, db databases) *world {
	t.Helper()
	if db.own == "" {
		db.own = pgtest.URL(t)
	}
	if db.ledger == "" {
		db.ledger = pgtest.URL(t)
	}
	w := &world{t: t, ledger: pgtest.Connect(t, db.ledger), dir: cmp.Or(db.dir, t.TempDir()), from: time.Now().Add(-70 * time.Hour)}
	if db.own != "embedded" {
		w.own = pgtest.Connect(t, db.own)
	}
	if err := simulator.CreateTables(t.Context(), w.ledger); err != nil {
		t.Fatal(err)
	}
	if db.reader == "" {
		db.reader = pgtest.ReadOnlyURL(t, db.ledger, "public.processed_events")
	}
	w.serve()
	w.write(db)
	return w
}

// serve starts the provider and the application.
func (w *world) serve() {
	w.stripe = simulator.NewStripe(simulator.StripeOptions{})
	stripe := httptest.NewServer(w.stripe)
	w.t.Cleanup(stripe.Close)
	w.door = &door{ledger: w.ledger}
	app := httptest.NewServer(w.door)
	w.t.Cleanup(app.Close)
	endpoint := w.stripe.AddEndpoint(simulator.Endpoint{URL: app.URL + "/webhooks", Created: w.from.AddDate(-1, 0, 0)})
	w.app = simulator.NewApp(simulator.AppOptions{Pool: w.ledger, Secrets: []string{endpoint.Secret}, KeepRequests: -1})
	w.t.Cleanup(w.app.Close)
	w.door.to = w.app
	w.env = []string{"STRIPE=" + stripe.URL, "STRIPE_KEY=" + simulator.DefaultKey, "STRIPE_SECRET=" + endpoint.Secret,
		"APP=" + endpoint.URL}
}

// write writes the config.
func (w *world) write(db databases) {
	w.t.Helper()
	w.env = append(w.env, "OWN_DATABASE="+db.own, "APP_DATABASE="+db.reader, "STATE_DIR="+w.dir)
	if err := os.WriteFile(w.config(), fmt.Appendf(nil, configText, cmp.Or(db.maxMissing, 1)), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) config() string { return filepath.Join(w.dir, "nightaudit.yaml") }

// reconcile starts nightaudit.
func (w *world) reconcile(args ...string) *process {
	w.t.Helper()
	return start(w.t, w.env, built.path(w.t, "cmd/nightaudit"), append([]string{"-c", w.config(), "reconcile"}, args...)...)
}

// factTypes happen to objects of their own; stateTypes carry the state of objects
// that come again and again, and endingType ends that of one.
var (
	factTypes  = []string{"charge.succeeded", "invoice.paid", "payment_intent.succeeded"}
	stateTypes = []string{"customer.subscription.updated", "customer.updated"}
)

const endingType = "customer.subscription.deleted"

// history is n events from w.from up to an hour ago, and then the ends of some
// objects. The application has handled all but a share of them.
func (w *world) history(n int, seed uint64, dropped float64) {
	w.t.Helper()
	w.stripe.AddHistory(simulator.History{Seed: seed, N: n, From: w.from, To: time.Now().Add(-time.Hour),
		Types: slices.Concat(factTypes, stateTypes)})
	w.end(time.Now().Add(-time.Hour))
	drop := simulator.DropRatio(seed, dropped)
	handled := func(yield func(simulator.Event) bool) {
		for e := range w.stripe.All("") {
			if !drop(e) && !yield(e) {
				return
			}
		}
	}
	if _, err := w.stripe.Backfill(w.t.Context(), w.ledger, handled); err != nil {
		w.t.Fatal(err)
	}
}

// end ends every third of the subscriptions.
func (w *world) end(at time.Time) {
	subjects := make(map[string]bool)
	for e := range w.stripe.All("") {
		id := e.Subject.ID
		if e.Subject.Kind != "subscription" || subjects[id] {
			continue
		}
		subjects[id] = true
		if len(subjects)%3 == 0 {
			w.stripe.Emit(simulator.Emission{Type: endingType, Created: at, Object: simulator.Object{Kind: "subscription", ID: id}})
		}
	}
}

// A door is where requests enter the application. It notes replays of events
// that the ledger showed as done when they arrived.
type door struct {
	to     http.Handler
	ledger *pgxpool.Pool
	open   atomic.Int64 // requests that are being handled: not one that a stopped process has sent half of
	sent   atomic.Int64 // replays that arrived

	mu       sync.Mutex
	needless []string // ids of events that were done before their replay arrived
	problem  error    // why that could not be told
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id := r.Header.Get("Nightaudit-Event-Id"); id != "" {
		d.sent.Add(1)
		d.look(r.Context(), id)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender is dead
	}
	d.open.Add(1)
	defer d.open.Add(-1)
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.to.ServeHTTP(w, r)
}

func (d *door) look(ctx context.Context, id string) {
	var done bool
	err := d.ledger.QueryRow(ctx, `SELECT EXISTS (SELECT FROM processed_events WHERE event_id = $1 AND status = 'done')`, id).Scan(&done)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		d.problem = errors.Join(d.problem, err)
	}
	if done {
		d.needless = append(d.needless, id)
	}
}

// quiet waits until the application handles nothing.
func (d *door) quiet(t testing.TB) {
	t.Helper()
	eventually(t, "the application has handled what it was sent", func() bool { return d.open.Load() == 0 })
}

// expireLeases lets the time pass after which the leases of a dead process end.
func expireLeases(t testing.TB, own *pgxpool.Pool) {
	t.Helper()
	if !exists(t, own, "nightaudit.leases") {
		return
	}
	if _, err := own.Exec(t.Context(), `UPDATE nightaudit.leases SET expires_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
}

func exists(t testing.TB, db *pgxpool.Pool, table string) bool {
	t.Helper()
	return one[bool](t, db, `SELECT to_regclass($1) IS NOT NULL`, table)
}

// one reads one value.
func one[T any](t testing.TB, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	values := column[T](t, db, sql, args...)
	if len(values) != 1 {
		t.Fatalf("%s: got %d rows, want 1", sql, len(values))
	}
	return values[0]
}

// column reads the values of a query with one column.
func column[T any](t testing.TB, db *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

// none fails the test for each row that a query gives as text.
func none(t testing.TB, db *pgxpool.Pool, what, sql string, args ...any) {
	t.Helper()
	if got := column[string](t, db, sql, args...); len(got) > 0 {
		t.Errorf("%s: got %d, want none; the first ones: %s", what, len(got), strings.Join(got[:min(len(got), 5)], "; "))
	}
}

// share spreads event ids evenly over [0, n).
func share(id string, n uint32) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32() % n
}

// faults are those of an ordinary application: it takes its time, sometimes
// records only after it answered, and sometimes the answer is lost.
func (w *world) faults(takes time.Duration) {
	w.app.SetFaults(func(id string) simulator.AppFault {
		switch share(id, 8) {
		case 0:
			return simulator.AppFault{Delay: takes, Lose: true}
		case 1, 2:
			return simulator.AppFault{Delay: takes, Record: simulator.RecordLater, After: 2 * takes}
		default:
			return simulator.AppFault{Delay: takes}
		}
	})
}

// settled fails the test unless everything is done: nothing lost, nothing
// doubled, nothing stuck, no state older than it could be.
func (w *world) settled(own *pgxpool.Pool) {
	t := w.t
	t.Helper()
	superseded := column[string](t, own, `SELECT event_id FROM nightaudit.replays WHERE state = 'superseded'`)
	done := column[string](t, w.ledger, `SELECT event_id FROM processed_events WHERE status = 'done'`)
	for e := range w.stripe.All("") {
		if !slices.Contains(done, e.ID) && !slices.Contains(superseded, e.ID) {
			t.Errorf("lost: %s %s of %s is neither in the ledger nor superseded", e.Type, e.ID, e.Created)
		}
	}
	none(t, w.ledger, "events with more than one effect", `SELECT event_id || ': ' || n FROM effects WHERE n <> 1`)
	none(t, w.ledger, "recorded events without their effect",
		`SELECT event_id FROM processed_events WHERE NOT EXISTS (SELECT FROM effects e WHERE e.event_id = processed_events.event_id)`)
	none(t, own, "replays that nothing finishes", `SELECT event_id || ': ' || state || ' ' || reason FROM nightaudit.replays
		WHERE state NOT IN ('repaired', 'superseded')`)
	none(t, own, "open findings", `SELECT kind || ' ' || key FROM nightaudit.findings WHERE state = 'open'`)
	none(t, own, "attempts without an end", `SELECT replay_id FROM nightaudit.attempts WHERE ended_at IS NULL`)
	none(t, own, "claims", `SELECT id FROM nightaudit.replays WHERE claimed_until IS NOT NULL`)
	none(t, own, "witnesses that nothing needs", `SELECT event_id FROM nightaudit.witnesses`)
	none(t, own, "runs without an end", `SELECT id FROM nightaudit.runs WHERE outcome = 'running'`)
	none(t, own, "leases that are held", `SELECT role FROM nightaudit.leases WHERE expires_at > clock_timestamp()`)
	w.newestStates()
	w.door.mu.Lock()
	defer w.door.mu.Unlock()
	if len(w.door.needless) > 0 || w.door.problem != nil {
		t.Errorf("replays of events that the ledger showed as done: got %v (%v), want none", w.door.needless, w.door.problem)
	}
}

// newestStates fails the test for each object whose state is not that of its
// newest event.
func (w *world) newestStates() {
	t := w.t
	t.Helper()
	newest := make(map[string]string)
	for e := range w.stripe.All("") {
		if e.Type == endingType || slices.Contains(stateTypes, e.Type) {
			newest[e.Subject.String()] = e.ID
		}
	}
	states := make(map[string]string)
	for _, s := range column[string](t, w.ledger, `SELECT subject || ' ' || event_id FROM object_states`) {
		subject, id, _ := strings.Cut(s, " ")
		states[subject] = id
	}
	for subject, want := range newest {
		if got := states[subject]; got != want {
			t.Errorf("state of %s: got that of %s, want that of its newest event %s", subject, describe(w, got), describe(w, want))
		}
	}
}

func describe(w *world, id string) string {
	e, known := w.stripe.Event("", id)
	if !known {
		return "no event"
	}
	return fmt.Sprintf("%s %s (%s)", e.Type, id, e.Created.Format(time.RFC3339))
}
