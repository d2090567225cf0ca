package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

func TestTwoEndpointsWithOneURLAreOneWarningAndOneReplay(t *testing.T) {
	w := newWorld(t)
	types := []string{"invoice.paid"}
	w.source.Targets = []replay.Target{{URL: "https://app.example/hook"}}
	w.provider.endpoints = []providers.Endpoint{
		{ID: "we_a", URL: "https://App.example/hook", Enabled: true, Types: types},
		{ID: "we_b", URL: "https://app.example/hook/", Enabled: true, Types: types},
	}
	w.provider.emit("evt_na_1", "invoice.paid", epoch.Add(-2*time.Hour))

	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 1 done 0 missing 1 stuck 0 late 0 ignored 0 unreadable 0")
	w.wantPosts("evt_na_1")
	f := finding(t, r, store.EndpointDuplicate, "we_a we_b")
	if !strings.Contains(f.Detail, "we_a") || !strings.Contains(f.Detail, "we_b") {
		t.Errorf("detail: got %q, want both endpoints named", f.Detail)
	}
	wantExit(t, r, reconcile.ExitDrift)

	w.provider.endpoints[1].Types = []string{"charge.*"}
	wantOutcome(t, w.run(reconcile.Options{}), store.InSync) // nothing arrives twice any more
}

func TestADisabledEndpointKeepsItsEventsExpected(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.provider.endpoints[0].Enabled = false
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(20*time.Hour))
	w.now = epoch.Add(24 * time.Hour)

	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.EndpointDisabled, "we_1")
	w.wantPosts("evt_1")

	w.provider.endpoints[0].Enabled = true
	wantOutcome(t, w.run(reconcile.Options{}), store.InSync)
}

func TestAVanishedEndpointKeepsItsEventsExpected(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.provider.endpoints = nil
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(20*time.Hour))
	w.now = epoch.Add(24 * time.Hour)
	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.EndpointMissing, "endpoints[0]")
	w.wantPosts("evt_1")

	w.provider.emit("evt_2", "invoice.paid", epoch.Add(40*time.Hour))
	w.now = epoch.Add(48 * time.Hour)
	w.run(reconcile.Options{})
	w.wantPosts("evt_1", "evt_2")
}

func TestAnotherEndpointWithTheURLOfAVanishedOneTakesItsPlace(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.provider.endpoints = []providers.Endpoint{{ID: "we_2", URL: hookURL, Enabled: true, Types: []string{"charge.*"}}}
	w.now = epoch.Add(24 * time.Hour)
	w.run(reconcile.Options{})
	w.provider.emit("evt_invoice", "invoice.paid", epoch.Add(30*time.Hour))
	w.provider.emit("evt_charge", "charge.refunded", epoch.Add(30*time.Hour))
	w.now = epoch.Add(48 * time.Hour)

	r := w.run(reconcile.Options{})
	w.wantPosts("evt_charge")
	wantBooks(t, r, "listed 2 done 0 missing 1 stuck 0 late 0 ignored 1 unreadable 0")
}

func TestAnEndpointWhoseURLLeftTheConfigExpectsNothing(t *testing.T) {
	w := newWorld(t)
	w.provider.endpoints = append(w.provider.endpoints,
		providers.Endpoint{ID: "we_new", URL: "https://new.example/hook", Enabled: true, Types: []string{"charge.*"}})
	w.run(reconcile.Options{})
	w.source.Targets = []replay.Target{{URL: "https://new.example/hook"}}
	w.provider.emit("evt_invoice", "invoice.paid", epoch.Add(20*time.Hour))
	w.now = epoch.Add(24 * time.Hour)

	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 1 done 0 missing 0 stuck 0 late 0 ignored 1 unreadable 0")
}

func TestATypeSubscribedBetweenTwoLooksIsExpectedInBetween(t *testing.T) {
	w := newWorld(t)
	w.provider.endpoints[0].Types = []string{"invoice.*"}
	w.run(reconcile.Options{})
	w.provider.emit("evt_before", "charge.refunded", epoch.Add(-20*time.Minute))
	w.provider.emit("evt_between", "charge.refunded", epoch.Add(12*time.Hour))
	w.provider.endpoints[0].Types = []string{"invoice.*", "charge.*"}
	w.now = epoch.Add(24 * time.Hour)

	r := w.run(reconcile.Options{})
	w.wantPosts("evt_between")
	wantBooks(t, r, "listed 2 done 0 missing 1 stuck 0 late 0 ignored 1 unreadable 0")
}

func TestATypeUnsubscribedBetweenTwoLooksIsExpectedUntilTheSecond(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.provider.endpoints[0].Types = []string{"invoice.*"}
	w.now = epoch.Add(24 * time.Hour)
	w.provider.emit("evt_between", "charge.refunded", epoch.Add(12*time.Hour))
	w.run(reconcile.Options{})
	w.provider.emit("evt_after", "charge.refunded", epoch.Add(30*time.Hour))
	w.now = epoch.Add(48 * time.Hour)
	w.run(reconcile.Options{})
	w.wantPosts("evt_between")
}

func TestAStreamOfWhichNothingSaysWhatToExpectIsIncomplete(t *testing.T) {
	w := newWorld(t)
	w.provider.endpoints = []providers.Endpoint{{ID: "we_x", URL: "https://other.example/hook", Enabled: true, Types: []string{"*"}}}
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "nothing says which events to expect", "public_url", "events.include")
	w.wantPosts()

	w.source.Events.Include = []string{"invoice.*"}
	w.run(reconcile.Options{})
	w.wantPosts("evt_1")
}

func TestEndpointsThatCannotBeReadLeaveWhatIsRemembered(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	w.provider.endpointsErr = errors.New("listing webhook endpoints: HTTP 500")
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(12*time.Hour))
	w.now = epoch.Add(24 * time.Hour)

	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "endpoints not read", "HTTP 500")
	wantKeys(t, r, store.EndpointMissing)
	w.wantPosts("evt_1")
}

func TestATypeThatTheLedgerRecordsAndNobodySubscribesToIsReportedAlone(t *testing.T) {
	w := newWorld(t)
	w.provider.endpoints[0].Types = []string{"invoice.*"}
	w.handled("evt_1", "charge.refunded", epoch.Add(-3*time.Hour))
	w.provider.emit("evt_2", "charge.refunded", epoch.Add(-2*time.Hour))

	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.EndpointUnsubscribed, "charge.refunded")
	w.wantPosts()
	wantExit(t, r, reconcile.ExitDrift)
}

func TestATypeThatTheConfigNamesAndNobodySubscribesToIsReportedAndSent(t *testing.T) {
	w := newWorld(t)
	w.provider.endpoints[0].Types = []string{"invoice.*"}
	w.source.Events.Include = []string{"charge.*"}
	w.provider.emit("evt_1", "charge.refunded", epoch.Add(-2*time.Hour))

	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.EndpointUnsubscribed, "charge.*")
	w.wantPosts("evt_1")
	if f := finding(t, r, store.MissingEvent, "evt_1"); f.Cause != store.NotSubscribed {
		t.Errorf("cause: got %s, want %s", f.Cause, store.NotSubscribed)
	}
}

func TestAnEventOlderThanItsEndpointIsNotExpected(t *testing.T) {
	w := newWorld(t)
	w.provider.endpoints[0].Created = epoch.Add(-3 * time.Hour)
	w.provider.emit("evt_older", "invoice.paid", epoch.Add(-4*time.Hour))
	w.provider.emit("evt_younger", "invoice.paid", epoch.Add(-2*time.Hour))
	w.run(reconcile.Options{})
	w.wantPosts("evt_younger")
}
