package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// answers makes the application answer events by their ids; others are right.
func (w *world) answers(by map[string]behaviour) {
	w.app.behave = func(id string) behaviour { return by[id] }
}

// nextNight moves the clock on by a day.
func (w *world) nextNight() { w.now = w.now.Add(24 * time.Hour) }

func TestARowCommittedAfterTheComparisonIsSeenBeforeSending(t *testing.T) {
	w := newWorld(t)
	w.now = clockTime(2, 0)
	w.provider.emit("evt_3", "invoice.paid", clockTime(0, 0))
	w.provider.emit("evt_young", "invoice.paid", w.now.Add(-10*time.Second))
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), handleSQL, "evt_3", "invoice.paid", "done", w.now.Add(-2*time.Second)); err != nil {
		t.Fatal(err)
	}
	w.source.Recheck = &amended{Ledger: w.source.Ledger, ask: func(ctx context.Context, _ []providers.Event) error {
		if err := tx.Commit(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			return err
		}
		return nil
	}}

	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 1 done 0 missing 1 stuck 0 late 0 ignored 0 unreadable 0")
	w.wantPosts()
	wantOutcome(t, r, store.AllRepaired)
	if rp := wantReplay(t, r, "evt_3", store.ReplayRepaired); rp.Reason != "recorded without a replay" || r.Replays.Recorded != 1 {
		t.Errorf("replay: got %q and %d recorded, want it recorded without a replay", rp.Reason, r.Replays.Recorded)
	}
}

func TestALostAnswerIsConfirmedByTheRecordAndNotSentAgain(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	w.answers(map[string]behaviour{"evt_1": {result: replay.Result{Outcome: replay.Failed, Phase: replay.PhaseTimeout, Why: "no answer within 30s"}}})
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.AllRepaired)
	if rp := wantReplay(t, r, "evt_1", store.ReplayRepaired); rp.Reason != "confirmed by record" || r.Replays.Confirmed != 1 {
		t.Errorf("replay: got %q and %d confirmed, want it confirmed by record", rp.Reason, r.Replays.Confirmed)
	}
	w.nextNight()
	w.run(reconcile.Options{})
	w.wantPosts("evt_1")
}

func TestAnAnswerWithoutARecordIsNoRepair(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	w.answers(map[string]behaviour{"evt_1": {skip: true}})
	for night := 1; night <= 2; night++ {
		r := w.run(reconcile.Options{})
		wantReplay(t, r, "evt_1", store.ReplayUnrecorded)
		wantKeys(t, r, store.UnrecordedEvent, "evt_1")
		wantOutcome(t, r, store.DriftRemains)
		w.nextNight()
	}
	wantReplay(t, w.run(reconcile.Options{}), "evt_1", store.ReplayParked)
	w.nextNight()
	parked := w.run(reconcile.Options{})
	wantExit(t, parked, reconcile.ExitDrift)
	w.wantPosts("evt_1", "evt_1", "evt_1")
	if got := reconcile.NewDocument([]*reconcile.Report{parked}, nil, true).ExitCode; got != reconcile.ExitDrift {
		t.Errorf("exit code with --exit-zero-on-drift: got %d, want %d, a parked replay needs a person", got, reconcile.ExitDrift)
	}
}

func TestARefusedReplayIsNotTriedAgainAndItsFollowersGoOn(t *testing.T) {
	w := newWorld(t)
	for i, id := range []string{"evt_1", "evt_2", "evt_3"} {
		w.provider.emitFor(id, "invoice.paid", epoch.Add(time.Duration(i-5)*time.Hour), "in_1")
	}
	w.answers(map[string]behaviour{"evt_1": {skip: true, result: replay.Result{Outcome: replay.Rejected, Status: 400, Why: "refused"}}})
	r := w.run(reconcile.Options{})
	w.wantOrder("evt_1", "evt_2", "evt_3")
	if rp := wantReplay(t, r, "evt_1", store.ReplayRejected); !rp.Overtaken {
		t.Error("evt_1 was passed by evt_2 and is not marked as overtaken")
	}
	w.nextNight()
	again := w.run(reconcile.Options{})
	wantOutcome(t, again, store.DriftRemains)
	w.wantPosts("evt_1", "evt_2", "evt_3")
	if again.Gate.Planned != 0 {
		t.Errorf("planned: got %d, want none for what was refused", again.Gate.Planned)
	}
}

