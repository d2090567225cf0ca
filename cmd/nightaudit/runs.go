package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/store"
)

type runsOptions struct {
	source string
	limit  int
	output string
}

func newRuns(g *globals) *cobra.Command {
	var o runsOptions
	c := &cobra.Command{
		Use: "runs", Short: "List the newest runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRuns(cmd.Context(), g, o) },
	}
	c.Flags().StringVar(&o.source, "source", "", "only of this source")
	c.Flags().IntVar(&o.limit, "limit", 20, "how many; 0 is all")
	c.Flags().StringVar(&o.output, "output", "text", "text or json")
	return c
}

// A runShown is a run as --output json gives it.
type runShown struct {
	ID         string        `json:"id"`
	Source     string        `json:"source"`
	Cause      string        `json:"cause"`
	Mode       string        `json:"mode"`
	DryRun     bool          `json:"dry_run"`
	StartedAt  time.Time     `json:"started_at"`
	FinishedAt *time.Time    `json:"finished_at"`
	Outcome    store.Outcome `json:"outcome"`
	Host       string        `json:"host"`
}

func runRuns(ctx context.Context, g *globals, o runsOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if err := checkLimit(o.limit); err != nil {
		return err
	}
	s, err := g.reader(ctx, o.source)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	runs, err := s.store.Runs(ctx, o.source, o.limit)
	if err != nil {
		return err
	}
	if o.output == "json" {
		shown := make([]runShown, len(runs))
		for i, r := range runs {
			shown[i] = runShown{r.ID, r.Source, r.Cause, r.Mode, r.DryRun, r.StartedAt.UTC(), r.FinishedAt, r.Outcome, r.Host}
		}
		return writeJSON(g.edge.stdout(), shown)
	}
	if len(runs) == 0 {
		_, err := fmt.Fprintln(g.edge.stdout(), "no runs yet")
		return err
	}
	var rows []table.Row
	for _, r := range runs {
		rows = append(rows, table.Row{oneLine(r.ID), oneLine(r.Source), clock(r.StartedAt, s.config.Timezone), took(r), outcomeOf(r)})
	}
	writeTable(g.edge.stdout(), table.Row{"run", "source", "started", "took", "outcome"}, rows)
	return nil
}

func took(r store.Run) string {
	if r.FinishedAt == nil {
		return "-"
	}
	return r.FinishedAt.Sub(r.StartedAt).Round(100 * time.Millisecond).String()
}

func outcomeOf(r store.Run) string {
	if r.DryRun {
		return string(r.Outcome) + " (dry run)"
	}
	return string(r.Outcome)
}
