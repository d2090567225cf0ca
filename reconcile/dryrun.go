package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nightaudit/nightaudit/store"
)

// maxDry is how many findings a dry run, which stores none, keeps for its report.
const maxDry = 10_000

// dryDrift keeps what a dry run found, for the report alone.
func (r *Report) dryDrift(run *run, stream string, drifts []store.Drift) {
	for _, d := range drifts {
		if len(r.dry) >= maxDry {
			r.dryMore++
			continue
		}
		r.dry = append(r.dry, store.NewDriftFinding(run.source.Name, stream, run.row.ID, d))
	}
}

// completeDry reports what a dry run would have stored, and what earlier runs
// left open: a dry run closes nothing either.
func (r *run) completeDry(ctx context.Context) error {
	found, err := r.foundDry(ctx)
	if err != nil {
		return err
	}
	if err := r.addFindings(ctx, found); err != nil {
		return err
	}
	if r.report.dryMore > 0 {
		r.report.Reasons = append(r.report.Reasons, fmt.Sprintf("%d findings more are not shown: a dry run keeps %d", r.report.dryMore, maxDry))
	}
	for _, sr := range r.report.Streams {
		sr.Balanced = sr.Counts.Balances()
	}
	return nil
}

// foundDry joins what a dry run found with what is stored, by id.
func (r *run) foundDry(ctx context.Context) ([]store.Finding, error) {
	open, err := r.store.Findings(ctx, store.FindingFilter{Source: r.source.Name})
	if err != nil {
		return nil, err
	}
	stored := make(map[string]store.Finding)
	for _, f := range open {
		if !r.report.healedDry[f.ID] {
			stored[f.ID] = f
		}
	}
	closed, err := r.closedBefore(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range r.report.dry {
		if _, known := stored[f.ID]; !known && !closed[f.ID] {
			f.FirstSeenAt, f.LastSeenAt = r.row.StartedAt, r.row.StartedAt
			stored[f.ID] = f
		}
	}
	return slices.SortedFunc(maps.Values(stored), func(a, b store.Finding) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// closedBefore says which of the findings of a dry run a real one would leave
// closed.
func (r *run) closedBefore(ctx context.Context) (map[string]bool, error) {
	closed := make(map[string]bool)
	if len(r.report.dry) == 0 {
		return closed, nil // no ids would stand for all findings
	}
	found, err := r.store.Findings(ctx, store.FindingFilter{Source: r.source.Name, Closed: true, IDs: findingIDs(r.report.dry)})
	for _, f := range found {
		closed[f.ID] = f.Resolution == store.SupersededBy || f.Resolution == store.Acknowledged
	}
	return closed, err
}