func TestAWaitingReplayHoldsItsLaneAndNoOther(t *testing.T) {
	w := newWorld(t)
	w.provider.emitFor("evt_1", "invoice.paid", epoch.Add(-5*time.Hour), "in_1")
	w.provider.emitFor("evt_2", "invoice.paid", epoch.Add(-4*time.Hour), "in_1")
	w.provider.emitFor("evt_other", "invoice.paid", epoch.Add(-3*time.Hour), "in_2")
	w.answers(map[string]behaviour{"evt_1": {skip: true, result: replay.Result{Outcome: replay.Failed, Status: 503, Why: "the endpoint answered 503"}}})
	r := w.run(reconcile.Options{})
	w.wantPosts("evt_1", "evt_other")
	wantReplay(t, r, "evt_1", store.ReplayQueued)
	wantReplay(t, r, "evt_2", store.ReplayQueued)
	if r.Replays.Pending != 2 || r.Streams[0].Work["queued"] != 2 {
		t.Errorf("left over: got %d pending and %v, want two", r.Replays.Pending, r.Streams[0].Work)
	}

	w.app.behave, w.app.posts = nil, nil
	w.nextNight()
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	w.wantOrder("evt_1", "evt_2")
}

func TestARedirectIsNoDeliveryAndOneFindingOfItsEndpoint(t *testing.T) {
	w := newWorld(t)
	for i := range 6 {
		w.provider.emit("evt_"+string(rune('a'+i)), "invoice.paid", epoch.Add(-time.Duration(i+2)*time.Hour))
	}
	redirected := behaviour{skip: true, result: replay.Result{Outcome: replay.Redirected, Status: 307, Why: "a redirect"}}
	w.app.behave = func(string) behaviour { return redirected }
	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 6 done 0 missing 6 stuck 0 late 0 ignored 0 unreadable 0")
	f := finding(t, r, store.EndpointFailing, "endpoints[0]")
	if !strings.Contains(f.Detail, "307") || !strings.Contains(f.Detail, "redirect") || strings.Contains(f.Detail, "app.example.com") {
		t.Errorf("detail: got %q, want the status, the word redirect, and no URL", f.Detail)
	}
	if r.Replays.Repaired != 0 || r.Replays.Failed != 6 {
		t.Errorf("replays: got %+v, want none repaired and six to be tried again", r.Replays)
	}
	wantOutcome(t, r, store.DriftRemains)

	w.app.behave = nil // the URL was corrected
	w.nextNight()
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
}

// With a wrong secret, nothing that is missing is used up: neither what was
// refused nor what was not even tried.
func TestAnEndpointThatRefusesEverythingUsesNothingUp(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		e := w.provider.emit(fmt.Sprintf("evt_%02d", i), "invoice.paid", epoch.Add(-time.Duration(i+2)*time.Hour))
		w.provider.emit(fmt.Sprintf("evt_ok_%02d", i), "invoice.paid", epoch.Add(-time.Duration(i+2)*time.Hour))
		ok := e.Event
		ok.ID, ok.Key = fmt.Sprintf("evt_ok_%02d", i), fmt.Sprintf("evt_ok_%02d", i)
		w.app.handle(ok, "done", ok.Created)
	}
	refused := behaviour{skip: true, result: replay.Result{Outcome: replay.Rejected, Status: 400, Why: "refused"}}
	w.app.behave = func(string) behaviour { return refused }
	r := w.run(reconcile.Options{})
	if n := len(w.app.posts); n < 20 || n > 24 {
		t.Errorf("posts: got %d, want the sending to end after 20 refusals", n)
	}
	if f := finding(t, r, store.EndpointFailing, "endpoints[0]"); !strings.Contains(f.Detail, "secret") {
		t.Errorf("detail: got %q, want the likeliest reason", f.Detail)
	}
	if r.Replays.Rejected != 0 {
		t.Errorf("rejected: got %d, want none", r.Replays.Rejected)
	}
	w.app.behave = nil
	w.nextNight()
	e := w.provider.emit("evt_today", "invoice.paid", w.now.Add(-2*time.Hour))
	w.app.handle(e.Event, "done", e.Created)
	again := w.run(reconcile.Options{})
	wantOutcome(t, again, store.AllRepaired)
	if again.Replays.Repaired != 30 {
		t.Errorf("repaired: got %d, want all 30", again.Replays.Repaired)
	}
}

