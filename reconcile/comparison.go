package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/store"
)

// A comparison is the listing of one stream on its way through the ledger. It is
// the listing's Sink.
type comparison struct {
	run    *run
	stream providers.Stream
	report *StreamReport
	rules  rules
	moves  bool // the watermark

	waiting []listed // not yet compared
	events  int      // in them
	open    map[*listing.Part]*subWindow
	closed  []*subWindow // oldest first, not committed yet: empty ones, until something was listed
	any     bool         // whether anything was listed

	memory *memory     // nil if nothing will be drained
	ledger *ledgerOnly // nil if the provider cannot be asked for single events
}

// A subWindow is a part of the window with its books: it is closed, and the
// watermark moves over it, once all of it is compared.
type subWindow struct {
	window providers.Window // final when it is closed
	counts store.Counts
	work   store.Work
	keys   []uint64 // of its events; see ledgerOnly
}

// listed is a page of a sub-window.
type listed struct {
	in *subWindow
	listing.Page
}

func newComparison(r *run, s providers.Stream, sr *StreamReport, x expectation, p plan) *comparison {
	deliverer, _ := r.source.Provider.(providers.Deliverer)
	c := &comparison{run: r, stream: s, report: sr, moves: p.moves, open: make(map[*listing.Part]*subWindow),
		rules: rules{expect: x, deliverer: deliverer, stuckAfter: r.source.StuckAfter, now: r.now()},
	}
	if _, reads := r.source.Provider.(providers.EventReader); reads {
		c.ledger = &ledgerOnly{from: p.window.From.Add(s.Feed.Overlap)}
	}
	if r.row.Mode == modeRepair || r.options.Release {
		c.memory = newMemory(s.Name, p.window)
	}
	return c
}

