package store_test

import (
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// states are the states of all replays by the key of their event, with the hold
// of those that are held.
func (f *fixture) states() []string {
	f.t.Helper()
	return column[string](f, `
SELECT event_key || ' ' || state || CASE WHEN hold = '' THEN '' ELSE ' ' || hold END
FROM nightaudit.replays
ORDER BY event_created, event_key, planned_at`)
}

func (f *fixture) holdGate() {
	f.t.Helper()
	if err := f.run.HoldGate(f.t.Context(), "implausible"); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) free(hold store.Hold) int {
	f.t.Helper()
	freed, err := f.run.Free(f.t.Context(), hold, "let go")
	if err != nil {
		f.t.Fatal(err)
	}
	return freed
}

func (f *fixture) weigh() store.Scales {
	f.t.Helper()
	sc, _, err := f.store.Weigh(f.t.Context(), "shop")
	if err != nil {
		f.t.Fatal(err)
	}
	return sc
}

// hold holds the newest replay of an event for a reason of its own.
func (f *fixture) hold(key string, hold store.Hold) {
	f.t.Helper()
	v := store.Verdict{Replay: f.replay(key), State: store.ReplayHeld, Hold: hold, Reason: "held"}
	if err := f.run.Judge(f.t.Context(), []store.Verdict{v}); err != nil {
		f.t.Fatal(err)
	}
}

func TestOnlyReplaysOfClosedWindowsAreAtTheGate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(missing("before", -1, ""), missing("first", 0, ""), missing("last", 59, ""), missing("edge", 60, ""))
	other := f.run
	if _, err := other.Record(t.Context(), "events@acct_1", []store.Drift{missing("elsewhere", 30, "")}); err != nil {
		t.Fatal(err)
	}
	same(t, "at the gate, no window being closed", f.weigh().Planned, 0)
	f.closeWindow(firstHour, 2)
	same(t, "at the gate", f.weigh().Planned, 2)
	same(t, "queued", f.openGate(), 2)
	same(t, "replays", f.states(), []string{"before planned", "first queued", "elsewhere planned", "last queued", "edge planned"})
}

func TestBooksAreWeighedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	work := f.record(missing("a", 1, ""))
	counts := store.Counts{Listed: 10, Done: 5, Missing: 1, Stuck: 1, Late: 1, Ignored: 1, Unreadable: 1}
	if err := f.run.CommitWindow(t.Context(), stream, firstHour, counts, store.Work{Planned: work.Planned, Known: 1}); err != nil {
		t.Fatal(err)
	}
	same(t, "before", f.weigh(), store.Scales{Counts: counts, Known: 1, Planned: 1})
	same(t, "compared", f.weigh().Compared(), 8)
	f.openGate()
	same(t, "after", f.weigh(), store.Scales{})
	f.closeWindow(providers.Window{From: firstHour.To, To: firstHour.To.Add(time.Hour)}, 0)
	f.holdGate()
	same(t, "after a gate that held nothing", f.weigh(), store.Scales{})
}

func TestAClosedGateHoldsAndAPersonFrees(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(missing("a", 1, ""), missing("b", 2, ""))
	f.closeWindow(firstHour, 2)
	f.holdGate()
	same(t, "held", f.states(), []string{"a held gate", "b held gate"})
	same(t, "reason", f.replay("a").Reason, "implausible")
	f.hold("a", store.HoldTie) // which is not for a drain to say now
	same(t, "freed for another reason", f.free(store.HoldTie), 0)
	same(t, "freed", f.free(store.HoldGate), 2)
	same(t, "after", f.states(), []string{"a queued", "b queued"})
	same(t, "reason", f.replay("a").Reason, "let go")
}

func TestAHeldReplayHoldsItsLane(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, "o1"), missing("b", 2, "o1"), missing("c", 3, "o1"), missing("other", 4, "o2"))
	f.hold("b", store.HoldVersion)
	f.openGate() // settles the lanes
	same(t, "what is younger joins", f.states(), []string{"a queued", "b held version", "c held lane", "other queued"})

	f.record(missing("d", 5, "o1"))
	f.openGate()
	same(t, "what comes later joins too", f.replay("d").Hold, store.HoldLane)

	same(t, "freed", f.free(store.HoldVersion), 1)
	for _, key := range []string{"b", "c", "d"} {
		same(t, key, f.replay(key).State, store.ReplayQueued)
	}
}

func TestALaneIsHeldUntilItsLastHoldIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, "o1"), missing("b", 2, "o1"), missing("c", 3, "o1"), missing("d", 4, "o1"))
	f.hold("a", store.HoldTie)
	f.hold("c", store.HoldVersion)
	f.openGate()
	same(t, "held", f.states(), []string{"a held tie", "b held lane", "c held version", "d held lane"})
	f.free(store.HoldTie)
	same(t, "the first let go", f.states(), []string{"a queued", "b queued", "c held version", "d held lane"})
	f.free(store.HoldVersion)
	same(t, "both let go", f.states(), []string{"a queued", "b queued", "c queued", "d queued"})
}

func TestHoldsAndReplaysAreCountedBySource(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, "o1"), missing("b", 2, "o1"), missing("c", 3, ""), missing("done", 4, ""))
	f.hold("a", store.HoldTie)
	f.settle("done", store.ReplayRepaired)
	f.openGate()
	holds, err := f.store.Holds(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "holds", holds, map[store.Hold]int{store.HoldTie: 1, store.HoldLane: 1})
	counts, err := f.store.CountReplays(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "open replays", counts, map[store.ReplayState]int{store.ReplayHeld: 2, store.ReplayQueued: 1})
	none, err := f.store.CountReplays(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "of another source", len(none), 0)
}
