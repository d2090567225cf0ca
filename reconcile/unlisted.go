package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

const (
	// maxLookups is how many events that only the ledger has are looked up in a
	// run and stream: each costs a request.
	maxLookups = 50
	// inBulk is from how many on they are one finding instead of many.
	inBulk = 20
)

// unknown notes what the ledger recorded in the sub-windows closed so far and the
// provider did not list; it is looked up when all is listed.
func (c *comparison) unknown(ctx context.Context) error {
	if c.ledger == nil {
		return nil
	}
	due := c.ledger.due()
	err := c.run.source.Ledger.Recorded(ctx, due, func(rec appdb.Recorded) error {
		key := cmp.Or(rec.Key, rec.ID)
		if key == "" || !c.ours(rec) || c.ledger.listed(key, rec.HandledAt) {
			return nil
		}
		c.report.UnlistedRows++
		if len(c.report.unknowns) < maxLookups {
			c.report.unknowns = append(c.report.unknowns, key)
		}
		return nil
	})
	c.ledger.checked(due)
	if errors.Is(err, appdb.ErrNotMapped) {
		return nil
	}
	return err
}

// ours reports whether a row of the ledger is of this stream, as far as it says.
func (c *comparison) ours(rec appdb.Recorded) bool {
	if rec.Livemode != nil && c.stream.Livemode != nil && *rec.Livemode != *c.stream.Livemode {
		return false
	}
	return rec.Account == c.stream.Account
}

// unlisted looks at what the ledger has and the provider did not list. Nothing
// of it is ever acted on.
func (r *run) unlisted(ctx context.Context, s providers.Stream, x expectation, p plan, sr *StreamReport) error {
	if s.Livemode != nil {
		n, err := r.source.Ledger.OtherMode(ctx, p.window, *s.Livemode)
		if err != nil {
			return err
		}
		sr.OtherModeRows = n
	}
	if err := r.unsubscribed(ctx, s, x, p.window); err != nil {
		return err
	}
	return r.unknownEvents(ctx, s, sr)
}

// unsubscribed reports the types that the ledger records and no endpoint
// subscribes to.
func (r *run) unsubscribed(ctx context.Context, s providers.Stream, x expectation, w providers.Window) error {
	if x.seen {
		types, err := r.source.Ledger.Types(ctx, w)
		if err != nil {
			return err
		}
		for _, t := range types {
			if strings.TrimSpace(t) == "" || x.filter.excludes(t) || x.subscribed(t, w.To) {
				continue
			}
			f := store.NewFinding(r.source.Name, s.Name, r.row.ID, store.ScopeEndpoint, store.EndpointUnsubscribed, t)
			f.EventType = t
			f.Detail = fmt.Sprintf("the ledger records %s and no endpoint subscribes to it; subscribe to it, or exclude it in the config", t)
			if err := r.see(ctx, f); err != nil {
				return err
			}
		}
	}
	return r.unseen(ctx, s.Name, store.EndpointUnsubscribed)
}

// unknownEvents looks up the events that only the ledger has: those that the
// provider does not know are reported, never acted on.
func (r *run) unknownEvents(ctx context.Context, s providers.Stream, sr *StreamReport) error {
	var absent []string
	for _, key := range sr.unknowns {
		known, err := r.knows(ctx, s, key)
		if err != nil {
			return fmt.Errorf("looking up event %s, which only the ledger has: %w", key, err)
		}
		sr.LookedUp++
		if !known {
			absent = append(absent, key)
		}
	}
	if len(absent) > inBulk {
		f := r.unknownEvent(s, "in bulk")
		f.Detail = fmt.Sprintf("the ledger has at least %d events that the provider does not know, %s and others: "+
			"most likely rows of another account; look at ledger.where", len(absent), absent[0])
		return r.see(ctx, f)
	}
	for _, key := range absent {
		f := r.unknownEvent(s, key)
		f.EventID = key
		f.Detail = "the ledger has it and the provider does not know it; nothing is done about it"
		if err := r.see(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) unknownEvent(s providers.Stream, key string) store.Finding {
	f := store.NewFinding(r.source.Name, s.Name, r.row.ID, store.ScopeSource, store.UnknownEvent, key)
	f.EventAccount = s.Account
	return f
}

// knows asks the provider for one event, in its stream and, where the ledger
// does not say the account, in the others.
func (r *run) knows(ctx context.Context, s providers.Stream, key string) (bool, error) {
	reader := r.source.Provider.(providers.EventReader)
	others := []providers.Stream{s}
	for name, other := range r.streams {
		if name != s.Name {
			others = append(others, other)
		}
	}
	for _, stream := range others {
		_, presence, err := reader.Event(ctx, stream, key)
		if err != nil || presence != providers.Absent {
			return true, err
		}
	}
	return false, nil
}
