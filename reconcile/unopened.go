package reconcile

import (
	"context"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// Unopened is the report of a source whose run could not even begin: its
// database was out of reach, or, with misuse, its config names what is not there.
// It is stored among the runs, so that the night is not missing; where that is
// not possible either, the report is all there is.
func Unopened(ctx context.Context, st *store.Store, source, provider, why string, misuse bool, o Options) *Report {
	o = o.withDefaults()
	row := store.Run{
		ID: store.NewID("run", time.Now()), Source: source, Cause: cause(o), Mode: modeReport, DryRun: o.DryRun,
		Host: holder(), Version: o.Version, StartedAt: o.Now(),
	}
	r := unopened(row, provider, why, misuse)
	if err := r.keep(ctx, st, row); err != nil {
		o.Log.WarnContext(ctx, "run not stored", "source", source, "err", err)
	}
	return r
}

func unopened(row store.Run, provider, why string, misuse bool) *Report {
	r := newReport(row, providers.Description{Kind: provider})
	r.Run.FinishedAt = row.StartedAt.UTC()
	r.misuse = misuse
	r.fail(why)
	r.conclude()
	return r
}

// keep stores a run that did nothing.
func (r *Report) keep(ctx context.Context, st *store.Store, row store.Run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	lease, err := st.Acquire(ctx, row.Source, store.RoleRun, row.Host, row.ID)
	if err != nil {
		return err
	}
	text, err := r.encode()
	if err == nil {
		err = lease.StartRun(ctx, &row)
	}
	if err == nil {
		err = lease.FinishRun(ctx, row.ID, r.Run.Outcome, text)
	}
	if released := lease.Release(ctx); err == nil {
		err = released
	}
	return err
}
