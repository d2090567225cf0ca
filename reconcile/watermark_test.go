package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

var errServer = errors.New("HTTP 500")

// failAfter makes every page but the next n fail.
func failAfter(n int) func(request) error {
	return func(request) error {
		if n--; n < 0 {
			return errServer
		}
		return nil
	}
}

func TestAnEventListableOnlyAfterItsSecondIsFoundOnceByTheNextRun(t *testing.T) {
	w := newWorld(t)
	w.window(0, -1, time.Hour)
	w.source.Repair = false
	w.now = at(1767225900)
	w.provider.emit("evt_na_known", "invoice.paid", at(1767225000))
	w.provider.emit("evt_na_late", "invoice.paid", at(1767225899)).visible = at(1767225960)

	wantNew(t, w.run(reconcile.Options{}), "evt_na_known")
	before := len(w.provider.requests)
	w.now = at(1767312300)
	second := w.run(reconcile.Options{})
	wantNew(t, second, "evt_na_late")
	if from := earliest(w.provider.requests[before:]); from.After(at(1767225600)) {
		t.Errorf("the second run lists from %s, want from five minutes before the watermark or earlier", from)
	}
}

func TestWatermarkIsTheEndOfTheWindowAndNotTheLastEventListed(t *testing.T) {
	w := newWorld(t)
	w.window(0, -1, -1)
	w.now = at(1767225600)
	w.run(reconcile.Options{})
	w.provider.pageSize = 2
	for i, second := range []int64{1767225900, 1767225800, 1767225700} {
		w.handled(fmt.Sprintf("evt_%d", i), "invoice.paid", at(second))
	}
	w.now = at(1767225901)

	w.provider.fault = failAfter(1)
	broken := w.run(reconcile.Options{})
	wantOutcome(t, broken, store.Incomplete)
	w.wantWatermark(at(1767225600))

	w.provider.fault = nil
	wantOutcome(t, w.run(reconcile.Options{}), store.InSync)
	w.wantWatermark(at(1767225901))
}

func TestAListingThatFailsAtItsSecondPageSaysHowFarItCame(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	before := w.watermark()
	for i := range 150 {
		w.handled(fmt.Sprintf("evt_%03d", i), "invoice.paid", epoch.Add(time.Duration(i)*time.Minute))
	}
	w.now = epoch.Add(3 * time.Hour)
	w.provider.fault = failAfter(1)

	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantExit(t, r, reconcile.ExitIncomplete)
	wantReason(t, r, "100 compared", "stopped at page 2", "HTTP 500")
	wantBooks(t, r, "listed 100 done 100 missing 0 stuck 0 late 0 ignored 0 unreadable 0")
	w.wantWatermark(before)
}

func TestABacklogLargerThanARunShrinksWithEachRun(t *testing.T) {
	w := newWorld(t)
	w.window(0, 0, -1)
	w.provider.pageSize, w.source.Listing.Concurrency = 2, 1
	w.run(reconcile.Options{})
	const events, budget = 800, 180 // a run is stopped after so many pages
	for i := range events {
		w.handled(fmt.Sprintf("evt_%03d", i), "invoice.paid", epoch.Add(time.Duration(i)*36*time.Minute))
	}
	w.now = epoch.Add(events * 36 * time.Minute)
	for run := 1; ; run++ {
		began, asked := w.watermark(), len(w.provider.requests)
		ctx, kill := context.WithCancel(t.Context())
		w.provider.fault = func(request) error {
			if len(w.provider.requests)-asked > budget {
				kill()
			}
			return ctx.Err()
		}
		r, err := w.try(ctx, reconcile.Options{})
		kill()
		if err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
		if from := earliest(w.provider.requests[asked:]); !from.Equal(began) {
			t.Errorf("run %d lists from %s, want from where the one before was stopped, %s", run, from, began)
		}
		if r.Run.Outcome == store.InSync {
			break
		}
		wantOutcome(t, r, store.Interrupted)
		wantExit(t, r, reconcile.ExitInterrupted)
		if moved := w.watermark().Sub(began); moved < 24*time.Hour || run > 8 {
			t.Fatalf("run %d, stopped after %d pages of %d: the watermark moved by %s, want more than a day", run, budget, events/2, moved)
		}
	}
	w.wantWatermark(w.now)
}

