package reconcile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a report, as JSON and as text, with its golden files. What
// differs from run to run is replaced first.
func golden(t *testing.T, name string, reports ...*reconcile.Report) {
	t.Helper()
	d := reconcile.NewDocument(reports, nil, false)
	valid(t, d)
	for i, r := range d.Sources {
		steady(r, i)
	}
	compareGolden(t, name+".json", valid(t, d))
	compareGolden(t, name+".txt", textOf(t, d, reconcile.TextOptions{}))
}

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the tests with -update to write it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at it, then run with -update\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func textOf(t *testing.T, d *reconcile.Document, o reconcile.TextOptions) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := d.WriteText(&text, o); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// steady replaces what the database's clock, the host and chance have put into a
// report. The night before was a day earlier.
func steady(r *reconcile.Report, number int) {
	at := epoch
	if r.Run.ID != "" {
		r.Run.ID, r.Run.Host = fmt.Sprintf("run_%d", number+1), "host, process 1"
	}
	r.Run.StartedAt, r.Run.FinishedAt = at, at.Add(14*time.Second)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.FirstSeenAt, f.LastSeenAt = at, at
		if !f.New {
			f.FirstSeenAt = at.Add(-24 * time.Hour)
		}
		if f.ClosedAt != nil {
			f.ClosedAt = &at
		}
		if f.Replay == nil {
			continue
		}
		f.Replay.ID, f.Replay.PlannedAt = "rpl_"+f.Key, f.FirstSeenAt
		if a := f.Replay.LastAttempt; a != nil {
			a.StartedAt, a.EndedAt = at, &at
		}
	}
}

// everyClass is the source of a night on which everything happens that can
// happen in one.
func everyClass(t *testing.T) *world {
	w := newWorld(t)
	w.provider.cannotShow = []string{"which delivery attempts failed and why", "events older than 12 hours"}
	w.provider.endpoints = []providers.Endpoint{
		{ID: "we_1", URL: hookURL, Enabled: true, APIVersion: "2025-06-30", Types: []string{"invoice.*", "customer.*", "login.*", "draft.*"}},
		{ID: "we_0", URL: hookURL + "/", Types: []string{"invoice.paid"}},
	}
	w.source.Events.Exclude = []string{"draft.*"}
	w.app.behave = func(id string) behaviour {
		failed := replay.Result{Outcome: replay.Failed, Status: 503, Why: "the endpoint answered 503", BodyBytes: 64}
		switch id {
		case "evt_unconfirmed":
			failed.Outcome, failed.Phase, failed.Status, failed.Why = replay.Failed, replay.PhaseTimeout, 0, "no answer within 30s"
			return behaviour{result: failed}
		case "evt_refused_1", "evt_refused_2", "evt_refused_3", "evt_refused_4":
			return behaviour{skip: true, result: replay.Result{Outcome: replay.Rejected, Status: 400, Why: "the endpoint refused it with 400 (64 bytes sent)", BodyBytes: 64}}
		case "evt_lost", "evt_swallowed":
			return behaviour{skip: true}
		case "evt_unlucky":
			return behaviour{skip: true, result: failed}
		}
		return behaviour{}
	}
	return w
}

// earlierNights are two nights in which one event is acknowledged and lost, and
// another is still at work.
func (w *world) earlierNights() {
	w.now = epoch.Add(-48 * time.Hour)
	w.provider.emit("evt_lost", "invoice.paid", w.now.Add(-2*time.Hour))
	w.run(reconcile.Options{})
	w.now = epoch.Add(-24 * time.Hour)
	slow := w.provider.emit("evt_slow", "invoice.paid", w.now.Add(-time.Hour))
	w.app.handle(slow.Event, "pending", w.now.Add(-30*time.Minute))
	w.run(reconcile.Options{})
	w.app.handle(slow.Event, "done", w.now)
	w.now = epoch
	// meanwhile the provider forgets half a day that was not looked at
	w.provider.feed.Retention = 12 * time.Hour
}

func ago(hours int) time.Time { return epoch.Add(-time.Duration(hours) * time.Hour) }

