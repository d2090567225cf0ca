package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

func TestADemoWhoseReplaysAreRefusedSaysThatItDidNotGoAsTold(t *testing.T) {
	t.Parallel()
	edge := &edge{out: io.Discard, err: io.Discard}
	log := slog.New(slog.DiscardHandler)
	d := &demo{globals: &globals{edge: edge}, options: demoOptions{output: "json"}, log: log, story: newStory(edge, "json"),
		world: &demoWorld{log: log}}
	t.Cleanup(func() {
		if err := d.tidy(false); err != nil {
			t.Error(err)
		}
	})
	if err := d.world.makeFolder(); err != nil {
		t.Fatal(err)
	}
	if err := d.world.build(t.Context(), 20, d.story); err != nil {
		t.Fatal(err)
	}
	d.world.app.SetFault(simulator.Refuse(http.StatusUnprocessableEntity))
	_, err := d.firstNight(t.Context())
	for _, want := range []string{"the demo did not go as told", "the findings are not what was planted",
		"0 of 5 repaired events are done in the shop's tables", "please report it"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a shop that refuses all replays: got %v, want an error with %q", err, want)
		}
	}
	dir := d.world.dir
	if err := d.tidy(false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s after the demo: got %v, want it gone", dir, err)
	}
}

func TestFindingsAreHeldAgainstWhatWasPlanted(t *testing.T) {
	t.Parallel()
	want := verdicts{
		"evt_1": {store.MissingEvent, store.DeliveryFailed, store.Repaired},
		"we_1":  {store.EndpointDisabled, store.CauseUnknown, ""},
	}
	event := func(change func(*reconcile.FindingReport)) reconcile.FindingReport {
		f := reconcile.FindingReport{Key: "stripe/evt_1", Event: &reconcile.EventReport{ID: "evt_1"}, Kind: store.MissingEvent,
			Cause: store.DeliveryFailed, Resolution: store.Repaired}
		change(&f)
		return f
	}
	as := func(*reconcile.FindingReport) {}
	endpoint := reconcile.FindingReport{Key: "we_1", Kind: store.EndpointDisabled, Cause: store.CauseUnknown}
	for name, c := range map[string]struct {
		findings []reconcile.FindingReport
		says     string
	}{
		"all as planted":         {[]reconcile.FindingReport{event(as), endpoint}, ""},
		"one was not found":      {[]reconcile.FindingReport{endpoint}, "1 of 2"},
		"one is of another kind": {[]reconcile.FindingReport{event(func(f *reconcile.FindingReport) { f.Kind = store.StuckEvent }), endpoint}, "evt_1: {stuck_event"},
		"another cause":          {[]reconcile.FindingReport{event(func(f *reconcile.FindingReport) { f.Cause = store.CauseUnknown }), endpoint}, "evt_1: {missing_event unknown"},
		"one is still open":      {[]reconcile.FindingReport{event(func(f *reconcile.FindingReport) { f.Resolution = "" }), endpoint}, "evt_1: {missing_event delivery_failed }"},
		"one was never planted": {[]reconcile.FindingReport{event(func(f *reconcile.FindingReport) { f.Event.ID = "evt_2" }), endpoint},
			"evt_2: {missing_event delivery_failed repaired}, not {  }"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := want.difference(c.findings); !strings.HasPrefix(got, c.says) || (got == "") != (c.says == "") {
				t.Errorf("%+v\nagainst %v: got %q, want %q", c.findings, want, got, c.says)
			}
		})
	}
}
