package killtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/simulator"
)

const (
	kills   = 32   // in a row
	events  = 300  // before the first run
	backlog = 0.25 // of them are dropped, and as many are missing again at each run
)

// However often a repairing run is killed, and wherever: nothing is lost,
// doubled, stuck or reverted, and the watermark never passes what was compared.
// The application counts its effects without looking whether an event is new.
func TestKilledAtAnyMomentNightauditLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	full := fullRun(t, seed)
	k := &killing{world: newWorld(t, databases{}), random: rand.New(rand.NewPCG(seed, 0)), outcomes: map[int]string{},
		liveAt: time.Now().Add(-50 * time.Minute)}
	k.ordinary(seed)
	k.app.SetIdempotent(false)

	landed := make(map[phase]int)
	var moments []int // in a random order, one in each of as many equal parts of a run
	for k.killed < kills {
		if len(moments) == 0 {
			moments = k.random.Perm(kills)
		}
		moment := (float64(moments[0]) + k.random.Float64()) / kills
		moments = moments[1:]
		sent := k.door.sent.Load()
		if p, killed := k.kill(time.Duration(moment * float64(full))); killed {
			landed[p]++
		}
		k.covered()
		k.live(4, int(k.door.sent.Load()-sent))
	}
	t.Logf("a full run takes %s; of %d kills %d came before the first page, %d during the listing, %d during the replays",
		full.Round(time.Millisecond), k.killed, landed[starting], landed[listing], landed[sending])
	for p, what := range []string{"before the first page", "during the listing", "during the replays"} {
		if landed[phase(p)] == 0 {
			t.Errorf("no kill came %s: the test has lost its aim", what)
		}
	}
	calm(t, k.world, k.own)
	k.settled(k.own)
	k.crashed()
}

// killing is a world whose nightaudit is killed again and again.
type killing struct {
	*world
	random   *rand.Rand
	killed   int
	outcomes map[int]string // how the run of a killed process stood, by its pid
	liveAt   time.Time      // when the newest live event was created
	emitted  []live
}

// live is an event that was emitted during the test.
type live struct {
	event simulator.Event
	at    time.Time
}

// ordinary is the world as it is before the first run.
func (w *world) ordinary(seed uint64) {
	w.t.Helper()
	w.faults(3 * time.Millisecond)
	w.stripe.SetFaults(simulator.Faults{PageDelay: 15 * time.Millisecond})
	w.history(events, seed, backlog)
}

// fullRun measures a run that is not killed, in a world of the same kind.
func fullRun(t *testing.T, seed uint64) time.Duration {
	t.Helper()
	w := newWorld(t, databases{})
	w.ordinary(seed)
	built.path(t, "cmd/nightaudit")
	began := time.Now()
	w.reconcile("--repair").mustExit(0, 2)
	return time.Since(began)
}

// phase is how far a run had come when it was killed.
type phase int

const (
	starting phase = iota
	listing
	sending
)

// kill runs nightaudit and kills it after d, and lets the leases expire. It
// reports false if the run had ended before.
func (k *killing) kill(d time.Duration) (phase, bool) {
	k.t.Helper()
	pages, sent := k.stripe.Stats().Pages, k.door.sent.Load()
	p := k.reconcile("--repair")
	killed := p.killAfter(d)
	if !killed {
		p.mustExit(0, 2)
	}
	k.door.quiet(k.t)
	expireLeases(k.t, k.own)
	if killed {
		k.killed++
		k.note(p.pid())
	}
	switch {
	case k.door.sent.Load() > sent:
		return sending, killed
	case k.stripe.Stats().Pages > pages:
		return listing, killed
	default:
		return starting, killed
	}
}

// note remembers how the run of a killed process stands.
func (k *killing) note(pid int) {
	k.t.Helper()
	if !exists(k.t, k.own, "nightaudit.runs") {
		return
	}
	for _, outcome := range column[string](k.t, k.own, `SELECT outcome FROM nightaudit.runs WHERE host LIKE '%process ' || $1`, fmt.Sprint(pid)) {
		k.outcomes[pid] = outcome
	}
}

// crashed fails the test unless the run of each killed process is said to have
// crashed, or had ended before.
func (k *killing) crashed() {
	k.t.Helper()
	n := 0
	for pid, before := range k.outcomes {
		want := before
		if before == "running" {
			want = "crashed"
			n++
		}
		got := one[string](k.t, k.own, `SELECT outcome FROM nightaudit.runs WHERE host LIKE '%process ' || $1`, fmt.Sprint(pid))
		if got != want {
			k.t.Errorf("run of killed process %d, which was %s: got outcome %s, want %s", pid, before, got, want)
		}
	}
	if got := one[int](k.t, k.own, `SELECT count(*) FROM nightaudit.runs WHERE outcome = 'crashed' AND report IS NULL`); got != n {
		k.t.Errorf("crashed runs without a report: got %d, want %d", got, n)
	}
}