// everything happens during the last night.
func (w *world) everything() {
	p := w.provider
	for i := range 30 {
		e := p.emit(fmt.Sprintf("evt_fine_%02d", i), "invoice.paid", ago(11).Add(time.Duration(i)*time.Minute))
		w.app.handle(e.Event, "done", e.Created)
	}
	p.emit("evt_missed", "invoice.paid", ago(10))
	p.emit("evt_unconfirmed", "invoice.paid", ago(9))
	for i := 1; i <= 4; i++ {
		p.emit(fmt.Sprintf("evt_refused_%d", i), "invoice.voided", ago(9))
	}
	p.emit("evt_swallowed", "invoice.sent", ago(8))
	one := 1
	p.emit("evt_unlucky", "invoice.sent", ago(7)).PendingDeliveries = &one
	p.emit("evt_signin", "login.code", ago(7))
	p.emit("evt_old_version", "invoice.sent", ago(7)).APIVersion = "2019-02-11"
	p.emitFor("evt_state_old", "customer.updated", ago(6), "cus_1")
	newer := p.emitFor("evt_state_new", "customer.updated", ago(5), "cus_1")
	w.app.handle(newer.Event, "done", newer.Created)
	p.emitFor("evt_tie_1", "customer.updated", ago(4), "cus_2")
	other := p.emitFor("evt_tie_2", "customer.updated", ago(4), "cus_2")
	w.app.handle(other.Event, "done", other.Created)
	stuck := p.emit("evt_stuck", "invoice.paid", ago(3))
	w.app.handle(stuck.Event, "pending", stuck.Created)
	late := p.emit("evt_late", "invoice.paid", epoch.Add(-40*time.Minute))
	w.app.handle(late.Event, "pending", late.Created)
	p.emit("evt_draft", "draft.made", ago(2))
	p.emit("evt_ping", "ping", ago(2))
	p.emit("evt_garbled", "", ago(2)).raw = "{"
	w.app.handle(providers.Event{ID: "evt_ghost", Type: "invoice.paid"}, "done", ago(2))
}

func TestReportOfANightWithEveryClassInIt(t *testing.T) {
	w := everyClass(t)
	w.earlierNights()
	w.everything()
	r := w.run(reconcile.Options{Version: "1.2.3"})
	golden(t, "report_every_class", r)

	for _, want := range []struct{ key, state string }{
		{"evt_missed", "repaired"}, {"evt_unconfirmed", "repaired"}, {"evt_stuck", "repaired"}, {"evt_state_old", "superseded"},
		{"evt_refused_1", "rejected"}, {"evt_tie_1", "held"}, {"evt_old_version", "held"}, {"evt_swallowed", "unrecorded"},
		{"evt_unlucky", "queued"}, {"evt_lost", "parked"}, {"evt_signin", ""}, {"evt_garbled", ""}, {"evt_late", ""},
	} {
		i := slices.IndexFunc(r.Findings, func(f reconcile.FindingReport) bool { return f.Key == want.key })
		if i < 0 {
			t.Errorf("%s is not in the report", want.key)
			continue
		}
		got := ""
		if rp := r.Findings[i].Replay; rp != nil {
			got = string(rp.State)
		}
		if got != want.state {
			t.Errorf("the replay of %s: got %q, want %q", want.key, got, want.state)
		}
	}
	for _, kind := range []store.Kind{store.CoverageGap, store.EndpointDisabled, store.UnknownEvent, store.APIVersionMismatch} {
		if len(keysOf(r, kind)) != 1 {
			t.Errorf("findings of kind %s: %v, want one", kind, keysOf(r, kind))
		}
	}
}

func TestReportOfACleanNight(t *testing.T) {
	w := newWorld(t)
	w.provider.cannotShow = []string{"which delivery attempts failed and why"}
	for i := range 30 {
		e := w.provider.emit(fmt.Sprintf("evt_%02d", i), "invoice.paid", ago(i+1))
		w.app.handle(e.Event, "done", e.Created)
	}
	w.run(reconcile.Options{})
	r := w.run(reconcile.Options{})
	golden(t, "report_clean", r)
	text := textOf(t, reconcile.NewDocument([]*reconcile.Report{r}, nil, false), reconcile.TextOptions{})
	if lines := bytes.Count(text, []byte("\n")); lines != 3 {
		t.Errorf("a clean night takes %d lines, want 3:\n%s", lines, text)
	}
}

