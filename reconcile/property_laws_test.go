package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

// A told is what is stored about one event: its finding and the newest replay.
type told struct {
	key, kind, class string
	open             bool
	resolution       string
	replay, hold     string // "" if there is none
	reason, detail   string
	openReplays      int
}

const toldSQL = `
SELECT f.key, f.kind, f.class, f.state = 'open', f.resolution, coalesce(r.state, ''), coalesce(r.hold, ''),
    coalesce(r.reason, ''), f.detail,
    (SELECT count(*) FROM nightaudit.replays AS o WHERE o.finding_id = f.id AND o.closed_at IS NULL)
FROM nightaudit.findings AS f
LEFT JOIN LATERAL (
    SELECT * FROM nightaudit.replays
    WHERE finding_id = f.id
    ORDER BY planned_at DESC, id DESC
    LIMIT 1
) AS r ON true
WHERE f.source = 'shop' AND f.scope = 'event'`

func (p *play) told() map[string]told {
	rows, err := p.pool.Query(context.Background(), toldSQL)
	if err != nil {
		p.t.Fatalf("reading findings: %v", err)
	}
	all := make(map[string]told)
	var o told
	_, err = pgx.ForEachRow(rows, []any{&o.key, &o.kind, &o.class, &o.open, &o.resolution, &o.replay, &o.hold, &o.reason,
		&o.detail, &o.openReplays}, func() error {
		if _, twice := all[o.key]; twice {
			p.t.Errorf("%s has two findings", o.key)
		}
		all[o.key] = o
		return nil
	})
	if err != nil {
		p.t.Fatalf("reading findings: %v", err)
	}
	return all
}

// checkNight checks what must hold after each run, however it ended.
func (p *play) checkNight(n night, r *reconcile.Report, err error) {
	for _, breach := range p.app.breaches {
		p.t.Errorf("%s", breach)
	}
	p.checkReport(n, r, err)
	told := p.told()
	for _, o := range told {
		p.checkTold(o)
	}
	p.checkWatermark(n, told)
	p.checkListedBack(n, r, err, told)
	for id, times := range p.app.effects {
		if times != 1 {
			p.t.Errorf("the effect of %s was applied %d times, want once", id, times)
		}
	}
}

// checkReport: the books balance, and nothing but a fault fails a run.
func (p *play) checkReport(n night, r *reconcile.Report, err error) {
	faulty := n.kill > 0 || n.ledger.at > 0 || n.provider.at > 0
	var usage *reconcile.UsageError
	if err != nil && n.kill == 0 && !errors.As(err, &usage) {
		p.t.Errorf("the run ended with %v, want a report", err)
	}
	if r == nil || usage != nil {
		return
	}
	if r.Run.Outcome == store.Failed && !faulty {
		p.t.Errorf("the run failed without a fault: %v", r.Reasons)
	}
	for _, s := range r.Streams {
		if !s.Counts.Balances() || !s.Balanced && r.Run.Outcome != store.Failed {
			p.t.Errorf("the books do not balance: %+v, work %v", s.Counts, s.Work)
		}
		if !s.Balanced && n.kill == 0 {
			p.t.Errorf("the work does not balance: missing %d stuck %d, work %v", s.Missing, s.Stuck, s.Work)
		}
	}
}

// checkTold: what is missing is on its way or has an end; what is closed is at rest.
func (p *play) checkTold(o told) {
	if o.openReplays > 1 {
		p.t.Errorf("%s has %d open replays, want at most one", o.key, o.openReplays)
	}
	if !o.open && o.openReplays > 0 {
		p.t.Errorf("%s is closed (%s) and has a replay that is %s", o.key, o.resolution, o.replay)
	}
	if !o.open || o.kind == string(store.Unreplayable) || o.class != string(store.Missing) && o.class != string(store.Stuck) {
		return
	}
	if o.openReplays == 0 && o.replay != string(store.ReplayParked) && o.replay != string(store.ReplayRejected) {
		p.t.Errorf("%s is open (%s, %s) and nothing repairs it: its newest replay is %q", o.key, o.kind, o.class, o.replay)
	}
}

