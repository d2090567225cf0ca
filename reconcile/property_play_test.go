package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// judged is what a history is told to: a test, or a draw of rapid's.
type judged interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	FailNow()
	Failed() bool
}

// A play is a history that is being lived through.
type play struct {
	t        judged
	pool     *pgxpool.Pool
	now      time.Time
	newest   night // or the one that is lived through
	number   int   // of it, from 1
	calm     bool
	provider *guarded
	app      *memoryApp
	source   reconcile.Source
	events   map[string]*lived // by id
	order    []string          // ids as they were emitted

	watermark time.Time // zero until there is one
	begin     time.Time // the first watermark
	include   []string  // of the newest complete run by schedule; with listedBack
	scheduled bool      // there was one
	lost      []string  // events whose rows were lost with a restored database
}

// lived is an event with what the laws have to remember of it.
type lived struct {
	providers.Event
	emission
	visible time.Time
	night   int    // in which it was emitted
	clear   int    // from this night on it can be decoded
	passed  *night // the one in which the watermark came to be behind it
	owed    bool   // it was expected when it was listed
	judged  bool   // it was done, or had a finding
	unasked bool   // in a night in which it could be decoded at last, nobody expected it
}

// tables are emptied between two histories.
const emptySQL = `
TRUNCATE nightaudit.leases, nightaudit.streams, nightaudit.runs, nightaudit.windows, nightaudit.endpoint_looks,
    nightaudit.findings, nightaudit.finding_history, nightaudit.payloads, nightaudit.replays, nightaudit.attempts,
    nightaudit.witnesses`

func newPlay(t judged, pool *pgxpool.Pool, h history) *play {
	if _, err := pool.Exec(context.Background(), emptySQL); err != nil {
		t.Fatalf("emptying the tables: %v", err)
	}
	p := &play{t: t, pool: pool, now: epoch, events: make(map[string]*lived)}
	now := func() time.Time { return p.now }
	p.provider = &guarded{scripted: &scripted{now: now, pageSize: h.pageSize, feed: providers.Feed{
		Order: providers.NewestFirst, Filter: providers.FilterSecond, Splittable: true,
		Settle: 10 * time.Minute, Overlap: time.Hour, Initial: 72 * time.Hour, Retention: 90 * 24 * time.Hour,
	}}}
	p.provider.endpoints = []providers.Endpoint{{ID: "we_0", URL: hookURL, Enabled: true, Types: []string{"*"}}}
	p.app = &memoryApp{now: now, effects: make(map[string]int), answers: make(map[string][]answer), judge: p.wrongToSend}
	p.source = reconcile.Source{
		Name: "shop", Provider: p.provider, Ledger: p.app, StuckAfter: 2 * time.Hour,
		Targets: []replay.Target{{URL: hookURL}}, Sender: p.app,
		Replay: replay.Options{Rate: 1e6, VerifyWithin: time.Nanosecond, Concurrency: h.concurrency},
	}
	return p
}

// live goes through a history, and through the calm nights that mend it.
func live(t judged, pool *pgxpool.Pool, h history) {
	p := newPlay(t, pool, h)
	for _, n := range h.nights {
		p.night(n)
	}
	p.calmNights(h)
}

// calmNights are nights in which nothing goes wrong any more. After the first,
// a person has released what was held; after the last, nothing may be left.
func (p *play) calmNights(h history) {
	p.calm, p.app.calm = true, true
	var last night
	if len(h.nights) > 0 {
		last = h.nights[len(h.nights)-1]
	}
	const calmNights = 5
	for i := range calmNights {
		n := night{after: 24 * time.Hour, include: last.include, exclude: last.exclude, release: i < 2,
			emitted: []emission{{eventType: "order.paid", ago: 5 * time.Hour}}}
		if i == 0 && !ours(p.provider.endpoints) {
			n.endpoint, n.types = recreate, []string{"*"}
		}
		if i == 0 && len(p.lost) > 0 && !p.begin.IsZero() {
			n.since = p.now.Add(n.after).Sub(p.begin) // what a person does after a restore
		}
		posts := len(p.app.posts)
		r := p.night(n)
		if i == calmNights-1 {
			p.checkEnd(r, p.app.posts[posts:])
		}
	}
}