func TestARefusalWhileTheClocksDifferIsTheClocksFault(t *testing.T) {
	w := newWorld(t)
	skew := 7 * time.Minute
	w.provider.skew = &skew
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	w.answers(map[string]behaviour{"evt_1": {skip: true,
		result: replay.Result{Outcome: replay.Rejected, Status: 400, Why: "the endpoint refused it with 400", Snippet: "timestamp outside tolerance"}}})
	r := w.run(reconcile.Options{})
	if f := finding(t, r, store.ClockSkew, ""); !strings.Contains(f.Detail, "7m0s") {
		t.Errorf("detail: got %q, want the measured 7m0s", f.Detail)
	}
	rp := wantReplay(t, r, "evt_1", store.ReplayQueued) // not the event's fault
	if rp.LastAttempt == nil || string(rp.LastAttempt.Outcome) != string(replay.ClockSkewed) {
		t.Errorf("last attempt: got %+v, want %s", rp.LastAttempt, replay.ClockSkewed)
	}
	w.wantWatermark(epoch.Add(skew - 10*time.Minute)) // the provider's clock counts
	if r.Coverage.ClockSkewMS != skew.Milliseconds() {
		t.Errorf("skew in the report: got %d ms, want %d", r.Coverage.ClockSkewMS, skew.Milliseconds())
	}
	small := time.Minute
	w.provider.skew = &small
	w.app.behave = nil
	right := w.run(reconcile.Options{})
	wantOutcome(t, right, store.AllRepaired)
	wantReplay(t, right, "evt_1", store.ReplayRepaired)
}

func TestAnOldStateNeverOverwritesANewerOneThatIsDone(t *testing.T) {
	for _, newer := range []string{"customer.updated", "customer.deleted"} {
		t.Run(newer, func(t *testing.T) {
			w := newWorld(t)
			w.provider.emitFor("evt_old", "customer.updated", epoch.Add(-5*time.Hour), "cus_1")
			w.provider.emitFor("evt_fact", "invoice.paid", epoch.Add(-5*time.Hour), "cus_1")
			e := w.provider.emitFor("evt_new", newer, epoch.Add(-time.Minute), "cus_1") // too young to be judged
			w.app.handle(e.Event, "done", e.Created)

			r := w.run(reconcile.Options{})
			w.wantPosts("evt_fact")
			rp := wantReplay(t, r, "evt_old", store.ReplaySuperseded)
			if !strings.Contains(rp.Reason, "evt_new") {
				t.Errorf("reason: got %q, want the newer event named", rp.Reason)
			}
			if f := finding(t, r, store.MissingEvent, "evt_old"); f.Resolution != store.SupersededBy {
				t.Errorf("finding: %s %s, want it closed as superseded", f.State, f.Resolution)
			}

			w.window(-1, 30*time.Hour, -1)
			again := w.run(reconcile.Options{}) // still missing, and stays closed
			w.wantPosts("evt_fact")
			if again.Streams[0].Work["superseded"] != 1 || again.Gate.Planned != 0 {
				t.Errorf("second run: work %v, planned %d; want it known as superseded", again.Streams[0].Work, again.Gate.Planned)
			}
			wantOutcome(t, again, store.InSync)
		})
	}
}