// list lists and compares a window. What is compared is stored as it goes, also
// if the listing then comes to no end.
func (c *comparison) list(ctx context.Context, w providers.Window) error {
	feed, ok := c.run.source.Provider.(providers.EventFeed)
	if !ok {
		return errors.New("the provider has no event list")
	}
	before := c.run.pages
	seen, err := listing.Walk(ctx, feed, c.stream, w, c.run.source.Listing, c)
	c.run.pages = before + seen.Pages
	c.report.saw(seen)
	var cutShort *listing.Incomplete
	if err == nil || errors.As(err, &cutShort) {
		if stored := c.rest(ctx); stored != nil {
			err = stored
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("%d compared, %w", c.report.Listed, err)
	case !c.any:
		return c.empty(ctx)
	default:
		return c.run.unseen(ctx, c.stream.Name, store.SuspiciousEmpty)
	}
}

// rest compares what no full batch was made of, and looks at the rows of the
// ledger that belong to what was closed.
func (c *comparison) rest(ctx context.Context) error {
	if err := c.flush(ctx); err != nil {
		return err
	}
	return c.unknown(ctx)
}

// compareBatch is how many listed events are compared at once: enough for the
// ledger to answer fast, few enough that their payloads cost little memory.
const compareBatch = 2000

// Page takes in a page of a part. It implements listing.Sink.
func (c *comparison) Page(ctx context.Context, p *listing.Part, page listing.Page) error {
	sub := c.subWindow(p)
	for _, e := range page.Events {
		c.ledger.note(sub, e.Key)
	}
	for _, u := range page.Unreadable {
		c.ledger.note(sub, listing.UnreadableKey(u))
	}
	c.waiting = append(c.waiting, listed{sub, page})
	c.events += len(page.Events)
	c.tell(page.Progress)
	if c.events < compareBatch {
		return nil
	}
	return c.flush(ctx)
}

func (c *comparison) subWindow(p *listing.Part) *subWindow {
	sub, known := c.open[p]
	if !known {
		sub = &subWindow{}
		c.open[p] = sub
	}
	return sub
}

// Close closes a part as a sub-window. Empty ones are closed once something was
// listed: an empty answer where there was always traffic proves nothing. It
// implements listing.Sink.
func (c *comparison) Close(ctx context.Context, p *listing.Part) error {
	sub := c.subWindow(p)
	delete(c.open, p)
	sub.window = p.Window
	if slices.ContainsFunc(c.waiting, func(l listed) bool { return l.in == sub || len(l.Unreadable) > 0 }) {
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	c.ledger.add(sub)
	c.closed = append(c.closed, sub)
	c.any = c.any || sub.counts.Listed > 0
	if c.any {
		if err := c.commit(ctx); err != nil {
			return err
		}
	}
	if !c.ledger.full() {
		return nil
	}
	return c.unknown(ctx)
}

// commit closes the sub-windows that wait for it.
func (c *comparison) commit(ctx context.Context) error {
	for _, sub := range c.closed {
		if err := c.commitOne(ctx, sub); err != nil {
			return err
		}
	}
	c.closed = nil
	return nil
}

func (c *comparison) commitOne(ctx context.Context, sub *subWindow) error {
	c.report.SubWindows++
	switch lease := c.run.lease; {
	case c.run.options.DryRun:
		return nil
	case c.moves:
		return lease.CommitWindow(ctx, c.stream.Name, sub.window, sub.counts, sub.work)
	default:
		return lease.CommitAside(ctx, c.stream.Name, sub.window, sub.counts, sub.work)
	}
}

// flush compares what is listed and not yet compared, and stores what is found.
func (c *comparison) flush(ctx context.Context) error {
	shown := make(map[*subWindow]*verdicts)
	ask, of := c.expected(shown)
	c.waiting, c.events = nil, 0
	entries, err := c.run.source.Ledger.Ask(ctx, ask)
	if err != nil {
		return err
	}
	for i, e := range ask {
		j := c.rules.judge(e, entries[i])
		c.remember(e, j.class == store.Done)
		of[i].add(j)
	}
	for sub, v := range shown {
		if err := c.record(ctx, sub, v); err != nil {
			return err
		}
	}
	return nil
}

// expected gives the events that the ledger must be asked for, and whose verdicts
// they belong to. The others need no look at the ledger, and are shown already.
func (c *comparison) expected(shown map[*subWindow]*verdicts) (ask []providers.Event, of []*verdicts) {
	ask, of = make([]providers.Event, 0, c.events), make([]*verdicts, 0, c.events)
	for _, l := range c.waiting {
		v, known := shown[l.in]
		if !known {
			v = &verdicts{}
			shown[l.in] = v
		}
		for _, u := range l.Unreadable {
			v.add(unreadable(u))
		}
		for _, e := range l.Events {
			if u, bad := unfit(e); bad {
				v.add(unreadable(u))
			} else if why, ignored := c.rules.ignored(e); ignored {
				c.remember(e, false)
				v.ignore(e.Type, why)
			} else {
				ask, of = append(ask, e), append(of, v)
			}
		}
	}
	return ask, of
}

// verdicts are what a batch showed of one sub-window.
type verdicts struct {
	counts  store.Counts
	drifts  []store.Drift
	ignored map[IgnoredReport]int
}

func (v *verdicts) add(j judgement) {
	v.counts.Add(j.class)
	if j.class != store.Done {
		v.drifts = append(v.drifts, j.drift)
	}
}

func (v *verdicts) ignore(eventType string, why reason) {
	v.counts.Add(store.Ignored)
	if v.ignored == nil {
		v.ignored = make(map[IgnoredReport]int)
	}
	v.ignored[IgnoredReport{Type: eventType, Why: string(why)}]++
}

// remember keeps what was listed of a subject that carries state, for the drain.
func (c *comparison) remember(e providers.Event, done bool) {
	d := c.rules.deliverer
	if d != nil && e.Subject.ID != "" && d.Class(e.Type).CarriesState() {
		c.memory.see(e, done)
	}
}

// record stores what a batch showed of a sub-window and only then counts it.
func (c *comparison) record(ctx context.Context, sub *subWindow, v *verdicts) error {
	if c.run.options.DryRun {
		c.run.report.dryDrift(c.run, c.stream.Name, v.drifts)
	} else {
		work, err := c.run.lease.Record(ctx, c.stream.Name, v.drifts)
		if err != nil {
			return err
		}
		sub.work.Planned += work.Planned
		sub.work.Known += work.Known
	}
	sub.counts.AddAll(v.counts)
	c.report.AddAll(v.counts)
	for what, n := range v.ignored {
		c.report.ignored[what] += n
	}
	return nil
}