func ours(endpoints []providers.Endpoint) bool { return len(endpoints) > 0 }

// night lives through one night and checks the laws after it.
func (p *play) night(n night) *reconcile.Report {
	p.number++
	p.newest, p.now = n, p.now.Add(n.after)
	p.t.Logf("night %d, %s: %v", p.number, p.now.Format("Jan 02 15:04"), n)
	p.app.night()
	p.emit(n.emitted)
	p.arrive()
	p.garble()
	p.changeEndpoint(n)
	if n.restored > 0 {
		lost := p.app.restore(n.restored)
		p.lost = append(p.lost, lost...)
		p.t.Logf("  lost: %v", lost)
	}
	before := p.snapshot(n)
	posts := len(p.app.posts)
	r, err := p.run(n)
	p.tell(r, err, p.app.posts[posts:])
	if n.dry {
		p.checkDry(before, p.snapshot(n))
	}
	p.checkNight(n, r, err)
	if p.t.Failed() {
		p.t.FailNow()
	}
	return r
}

// tell logs how a run went.
func (p *play) tell(r *reconcile.Report, err error, posts []post) {
	for _, post := range posts {
		p.t.Logf("  posted %s: %v", post.id, post.answer)
	}
	if err != nil {
		p.t.Logf("  run ended: %v", err)
	}
	if r == nil {
		return
	}
	p.t.Logf("  %s %v", r.Run.Outcome, r.Reasons)
	for _, s := range r.Streams {
		p.t.Logf("  listed %d done %d missing %d stuck %d late %d ignored %d unreadable %d %v", s.Listed, s.Done, s.Missing,
			s.Stuck, s.Late, s.Ignored, s.Unreadable, s.Reasons)
	}
}

func (p *play) emit(emitted []emission) {
	for _, e := range emitted {
		id := fmt.Sprintf("evt_%d_%s", len(p.order), strings.Split(e.eventType, ".")[1])
		s := p.provider.emitFor(id, e.eventType, p.now.Add(-e.ago), e.object)
		s.visible = s.Created.Add(e.late)
		l := &lived{Event: s.Event, emission: e, visible: s.visible, night: p.number, clear: p.number + e.garbled}
		p.events[id], p.order = l, append(p.order, id)
		p.app.answers[id] = slices.Clone(e.answers)
		p.t.Logf("  %s at %s: %v", id, s.Created.Format("Jan 02 15:04"), e)
		switch e.live {
		case delivered:
			p.app.handle(s.Event, true, s.Created, 0)
		case half:
			p.app.handle(s.Event, false, s.Created, e.arrives)
		case halfLost:
			p.app.handle(s.Event, false, s.Created, 0)
		}
	}
}

// arrive brings deliveries that took nights.
func (p *play) arrive() {
	for _, id := range p.order {
		if l := p.events[id]; l.live == delayed && p.number == l.night+l.arrives {
			p.t.Logf("  %s arrives", id)
			p.app.handle(l.Event, true, p.now, 0)
		}
	}
}

// garble makes elements undecodable, and decodable again.
func (p *play) garble() {
	for i := range p.provider.events {
		e := &p.provider.events[i]
		if e.raw = ""; p.garbled(p.events[e.Key]) {
			e.raw = "{garbage of " + e.Key
		}
	}
}

func (p *play) garbled(l *lived) bool { return p.number < l.clear }

func (p *play) changeEndpoint(n night) {
	eps := slices.Clone(p.provider.endpoints)
	types := n.types
	if types == nil {
		types = []string{"*"}
	}
	switch {
	case n.endpoint == recreate:
		eps = []providers.Endpoint{{ID: fmt.Sprintf("we_%d", p.number), URL: hookURL, Enabled: true, Types: types,
			Created: p.now.Add(-time.Minute)}}
	case n.endpoint == remove:
		eps = nil
	case len(eps) == 0:
	case n.endpoint == disable:
		eps[0].Enabled = false
	case n.endpoint == enable:
		eps[0].Enabled = true
	case n.endpoint == changeTypes:
		eps[0].Types = types
	}
	p.provider.endpoints = eps
}

