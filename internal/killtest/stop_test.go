package killtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/all"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// oneDay is a history of 1200 events, of which a share is missing. Its listing has
// 12 pages.
func (w *world) oneDay(missing float64) {
	w.from = time.Now().Add(-20 * time.Hour)
	w.history(1200, 1, missing)
}

// heldInTheSecondBatch starts a run over 4000 events, of which a share is missing,
// and holds its listing once the first of two batches is stored.
func (w *world) heldInTheSecondBatch(missing float64) (held *process, release func()) {
	w.t.Helper()
	w.from = time.Now().Add(-20 * time.Hour)
	w.history(4000, 1, missing)
	reached, release := w.holdPage(32)
	held = w.reconcile("--repair")
	await(w.t, held, "page 32", reached)
	eventually(w.t, "a batch is stored", func() bool {
		return one[int](w.t, w.own, `SELECT count(*) FROM nightaudit.replays WHERE state = 'planned'`) > 100
	})
	return held, release
}

// holdPage holds the page of events that is n pages away until release is called;
// reached is closed when it is asked for.
func (w *world) holdPage(n int) (reached chan struct{}, release func()) {
	w.t.Helper()
	reached, free := make(chan struct{}), make(chan struct{})
	at := w.stripe.Stats().Pages + n
	w.stripe.Intercept(func(r simulator.Request) *simulator.Answer {
		if r.Page != at {
			return nil
		}
		close(reached)
		return &simulator.Answer{Hold: free, Pass: true}
	})
	released := false
	release = func() {
		if !released {
			released = true
			close(free)
		}
	}
	w.t.Cleanup(release)
	return reached, release
}

// stopAtRest stops a process while it has no transaction open: one would keep the
// row of its lease locked, which expireLeases changes.
func (w *world) stopAtRest(p *process) {
	w.t.Helper()
	eventually(w.t, "the process is stopped with no transaction open", func() bool {
		p.signal(syscall.SIGSTOP)
		eventually(w.t, "Postgres has done what the process asked for", func() bool {
			return one[bool](w.t, w.own, `SELECT bool_and(state <> 'active' OR wait_event = 'ClientRead') FROM pg_stat_activity
				WHERE application_name = 'nightaudit' AND datname = current_database()`)
		})
		if one[bool](w.t, w.own, `SELECT bool_and(xact_start IS NULL) FROM pg_stat_activity
			WHERE application_name = 'nightaudit' AND datname = current_database()`) {
			return true
		}
		p.signal(syscall.SIGCONT)
		return false
	})
}

// await waits for a channel to be closed while p runs.
func await(t testing.TB, p *process, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-p.ended:
		t.Fatalf("%s: the process ended before; it said:\n%s", what, p.out.String())
	case <-time.After(patience):
		t.Fatalf("%s: not within %s; the process said:\n%s", what, patience, p.out.String())
	}
}

// memory is every row of nightaudit's tables.
func memory(t testing.TB, own *pgxpool.Pool) map[string][]string {
	t.Helper()
	rows := make(map[string][]string)
	for _, table := range []string{"leases", "streams", "runs", "windows", "endpoint_looks", "findings", "finding_history",
		"payloads", "replays", "attempts", "witnesses"} {
		rows[table] = column[string](t, own, `SELECT t::text FROM nightaudit.`+table+` AS t ORDER BY 1`)
	}
	return rows
}

func unchanged(t testing.TB, before, after map[string][]string) {
	t.Helper()
	for _, table := range slices.Sorted(maps.Keys(before)) {
		if slices.Equal(before[table], after[table]) {
			continue
		}
		for _, row := range after[table] {
			if !slices.Contains(before[table], row) {
				t.Errorf("table %s after the stopped process went on: got new row %s", table, row)
			}
		}
		t.Errorf("table %s after the stopped process went on: got %d rows, want the %d from before", table, len(after[table]), len(before[table]))
	}
}

// lost fails the test unless the process ends because its lease was lost.
func lost(t testing.TB, p *process) {
	t.Helper()
	p.mustExit(reconcile.ExitIncomplete)
	if said := p.out.String(); !strings.Contains(strings.Join(strings.Fields(said), " "), "lease was lost to another process") {
		t.Errorf("process that lost its lease: got\n%s\nwant it to say that the lease was lost", said)
	}
}

// A run that is stopped for longer than its lease, while it lists, leaves the
// field to the one that took over.
func TestStoppedWhileListingPastItsLeaseARunWritesNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, databases{})
	stopped, release := w.heldInTheSecondBatch(0.1)
	w.stopAtRest(stopped)
	w.reconcile().mustExit(reconcile.ExitSkipped)

	expireLeases(t, w.own)
	w.reconcile("--repair").mustExit(reconcile.ExitInSync)
	before, sent := memory(t, w.own), w.door.sent.Load()
	release()
	stopped.signal(syscall.SIGCONT)
	lost(t, stopped)
	unchanged(t, before, memory(t, w.own))
	if got := w.door.sent.Load(); got != sent {
		t.Errorf("replays after the stopped run went on: got %d, want none", got-sent)
	}
	w.settled(w.own)
}

