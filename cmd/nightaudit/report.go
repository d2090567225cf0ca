package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

type reportOptions struct{ source, output string }

func newReport(g *globals) *cobra.Command {
	var o reportOptions
	c := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Show the report of a run, by default the newest",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			return runReport(cmd.Context(), g, o, id)
		},
	}
	c.Flags().StringVar(&o.source, "source", "", "the newest of this source")
	c.Flags().StringVar(&o.output, "output", "text", "text or json")
	return c
}

func runReport(ctx context.Context, g *globals, o reportOptions, id string) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	s, err := g.reader(ctx, o.source)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	row, err := s.store.Report(ctx, o.source, id)
	if errors.Is(err, store.ErrNoReport) && id != "" {
		return fmt.Errorf("run %s: %w", id, err)
	}
	if err != nil {
		return err
	}
	var report reconcile.Report
	if err := json.Unmarshal(row.Report, &report); err != nil {
		return fmt.Errorf("reading the report of run %s: %w", row.ID, err)
	}
	return show(g.edge, reconcile.NewDocument([]*reconcile.Report{&report}, nil, false), o.output, s.config.Timezone)
}
