package store_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// claim claims everything that is due, whenever it was last attempted.
func (f *fixture) claim(except ...string) []store.Replay {
	f.t.Helper()
	return f.claimSince(time.Now().Add(time.Hour), 100, except...)
}

func (f *fixture) claimSince(since time.Time, limit int, except ...string) []store.Replay {
	f.t.Helper()
	claimed, err := f.run.Claim(f.t.Context(), since, except, limit)
	if err != nil {
		f.t.Fatal(err)
	}
	return claimed
}

// claimsEnd lets all claims run out, as time would.
func (f *fixture) claimsEnd() {
	f.t.Helper()
	f.exec(`UPDATE nightaudit.replays SET claimed_until = clock_timestamp() WHERE claimed_until IS NOT NULL`)
}

func TestTheHeadsOfLanesAreClaimedOldestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("b", 1, "o1"), missing("a", 1, "o2"), missing("d", 0, "o1"), missing("c", 5, ""), missing("e", 6, "o2"))
	same(t, "heads", keys(f.claim()), []string{"d", "a", "c"})
	same(t, "claimed already", keys(f.claim()), []string{})
	f.claimsEnd()
	same(t, "at most two", keys(f.claimSince(time.Now().Add(time.Hour), 2)), []string{"d", "a"})
	f.claimsEnd()
	same(t, "but one", keys(f.claim(f.replay("d").ID)), []string{"a", "c"})
}

func TestALanesHeadBlocksItUnlessItIsClosedOrUnrecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		head func(f *fixture)
		want []string
	}{
		{"queued and attempted just now", func(f *fixture) { begin(f.t, f.run, f.replay("head")) }, []string{"other"}},
		{"held", func(f *fixture) { f.hold("head", store.HoldTie) }, []string{"other"}},
		{"acknowledged", func(f *fixture) { f.settle("head", store.ReplayAcknowledged) }, []string{"other"}},
		{"repaired", func(f *fixture) { f.settle("head", store.ReplayRepaired) }, []string{"next", "other"}},
		{"superseded", func(f *fixture) { f.settle("head", store.ReplaySuperseded) }, []string{"next", "other"}},
		{"rejected", func(f *fixture) { f.settle("head", store.ReplayRejected) }, []string{"next", "other"}},
		{"parked", func(f *fixture) { f.settle("head", store.ReplayParked) }, []string{"next", "other"}},
		{"unrecorded", func(f *fixture) { f.settle("head", store.ReplayAcknowledged, store.ReplayUnrecorded) }, []string{"next", "other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.queue(missing("head", 1, "o1"), missing("next", 2, "o1"), missing("other", 3, "o2"))
			c.head(f)
			since := value[time.Time](f, `SELECT clock_timestamp() - interval '1 hour'`)
			same(t, "claimed", keys(f.claimSince(since, 100)), c.want)
		})
	}
}

func TestAReplayAttemptedInThisDrainIsLeftToTheNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, ""))
	started := value[time.Time](f, `SELECT clock_timestamp()`)
	begin(t, f.run, f.claimSince(started, 10)...)
	f.settle("a", store.ReplayQueued)
	same(t, "in this drain", keys(f.claimSince(started, 10)), []string{})
	next := value[time.Time](f, `SELECT clock_timestamp()`)
	same(t, "in the next", keys(f.claimSince(next, 10)), []string{"a"})
}

func TestAClaimRunsOutOrIsGivenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, ""))
	claimed := f.claim()
	until := value[float64](f, `SELECT extract(epoch FROM claimed_until - clock_timestamp())::float8 FROM nightaudit.replays`)
	if until < 60 || until > 120 {
		t.Errorf("a claim lasts: got %.0f s, want up to two minutes", until)
	}
	if err := f.run.Unclaim(t.Context(), []string{claimed[0].ID}); err != nil {
		t.Fatal(err)
	}
	same(t, "given back", keys(f.claim()), []string{"a"})
	f.claimsEnd()
	same(t, "run out", keys(f.claim()), []string{"a"})
}

func TestTwoThatClaimAtOnceShareNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var drifts []store.Drift
	for i := range 40 {
		drifts = append(drifts, missing("e"+strconv.Itoa(i), i, ""))
	}
	f.queue(drifts...)
	var mu sync.Mutex
	times := make(map[string]int)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				claimed, err := f.run.Claim(t.Context(), time.Now().Add(time.Hour), nil, 5)
				if err != nil {
					t.Errorf("claiming: %v", err)
				}
				mu.Lock()
				for _, r := range claimed {
					times[r.Event.Key]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	same(t, "replays claimed", len(times), 40)
	for key, n := range times {
		if n != 1 {
			t.Errorf("replay of %s: got claimed %d times, want once", key, n)
		}
	}
}

func TestAttemptsAreCountedAndEndOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, ""), missing("b", 2, ""))
	first := begin(t, f.run, f.replay("a"), f.replay("b"))
	again := begin(t, f.run, f.replay("a"))
	same(t, "numbers", []int{first[0].Number, first[1].Number, again[0].Number}, []int{1, 1, 2})
	a := *again[0]
	a.Outcome, a.Status, a.Why = "failed", 503, "the receiver is down"
	for _, outcome := range []string{"failed", "acknowledged"} {
		a.Outcome = outcome
		if err := f.store.End(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	last, err := f.store.LastAttempts(t.Context(), []string{a.ReplayID, first[1].ReplayID, "rpl_none"})
	if err != nil {
		t.Fatal(err)
	}
	got := last[a.ReplayID]
	same(t, "last of a", []any{len(last), got.Number, got.Outcome, got.Status, got.EndedAt != nil}, []any{2, 2, "failed", 503, true})
	same(t, "last of b, under way", []any{last[first[1].ReplayID].Outcome, last[first[1].ReplayID].EndedAt == nil}, []any{"", true})
	same(t, "attempts of a", f.replay("a").Attempts, 2)
}

func TestRecoverEndsWhatAnEarlierDrainLeftUnderWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, ""), missing("b", 2, ""))
	claimed := f.claim()
	begin(t, f.run, claimed[0])
	other := acquire(t, f.store, "other", store.RoleDrain, "run_2")
	if err := other.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	const openSQL = `SELECT count(*) FROM nightaudit.attempts WHERE ended_at IS NULL`
	same(t, "open attempts after a recovery of another source", value[int](f, openSQL), 1)
	if err := f.run.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "open attempts", value[int](f, openSQL), 0)
	same(t, "outcome", value[string](f, `SELECT outcome FROM nightaudit.attempts`), "unknown")
	same(t, "due again", keys(f.claim()), []string{"a", "b"})
}

func TestAVerdictChangesOnlyWhatIsStillOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("cancelled", 1, ""), missing("parked", 2, ""), missing("held", 3, ""))
	f.exec(`UPDATE nightaudit.replays SET state = 'cancelled', closed_at = now() WHERE event_key = 'cancelled'`)
	f.settle("parked", store.ReplayParked)
	f.hold("held", store.HoldTie)
	for _, key := range []string{"cancelled", "parked", "held"} {
		before := f.finding(key)
		f.settle(key, store.ReplayRepaired)
		same(t, "state", f.replay(key).State, key)
		same(t, key+": finding", []any{f.finding(key).Open, f.finding(key).Detail}, []any{true, before.Detail})
	}
}

func TestAVerdictTellsTheFinding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states              []store.ReplayState
		open                bool
		resolution          store.Resolution
		kind                store.Kind
		cause               store.Cause
		unrecorded          int
		closed, acknowledge bool
	}{
		{[]store.ReplayState{store.ReplayQueued}, true, "", store.MissingEvent, store.DeliveryFailed, 0, false, false},
		{[]store.ReplayState{store.ReplayAcknowledged}, true, "", store.MissingEvent, store.DeliveryFailed, 0, false, true},
		{[]store.ReplayState{store.ReplayAcknowledged, store.ReplayRepaired}, false, store.Repaired, store.MissingEvent, store.DeliveryFailed, 0, true, true},
		{[]store.ReplayState{store.ReplaySuperseded}, false, store.SupersededBy, store.MissingEvent, store.DeliveryFailed, 0, true, false},
		{[]store.ReplayState{store.ReplayRejected}, true, "", store.MissingEvent, store.DeliveryFailed, 0, true, false},
		{[]store.ReplayState{store.ReplayAcknowledged, store.ReplayUnrecorded}, true, "", store.UnrecordedEvent, store.DeliveredNotRecorded, 1, false, true},
		{[]store.ReplayState{store.ReplayAcknowledged, store.ReplayParked}, true, "", store.UnrecordedEvent, store.DeliveredNotRecorded, 1, true, true},
	} {
		f := newFixture(t)
		f.queue(missing("e", 1, ""))
		f.settle("e", c.states...)
		found, r := f.finding("e"), f.replay("e")
		same(t, string(c.states[len(c.states)-1]),
			[]any{r.State, found.Open, found.Resolution, found.Kind, found.Cause, r.Unrecorded, r.ClosedAt != nil, r.AcknowledgedAt != nil},
			[]any{c.states[len(c.states)-1], c.open, c.resolution, c.kind, c.cause, c.unrecorded, c.closed, c.acknowledge})
	}
}

