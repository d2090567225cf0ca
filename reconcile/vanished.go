package reconcile

import (
	"context"
	"slices"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// notListed is the key of the gap that a stream leaves when it is there no more.
const notListed = "not listed any more"

// vanished reports the streams that were compared before and that the provider
// or the config offers no more: what happens in them is no longer seen. One that
// comes back goes on from its watermark.
func (r *run) vanished(ctx context.Context, streams []providers.Stream) error {
	known, err := r.store.StreamNames(ctx, r.source.Name)
	if err != nil {
		return err
	}
	offered := func(name string) bool {
		return slices.ContainsFunc(streams, func(s providers.Stream) bool { return s.Name == name })
	}
	for _, name := range known {
		if offered(name) {
			continue
		}
		f := store.NewFinding(r.source.Name, name, r.row.ID, store.ScopeSource, store.CoverageGap, notListed)
		f.Detail = "stream " + name + " was compared before and is offered no more: the account was disconnected, the config names it " +
			"no longer, or the credentials do not show it; if that is as it should be, acknowledge this"
		if err := r.see(ctx, f); err != nil {
			return err
		}
	}
	return r.returned(ctx, offered)
}

// returned closes the gaps of streams that are offered again.
func (r *run) returned(ctx context.Context, offered func(string) bool) error {
	if r.options.DryRun {
		return nil
	}
	open, err := r.store.Findings(ctx, store.FindingFilter{Source: r.source.Name, Kind: store.CoverageGap})
	if err != nil {
		return err
	}
	for _, f := range open {
		if f.Key == notListed && offered(f.Stream) {
			if err := r.lease.Dismiss(ctx, f.ID, "the stream is offered again"); err != nil {
				return err
			}
		}
	}
	return nil
}
