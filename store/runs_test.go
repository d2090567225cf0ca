package store_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nightaudit/nightaudit/store"
)

func TestARunThatNeverSaidHowItEndedCrashed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.run.RunID()
	f.newRun()
	runs, err := f.store.Runs(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "runs, newest first", []any{runs[0].ID, runs[0].Outcome, runs[1].ID, runs[1].Outcome, runs[1].FinishedAt != nil},
		[]any{f.run.RunID(), store.Running, first, store.Crashed, true})
}

func TestARunEndsOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, o := range []store.Outcome{store.InSync, store.Failed} {
		if err := f.run.FinishRun(t.Context(), f.run.RunID(), o, json.RawMessage(`{"outcome":"`+string(o)+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := f.store.Report(t.Context(), "", f.run.RunID())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "outcome and report", []any{r.Outcome, string(r.Report)}, []any{store.InSync, `{"outcome":"in_sync"}`})
}

func TestARunMayEndWithoutAReport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.run.FinishRun(t.Context(), f.run.RunID(), store.Failed, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{f.run.RunID(), "run_none", ""} {
		if _, err := f.store.Report(t.Context(), "shop", id); !errors.Is(err, store.ErrNoReport) {
			t.Errorf("report of %q: got %v, want ErrNoReport", id, err)
		}
	}
}

func TestTheNewestReportIsOfTheSourceAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, report := range []string{`{"night":1}`, `{"night":2}`} {
		f.newRun()
		if err := f.run.FinishRun(t.Context(), f.run.RunID(), store.InSync, json.RawMessage(report)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := f.store.Report(t.Context(), "shop", "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "report", string(r.Report), `{"night":2}`)
	if _, err := f.store.Report(t.Context(), "other", ""); !errors.Is(err, store.ErrNoReport) {
		t.Errorf("report of another source: got %v, want ErrNoReport", err)
	}
	runs, err := f.store.Runs(t.Context(), "other", 10)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "runs of another source", len(runs), 0)
}

func TestTheStatesOfWhatARunListedAddUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("repaired", 1, ""), missing("queued", 2, ""), stuck("rejected", 3))
	f.record(unreplayable("never", 4), late("late", 5))
	f.settle("repaired", store.ReplayRepaired)
	f.settle("rejected", store.ReplayRejected)
	states, err := f.store.ListedStates(t.Context(), f.run.RunID())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "states", states[stream], map[string]int{"repaired": 1, "queued": 1, "rejected": 1, "unreplayable": 1})
}