func TestUnrecordedReplaysAreQueuedAgainByTheNextRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("e", 1, ""))
	started := value[time.Time](f, `SELECT clock_timestamp()`)
	begin(t, f.run, f.replay("e"))
	f.settle("e", store.ReplayAcknowledged, store.ReplayUnrecorded)
	for _, c := range []struct {
		before time.Time
		want   int64
		state  store.ReplayState
	}{{started, 0, store.ReplayUnrecorded}, {started.Add(time.Hour), 1, store.ReplayQueued}} {
		n, err := f.run.RequeueUnrecorded(t.Context(), c.before)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "queued again", []any{n, f.replay("e").State, f.replay("e").Unrecorded}, []any{c.want, c.state, 1})
	}
}

func TestWhatAYoungerReplayPassesIsMarkedOvertaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("parked", 1, "o1"), missing("rejected", 2, "o1"), missing("unrecorded", 3, "o1"), missing("repaired", 4, "o1"),
		missing("next", 5, "o1"), missing("last", 6, "o1"), missing("elsewhere", 1, "o2"))
	for key, state := range map[string]store.ReplayState{"parked": store.ReplayParked, "rejected": store.ReplayRejected,
		"unrecorded": store.ReplayUnrecorded, "repaired": store.ReplayRepaired, "elsewhere": store.ReplayParked} {
		f.settle(key, state)
	}
	begin(t, f.run, f.replay("next"))
	f.settle("last", store.ReplayParked)
	same(t, "overtaken", column[string](f, `SELECT event_key FROM nightaudit.replays WHERE overtaken ORDER BY event_key`),
		[]string{"parked", "rejected", "unrecorded"})
}

func TestAcknowledgedReplaysAreWatchedPageByPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("a", 1, ""), missing("b", 2, ""), missing("c", 3, ""))
	f.settle("a", store.ReplayAcknowledged)
	f.settle("b", store.ReplayAcknowledged)
	f.exec(`UPDATE nightaudit.replays SET acknowledged_at = clock_timestamp() - interval '1 hour'`)
	seen, after := 0, ""
	for {
		page, err := f.store.Watched(t.Context(), "shop", after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		if w := page[0]; w.For < time.Hour || w.For > time.Hour+time.Minute {
			t.Errorf("%s: watched for %s, want an hour by the database's clock", w.Event.Key, w.For)
		}
		seen, after = seen+1, page[0].ID
	}
	same(t, "watched", seen, 2)
}

func TestWitnessesStayWhileTheirSubjectHasAnOpenReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fact := missing("fact", 2, "o1")
	fact.Carry = providers.Fact
	f.queue(missing("a", 1, "o1"), fact, missing("b", 3, "o2"))
	one, two := f.replay("a").Lane, f.replay("b").Lane
	later := store.Witness{Event: event("later", 50, "o1"), Lane: one}
	for range 2 {
		err := f.run.AddWitnesses(t.Context(), stream, []store.Witness{later, {Event: event("even later", 55, "o1"), Lane: one}, {Event: event("w2", 50, "o2"), Lane: two}})
		if err != nil {
			t.Fatal(err)
		}
	}
	witnesses, err := f.store.Witnesses(t.Context(), "shop", []string{one, two, "order/none"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]string)
	for lane, ws := range witnesses {
		for _, w := range ws {
			got[lane] = append(got[lane], w.Event.Key)
		}
	}
	same(t, "witnesses", got, map[string][]string{one: {"a", "later", "even later"}, two: {"b", "w2"}})

	f.settle("a", store.ReplayRepaired)
	f.settle("fact", store.ReplayAcknowledged, store.ReplayUnrecorded)
	f.settle("b", store.ReplayRejected)
	if err := f.run.ForgetWitnesses(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "left", column[string](f, `SELECT event_key FROM nightaudit.witnesses ORDER BY event_created`), []string{"later", "even later"})
}

func TestHowFarTheFeedWasReadForWitnessesNeverGoesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fact := missing("fact", 2, "")
	fact.Carry = providers.Fact
	f.queue(missing("a", 1, ""), fact, missing("held", 3, ""))
	f.hold("held", store.HoldTie)
	waiting, err := f.store.WaitingSnapshots(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "queued snapshots", keys(waiting[stream]), []string{"a"})
	for _, to := range []time.Time{firstHour.To, midnight} {
		if err := f.run.Witnessed(t.Context(), []string{f.replay("a").ID}, to); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "read up to", f.replay("a").WitnessedTo.UTC(), firstHour.To)
}
