package main

import (
	"context"
	"testing"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

func TestASignalBeforeASourcesTurnIsTold(t *testing.T) {
	run := func(outcome store.Outcome) *reconcile.Report {
		return &reconcile.Report{Source: "zero", Run: reconcile.RunReport{Outcome: outcome}}
	}
	for name, test := range map[string]struct {
		before  []*reconcile.Report // of the sources that had their turn
		code    int
		outcome store.Outcome
	}{
		"before the first source":             {nil, reconcile.ExitInterrupted, store.Interrupted},
		"after a source that was in sync":     {[]*reconcile.Report{run(store.InSync)}, reconcile.ExitInterrupted, store.Interrupted},
		"after a source that was incomplete":  {[]*reconcile.Report{run(store.Incomplete)}, reconcile.ExitIncomplete, store.Incomplete},
		"after a source that was interrupted": {[]*reconcile.Report{run(store.Interrupted)}, reconcile.ExitInterrupted, store.Interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			c := &config.Config{Sources: []config.Source{{Name: "one"}, {Name: "two"}}}
			n := &night{session: &session{config: c}, reports: test.before}
			n.sources(ctx, []int{0, 1})
			doc := n.document(false)
			if doc.ExitCode != test.code || doc.Outcome != test.outcome {
				t.Errorf("stopped %s: got exit code %d and outcome %s, want %d and %s", name, doc.ExitCode, doc.Outcome, test.code, test.outcome)
			}
			if len(doc.Skipped) != 2 || doc.Skipped[0].Source != "one" || doc.Skipped[1].Source != "two" {
				t.Errorf("stopped %s: got %+v skipped, want one and two", name, doc.Skipped)
			}
		})
	}
}