// The same while it drains: what had left when it was stopped is all that it
// ever sends.
func TestStoppedWhileDrainingPastItsLeaseARunSendsNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, databases{})
	w.oneDay(0.1)
	const concurrency = 4
	held, free := make(chan struct{}), make(chan struct{})
	var arrived atomic.Int64
	w.app.SetFaults(func(string) simulator.AppFault {
		switch n := arrived.Add(1); {
		case n == concurrency:
			close(held)
			fallthrough
		case n < concurrency:
			return simulator.AppFault{Hold: free}
		default:
			return simulator.AppFault{}
		}
	})
	stopped := w.reconcile("--repair")
	await(t, stopped, "the first replays", held)
	stopped.signal(syscall.SIGSTOP)

	expireLeases(t, w.own)
	w.reconcile("--repair").mustExit(reconcile.ExitInSync)
	before, sent := memory(t, w.own), w.door.sent.Load()
	close(free)
	stopped.signal(syscall.SIGCONT)
	lost(t, stopped)
	unchanged(t, before, memory(t, w.own))
	if got := w.door.sent.Load(); got != sent {
		t.Errorf("replays after the stopped run went on: got %d, want none", got-sent)
	}
	w.settled(w.own)
}

// shortLeaseVariable makes the test binary a run whose lease is short, with the
// config that it names; see runWithShortLease.
const shortLeaseVariable = "NIGHTAUDIT_TEST_SHORT_LEASE"

// shortLease lives for seconds where that of a real run lives for a minute.
const shortLease = 3 * time.Second

// The time since the last renewal is looked at before each request: of a batch
// that is on its way when the process is stopped, nothing leaves once the lease
// is over, although no statement was in between that could have told.
func TestARequestNeverLeavesAfterTheLeaseIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, databases{})
	w.oneDay(0.1)
	stopped := start(t, append(w.env, shortLeaseVariable+"="+w.config()), os.Args[0])
	eventually(t, "the first replays", func() bool { return w.door.sent.Load() >= 2 })
	stopped.signal(syscall.SIGSTOP)
	w.door.quiet(t)
	early := w.door.sent.Load()
	if early >= slowBatch {
		t.Fatalf("replays before the process was stopped: got %d, want fewer than the %d of a batch", early, slowBatch)
	}
	eventually(t, "the leases expire", func() bool {
		return one[bool](t, w.own, `SELECT bool_and(expires_at < clock_timestamp()) FROM nightaudit.leases`)
	})
	w.reconcile("--repair").mustExit(reconcile.ExitInSync)
	before, sent := memory(t, w.own), w.door.sent.Load()

	stopped.signal(syscall.SIGCONT)
	lost(t, stopped)
	if got := w.door.sent.Load(); got != sent {
		t.Errorf("replays after the stopped run went on: got %d, want none", got-sent)
	}
	unchanged(t, before, memory(t, w.own))
	w.settled(w.own)
}

// slowBatch is how many replays a run with a short lease begins at once, and
// slowRate how many it sends a second.
const (
	slowBatch = 64
	slowRate  = 4
)

// runWithShortLease is a run as the command makes it, with a short lease and
// replays that leave one after the other.
func runWithShortLease(path string) int {
	ctx := context.Background()
	report, err := shortRun(ctx, path)
	var held *store.HeldError
	switch {
	case errors.As(err, &held):
		return reconcile.ExitSkipped
	case report != nil:
		fmt.Println(report.Run.Outcome, report.Reasons, err)
	default:
		fmt.Println(err)
	}
	if err != nil {
		return reconcile.ExitIncomplete
	}
	return reconcile.ExitInSync
}

func shortRun(ctx context.Context, path string) (*reconcile.Report, error) {
	c, err := config.Load(path, os.LookupEnv, all.Adapters()...)
	if err != nil {
		return nil, err
	}
	own, err := pgxpool.New(ctx, c.Database.URL.Reveal())
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if _, err := store.Migrate(ctx, own, c.Database.Schema, nil); err != nil {
		return nil, err
	}
	st, err := store.New(own, store.Options{LeaseTTL: shortLease})
	if err != nil {
		return nil, err
	}
	app, err := pgxpool.New(ctx, c.Databases["app"].URL.Reveal())
	if err != nil {
		return nil, err
	}
	defer app.Close()
	src, err := slowSource(ctx, c.Sources[0], app)
	if err != nil {
		return nil, err
	}
	return reconcile.Run(ctx, st, src, reconcile.Options{Repair: true})
}

func slowSource(ctx context.Context, c config.Source, app *pgxpool.Pool) (reconcile.Source, error) {
	client := &http.Client{Transport: providers.NewTransport(providers.TransportOptions{Rate: float64(c.Rate)})}
	provider, err := all.Adapters()[0].Open(c.ForAdapter(client))
	if err != nil {
		return reconcile.Source{}, err
	}
	ledger, err := appdb.Open(ctx, app, c.Ledger, nil)
	if err != nil {
		return reconcile.Source{}, err
	}
	return reconcile.Source{
		Name: c.Name, Provider: provider, Ledger: ledger,
		Targets: []replay.Target{{URL: c.Endpoints[0].URL, Secrets: c.Endpoints[0].Secrets}},
		Gate:    reconcile.GateOptions{MaxMissingRatio: c.Replay.MaxMissingRatio},
		Replay:  replay.Options{Rate: slowRate, Concurrency: slowBatch},
		Sender: &replay.Post{Deliverer: provider.(providers.Deliverer), Client: replay.NewPostClient(1),
			Timeout: time.Minute, Now: time.Now},
	}, nil
}

// A run that is killed between two batches of a sub-window has stored findings
// whose sub-window is not closed. The next one takes them for what they are: the
// gate weighs them as the missing share that they were at first sight.
func TestKilledWithinASubWindowTheShareThatIsMissingStaysTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, databases{maxMissing: 0.5})
	p, release := w.heldInTheSecondBatch(0.4)
	if !p.killAfter(0) {
		t.Fatalf("the run ended before it was killed; it said:\n%s", p.out.String())
	}
	release()
	expireLeases(t, w.own)
	w.reconcile("--repair").mustExit(reconcile.ExitInSync)
	w.settled(w.own)
}