func TestStatesThatAreAllMissingAreSentOldestFirst(t *testing.T) {
	w := newWorld(t)
	w.provider.emitFor("evt_new", "customer.updated", epoch.Add(-3*time.Hour), "cus_1")
	w.provider.emitFor("evt_old", "customer.updated", epoch.Add(-5*time.Hour), "cus_1")
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	w.wantOrder("evt_old", "evt_new")
}

func TestANewerFactDoesNotSupersedeAState(t *testing.T) {
	w := newWorld(t)
	w.provider.emitFor("evt_old", "customer.updated", epoch.Add(-5*time.Hour), "cus_1")
	e := w.provider.emitFor("evt_fact", "invoice.paid", epoch.Add(-3*time.Hour), "cus_1")
	w.app.handle(e.Event, "done", e.Created)
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	w.wantPosts("evt_old")
}

func TestAnotherStateOfTheSameSecondHoldsAsATie(t *testing.T) {
	w := newWorld(t)
	w.provider.emitFor("evt_old", "customer.updated", epoch.Add(-5*time.Hour), "cus_1")
	e := w.provider.emitFor("evt_twin", "customer.updated", epoch.Add(-5*time.Hour), "cus_1")
	w.app.handle(e.Event, "done", e.Created)
	w.provider.emitFor("evt_after", "invoice.paid", epoch.Add(-4*time.Hour), "cus_1")

	r := w.run(reconcile.Options{})
	w.wantPosts()
	if rp := wantReplay(t, r, "evt_old", store.ReplayHeld); string(rp.Hold) != string(store.HoldTie) || !strings.Contains(rp.Reason, "evt_twin") {
		t.Errorf("hold: got %s, %q; want a tie with evt_twin", rp.Hold, rp.Reason)
	}
	w.run(reconcile.Options{Release: true}) // frees holds of the gate alone
	w.wantPosts()
}

func TestStatesWaitAndFactsGoWhenNewerEventsCannotBeLookedFor(t *testing.T) {
	w := newWorld(t)
	w.provider.emitFor("evt_state", "customer.updated", epoch.Add(-5*time.Hour), "cus_1")
	w.provider.emitFor("evt_fact", "invoice.paid", epoch.Add(-4*time.Hour), "in_1")
	judged := epoch.Add(-10 * time.Minute)
	w.provider.fault = func(r request) error {
		if r.window.To.After(judged) { // only the look goes up to the present
			return errServer
		}
		return nil
	}
	r := w.run(reconcile.Options{})
	w.wantPosts("evt_fact")
	wantReplay(t, r, "evt_state", store.ReplayQueued)
	wantOutcome(t, r, store.DriftRemains)

	w.provider.fault = nil
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	w.wantPosts("evt_fact", "evt_state")
}

func TestWhatWasRepairedAndIsMissingAgainStartsAnew(t *testing.T) {
	w := newWorld(t)
	w.window(-1, 48*time.Hour, -1)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	first := w.run(reconcile.Options{})
	repaired := wantReplay(t, first, "evt_1", store.ReplayRepaired).ID
	w.exec(`DELETE FROM public.processed_events`) // the application's database was restored

	w.nextNight()
	second := w.run(reconcile.Options{})
	wantOutcome(t, second, store.AllRepaired)
	again := wantReplay(t, second, "evt_1", store.ReplayRepaired).ID
	if again == repaired {
		t.Fatal("no new replay was made")
	}
	if n := w.count(`SELECT count(*) FROM nightaudit.replays WHERE id = $1 AND replayed_from = $2`, again, repaired); n != 1 {
		t.Error("the new replay is not linked to the one before")
	}
	if n := w.count(`SELECT count(*) FROM nightaudit.findings WHERE key = 'evt_1'`); n != 1 {
		t.Errorf("findings of evt_1: got %d, want one with a history", n)
	}
	w.wantPosts("evt_1", "evt_1")
}