func TestReportOfADryRun(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		e := w.provider.emit(fmt.Sprintf("evt_%02d", i), "invoice.paid", ago(i+1))
		if i > 4 {
			w.app.handle(e.Event, "done", e.Created)
		}
	}
	golden(t, "report_dry_run", w.run(reconcile.Options{DryRun: true}))
}

func TestReportOfAListingThatWasCutShort(t *testing.T) {
	w := newWorld(t)
	w.provider.pageSize, w.source.Listing.Concurrency = 1, 1
	for i := range 400 {
		e := w.provider.emit(fmt.Sprintf("evt_%03d", i), "invoice.paid", epoch.Add(-time.Hour-time.Duration(i)*10*time.Minute))
		if i%50 != 43 {
			w.app.handle(e.Event, "done", e.Created)
		}
	}
	w.provider.fault = func(r request) error {
		if r.cursor == "evt_310" {
			return errors.New("the provider answered 502 six times")
		}
		return nil
	}
	r := w.run(reconcile.Options{})
	golden(t, "report_incomplete", r)
	if after := r.Streams[0].Watermark.After; after == nil || !after.Equal(w.watermark()) {
		t.Errorf("watermark after: got %v, want what is stored, %s", after, w.watermark())
	}
}

func TestReportOfReplaysThatTheGateHolds(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		w.provider.emit(fmt.Sprintf("evt_%02d", i), "invoice.paid", ago(i+1))
	}
	r := w.run(reconcile.Options{})
	golden(t, "report_held", r)
	if r.Gate.Open || r.Gate.Why == nil {
		t.Errorf("gate: open %v, why %v; want shut, with a reason", r.Gate.Open, r.Gate.Why)
	}
}

func TestReportInModeReportTellsHowToRepair(t *testing.T) {
	w := newWorld(t)
	w.source.Repair = false
	for i := range 30 {
		e := w.provider.emit(fmt.Sprintf("evt_%02d", i), "invoice.paid", ago(i+1))
		if i > 1 {
			w.app.handle(e.Event, "done", e.Created)
		}
	}
	golden(t, "report_mode_report", w.run(reconcile.Options{}))
}

func TestReportOfNothingToJudge(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	short := time.Duration(0)
	w.source.Window.Overlap = &short
	r := w.run(reconcile.Options{})
	golden(t, "report_nothing_to_judge", r)
	if r.Streams[0].ProcessedRatio != nil {
		t.Errorf("processed ratio of nothing: got %v, want null", *r.Streams[0].ProcessedRatio)
	}
}

func TestReportOfASourceThatCouldNotBegin(t *testing.T) {
	w := newWorld(t)
	r := reconcile.Unopened(t.Context(), w.store, "shop", "scripted",
		"databases.app.url: connecting to Postgres on db: no answer within 15s", false, reconcile.Options{Now: func() time.Time { return epoch }})
	runs, err := w.store.Runs(t.Context(), "shop", 1)
	if err != nil || len(runs) != 1 || runs[0].ID != r.Run.ID || runs[0].Outcome != store.Failed {
		t.Errorf("stored runs: got %+v (%v), want this one, failed", runs, err)
	}
	golden(t, "report_unopened", r)
}

func TestADocumentIsWholeWithoutSources(t *testing.T) {
	skipped := []reconcile.SkippedSource{{Source: "shop", Why: "run run_1 on host, process 1"}}
	for _, d := range []*reconcile.Document{reconcile.NewDocument(nil, nil, false), reconcile.NewDocument(nil, skipped, false)} {
		text := valid(t, d)
		var lists struct{ Sources, Skipped, Alerts []json.RawMessage }
		if err := json.Unmarshal(text, &lists); err != nil {
			t.Fatal(err)
		}
		if lists.Sources == nil || lists.Skipped == nil || lists.Alerts == nil {
			t.Errorf("a list is null in %s", text)
		}
	}
	if d := reconcile.NewDocument(nil, skipped, false); d.ExitCode != reconcile.ExitSkipped || d.Outcome != reconcile.Skipped {
		t.Errorf("only skipped sources: exit %d, %s; want %d, %s", d.ExitCode, d.Outcome, reconcile.ExitSkipped, reconcile.Skipped)
	}
}

