package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

func TestWhatIsMissingIsSentOldestFirstHoweverItIsListed(t *testing.T) {
	t0 := epoch.Add(-2 * time.Hour)
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
		w := newWorld(t)
		w.source.Replay.Concurrency = 1
		w.provider.emit("evt_na_c", "invoice.paid", t0.Add(2*time.Second))
		w.provider.emit("evt_na_a", "invoice.paid", t0)
		w.provider.emit("evt_na_b", "invoice.paid", t0.Add(time.Second))
		w.provider.page = func(_ request, p *providers.Page[providers.Event]) {
			items := slices.Clone(p.Items)
			for to, from := range order[:len(items)] {
				p.Items[to] = items[from]
			}
		}
		wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
		w.wantOrder("evt_na_a", "evt_na_b", "evt_na_c")
	}
}

func TestOneLostEventAmongHealthyNeighboursIsFoundByItsID(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		e := w.provider.emit(fmt.Sprintf("evt_%02d", i), "invoice.paid", epoch.Add(-time.Duration(i+1)*time.Hour))
		if i != 13 {
			w.app.handle(e.Event, "done", e.Created)
		}
	}
	// yesterday's count is the same: a row that the provider knows from before the window
	w.handled("evt_before", "invoice.paid", epoch.Add(-100*time.Hour))
	w.exec(`UPDATE public.processed_events SET handled_at = $1 WHERE event_id = 'evt_before'`, epoch.Add(-13*time.Hour))

	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.MissingEvent, "evt_13")
	wantKeys(t, r, store.UnknownEvent)
	w.wantPosts("evt_13")
}

// The run before listed it: it looked as far as the watermark.
func TestAnEventHandledJustAfterTheWindowBeginsIsNotLookedUp(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	from := w.watermark().Add(-time.Hour) // less the overlap
	w.handled("evt_before", "invoice.paid", from.Add(-30*time.Second))
	w.exec(`UPDATE public.processed_events SET handled_at = $1`, from.Add(30*time.Second))
	w.handled("evt_after", "invoice.paid", from.Add(2*time.Hour))

	w.now = w.now.Add(24 * time.Hour)
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.InSync)
	if s := r.Streams[0]; s.UnlistedRows != 0 || s.LookedUp != 0 {
		t.Errorf("got %d unlisted rows, %d looked up; want none", s.UnlistedRows, s.LookedUp)
	}
}

func TestWhatOnlyTheLedgerHasIsReportedAlsoWhenNothingIsListed(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.now = w.now.Add(6 * time.Hour)
	w.exec(`INSERT INTO public.processed_events (event_id, event_type, handled_at) VALUES ('evt_x', 'invoice.paid', $1)`, w.now.Add(-3*time.Hour))
	wantKeys(t, w.run(reconcile.Options{}), store.UnknownEvent, "evt_x")
}

// busySecond makes a cursor unable to drain a second, unless the window is that
// second alone.
func busySecond(w *world) {
	w.provider.page = func(r request, p *providers.Page[providers.Event]) {
		if r.cursor != "" && r.window.Length() > time.Second {
			p.Items, p.Next = nil, ""
		}
	}
}

func TestASecondThatACursorCannotDrainIsListedByItself(t *testing.T) {
	w := newWorld(t)
	w.window(0, -1, -1)
	for n := 1; n <= 150; n++ {
		e := w.provider.emit(fmt.Sprintf("evt_na_%04d", n), "invoice.paid", at(1767225650))
		if n != 7 {
			w.app.handle(e.Event, "done", e.Created)
		}
	}
	w.handled("evt_na_before", "invoice.paid", at(1767225640))
	w.now = at(1767225700)
	busySecond(w)

	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.AllRepaired)
	wantBooks(t, r, "listed 151 done 150 missing 1 stuck 0 late 0 ignored 0 unreadable 0")
	wantKeys(t, r, store.MissingEvent, "evt_na_0007")
}

func TestAListingThatContradictsItselfIsIncompleteAndNeverInSync(t *testing.T) {
	w := newWorld(t)
	w.provider.feed.Filter = providers.FilterDay // that second cannot be asked for
	w.run(reconcile.Options{})
	before := w.watermark()
	for n := range 150 {
		w.handled(fmt.Sprintf("evt_%03d", n), "invoice.paid", at(1767225650))
	}
	w.now = at(1767225650).Add(time.Hour)
	busySecond(w)

	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "promised more events and then listed none")
	w.wantWatermark(before)
}

func TestPagesThatRepeatTheirEdgeCountEachEventOnce(t *testing.T) {
	w := newWorld(t)
	w.provider.pageSize = 10
	for i := range 30 {
		w.handled(fmt.Sprintf("evt_%02d", i), "invoice.paid", epoch.Add(-time.Duration(i+1)*time.Hour))
	}
	var last providers.Event
	w.provider.page = func(r request, p *providers.Page[providers.Event]) {
		if r.cursor != "" {
			p.Items = append([]providers.Event{last}, p.Items...)
		}
		if len(p.Items) > 0 {
			last = p.Items[len(p.Items)-1]
		}
	}
	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 30 done 30 missing 0 stuck 0 late 0 ignored 0 unreadable 0")
	if r.Streams[0].Repeated == 0 {
		t.Error("no repeated event was counted")
	}
}