func TestAFailedNightIsNoLowerBoundForTheNext(t *testing.T) {
	w := newWorld(t)
	w.window(0, -1, -1)
	w.now = clockTime(2, 0)
	w.run(reconcile.Options{})
	w.provider.emit("evt_during", "invoice.paid", clockTime(2, 10)).visible = clockTime(2, 15)

	w.now = w.now.Add(24 * time.Hour)
	w.provider.fault = func(request) error { return errors.New("HTTP 503") }
	wantOutcome(t, w.run(reconcile.Options{}), store.Incomplete)
	w.wantWatermark(clockTime(2, 0))

	w.now = w.now.Add(24 * time.Hour)
	w.provider.fault = nil
	before := len(w.provider.requests)
	wantNew(t, w.run(reconcile.Options{}), "evt_during")
	if from, want := earliest(w.provider.requests[before:]), clockTime(1, 0); from.After(want) {
		t.Errorf("the third run lists from %s, want from %s, the first night's bound less the overlap", from, want)
	}
}

func TestRowsInTheLedgerAreNoWatermark(t *testing.T) {
	w := newWorld(t)
	w.now = clockTime(13, 0)
	w.provider.emit("evt_a", "invoice.paid", clockTime(11, 0))
	w.handled("evt_c", "invoice.paid", clockTime(12, 0))

	wantNew(t, w.since(w.now.Add(-24*time.Hour)), "evt_a")
}

func TestAFirstRunBeginsAtTheInitialWindow(t *testing.T) {
	w := newWorld(t)
	w.now = clockTime(13, 0)
	w.provider.emit("evt_a", "invoice.paid", clockTime(11, 0))
	w.handled("evt_c", "invoice.paid", clockTime(12, 0))

	wantNew(t, w.run(reconcile.Options{}), "evt_a")
	if from, want := earliest(w.provider.requests), w.now.Add(-73*time.Hour); !from.Equal(want) {
		t.Errorf("the first run lists from %s, want %s, initial and overlap ago", from, want)
	}
}

func TestTwoEventsOfOneSecondThatAppearAMinuteApartAreBothCompared(t *testing.T) {
	w := newWorld(t)
	w.window(0, -1, -1)
	w.source.Repair = false
	second := clockTime(12, 0).Add(5 * time.Second)
	w.provider.emit("e1", "invoice.paid", second)
	w.provider.emit("e2", "invoice.paid", second).visible = second.Add(time.Minute)

	w.now = second.Add(time.Second)
	wantNew(t, w.run(reconcile.Options{}), "e1")
	w.now = second.Add(2 * time.Minute)
	again := w.run(reconcile.Options{})
	wantNew(t, again, "e2")
	wantKeys(t, again, store.MissingEvent, "e1", "e2")
}

func TestYoungEventsAreLeftToTheNextRun(t *testing.T) {
	w := newWorld(t)
	w.window(30*time.Minute, -1, -1)
	w.provider.emit("evt_0120", "invoice.paid", clockTime(1, 20)).visible = clockTime(1, 45)
	w.provider.emit("evt_0140", "invoice.paid", clockTime(1, 40)).visible = clockTime(2, 5)

	w.now = clockTime(2, 0)
	first := w.run(reconcile.Options{})
	wantNew(t, first, "evt_0120")
	if to := *first.Streams[0].Window.To; !to.Equal(clockTime(1, 30)) {
		t.Errorf("the window ends at %s, want 01:30, now less settle", to)
	}
	w.now = clockTime(3, 0)
	wantNew(t, w.run(reconcile.Options{}), "evt_0140")
}

