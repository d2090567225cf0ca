package reconcile

import (
	"context"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// reread asks the provider once more for the events of a stream that could not
// be decoded when they were listed: what can be read now is compared like any
// other. What still cannot stays as it is.
func (r *run) reread(ctx context.Context, s providers.Stream, x rules) error {
	reader, reads := r.source.Provider.(providers.EventReader)
	if !reads || r.options.DryRun {
		return nil
	}
	open, err := r.store.Findings(ctx, store.FindingFilter{Source: r.source.Name, Kind: store.UnreadableEvent, Limit: maxLookups})
	if err != nil {
		return err
	}
	for _, f := range open {
		if f.Stream != s.Name || f.EventID == "" {
			continue
		}
		e, presence, err := reader.Event(ctx, s, f.EventID)
		if err != nil {
			if stopped := context.Cause(ctx); stopped != nil {
				return stopped
			}
			r.log.InfoContext(ctx, "event still unreadable", "stream", s.Name, "event_id", f.EventID, "err", r.redact(err.Error()))
			continue
		}
		if presence == providers.Live && e.Key == f.Key {
			if err := r.readAtLast(ctx, s, x, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAtLast compares an event that was listed as unreadable before. What was
// not expected or is done by now is closed.
func (r *run) readAtLast(ctx context.Context, s providers.Stream, x rules, e providers.Event) error {
	if _, bad := unfit(e); bad {
		return nil
	}
	id := store.FindingID(r.source.Name, s.Name, store.ScopeEvent, store.UnreadableEvent, e.Key)
	if why, ignored := x.ignored(e); ignored {
		return r.lease.Dismiss(ctx, id, "read at last, and not expected: "+string(why))
	}
	entries, err := r.source.Ledger.Ask(ctx, []providers.Event{e})
	if err != nil {
		return err
	}
	j := x.judge(e, entries[0])
	switch j.class {
	case store.Done:
		return r.lease.Heal(ctx, []string{id})
	case store.Late:
		return nil // a later run sees what became of it
	}
	j.drift.Reread = true
	_, err = r.lease.Record(ctx, s.Name, []store.Drift{j.drift})
	return err
}
