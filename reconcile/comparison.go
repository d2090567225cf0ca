package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/store"
)

// A comparison is the listing of one stream on its way through the ledger.
type comparison struct {
	run    *run
	stream providers.Stream
	report *StreamReport
	rules  rules
	moves  bool // the watermark

	waiting listing.Page // listed, not yet compared
	counts  store.Counts // of the sub-window
	work    store.Work

	memory   *memory
	listed   int                // in the whole window
	deferred []providers.Window // empty sub-windows that wait for one that is not
	known    [2]*listing.Seen   // of this sub-window and the one before
	unknowns []string           // keys that only the ledger has, to be looked up
}

func newComparison(r *run, s providers.Stream, sr *StreamReport, x expectation, p plan) *comparison {
	deliverer, _ := r.source.Provider.(providers.Deliverer)
	return &comparison{run: r, stream: s, report: sr, moves: p.moves,
		rules:  rules{expect: x, deliverer: deliverer, stuckAfter: r.source.StuckAfter, now: r.now()},
		memory: newMemory(s.Name, p.window),
	}
}

// parts lists and compares the sub-windows, oldest first. Empty ones are closed
// once something was listed: an empty answer where there was always traffic
// proves nothing.
func (c *comparison) parts(ctx context.Context, parts []providers.Window) error {
	for _, part := range parts {
		c.counts, c.work = store.Counts{}, store.Work{}
		if err := c.part(ctx, part); err != nil {
			return err
		}
		c.listed += c.counts.Listed
		if c.listed == 0 {
			c.deferred = append(c.deferred, part)
			continue
		}
		if err := c.commitDeferred(ctx); err != nil {
			return err
		}
		if err := c.commit(ctx, part, c.counts, c.work); err != nil {
			return err
		}
	}
	if c.listed == 0 {
		return c.empty(ctx)
	}
	return c.run.unseen(ctx, c.stream.Name, store.SuspiciousEmpty)
}

func (c *comparison) commitDeferred(ctx context.Context) error {
	for _, part := range c.deferred {
		if err := c.commit(ctx, part, store.Counts{}, store.Work{}); err != nil {
			return err
		}
	}
	c.deferred = nil
	return nil
}

func (c *comparison) commit(ctx context.Context, part providers.Window, counts store.Counts, work store.Work) error {
	c.report.SubWindows++
	if c.run.options.DryRun {
		return nil
	}
	if !c.moves {
		return c.run.lease.CommitAside(ctx, c.stream.Name, part, counts, work)
	}
	return c.run.lease.CommitWindow(ctx, c.stream.Name, part, counts, work)
}

// compareBatch is how many listed events are compared at once: enough for the
// ledger to answer fast, few enough that their payloads cost little memory.
const compareBatch = 500

// part lists and compares one sub-window. What is compared is stored as it
// goes; the sub-window itself is closed by the caller.
func (c *comparison) part(ctx context.Context, part providers.Window) error {
	feed, ok := c.run.source.Provider.(providers.EventFeed)
	if !ok {
		return errors.New("the provider has no event list")
	}
	before := c.run.pages
	seen, err := listing.Walk(ctx, feed, c.stream, part, func(p listing.Page, seen listing.Progress) error {
		c.run.pages = before + seen.Pages
		c.tell(part, seen)
		for _, e := range p.Events {
			if !c.known[0].Has(e.Key) { // one whose time changed was compared with the sub-window before
				c.waiting.Events = append(c.waiting.Events, e)
			}
		}
		c.waiting.Unreadable = append(c.waiting.Unreadable, p.Unreadable...)
		if len(c.waiting.Events)+len(c.waiting.Unreadable) < compareBatch {
			return nil
		}
		return c.flush(ctx)
	})
	var cutShort *listing.Incomplete
	if err == nil || errors.As(err, &cutShort) {
		if flushed := c.flush(ctx); flushed != nil {
			err = flushed
		}
	}
	c.report.saw(seen.Progress)
	if err != nil {
		return fmt.Errorf("%d compared, %w", c.report.Listed, err)
	}
	return c.unknown(ctx, part, seen)
}

// flush compares what is listed and not yet compared, and stores what is found.
func (c *comparison) flush(ctx context.Context) error {
	page := c.waiting
	c.waiting = listing.Page{}
	judged := make([]judgement, 0, len(page.Events)+len(page.Unreadable))
	ask := make([]providers.Event, 0, len(page.Events))
	for _, e := range page.Events {
		if u, bad := unfit(e); bad {
			judged = append(judged, unreadable(u))
		} else if why, ignored := c.rules.ignored(e); ignored {
			c.remember(e, false)
			judged = append(judged, judgement{class: store.Ignored, ignore: why, drift: store.Drift{Event: e}})
		} else {
			ask = append(ask, e)
		}
	}
	entries, err := c.run.source.Ledger.Ask(ctx, ask)
	if err != nil {
		return err
	}
	for i, e := range ask {
		j := c.rules.judge(e, entries[i])
		c.remember(e, j.class == store.Done)
		judged = append(judged, j)
	}
	for _, u := range page.Unreadable {
		judged = append(judged, unreadable(u))
	}
	return c.record(ctx, judged)
}

// remember keeps what was listed of a subject that carries state, for the drain.
func (c *comparison) remember(e providers.Event, done bool) {
	d := c.rules.deliverer
	if d != nil && e.Subject.ID != "" && d.Class(e.Type).CarriesState() {
		c.memory.see(e, done)
	}
}

// record stores one batch of judgements and only then counts them.
func (c *comparison) record(ctx context.Context, judged []judgement) error {
	var drifts []store.Drift
	for _, j := range judged {
		if j.class != store.Done && j.class != store.Ignored {
			drifts = append(drifts, j.drift)
		}
	}
	if c.run.options.DryRun {
		c.run.report.dryDrift(c.run, c.stream.Name, drifts)
	} else {
		work, err := c.run.lease.Record(ctx, c.stream.Name, drifts)
		if err != nil {
			return err
		}
		c.work.Planned += work.Planned
		c.work.Known += work.Known
	}
	for _, j := range judged {
		c.counts.Add(j.class)
		c.report.Add(j.class)
		if j.class == store.Ignored {
			c.report.ignore(j.drift.Event.Type, j.ignore)
		}
	}
	return nil
}