func TestAFeedFilteredByDayIsCutToTheWindow(t *testing.T) {
	w := newWorld(t)
	w.source.Repair = false
	w.provider.feed.Filter = providers.FilterDay
	midnight := epoch.Add(24 * time.Hour)
	for id, created := range map[string]time.Time{
		"msg_2340": midnight.Add(-20 * time.Minute), "msg_2355": midnight.Add(-5 * time.Minute),
		"msg_0010": midnight.Add(10 * time.Minute), "msg_noon": midnight.Add(-12 * time.Hour),
	} {
		w.provider.emit(id, "message.sent", created)
	}
	w.now = midnight // W becomes 23:50
	wantNew(t, w.run(reconcile.Options{}), "msg_2340", "msg_noon")

	w.provider.page = func(_ request, p *providers.Page[providers.Event]) {
		p.Items = nil
		for _, e := range w.provider.events { // the whole days, and twice
			p.Items = append(p.Items, e.Event, e.Event)
		}
	}
	w.now = midnight.Add(2 * time.Hour)
	r := w.run(reconcile.Options{})
	wantNew(t, r, "msg_0010", "msg_2355")
	wantBooks(t, r, "listed 3 done 0 missing 3 stuck 0 late 0 ignored 0 unreadable 0")
	if s := r.Streams[0]; s.OutsideWindow != 2 || s.Repeated != 3 {
		t.Errorf("outside the window %d, repeated %d; want 2 and 3", s.OutsideWindow, s.Repeated)
	}
}

func TestWhatTheProviderNoLongerListsIsAGapReportedOnce(t *testing.T) {
	w := newWorld(t)
	w.window(0, -1, -1)
	w.now = at(1765843200) // 2025-12-16
	w.run(reconcile.Options{})
	w.now = at(1769904000) // 2026-02-01
	const gap = "2025-12-16T00:00:00Z/2026-01-02T00:00:00Z"

	before := len(w.provider.requests)
	dry := w.run(reconcile.Options{DryRun: true})
	wantKeys(t, dry, store.CoverageGap, gap)
	wantExit(t, dry, reconcile.ExitIncomplete)
	w.wantWatermark(at(1765843200))

	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.CoverageGap, gap)
	if gaps := r.Streams[0].Gaps; len(gaps) != 1 || !gaps[0].From.Equal(at(1765843200)) || !gaps[0].To.Equal(at(1767312000)) {
		t.Errorf("gaps: got %+v, want one from the old watermark to the edge of retention", gaps)
	}
	if from := earliest(w.provider.requests[before:]); !from.Equal(at(1767312000)) {
		t.Errorf("listed from %s, want from the edge of retention", from)
	}
	wantExit(t, r, reconcile.ExitIncomplete)
	w.wantWatermark(w.now)

	w.now = w.now.Add(24 * time.Hour)
	next := w.run(reconcile.Options{})
	if f := finding(t, next, store.CoverageGap, gap); f.New || len(next.Streams[0].Gaps) > 0 {
		t.Errorf("the next night tells the gap again: new %v, gaps %v", f.New, next.Streams[0].Gaps)
	}
	wantExit(t, next, reconcile.ExitDrift)
}

func TestALedgerThatForgetsSoonerThanTheProviderIsTheEdge(t *testing.T) {
	w := newWorld(t)
	w.source.Keeps = 7 * 24 * time.Hour
	w.run(reconcile.Options{})
	began := w.watermark()
	w.now = epoch.Add(20 * 24 * time.Hour)

	r := w.run(reconcile.Options{})
	if gaps := r.Streams[0].Gaps; len(gaps) != 1 || !gaps[0].From.Equal(began) || !gaps[0].To.Equal(w.now.Add(-w.source.Keeps)) {
		t.Errorf("gaps: got %+v, want one from %s to what the ledger keeps", gaps, began)
	}
	_, err := w.try(t.Context(), reconcile.Options{Hand: true, Since: w.now.Add(-8 * 24 * time.Hour)})
	var usage *reconcile.UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "ledger.keeps") || !strings.Contains(err.Error(), "--since 168h") {
		t.Errorf("--since beyond ledger.keeps: got %v, want a refusal that names it and 168h", err)
	}
}

