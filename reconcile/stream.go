package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// stream takes one stream through the night. What goes wrong with it makes it
// incomplete, and the others go on; an error ends the run.
func (r *run) stream(ctx context.Context, s providers.Stream) error {
	sr := r.report.stream(s)
	err := r.compare(ctx, s, sr)
	if err == nil {
		return r.unseen(ctx, s.Name, store.CredentialsRejected)
	}
	var usage *UsageError
	if errors.As(err, &usage) || errors.Is(err, store.ErrLeaseLost) {
		return err
	}
	if stopped := context.Cause(ctx); stopped != nil {
		sr.note("told to stop while it was listed")
		return stopped
	}
	sr.note(r.redact(err.Error()))
	r.log.WarnContext(ctx, "stream incomplete", "stream", s.Name, "err", r.redact(err.Error()))
	return r.noteRejection(ctx, s.Name, err)
}

// compare lists what happened in a stream since its watermark and compares it
// with the ledger. The watermark moves with each sub-window, after what was
// found in it is stored.
func (r *run) compare(ctx context.Context, s providers.Stream, sr *StreamReport) error {
	x, err := r.expectation(ctx, s)
	if err != nil {
		return err
	}
	p, err := r.plan(ctx, s, sr)
	if err != nil || p.window.Empty() {
		return err
	}
	if !x.known() {
		return errors.New("nothing says which events to expect: the provider shows no endpoint with a URL of the config's endpoints " +
			"and events.include names none; correct the URL (or public_url), or name the events")
	}
	if err := r.fresh(ctx, s); err != nil {
		return err
	}
	c := newComparison(r, s, sr, x, p)
	if err := c.list(ctx, p.window); err != nil {
		return err
	}
	if c.memory != nil && !c.memory.spilled {
		r.memories = append(r.memories, c.memory)
	}
	if err := r.reread(ctx, s, c.rules); err != nil {
		return err
	}
	if err := r.unlisted(ctx, s, x, p, sr); err != nil {
		return err
	}
	return r.close(ctx, s, p)
}

// plan says what to do with a stream, and stores that it is new or has a gap.
func (r *run) plan(ctx context.Context, s providers.Stream, sr *StreamReport) (plan, error) {
	remembered, err := r.store.Stream(ctx, r.source.Name, s.Name)
	if err != nil {
		return plan{}, err
	}
	p, err := planStream(planning{
		stream: s, remembered: remembered, keeps: r.source.Keeps, include: r.source.Events.patterns(),
		hand: r.options.Hand, since: r.options.Since, until: r.options.Until, now: r.now(), host: r.options.Now().UTC(),
	})
	if err != nil {
		return plan{}, err
	}
	if r.blind(s) {
		p.moves, p.include = false, nil
	}
	sr.planned(p, remembered)
	return p, r.begin(ctx, s, p)
}

// blind reports whether a stream's endpoints could not be read though they alone
// say what to expect: what was subscribed since the last look is not known then,
// and must be judged again.
func (r *run) blind(s providers.Stream) bool {
	_, shows := r.source.Provider.(providers.Endpoints)
	_, looked := r.looks[s.Name]
	return shows && !looked && len(r.source.Events.Include) == 0
}

// expectation is what should be in the ledger, by all looks at the endpoints.
func (r *run) expectation(ctx context.Context, s providers.Stream) (expectation, error) {
	looks, err := r.store.Looks(ctx, r.source.Name, s.Name)
	if err != nil {
		return expectation{}, err
	}
	if seen, looked := r.looks[s.Name]; looked && r.options.DryRun {
		looks = append(looks, store.Look{Endpoints: seen, FirstAt: r.now(), LastAt: r.now()})
	}
	return expect(r.source.Events, looks, r.targets(s)), nil
}

// begin stores a new stream, or the gap that an old one has come to. A dry run
// only reports the gap.
func (r *run) begin(ctx context.Context, s providers.Stream, p plan) error {
	switch {
	case p.gap != nil && r.options.DryRun:
		return r.see(ctx, r.gapFinding(s, *p.gap))
	case p.gap != nil:
		return r.lease.CommitGap(ctx, s.Name, p.gap.To, r.gapFinding(s, *p.gap))
	case p.create != nil && !r.options.DryRun:
		return r.lease.CreateStream(ctx, s.Name, *p.create)
	default:
		return nil
	}
}

func (r *run) gapFinding(s providers.Stream, gap providers.Window) store.Finding {
	from, to := gap.From.Format(time.RFC3339), gap.To.Format(time.RFC3339)
	f := store.NewFinding(r.source.Name, s.Name, r.row.ID, store.ScopeSource, store.CoverageGap, from+"/"+to)
	f.Cause = store.PastRetention
	f.Detail = fmt.Sprintf("what happened from %s to %s can no longer be compared: the provider or the ledger does not reach back that far; "+
		"compare the objects themselves, then acknowledge this", from, to)
	return f
}

// fresh refuses a ledger on a replica that is further behind than events settle:
// what it does not show yet would seem missing.
func (r *run) fresh(ctx context.Context, s providers.Stream) error {
	lag, err := r.source.Ledger.Lag(ctx)
	if err != nil {
		return err
	}
	if lag > s.Feed.Settle {
		return fmt.Errorf("the ledger's database is a replica %s behind its primary, more than window.settle (%s); "+
			"wait for it to catch up, raise window.settle, or name the primary", lag.Round(time.Second), span(s.Feed.Settle))
	}
	return nil
}

// close ends a stream that was fully listed.
func (r *run) close(ctx context.Context, s providers.Stream, p plan) error {
	if r.options.DryRun || p.include == nil {
		return nil
	}
	return r.lease.SetInclude(ctx, s.Name, p.include)
}

// targets are the URLs that events of a stream go to.
func (r *run) targets(s providers.Stream) []replay.Target {
	return slices.DeleteFunc(slices.Clone(r.source.Targets), func(t replay.Target) bool { return !t.Takes(s.Account) })
}