func TestWhatHealedByItselfIsClosedAndNotSent(t *testing.T) {
	w := newWorld(t)
	w.source.Repair = false
	e := w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	wantOutcome(t, w.run(reconcile.Options{}), store.DriftRemains)
	w.app.handle(e.Event, "done", epoch)

	w.nextNight()
	r := w.run(reconcile.Options{Repair: true})
	wantOutcome(t, r, store.InSync)
	w.wantPosts()
	if f := finding(t, r, store.MissingEvent, "evt_1"); f.Resolution != store.Healed {
		t.Errorf("finding: got %s, want healed", f.Resolution)
	}
}

func TestAnotherAPIVersionIsHeldUntilTheConfigSendsIt(t *testing.T) {
	w := newWorld(t)
	w.provider.endpoints[0].APIVersion = "2023-10-16"
	w.provider.emit("evt_same", "invoice.paid", epoch.Add(-3*time.Hour)).APIVersion = "2023-10-16"
	w.provider.emit("evt_old", "invoice.paid", epoch.Add(-2*time.Hour)).APIVersion = "2015-02-16"
	r := w.run(reconcile.Options{})
	w.wantPosts("evt_same")
	wantReplay(t, r, "evt_old", store.ReplayHeld)
	if f := finding(t, r, store.APIVersionMismatch, "endpoints[0]"); !strings.Contains(f.Detail, "2015-02-16") || !strings.Contains(f.Detail, "replay.version_mismatch") {
		t.Errorf("detail: got %q, want the version and the setting", f.Detail)
	}
	w.run(reconcile.Options{Release: true})
	w.wantPosts("evt_same")

	w.source.Replay.AnyVersion = true
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	w.wantPosts("evt_same", "evt_old")
}

// A database whose commits fail while fails says so, as if the server had gone
// between the last statement and the answer.
type failing struct {
	*pgxpool.Pool
	fails func() bool
}

func (f *failing) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := f.Pool.Begin(ctx)
	return failingTx{tx, f.fails}, err
}

type failingTx struct {
	pgx.Tx
	fails func() bool
}

func (tx failingTx) Commit(ctx context.Context) error {
	if tx.fails() {
		_ = tx.Rollback(ctx)
		return errors.New("server closed the connection unexpectedly")
	}
	return tx.Tx.Commit(ctx)
}