func TestANewStreamOnTheEdgeOfRetentionHasNoGap(t *testing.T) {
	w := newWorld(t)
	w.window(-1, -1, 60*24*time.Hour)
	w.now = epoch.Add(300 * time.Millisecond)
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.InSync)
	if gaps := r.Streams[0].Gaps; len(gaps) > 0 {
		t.Errorf("gaps: got %+v, want none", gaps)
	}
}

func TestARunByHandBeforeTheWatermarkMovesNothing(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	before := w.watermark()
	w.now = epoch.Add(48 * time.Hour)
	w.provider.emit("evt_old", "invoice.paid", epoch.Add(-50*time.Hour))

	r := w.run(reconcile.Options{Hand: true, Since: epoch.Add(-60 * time.Hour), Until: epoch.Add(-40 * time.Hour)})
	wantNew(t, r, "evt_old")
	w.wantWatermark(before)

	w.run(reconcile.Options{Hand: true, Since: epoch.Add(24 * time.Hour)})
	w.wantWatermark(before) // what lies between was not covered
	w.run(reconcile.Options{Hand: true, Since: before.Add(-time.Hour)})
	w.wantWatermark(w.now.Add(-10 * time.Minute))
}

func TestATypeNewlyIncludedIsListedBackOnce(t *testing.T) {
	w := newWorld(t)
	w.source.Events.Include = []string{"invoice.*"}
	w.provider.emit("evt_charge", "charge.refunded", epoch.Add(-50*time.Hour))
	first := w.run(reconcile.Options{})
	wantBooks(t, first, "listed 1 done 0 missing 0 stuck 0 late 0 ignored 1 unreadable 0")

	w.now = epoch.Add(12 * time.Hour)
	w.source.Events.Include = []string{"invoice.*", "charge.*"}
	w.provider.fault = func(request) error { return errServer }
	wantOutcome(t, w.run(reconcile.Options{}), store.Incomplete)
	w.provider.fault = nil
	back := w.run(reconcile.Options{})
	wantNew(t, back, "evt_charge")
	if from := *back.Streams[0].Window.From; !from.Equal(w.now.Add(-72 * time.Hour)) {
		t.Errorf("listed back to %s, want to the initial window's beginning", from)
	}

	w.now = epoch.Add(36 * time.Hour)
	next := w.run(reconcile.Options{})
	if from, want := *next.Streams[0].Window.From, epoch.Add(11*time.Hour-10*time.Minute); !from.Equal(want) {
		t.Errorf("the night after lists from %s, want %s, once is enough", from, want)
	}
}

func TestATypeTakenOutAndIncludedAgainIsListedBackAgain(t *testing.T) {
	w := newWorld(t)
	w.source.Events.Include = []string{"invoice.*", "charge.*"}
	w.run(reconcile.Options{})
	w.source.Events.Include = []string{"invoice.*"}
	w.provider.emit("evt_charge", "charge.refunded", epoch.Add(2*time.Hour))
	w.now = epoch.Add(12 * time.Hour)
	wantNew(t, w.run(reconcile.Options{}))

	w.now = epoch.Add(36 * time.Hour)
	w.source.Events.Include = []string{"invoice.*", "charge.*"}
	wantNew(t, w.run(reconcile.Options{}), "evt_charge")
}

func TestAnIncludeThatIsDroppedForEverythingSubscribedIsListedBack(t *testing.T) {
	w := newWorld(t)
	w.source.Events.Include = []string{"invoice.*"}
	w.provider.emit("evt_charge", "charge.refunded", epoch.Add(-20*time.Hour))
	w.run(reconcile.Options{})

	w.now = epoch.Add(12 * time.Hour)
	w.source.Events.Include = nil
	wantNew(t, w.run(reconcile.Options{}), "evt_charge")
}