// checkWatermark: it never moves back, and is never ahead of what was compared.
func (p *play) checkWatermark(n night, told map[string]told) {
	var w time.Time
	err := p.pool.QueryRow(context.Background(), `SELECT watermark FROM nightaudit.streams WHERE source = 'shop'`).Scan(&w)
	if errors.Is(err, pgx.ErrNoRows) {
		return
	}
	if err != nil {
		p.t.Fatalf("reading the watermark: %v", err)
	}
	if p.begin.IsZero() {
		p.begin = w.UTC()
		if n.since == 0 && n.until == 0 {
			p.begin = p.now.Add(-p.provider.feed.Initial).Truncate(time.Second)
		}
	}
	if w.Before(p.watermark) {
		p.t.Errorf("the watermark moved back from %s to %s", p.watermark.Format(time.RFC3339), w.Format(time.RFC3339))
	}
	moved := w.After(p.watermark)
	p.watermark = w.UTC()
	points := p.looks()
	for _, id := range p.order {
		l := p.events[id]
		p.noteJudged(l, told)
		l.unasked = l.unasked || l.garbled > 0 && !p.garbled(l) && !p.expects(points, n, l)
		if moved && l.passed == nil && l.Created.Before(w) && !l.Created.Before(p.begin) && !l.visible.After(p.now) {
			l.passed = &n
		}
		if l.passed != nil && !l.owed && (p.expects(points, *l.passed, l) || p.garbled(l)) {
			p.owe(l, "the watermark "+w.Format("Jan 02 15:04")+" is past it")
		}
	}
}

func (p *play) noteJudged(l *lived, told map[string]told) {
	_, found := told[l.Key]
	l.judged = l.judged || found || p.app.isDone(l.Key)
}

// owe says that an event was listed while it was expected.
func (p *play) owe(l *lived, why string) {
	l.owed = true
	if !l.judged {
		p.t.Errorf("%s (created %s, listable from %s) is neither done nor has it a finding, and %s",
			l.Key, l.Created.Format("Jan 02 15:04"), l.visible.Format("Jan 02 15:04"), why)
	}
}

// checkListedBack: a complete run by schedule with a pattern that is new lists
// back to the beginning.
func (p *play) checkListedBack(n night, r *reconcile.Report, err error, told map[string]told) {
	if r == nil || err != nil || !r.Coverage.Complete || n.dry || n.since > 0 || n.until > 0 || r.Run.Outcome == store.Failed {
		return
	}
	added := p.scheduled && (len(n.include) == 0 && len(p.include) > 0 ||
		slices.ContainsFunc(n.include, func(pattern string) bool { return !slices.Contains(p.include, pattern) }))
	p.scheduled, p.include = true, n.include
	if !added {
		return
	}
	window := providers.Window{From: p.now.Add(-p.provider.feed.Initial), To: p.now.Add(-p.provider.feed.Settle)}
	points := p.looks()
	for _, id := range p.order {
		l := p.events[id]
		if window.Contains(l.Created) && !l.visible.After(p.now) && p.expects(points, n, l) {
			p.owe(l, fmt.Sprintf("%v was added to include", n.include))
		}
	}
}

// expects says, by the looks that are remembered, whether an event was to be
// expected with the filter of a night: what the config names, or what was
// subscribed at the last look before it or at the first look after it.
func (p *play) expects(points []point, n night, l *lived) bool {
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return providers.MatchType(pattern, l.Type) })
	}
	if matches(n.exclude) {
		return false
	}
	if len(n.include) > 0 {
		return matches(n.include)
	}
	after := slices.IndexFunc(points, func(pt point) bool { return pt.at.After(l.Created) })
	switch {
	case len(points) == 0:
		return false
	case after == 0:
		return slices.ContainsFunc(points[0].seen, func(ep providers.Endpoint) bool {
			return !ep.Created.After(l.Created) && matches(ep.Types)
		})
	case after < 0:
		return matches(points[len(points)-1].types)
	default:
		return matches(points[after-1].types) || matches(points[after].types)
	}
}