func TestAReportHoldsNoPayloadAndNoAnswer(t *testing.T) {
	w := newWorld(t)
	e := w.provider.emit("evt_1", "invoice.paid", ago(3))
	e.Payload = []byte(`{"id":"evt_1","note":"payload-marker"}`)
	w.app.behave = func(string) behaviour {
		return behaviour{skip: true, result: replay.Result{Outcome: replay.Rejected, Status: 422, Why: "the endpoint refused it with 422",
			Snippet: "cannot take payload-marker"}}
	}
	d := reconcile.NewDocument([]*reconcile.Report{w.run(reconcile.Options{})}, nil, false)
	for name, text := range map[string][]byte{"json": valid(t, d), "text": textOf(t, d, reconcile.TextOptions{})} {
		if bytes.Contains(text, []byte("payload-marker")) {
			t.Errorf("%s: a payload is in\n%s", name, text)
		}
		if !bytes.Contains(text, []byte("422")) {
			t.Errorf("%s: the status of the attempt is not in\n%s", name, text)
		}
	}
}

func TestAStoredReportReadsAsItDidWhenItWasWritten(t *testing.T) {
	w := everyClass(t)
	w.earlierNights()
	w.everything()
	now := reconcile.NewDocument([]*reconcile.Report{w.run(reconcile.Options{})}, nil, false)
	row, err := w.store.Report(t.Context(), "shop", "")
	if err != nil {
		t.Fatal(err)
	}
	var r reconcile.Report
	if err := json.Unmarshal(row.Report, &r); err != nil {
		t.Fatal(err)
	}
	later := reconcile.NewDocument([]*reconcile.Report{&r}, nil, false)
	for name, texts := range map[string][2][]byte{
		"json": {valid(t, later), valid(t, now)},
		"text": {textOf(t, later, reconcile.TextOptions{}), textOf(t, now, reconcile.TextOptions{})},
	} {
		if !bytes.Equal(texts[0], texts[1]) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, texts[0], texts[1])
		}
	}
}

func TestRequestsAreThoseOfTheRunAlone(t *testing.T) {
	w := newWorld(t)
	made := map[int]int{200: 7, 429: 2}
	w.source.Requests = func() map[int]int { return map[int]int{200: made[200] + len(w.provider.requests), 429: made[429]} }
	r := w.run(reconcile.Options{})
	if want := []reconcile.RequestCount{{Status: 200, Count: len(w.provider.requests)}}; !slices.Equal(r.Coverage.Requests, want) {
		t.Errorf("requests: got %v, want %v", r.Coverage.Requests, want)
	}
}

func TestTheSummaryIsNoWiderThanAsked(t *testing.T) {
	w := everyClass(t)
	w.earlierNights()
	w.everything()
	d := reconcile.NewDocument([]*reconcile.Report{w.run(reconcile.Options{})}, nil, false)
	for _, width := range []int{0, 40, 80, 120} {
		for line := range strings.Lines(string(textOf(t, d, reconcile.TextOptions{Width: width}))) {
			line = strings.TrimSuffix(line, "\n")
			limit := width
			if limit == 0 {
				limit = 80
			}
			command := strings.HasPrefix(strings.TrimSpace(line), "nightaudit ")
			if got := utf8.RuneCountInString(line); got > limit && !command {
				t.Errorf("width %d: a line of %d columns: %q", width, got, line)
			}
		}
	}
	plain := textOf(t, d, reconcile.TextOptions{})
	colored := textOf(t, d, reconcile.TextOptions{Color: true})
	if bytes.Contains(plain, []byte("\x1b")) || !bytes.Contains(colored, []byte("\x1b[1;31m")) {
		t.Errorf("colour: in the plain text %v, in the coloured one %v; want only there", bytes.Contains(plain, []byte("\x1b")), bytes.Contains(colored, []byte("\x1b[1;31m")))
	}
	if got := withoutColor(string(colored)); got != string(plain) {
		t.Errorf("colour adds to the words:\n%s", got)
	}
}