func TestAnEmptyWindowByHandIsRefusedWithTheShortestOneThatIsNot(t *testing.T) {
	w := newWorld(t)
	_, err := w.try(t.Context(), reconcile.Options{Hand: true, Since: w.now.Add(-5 * time.Minute)})
	var usage *reconcile.UsageError
	if !errors.As(err, &usage) {
		t.Fatalf("--since 5m with a settle of 10m: got %v, want a usage error", err)
	}
	for _, part := range []string{"10m", "window.settle", "shortest useful --since is 11m"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want it to say %q", err, part)
		}
	}
	if len(w.provider.requests) > 0 {
		t.Errorf("%d pages were asked for, want none", len(w.provider.requests))
	}
}

func TestAStartInTheFutureIsRefused(t *testing.T) {
	w := newWorld(t)
	_, err := w.try(t.Context(), reconcile.Options{Hand: true, Since: w.now.Add(time.Hour)})
	var usage *reconcile.UsageError
	if !errors.As(err, &usage) {
		t.Errorf("--since in an hour: got %v, want a usage error", err)
	}
}

func TestAnEmptyWindowByScheduleIsNothingToJudge(t *testing.T) {
	w := newWorld(t)
	w.window(time.Hour, 0, 30*time.Minute)
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.NothingToJudge)
	wantExit(t, r, reconcile.ExitInSync)
	if r.Streams[0].Window.From != nil {
		t.Errorf("window: got %+v, want none", r.Streams[0].Window)
	}
}

// busyNights gives a world in which three nights had forty events each.
func busyNights(t *testing.T) *world {
	w := newWorld(t)
	for night := range 3 {
		from := w.now.Add(-72 * time.Hour)
		if night > 0 {
			from = w.now.Add(-24 * time.Hour)
		}
		for i := range 40 {
			w.handled(fmt.Sprintf("evt_%d_%02d", night, i), "invoice.paid", from.Add(time.Duration(i+1)*30*time.Minute))
		}
		wantOutcome(t, w.run(reconcile.Options{}), store.InSync)
		w.now = w.now.Add(24 * time.Hour)
	}
	return w
}

func TestAnEmptyListingWhereThereWasAlwaysTrafficIsNotInSync(t *testing.T) {
	w := busyNights(t)
	before := w.watermark()
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantExit(t, r, reconcile.ExitIncomplete)
	f := finding(t, r, store.SuspiciousEmpty, "events")
	wantReason(t, r, "no event was listed where", f.ID)
	w.wantWatermark(before)
	if r.Streams[0].ProcessedRatio != nil {
		t.Errorf("processed ratio of nothing: got %v, want null", *r.Streams[0].ProcessedRatio)
	}

	w.now = w.now.Add(24 * time.Hour)
	w.handled("evt_back", "invoice.paid", w.now.Add(-2*time.Hour))
	back := w.run(reconcile.Options{})
	wantOutcome(t, back, store.InSync)
	wantBooks(t, back, "listed 1 done 1 missing 0 stuck 0 late 0 ignored 0 unreadable 0")
	if from := *back.Streams[0].Window.From; from.After(before) {
		t.Errorf("the listing that is not empty begins at %s, want before %s", from, before)
	}
	w.wantWatermark(w.now.Add(-10 * time.Minute))
}

func TestAPersonMayAcknowledgeThatAStreamIsQuiet(t *testing.T) {
	w := busyNights(t)
	f := finding(t, w.run(reconcile.Options{}), store.SuspiciousEmpty, "events")
	if err := w.store.Acknowledge(t.Context(), f.ID); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(24 * time.Hour)
	wantOutcome(t, w.run(reconcile.Options{}), store.InSync)
	w.wantWatermark(w.now.Add(-10 * time.Minute))
}

func TestAnEmptyListingOfAQuietStreamIsInSync(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.now = w.now.Add(24 * time.Hour)
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.InSync)
	wantBooks(t, r, "listed 0 done 0 missing 0 stuck 0 late 0 ignored 0 unreadable 0")
}