func TestAnUndecodableEventCostsNothingButItself(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.provider.emit(fmt.Sprintf("evt_%d", i), "invoice.paid", epoch.Add(-time.Duration(i+1)*time.Hour))
	}
	w.provider.emit("evt_bad", "invoice.paid", epoch.Add(-90*time.Minute)).raw = `{"id":"evt_bad","created":"noon"}`

	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 4 done 0 missing 3 stuck 0 late 0 ignored 0 unreadable 1")
	w.wantPosts("evt_2", "evt_1", "evt_0")
	if f := finding(t, r, store.UnreadableEvent, "evt_bad"); f.Detail != "listed and not to be decoded: not an event" {
		t.Errorf("detail: got %q, want why, without its content", f.Detail)
	}
	wantOutcome(t, r, store.DriftRemains)
	w.wantWatermark(epoch.Add(-10 * time.Minute))
}

func TestAnUndecodableEventThatTheLedgerHasIsClosed(t *testing.T) {
	w := newWorld(t)
	e := w.provider.emit("evt_bad", "invoice.paid", epoch.Add(-3*time.Hour))
	e.raw = `{"id":"evt_bad"}`
	wantOutcome(t, w.run(reconcile.Options{}), store.DriftRemains)
	w.app.handle(e.Event, "done", e.Created)

	w.now = w.now.Add(24 * time.Hour)
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.InSync)
	if f := finding(t, r, store.UnreadableEvent, "evt_bad"); f.State != "closed" {
		t.Errorf("finding: got %s, want closed", f.State)
	}
}

// Long after its window was compared, the event can be read by itself.
func TestAnUndecodableEventThatCanBeReadLaterIsRepaired(t *testing.T) {
	w := newWorld(t)
	e := w.provider.emit("evt_bad", "invoice.paid", epoch.Add(-3*time.Hour))
	e.raw = `{"id":"evt_bad"}`
	wantOutcome(t, w.run(reconcile.Options{}), store.DriftRemains)

	e.raw = ""
	w.now = w.now.Add(48 * time.Hour)
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.AllRepaired)
	w.wantPosts("evt_bad")
	if f := finding(t, r, store.MissingEvent, "evt_bad"); f.Resolution != store.Repaired {
		t.Errorf("finding: got %s, want repaired", f.Resolution)
	}
}

func TestAnUndecodableEventMayBeAcknowledged(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_bad", "invoice.paid", epoch.Add(-3*time.Hour)).raw = `{"id":"evt_bad"}`
	id := finding(t, w.run(reconcile.Options{}), store.UnreadableEvent, "evt_bad").ID
	if err := w.store.Acknowledge(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, w.run(reconcile.Options{Since: epoch.Add(-5 * time.Hour)}), store.InSync)
}

func TestAnIDThatNoDatabaseCanNameIsUnreadable(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_nul\x00", "invoice.paid", epoch.Add(-2*time.Hour))
	w.provider.emit("evt_surrogate\xed\xa0\x80", "invoice.paid", epoch.Add(-2*time.Hour))
	w.provider.emit("evt_good", "invoice.paid", epoch.Add(-2*time.Hour))

	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 3 done 0 missing 1 stuck 0 late 0 ignored 0 unreadable 2")
	w.wantPosts("evt_good")
}

func TestATypeThatMayNeverBeSentAgainIsReportedAndNotSent(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_login", "login.succeeded", epoch.Add(-2*time.Hour))
	w.provider.emit("evt_paid", "invoice.paid", epoch.Add(-2*time.Hour))

	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 2 done 0 missing 2 stuck 0 late 0 ignored 0 unreadable 0")
	wantKeys(t, r, store.Unreplayable, "evt_login")
	w.wantPosts("evt_paid")
	if got := r.Streams[0].Work; got["unreplayable"] != 1 || got["repaired"] != 1 || len(got) != 2 {
		t.Errorf("what became of the missing: got %v, want one unreplayable and one repaired", got)
	}
}

func TestExcludedTypesAreCountedAndNotCompared(t *testing.T) {
	w := newWorld(t)
	w.source.Events.Exclude = []string{"charge.*"}
	w.provider.endpoints[0].Types = []string{"charge.*", "invoice.*"}
	w.provider.emit("evt_1", "charge.refunded", epoch.Add(-2*time.Hour))
	w.provider.emit("evt_2", "customer.created", epoch.Add(-2*time.Hour))
	w.handled("evt_3", "invoice.paid", epoch.Add(-2*time.Hour))

	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.InSync)
	wantBooks(t, r, "listed 3 done 1 missing 0 stuck 0 late 0 ignored 2 unreadable 0")
	want := []reconcile.IgnoredReport{
		{Type: "charge.refunded", Why: "excluded in the config", Count: 1},
		{Type: "customer.created", Why: "not subscribed", Count: 1},
	}
	if got := r.Streams[0].IgnoredTypes; !slices.Equal(got, want) {
		t.Errorf("ignored: got %+v, want %+v", got, want)
	}
}