// live lets events happen: some that the application is delivered, and some
// that it never gets.
func (k *killing) live(delivered, dropped int) {
	k.t.Helper()
	known := slices.Collect(k.stripe.All(""))
	for i := range delivered + dropped {
		k.liveAt = k.liveAt.Add(time.Second)
		event := k.stripe.Emit(k.emission(known[k.random.IntN(len(known))]))
		k.emitted = append(k.emitted, live{event: event, at: time.Now()})
		if i >= delivered {
			continue
		}
		k.stripe.Deliver(k.t.Context(), event)
		eventually(k.t, "the application records what it was delivered", func() bool {
			return one[bool](k.t, k.ledger, `SELECT EXISTS (SELECT FROM processed_events WHERE event_id = $1)`, event.ID)
		})
	}
}

// emission is new state of the object of an event, unless that has none or has
// ended; then it is a fact.
func (k *killing) emission(about simulator.Event) simulator.Emission {
	ended := func(e simulator.Event) bool { return e.Subject == about.Subject && e.Type == endingType }
	if !slices.Contains(stateTypes, about.Type) || slices.ContainsFunc(slices.Collect(k.stripe.All("")), ended) {
		return simulator.Emission{Type: factTypes[k.random.IntN(len(factTypes))], Created: k.liveAt}
	}
	e := simulator.Emission{Type: about.Type, Created: k.liveAt,
		Object: simulator.Object{Kind: about.Subject.Kind, ID: about.Subject.ID}}
	if about.Subject.Kind == "subscription" && k.random.IntN(8) == 0 {
		e.Type = endingType
	}
	return e
}

// covered fails the test if the watermark lies beyond what was compared: the
// sub-windows before it leave no gap, and each event of a sub-window that was
// not handled by then is a finding.
func (k *killing) covered() {
	t := k.t
	t.Helper()
	if !exists(t, k.own, "nightaudit.streams") {
		return
	}
	none(t, k.own, "watermarks beyond what was compared", `
		SELECT s.watermark::text || ' of ' || coalesce(range_agg(tstzrange(w.window_from, w.window_to))::text, 'nothing')
		FROM nightaudit.streams AS s
		LEFT JOIN nightaudit.windows AS w USING (source, stream)
		GROUP BY s.source, s.stream, s.watermark
		HAVING count(w.id) > 0
			AND range_agg(tstzrange(w.window_from, w.window_to)) <> tstzmultirange(tstzrange(min(w.window_from), s.watermark))
			OR count(w.id) = 0 AND s.watermark > clock_timestamp() - interval '72 hours' + interval '1 second'`)
	done := set(column[string](t, k.ledger, `SELECT event_id FROM processed_events WHERE status = 'done'`))
	found := set(column[string](t, k.own, `SELECT event_id FROM nightaudit.findings`))
	emitted := make(map[string]time.Time)
	for _, l := range k.emitted {
		emitted[l.event.ID] = l.at
	}
	windows := k.windows()
	for e := range k.stripe.All("") {
		if !done[e.ID] && !found[e.ID] && slices.ContainsFunc(windows, func(w window) bool {
			return !e.Created.Before(w.From) && e.Created.Before(w.To) && w.Began.After(emitted[e.ID])
		}) {
			t.Errorf("%s %s of %s: compared, neither done nor found", e.Type, e.ID, e.Created)
		}
	}
}

// window is a sub-window that a run says it compared.
type window struct {
	From, To time.Time
	Began    time.Time // the run
}

func (k *killing) windows() []window {
	k.t.Helper()
	rows, err := k.own.Query(k.t.Context(), `
		SELECT w.window_from, w.window_to, r.started_at
		FROM nightaudit.windows AS w
		JOIN nightaudit.runs AS r ON r.id = w.run_id`)
	if err != nil {
		k.t.Fatal(err)
	}
	windows, err := pgx.CollectRows(rows, pgx.RowToStructByPos[window])
	if err != nil {
		k.t.Fatal(err)
	}
	return windows
}

func set(keys []string) map[string]bool {
	out := make(map[string]bool, len(keys))
	for _, k := range keys {
		out[k] = true
	}
	return out
}

// calm runs nightaudit undisturbed until a run finds nothing to do.
func calm(t testing.TB, w *world, own *pgxpool.Pool) {
	t.Helper()
	for range 6 {
		w.reconcile("--repair").mustExit(0, 2)
		if one[string](t, own, `SELECT outcome FROM nightaudit.runs ORDER BY started_at DESC, id DESC LIMIT 1`) == "in_sync" {
			return
		}
	}
	t.Error("undisturbed runs: none of 6 ended in sync")
}
