package reconcile

import (
	"context"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// recheckBatch is how many open findings are asked about at once.
const recheckBatch = 500

// recheck asks the ledger again about what earlier runs left open: what healed
// by itself is closed, and what was merely late and is so no more falls due. A
// ledger that cannot be asked leaves everything as it is.
func (r *run) recheck(ctx context.Context) error {
	after := ""
	for {
		open, err := r.store.OpenEvents(ctx, r.source.Name, after, recheckBatch)
		if err != nil || len(open) == 0 {
			return err
		}
		events := make([]providers.Event, len(open))
		for i, f := range open {
			events[i] = f.Event()
		}
		entries, err := r.source.Ledger.Ask(ctx, events)
		if err != nil {
			return r.notRechecked(ctx, err)
		}
		if err := r.storeRecheck(ctx, open, entries); err != nil {
			return err
		}
		after = open[len(open)-1].ID
	}
}

// storeRecheck stores what the ledger now says of open findings; a dry run only keeps
// in mind what healed.
func (r *run) storeRecheck(ctx context.Context, open []store.Finding, entries []appdb.Entry) error {
	healed, due := r.sortOpen(open, entries)
	if r.options.DryRun {
		for _, id := range healed {
			r.report.healedDry[id] = true
		}
		return nil
	}
	if err := r.lease.Heal(ctx, healed); err != nil {
		return err
	}
	return r.lease.FallDue(ctx, due)
}

// notRechecked notes that open findings were not asked about.
func (r *run) notRechecked(ctx context.Context, err error) error {
	if stopped := context.Cause(ctx); stopped != nil {
		return stopped
	}
	r.report.incomplete = true
	r.report.Reasons = append(r.report.Reasons, "open findings of earlier runs were not asked about: "+r.redact(err.Error()))
	return nil
}

// sortOpen gives the findings that healed, and those that fell due.
func (r *run) sortOpen(open []store.Finding, entries []appdb.Entry) (healed []string, due []store.Due) {
	deliverer, _ := r.source.Provider.(providers.Deliverer)
	x := rules{deliverer: deliverer, stuckAfter: r.source.StuckAfter, now: r.now()}
	for i, f := range open {
		switch {
		case entries[i].State == appdb.Done:
			healed = append(healed, f.ID)
		case f.DueAt != nil && !f.DueAt.After(x.now):
			j := x.overdue(f.Event())
			due = append(due, store.Due{Finding: f, Kind: j.drift.Kind, Cause: j.drift.Cause, Detail: j.drift.Detail,
				Replay: j.drift.Replay, Carry: j.drift.Carry})
		}
	}
	return healed, due
}