func withoutColor(s string) string {
	for _, code := range []string{"0", "1", "1;31", "1;32", "1;33"} {
		s = strings.ReplaceAll(s, "\x1b["+code+"m", "")
	}
	return s
}

func TestWhatCannotBeShownIsOneLine(t *testing.T) {
	r := reconcile.Unopened(t.Context(), newWorld(t).store, "shop", "stripe", "why", false, reconcile.Options{})
	r.CannotShow = []string{"which delivery attempts were made and how they ended: the API has no delivery log, only a count", "events older than 30 days"}
	text := string(textOf(t, reconcile.NewDocument([]*reconcile.Report{r}, nil, false), reconcile.TextOptions{}))
	if want := "\n  stripe cannot show: which delivery attempts were made and how they ended ...\n"; !strings.HasSuffix(text, want) {
		t.Errorf("got %q, want it to end with %q", text, want)
	}
}

func TestTheSummaryDoesNotObeyWhatIdsSay(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_\x1b[2J\r\u202e1", "invoice.paid\x07", ago(3))
	w.source.Repair = false
	d := reconcile.NewDocument([]*reconcile.Report{w.run(reconcile.Options{})}, nil, false)
	if text := textOf(t, d, reconcile.TextOptions{}); bytes.ContainsAny(text, "\x1b\r\x07\u202e") {
		t.Errorf("a control character is in %q", text)
	}
}

func TestTimesOfTheSummaryAreOfTheZone(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	r := w.run(reconcile.Options{})
	zone := time.FixedZone("CET", 3600)
	text := string(textOf(t, reconcile.NewDocument([]*reconcile.Report{r}, nil, false), reconcile.TextOptions{Zone: zone}))
	if want := "to 2026-01-01 00:50 CET"; !strings.Contains(text, want) {
		t.Errorf("got %q, want it to contain %q", text, want)
	}
}

func TestTheWorstSourceDecides(t *testing.T) {
	report := func(o store.Outcome, findings ...reconcile.FindingReport) *reconcile.Report {
		return &reconcile.Report{Run: reconcile.RunReport{Outcome: o}, Findings: findings}
	}
	open := reconcile.FindingReport{State: "open", Scope: store.ScopeEvent, Kind: store.MissingEvent}
	parked := open
	parked.Replay = &reconcile.ReplayOfEvent{State: store.ReplayParked}
	for _, c := range []struct {
		name    string
		reports []*reconcile.Report
		zero    bool
		exit    int
		outcome store.Outcome
	}{
		{"nothing to judge beside in sync", []*reconcile.Report{report(store.NothingToJudge), report(store.InSync)}, false, 0, store.InSync},
		{"repaired beside in sync", []*reconcile.Report{report(store.InSync), report(store.AllRepaired)}, false, 0, store.AllRepaired},
		{"drift beside repaired", []*reconcile.Report{report(store.AllRepaired), report(store.DriftRemains, open)}, false, 2, store.DriftRemains},
		{"drift that may still be repaired, mapped to zero", []*reconcile.Report{report(store.DriftRemains, open)}, true, 0, store.DriftRemains},
		{"what was given up is never mapped to zero", []*reconcile.Report{report(store.DriftRemains, parked)}, true, 2, store.DriftRemains},
		{"incomplete beats interrupted and drift", []*reconcile.Report{report(store.DriftRemains, open), report(store.Interrupted), report(store.Incomplete)}, false, 1, store.Incomplete},
		{"interrupted beats drift", []*reconcile.Report{report(store.DriftRemains, open), report(store.Interrupted)}, false, 5, store.Interrupted},
		{"failed beats held", []*reconcile.Report{report(store.HeldBack), report(store.Failed)}, false, 1, store.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := reconcile.NewDocument(c.reports, nil, c.zero)
			if d.ExitCode != c.exit || d.Outcome != c.outcome {
				t.Errorf("exit %d, outcome %s; want %d, %s", d.ExitCode, d.Outcome, c.exit, c.outcome)
			}
		})
	}
}