func TestAnOutcomeThatCouldNotBeCommittedIsNoOutcome(t *testing.T) {
	w := newWorld(t)
	db := &failing{Pool: w.pool, fails: func() bool { return len(w.app.posts) > 0 }}
	st, err := store.New(db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	broken := w.store
	w.store = st
	if _, err := w.try(t.Context(), reconcile.Options{}); err == nil {
		t.Error("a run whose end could not be stored: got no error")
	}
	w.store = broken
	if n := w.count(`SELECT count(*) FROM nightaudit.findings WHERE key = 'evt_1' AND state = 'open'`); n != 1 {
		t.Errorf("open findings of evt_1 after the failed commit: got %d, want 1", n)
	}

	w.nextNight()
	w.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp()`) // as after a minute
	r := w.run(reconcile.Options{})
	w.wantPosts("evt_1")
	if f := finding(t, r, store.MissingEvent, "evt_1"); f.State != "closed" {
		t.Errorf("finding: got %s, want closed by the record", f.State)
	}
	if got := w.app.effects()["evt_1"]; got != 1 {
		t.Errorf("effects of evt_1: got %d, want 1", got)
	}
}

func TestASecondRunIsRefusedAtOnceAndAsksNothing(t *testing.T) {
	w := newWorld(t)
	inside, goOn := make(chan struct{}), make(chan struct{})
	w.provider.fault = func(request) error {
		close(inside)
		<-goOn
		w.provider.fault = nil
		return nil
	}
	first := make(chan error, 1)
	go func() {
		_, err := w.try(t.Context(), reconcile.Options{})
		first <- err
	}()
	<-inside
	_, err := w.try(t.Context(), reconcile.Options{Hand: true, Since: epoch.Add(-24 * time.Hour)})
	var held *store.HeldError
	if !errors.As(err, &held) || !strings.Contains(err.Error(), "already running (run run_") {
		t.Errorf("second run: got %v, want to be told which run is going on", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("first run: %v", err)
	}
	if got, windows := len(w.provider.requests), w.count(`SELECT count(*) FROM nightaudit.windows`); got != windows {
		t.Errorf("pages asked for: got %d, want %d, those of the first run alone", got, windows)
	}
	if n := w.count(`SELECT count(*) FROM nightaudit.runs`); n != 1 {
		t.Errorf("runs: got %d, want the first alone", n)
	}
	w.run(reconcile.Options{}) // and now it may
}

func TestAHolderThatWasStoppedPastItsLeaseCommitsNothing(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	taken := false
	w.provider.fault = func(request) error {
		if taken {
			return nil
		}
		taken = true
		w.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp()`) // stopped for longer than it lives
		lease, err := w.store.Acquire(t.Context(), "shop", store.RoleRun, "another host", "run_other")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = lease.Release(context.Background()) })
		return nil
	}
	_, err := w.try(t.Context(), reconcile.Options{})
	if !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the stopped holder: got %v, want that its lease is lost", err)
	}
	w.wantPosts()
	for _, table := range []string{"windows", "replays"} {
		if n := w.count(`SELECT count(*) FROM nightaudit.` + table); n != 0 {
			t.Errorf("rows of %s: got %d, want none", table, n)
		}
	}

	w.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp()`)
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	if n := w.count(`SELECT count(*) FROM nightaudit.runs WHERE outcome = 'crashed'`); n != 1 {
		t.Errorf("crashed runs: got %d, want the one that never said how it ended", n)
	}
}

func TestAnExpiredLeaseIsTakenOver(t *testing.T) {
	w := newWorld(t)
	if _, err := w.store.Acquire(t.Context(), "shop", store.RoleRun, "gone", "run_gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.try(t.Context(), reconcile.Options{}); err == nil {
		t.Fatal("a live lease was taken over")
	}
	w.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp()`)
	wantOutcome(t, w.run(reconcile.Options{}), store.InSync)
}

func TestARunThatAnotherDrainKeepsFromSendingLeavesItToTheNext(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	lease, err := w.store.Acquire(t.Context(), "shop", store.RoleDrain, "another host", "run_other")
	if err != nil {
		t.Fatal(err)
	}
	r := w.run(reconcile.Options{Wait: time.Nanosecond})
	wantReason(t, r, "another process was still replaying")
	wantReplay(t, r, "evt_1", store.ReplayQueued)
	wantOutcome(t, r, store.DriftRemains)
	w.wantPosts()
	w.wantWatermark(epoch.Add(-10 * time.Minute))

	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	w.wantPosts("evt_1")
}

func TestARunToldToStopWhileSendingRecordsWhatHappened(t *testing.T) {
	w := newWorld(t)
	w.source.Replay.Concurrency = 1
	for i, id := range []string{"evt_1", "evt_2", "evt_3"} {
		w.provider.emit(id, "invoice.paid", epoch.Add(time.Duration(i-5)*time.Hour))
	}
	ctx, stop := context.WithCancel(t.Context())
	w.app.behave = func(string) behaviour { stop(); return behaviour{} }
	r, err := w.try(ctx, reconcile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, r, store.Interrupted)
	w.wantPosts("evt_1")
	wantReplay(t, r, "evt_1", store.ReplayRepaired)
	if n := w.count(`SELECT count(*) FROM nightaudit.attempts WHERE ended_at IS NULL`); n != 0 {
		t.Errorf("attempts left without an end: %d", n)
	}
	if n := w.count(`SELECT count(*) FROM nightaudit.runs WHERE outcome = 'interrupted'`); n != 1 {
		t.Error("the interrupted run was not recorded as such")
	}

	w.app.behave = nil
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired) // at once: its leases were given back
	w.wantPosts("evt_1", "evt_2", "evt_3")
	if got := slices.Sorted(maps.Keys(w.app.effects())); len(got) != 3 {
		t.Errorf("effects: got %v, want one of each", got)
	}
}
