package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/store"
)

func newAlerts(g *globals) *cobra.Command {
	alerts := &cobra.Command{
		Use: "alerts", Short: "Acknowledge what a person has looked at", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	alerts.AddCommand(&cobra.Command{
		Use:   "ack ID",
		Short: "Acknowledge a finding about an endpoint or a source",
		Long: "Acknowledge closes a finding about an endpoint or a source (see nightaudit findings) until it says\n" +
			"something else. Drift of an event is closed by its repair alone.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := g.reader(ctx, "")
			if err != nil {
				return err
			}
			defer s.close(ctx)
			if err := acknowledge(ctx, s.store, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintln(g.edge.stdout(), "acknowledged", args[0])
			return err
		},
	})
	return alerts
}

// acknowledge closes a finding, or says why that one cannot be closed.
func acknowledge(ctx context.Context, st *store.Store, id string) error {
	found, err := st.Findings(ctx, store.FindingFilter{IDs: []string{id}, Closed: true})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("acknowledging %s: no finding has this id; nightaudit findings --all lists them", id)
	}
	switch f := found[0]; {
	case !f.Open:
		return fmt.Errorf("acknowledging %s: it is closed already (%s); nothing is left to do", id, f.Resolution)
	case f.Scope == store.ScopeEvent && f.Kind != store.UnreadableEvent && f.Kind != store.Unreplayable:
		return fmt.Errorf("acknowledging %s: it is the %s of %s, and drift of an event is closed by its repair alone; "+
			"see nightaudit findings for where its replay stands", id, f.Kind, f.Key)
	}
	return st.Acknowledge(ctx, id)
}