// A point is one look: what was seen, and which types were subscribed then. An
// endpoint that is gone keeps its types until another has its URL; here all have
// the same.
type point struct {
	at    time.Time
	seen  []providers.Endpoint
	types []string
}

func (p *play) looks() []point {
	const looksSQL = `SELECT endpoints::text, first_at, last_at FROM nightaudit.endpoint_looks WHERE source = 'shop' ORDER BY id`
	rows, err := p.pool.Query(context.Background(), looksSQL)
	if err != nil {
		p.t.Fatalf("reading looks: %v", err)
	}
	var points []point
	var types []string
	var text string
	var first, last time.Time
	_, err = pgx.ForEachRow(rows, []any{&text, &first, &last}, func() error {
		var seen []providers.Endpoint
		if err := json.Unmarshal([]byte(text), &seen); err != nil {
			return err
		}
		if len(seen) > 0 {
			types = seen[0].Types
		}
		points = append(points, point{first, seen, types}, point{last, seen, types})
		return nil
	})
	if err != nil {
		p.t.Fatalf("reading looks: %v", err)
	}
	return points
}

// wrongToSend: a snapshot is never sent when newer state of its subject is done.
func (p *play) wrongToSend(e providers.Event) string {
	l := p.events[e.ID]
	if l.object == "" || p.provider.Class(l.Type) != providers.Snapshot {
		return ""
	}
	for _, id := range p.order {
		newer := p.events[id]
		if newer.object == l.object && p.provider.Class(newer.Type).CarriesState() && newer.Created.After(l.Created) &&
			!newer.visible.After(p.now) && !p.garbled(newer) && p.app.isDone(id) {
			return fmt.Sprintf("%s was posted over newer state: %s is done", e.ID, id)
		}
	}
	return ""
}

// snapshot is what a dry run must leave as it is.
func (p *play) snapshot(n night) string {
	if !n.dry {
		return ""
	}
	const everythingSQL = `
SELECT (SELECT json_agg(t ORDER BY t.id) FROM nightaudit.findings AS t)::text,
    (SELECT json_agg(t ORDER BY t.id) FROM nightaudit.replays AS t)::text,
    (SELECT json_agg(t) FROM nightaudit.streams AS t)::text,
    (SELECT json_agg(t ORDER BY t.id) FROM nightaudit.endpoint_looks AS t)::text,
    (SELECT json_agg(t ORDER BY t.id) FROM nightaudit.windows AS t)::text`
	parts := make([]*string, 5)
	if err := p.pool.QueryRow(context.Background(), everythingSQL).Scan(&parts[0], &parts[1], &parts[2], &parts[3], &parts[4]); err != nil {
		p.t.Fatalf("reading everything: %v", err)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		p.t.Fatalf("encoding everything: %v", err)
	}
	return fmt.Sprintf("%s %d posts", text, len(p.app.posts))
}

func (p *play) checkDry(before, after string) {
	if before != after {
		p.t.Errorf("a dry run changed something:\nbefore %s\nafter  %s", before, after)
	}
}

