package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

// outage emits events of which none, or every one with an odd number, was handled.
func outage(w *world, n int, handled func(i int) bool) {
	for i := range n {
		e := w.provider.emitFor(fmt.Sprintf("evt_%03d", i), "invoice.paid", epoch.Add(-time.Duration(n-i)*time.Minute-time.Hour), fmt.Sprintf("in_%03d", i))
		if handled(i) {
			w.app.handle(e.Event, "done", e.Created)
		}
	}
}

func none(int) bool { return false }

func TestATableWithoutAnyOfTheEventsHoldsEverything(t *testing.T) {
	w := newWorld(t)
	outage(w, 20, none)
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.HeldBack)
	wantExit(t, r, reconcile.ExitIncomplete)
	w.wantPosts()
	if r.Gate.Why == nil || !strings.Contains(*r.Gate.Why, "none of 20 compared events") || !strings.Contains(*r.Gate.Why, "ledger.where") {
		t.Errorf("gate: got %+v, want it to name the numbers and the likeliest mistakes", r.Gate)
	}
	if got := r.Streams[0].Work["held"]; got != 20 {
		t.Errorf("held: got %d of %v, want 20", got, r.Streams[0].Work)
	}
	w.wantWatermark(epoch.Add(-10 * time.Minute)) // a hold does not stop it
}

func TestFewerEventsThanAreNeededToJudgeAreSent(t *testing.T) {
	w := newWorld(t)
	outage(w, 19, none)
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
	if len(w.app.posts) != 19 {
		t.Errorf("posts: got %d, want 19", len(w.app.posts))
	}
}

func TestTooLargeAShareOfMissingEventsIsHeld(t *testing.T) {
	w := newWorld(t)
	w.source.Gate.MaxMissingRatio = 0.25
	outage(w, 40, func(i int) bool { return i%3 > 0 })
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.HeldBack)
	w.wantPosts()
	if r.Gate.Why == nil || !strings.Contains(*r.Gate.Why, "14 of 40") || !strings.Contains(*r.Gate.Why, "replay.max_missing_ratio 0.25") {
		t.Errorf("gate: got %+v, want the share and the limit", r.Gate)
	}
}

func TestMoreReplaysThanAllowedAreHeld(t *testing.T) {
	w := newWorld(t)
	w.source.Gate.MaxReplays = 3
	outage(w, 40, func(i int) bool { return i >= 4 })
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.HeldBack)
	w.wantPosts()
	if r.Gate.Why == nil || !strings.Contains(*r.Gate.Why, "replay.max_replays 3") {
		t.Errorf("gate: got %+v, want the limit", r.Gate)
	}
}

func TestAReleaseAsksTheLedgerAndSendsTheRest(t *testing.T) {
	w := newWorld(t)
	outage(w, 20, none)
	w.run(reconcile.Options{})
	w.app.handle(w.provider.events[3].Event, "done", epoch) // healed meanwhile

	w.source.Repair = false
	wantOutcome(t, w.run(reconcile.Options{}), store.HeldBack)
	r := w.run(reconcile.Options{Release: true, Hand: true})
	wantOutcome(t, r, store.AllRepaired)
	if len(w.app.posts) != 19 || r.Gate.Released != 19 {
		t.Errorf("release: %d let go and %d posts, want 19 and 19", r.Gate.Released, len(w.app.posts))
	}
	for id, n := range w.app.effects() {
		if n != 1 {
			t.Errorf("effect of %s: %d times, want once", id, n)
		}
	}
}

func TestLaterReplaysOfAHeldSubjectJoinTheHold(t *testing.T) {
	w := newWorld(t)
	outage(w, 20, none)
	w.run(reconcile.Options{})

	w.now = w.now.Add(24 * time.Hour)
	w.provider.emitFor("evt_same", "invoice.paid", w.now.Add(-2*time.Hour), "in_005")
	w.provider.emitFor("evt_other", "invoice.paid", w.now.Add(-2*time.Hour), "in_other")
	next := w.run(reconcile.Options{})
	w.wantPosts("evt_other")
	if rp := wantReplay(t, next, "evt_same", store.ReplayHeld); rp.Hold != store.HoldLane {
		t.Errorf("hold: got %q, want %q", rp.Hold, store.HoldLane)
	}

	released := w.run(reconcile.Options{Release: true})
	wantOutcome(t, released, store.AllRepaired)
	var held, joined int
	for i, id := range w.app.posts {
		switch id {
		case "evt_005":
			held = i
		case "evt_same":
			joined = i
		}
	}
	if joined < held {
		t.Errorf("posts: %v, want evt_005 before evt_same, which is younger", w.app.posts)
	}
}

func TestWhatEarlierRunsKnowIsNotWeighedAgain(t *testing.T) {
	w := newWorld(t)
	w.window(-1, 30*time.Hour, -1)
	outage(w, 20, none)
	w.run(reconcile.Options{}) // held
	w.now = w.now.Add(24 * time.Hour)
	for i := range 20 {
		w.handled(fmt.Sprintf("evt_new_%02d", i), "invoice.paid", w.now.Add(-time.Duration(i+1)*time.Hour))
	}
	w.provider.emit("evt_new", "invoice.paid", w.now.Add(-2*time.Hour))
	r := w.run(reconcile.Options{}) // lists the 20 again
	if r.Gate.Compared != 21 || r.Gate.Planned != 1 || r.Gate.Why != nil {
		t.Errorf("gate: got %+v, want one replay weighed against 21 events", r.Gate)
	}
	w.wantPosts("evt_new")
}

func TestAReportPlansAndALaterRunThatRepairsSends(t *testing.T) {
	for name, repair := range map[string]func(w *world) reconcile.Options{
		"--repair": func(*world) reconcile.Options { return reconcile.Options{Repair: true} },
		"mode auto": func(w *world) reconcile.Options {
			w.source.Repair = true
			return reconcile.Options{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.source.Repair = false
			outage(w, 30, func(i int) bool { return i > 1 })
			r := w.run(reconcile.Options{})
			wantOutcome(t, r, store.DriftRemains)
			wantExit(t, r, reconcile.ExitDrift)
			wantReplay(t, r, "evt_000", store.ReplayPlanned)
			w.wantPosts()
			w.now = w.now.Add(24 * time.Hour)
			w.run(reconcile.Options{})
			w.wantPosts()

			w.now = w.now.Add(24 * time.Hour)
			wantOutcome(t, w.run(repair(w)), store.AllRepaired)
			w.wantPosts("evt_000", "evt_001")
		})
	}
}

func TestADryRunWritesOnlyItsOwnRow(t *testing.T) {
	w := newWorld(t)
	outage(w, 3, none)
	w.provider.endpoints[0].Enabled = false
	r := w.run(reconcile.Options{DryRun: true, Repair: true})
	wantKeys(t, r, store.MissingEvent, "evt_000", "evt_001", "evt_002")
	wantKeys(t, r, store.EndpointDisabled, "we_1")
	wantOutcome(t, r, store.DriftRemains)
	wantBooks(t, r, "listed 3 done 0 missing 3 stuck 0 late 0 ignored 0 unreadable 0")
	w.wantPosts()
	for table, want := range map[string]int{"runs": 1, "streams": 0, "windows": 0, "findings": 0, "finding_history": 0,
		"replays": 0, "payloads": 0, "endpoint_looks": 0, "witnesses": 0, "attempts": 0} {
		if got := w.count(`SELECT count(*) FROM nightaudit.` + table); got != want {
			t.Errorf("rows of %s: got %d, want %d", table, got, want)
		}
	}
}