// run makes one run as a process of its own, which may come to an end, or stall
// while another process makes the same run.
func (p *play) run(n night) (*reconcile.Report, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &outside{killAt: n.kill, how: n.how, stop: cancel}
	p.provider.asked.Store(0)
	p.provider.fault, p.provider.blind = n.provider, n.endpoints
	p.app.asked, p.app.fault = 0, n.ledger
	if n.how == stalls {
		out.stop = func() {
			p.expireLeases()
			_, err := p.process(context.Background(), n, &outside{})
			p.t.Logf("  stalled at operation %d; the run of the other process: %v", out.count, err)
			p.enter(out)
		}
	}
	r, err := p.process(ctx, n, out)
	p.t.Logf("  %d operations", out.count)
	if out.dead {
		p.expireLeases()
	}
	return r, err
}

func (p *play) expireLeases() {
	p.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp() - interval '1 second'`)
}

// enter makes what is outside count the operations of one process.
func (p *play) enter(out *outside) { p.provider.outside, p.app.outside = out, out }

// process is one process that makes a run.
func (p *play) process(ctx context.Context, n night, out *outside) (*reconcile.Report, error) {
	p.enter(out)
	st, err := store.New(mortalDB{p.pool, out}, store.Options{})
	if err != nil {
		p.t.Fatalf("%v", err)
	}
	src := p.source
	src.Events = reconcile.Filter{Include: n.include, Exclude: n.exclude}
	src.Repair = !n.report
	if n.lowGate {
		src.Gate.MaxReplays = 2
	}
	o := reconcile.Options{DryRun: n.dry, Release: n.release, Now: func() time.Time { return p.now }, Wait: time.Minute}
	if n.since > 0 {
		o.Since, o.Hand = p.now.Add(-n.since), true
	}
	if n.until > 0 {
		o.Until, o.Hand = p.now.Add(-n.until), true
	}
	return reconcile.Run(ctx, st, src, o)
}

func (p *play) exec(sql string) {
	if _, err := p.pool.Exec(context.Background(), sql); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

// guarded is a scripted provider in the outside of a process that may end.
type guarded struct {
	*scripted
	*outside
	asked atomic.Int64 // pages
	fault fault
	blind bool // the endpoints cannot be read
}

func (g *guarded) Streams(ctx context.Context) (streams []providers.Stream, err error) {
	err = g.call(func() (err error) { streams, err = g.scripted.Streams(ctx); return err })
	return streams, err
}

func (g *guarded) Endpoints(ctx context.Context, s providers.Stream) (eps []providers.Endpoint, err error) {
	err = g.call(func() (err error) {
		if g.blind {
			return errors.New("the endpoints cannot be read")
		}
		eps, err = g.scripted.Endpoints(ctx, s)
		return err
	})
	return eps, err
}

func (g *guarded) Event(ctx context.Context, s providers.Stream, key string) (e providers.Event, pr providers.Presence, err error) {
	err = g.call(func() (err error) { e, pr, err = g.scripted.Event(ctx, s, key); return err })
	return e, pr, err
}

func (g *guarded) Events(ctx context.Context, s providers.Stream, w providers.Window, c providers.Cursor) (page providers.Page[providers.Event], err error) {
	err = g.call(func() (err error) {
		asked := int(g.asked.Add(1))
		begun, now := g.fault.at > 0 && asked >= g.fault.at, g.fault.at > 0 && asked == g.fault.at
		switch {
		case now && g.fault.kind == fails, begun && g.fault.kind == failsOn:
			return fmt.Errorf("the provider does not answer request %d", asked)
		case now && g.fault.kind == contradict:
			page.Next = "lost"
			return nil
		}
		page, err = g.scripted.Events(ctx, s, w, c)
		if begun && g.fault.kind == repeats && len(page.Items) > 0 {
			page.Items = append(page.Items, page.Items[0])
		}
		return err
	})
	return page, err
}