// checkEnd: after the calm nights the ledger has what the provider has, or the
// report says why not; nothing is under way, and nothing was sent any more.
func (p *play) checkEnd(r *reconcile.Report, posts []post) {
	if len(posts) > 0 {
		p.t.Errorf("the last calm night posted %v, want nothing", posts)
	}
	all := p.told()
	open := false
	for _, o := range all {
		open = open || o.open
		switch store.ReplayState(o.replay) {
		case store.ReplayPlanned, store.ReplayQueued, store.ReplayAcknowledged, store.ReplayUnrecorded:
			p.t.Errorf("after the calm nights the replay of %s is still %s (%s)", o.key, o.replay, o.reason)
		}
		if o.open && p.app.isDone(o.key) && !p.garbled(p.events[o.key]) {
			p.t.Errorf("%s is done and its finding is open (%s)", o.key, o.kind)
		}
	}
	for _, id := range p.order {
		l := p.events[id]
		if l.owed && !p.app.isDone(id) {
			if why := p.unexplained(l, all); why != "" {
				p.t.Errorf("%s is not done at the end: %s (%+v)", id, why, all[id])
			}
		}
	}
	if r == nil {
		p.t.Fatalf("the last calm night has no report")
	}
	if r.Run.Outcome != store.InSync && r.Run.Outcome != store.DriftRemains {
		p.t.Errorf("the last calm night is %s (%v), want in_sync or drift", r.Run.Outcome, r.Reasons)
	}
	for _, f := range r.Findings {
		if f.State == "open" && f.Scope == store.ScopeSource {
			p.t.Errorf("the last calm night has an open %s: %s", f.Kind, f.Detail)
		}
	}
	if p.t.Failed() {
		p.t.FailNow()
	}
}

// unexplained says why an event that is not done ought to be; "" if what is
// stored of it explains that.
func (p *play) unexplained(l *lived, all map[string]told) string {
	o, found := all[l.Key]
	switch {
	case !o.open && slices.Contains(p.lost, l.Key) && !p.expects(p.looks(), p.newest, l):
		return "" // lost with a restored database when nobody asked for it any more
	case !found:
		return "it has no finding"
	case o.open && o.kind == string(store.UnreadableEvent) && l.garbled > 0,
		o.kind == string(store.Unreplayable) && l.Type == "login.created":
		return ""
	case o.resolution == string(store.Gone) && o.kind == string(store.UnreadableEvent) && l.unasked:
		return "" // read at last, and nobody had asked for it
	case o.resolution == string(store.SupersededBy):
		return p.unsuperseded(l, all)
	case !o.open:
		return "its finding is closed"
	}
	switch store.ReplayState(o.replay) {
	case store.ReplayHeld:
		return p.unheld(l, o, all)
	case store.ReplayParked:
		if p.answered(l, forgotten)+p.answered(l, halfDone) >= 3 {
			return ""
		}
		return "it is parked and was not forgotten three times"
	case store.ReplayRejected:
		if p.answered(l, refused) > 0 {
			return ""
		}
	}
	return "its replay is " + o.replay
}

// unsuperseded: what was left out has a successor that is done, or known.
func (p *play) unsuperseded(l *lived, all map[string]told) string {
	for _, id := range p.order {
		newer := p.events[id]
		if newer.object == l.object && newer.Created.After(l.Created) && p.provider.Class(newer.Type).CarriesState() &&
			(p.app.isDone(id) || all[id].open || slices.Contains(p.lost, id)) {
			return ""
		}
	}
	return "it is superseded by nothing"
}

// unheld: a tie has another event of its second, and what waits in a lane has
// something older that is held.
func (p *play) unheld(l *lived, o told, all map[string]told) string {
	for _, id := range p.order {
		other := p.events[id]
		if id == l.Key || other.object != l.object || l.object == "" {
			continue
		}
		tie := o.hold == string(store.HoldTie) && other.Created.Equal(l.Created) && p.provider.Class(other.Type).CarriesState()
		lane := o.hold == string(store.HoldLane) && !other.Created.After(l.Created) && all[id].replay == string(store.ReplayHeld)
		if tie || lane {
			return ""
		}
	}
	return "it is held (" + o.hold + ") without a reason"
}

// answered counts how often the replays of an event were answered in a way.
func (p *play) answered(l *lived, how answer) int {
	n := 0
	for _, post := range p.app.posts {
		if post.id == l.Key && post.answer == how {
			n++
		}
	}
	return n
}
