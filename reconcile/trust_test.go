package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// One answer with a Date far ahead must not make a night pass over events that
// are still to come.
func TestAProvidersClockThatRunsAheadLosesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		w := newWorld(t)
		w.provider.emit("evt_before", "invoice.paid", epoch.Add(-2*time.Hour))
		w.provider.skew = &ahead
		w.run(reconcile.Options{})
		if w.watermark().After(w.now) {
			t.Fatalf("%s ahead: the watermark is %s, later than now, %s", ahead, w.watermark(), w.now)
		}
		w.provider.skew = nil
		w.provider.emit("evt_after", "invoice.paid", epoch.Add(8*time.Hour))
		w.nextNight()
		w.run(reconcile.Options{})
		w.wantPosts("evt_before", "evt_after")
	}
}

// Endpoints may share an account and split its events by type.
func TestAReplayGoesToTheEndpointThatSubscribesToItsType(t *testing.T) {
	w := newWorld(t)
	const invoices, customers = "https://app.example.com/invoices", "https://app.example.com/customers"
	w.provider.endpoints = []providers.Endpoint{
		{ID: "we_1", URL: invoices, Enabled: true, Types: []string{"invoice.*"}},
		{ID: "we_2", URL: customers, Enabled: true, Types: []string{"customer.*"}},
	}
	w.source.Targets = []replay.Target{{URL: invoices}, {URL: customers}}
	w.provider.emit("evt_1", "customer.created", epoch.Add(-2*time.Hour))
	w.provider.emit("evt_2", "invoice.paid", epoch.Add(-2*time.Hour))
	w.run(reconcile.Options{})
	if got := w.app.urls["evt_1"]; got != customers {
		t.Errorf("customer.created was sent to %s, want %s", got, customers)
	}
	if got := w.app.urls["evt_2"]; got != invoices {
		t.Errorf("invoice.paid was sent to %s, want %s", got, invoices)
	}
}

func TestARowThatIsBeingWorkedOnIsNotSentBeside(t *testing.T) {
	w := newWorld(t)
	w.source.Repair = false
	e := w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	w.run(reconcile.Options{})
	w.app.handle(e.Event, "pending", w.now.Add(-time.Minute)) // the provider's own retry arrives
	w.source.Repair = true
	w.run(reconcile.Options{})
	w.wantPosts()
}

func TestAnEventThatTheLedgerMayHaveForgottenIsNotSent(t *testing.T) {
	w := newWorld(t)
	w.source.Repair, w.source.Keeps = false, 7*24*time.Hour
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	w.run(reconcile.Options{})
	w.now = w.now.Add(14 * 24 * time.Hour)
	w.source.Repair = true
	r := w.run(reconcile.Options{})
	w.wantPosts()
	wantReplay(t, r, "evt_1", store.ReplayCancelled)
}

// Ten good nights in mode report must not thin out a bad one.
func TestManyGoodNightsDoNotHideABadOneFromTheGate(t *testing.T) {
	w := newWorld(t)
	w.source.Repair = false
	for night := range 10 {
		for i := range 31 {
			e := w.provider.emit(fmt.Sprintf("evt_%d_%02d", night, i), "invoice.paid", w.now.Add(-time.Duration(i)*20*time.Minute-2*time.Hour))
			w.app.handle(e.Event, "done", e.Created)
		}
		w.run(reconcile.Options{})
		w.nextNight()
	}
	for i := range 31 {
		w.provider.emit(fmt.Sprintf("evt_lost_%02d", i), "invoice.paid", w.now.Add(-time.Duration(i)*20*time.Minute-2*time.Hour))
	}
	r := w.run(reconcile.Options{})
	if r.Gate.WouldHold == nil {
		t.Error("mode report does not say that the gate would hold")
	}
	wantOutcome(t, w.run(reconcile.Options{Repair: true}), store.HeldBack)
	w.wantPosts()
}

