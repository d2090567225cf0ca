package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/store"
)

type findingsOptions struct {
	source, kind, output string
	all                  bool
	limit                int
}

func newFindings(g *globals) *cobra.Command {
	var o findingsOptions
	c := &cobra.Command{
		Use: "findings", Short: "List what is open", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFindings(cmd.Context(), g, o) },
	}
	c.Flags().StringVar(&o.source, "source", "", "only of this source")
	c.Flags().StringVar(&o.kind, "kind", "", "only of this kind: missing_event, stuck_event, endpoint_disabled, ...")
	c.Flags().BoolVar(&o.all, "all", false, "closed ones too")
	c.Flags().IntVar(&o.limit, "limit", 200, "how many; 0 is all")
	c.Flags().StringVar(&o.output, "output", "text", "text or json")
	return c
}

// check refuses a kind that there is not: nothing of it is ever open.
func (o findingsOptions) check() error {
	if kinds := store.Kinds(); o.kind != "" && !slices.Contains(kinds, store.Kind(o.kind)) {
		return &usageError{fmt.Errorf("--kind %q: there is no such kind of finding; there are %s", o.kind, joined(kinds))}
	}
	if err := checkLimit(o.limit); err != nil {
		return err
	}
	return checkOutput(o.output)
}

func joined(kinds []store.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

func runFindings(ctx context.Context, g *globals, o findingsOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := g.reader(ctx, o.source)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	found, err := s.store.Findings(ctx, store.FindingFilter{Source: o.source, Kind: store.Kind(o.kind), Closed: o.all})
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, byKindAndTime)
	all := len(found)
	if o.limit > 0 {
		found = found[:min(o.limit, all)]
	}
	replays, err := s.store.NewestReplays(ctx, findingIDs(found))
	if err != nil {
		return err
	}
	shown := make([]findingShown, len(found))
	for i, f := range found {
		shown[i] = showFinding(f, replays)
	}
	if o.output == "json" {
		return writeJSON(g.edge.stdout(), shown)
	}
	return writeFindings(g.edge.stdout(), shown, all, s.config.Timezone)
}

// byKindAndTime orders findings as a person reads them: kind by kind, and of one
// kind the oldest event first. What has no event goes by when it was first seen.
func byKindAndTime(a, b store.Finding) int {
	kinds := store.Kinds()
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), when(a).Compare(when(b)),
		strings.Compare(a.ID, b.ID))
}

func when(f store.Finding) time.Time {
	if f.EventCreated != nil {
		return *f.EventCreated
	}
	return f.FirstSeenAt
}

func findingIDs(found []store.Finding) []string {
	ids := make([]string, len(found))
	for i, f := range found {
		ids[i] = f.ID
	}
	return ids
}