// The provider's list was empty for a moment at the first look.
func TestAFirstLookWithoutEndpointsForgetsNothing(t *testing.T) {
	w := newWorld(t)
	there := w.provider.endpoints
	there[0].Created = epoch.Add(-365 * 24 * time.Hour)
	w.provider.endpoints = nil
	w.run(reconcile.Options{})
	w.provider.endpoints = there
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	w.run(reconcile.Options{})
	w.wantPosts("evt_1")
}

func TestAStreamThatEndsIsNotForgotten(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.provider.streamName = "events@acct_2"
	r := w.run(reconcile.Options{})
	if f := finding(t, r, store.CoverageGap, "not listed any more"); f.Stream != "events" {
		t.Errorf("stream: got %s, want events", f.Stream)
	}
	w.provider.streamName = "" // it is back
	again := w.run(reconcile.Options{})
	for _, f := range again.Findings {
		if f.Stream == "events" && f.State != "closed" {
			t.Errorf("%s of events is still open: %s", f.Kind, f.Detail)
		}
	}
}

func TestATypeThatIsExcludedNoMoreIsListedBack(t *testing.T) {
	w := newWorld(t)
	w.source.Events = reconcile.Filter{Exclude: []string{"invoice.*"}}
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-30*time.Hour))
	w.run(reconcile.Options{})
	w.wantPosts()
	w.source.Events = reconcile.Filter{}
	w.nextNight()
	w.run(reconcile.Options{})
	w.wantPosts("evt_1")
}

// While nothing is listed, the memory of how much is usual does not fade.
func TestASuspiciousSilenceStaysSuspicious(t *testing.T) {
	w := newWorld(t)
	for i := range 120 {
		e := w.provider.emit(fmt.Sprintf("evt_%03d", i), "invoice.paid", epoch.Add(-time.Duration(i)*30*time.Minute-2*time.Hour))
		w.app.handle(e.Event, "done", e.Created)
	}
	w.run(reconcile.Options{})
	before := w.watermark()
	for range 20 {
		w.nextNight()
		wantOutcome(t, w.run(reconcile.Options{}), store.Incomplete)
	}
	w.wantWatermark(before)
}

func TestAReplayThatNoEndpointTakesIsAFindingOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.source.Targets[0].Account = "acct_other"
	w.source.Events = reconcile.Filter{Include: []string{"*"}}
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	r := w.run(reconcile.Options{})
	finding(t, r, store.EndpointMissing, "account ")
	w.wantPosts()
	w.source.Targets[0].Account = ""
	again := w.run(reconcile.Options{})
	w.wantPosts("evt_1")
	if f := finding(t, again, store.EndpointMissing, "account "); f.State != "closed" {
		t.Errorf("finding: got %s, want closed", f.State)
	}
}

// Where nothing can be sent, what is missing waits at the gate and not in a queue
// that nobody drains.
func TestRepairWithNowhereToSendToOnlyReports(t *testing.T) {
	w := newWorld(t)
	w.source.Sender = nil
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	r := w.run(reconcile.Options{Repair: true})
	wantReplay(t, r, "evt_1", store.ReplayPlanned)
	if r.Run.Mode != "report" {
		t.Errorf("mode: got %s, want report", r.Run.Mode)
	}
	w.source.Sender = w.app
	w.run(reconcile.Options{Repair: true})
	w.wantPosts("evt_1")
}

// A second run right after the first looks at little more than the overlap.
func TestAQuietOverlapIsNotSuspicious(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		e := w.provider.emit(fmt.Sprintf("evt_%03d", i), "invoice.paid", epoch.Add(-time.Duration(i)*5*time.Minute-3*time.Hour))
		w.app.handle(e.Event, "done", e.Created)
	}
	for range 3 {
		wantOutcome(t, w.run(reconcile.Options{}), store.InSync)
		w.now = w.now.Add(10 * time.Second)
	}
}
