package simulator

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// eventQuery is what GET /v1/events was asked for.
type eventQuery struct {
	limit             int
	from, to          int64 // created lies in [from, to), Unix seconds
	types             []string
	delivered         *bool // delivery_success; nil is either
	after, before     string
	oneSecond, paging bool
}

// listEvents is GET /v1/events.
func (s *Stripe) listEvents(w http.ResponseWriter, q url.Values, c caller, _ string) *apiError {
	query, refusal := parseEventQuery(q)
	if refusal != nil {
		return refusal
	}
	faults := s.faults.current()
	page, more, refusal := s.page(query, c, faults)
	if refusal != nil {
		return refusal
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.renderPage(page, more, c.account, query, faults)) // a client that left is no concern
	return nil
}

// listable is the part of an account's events, oldest first, that lies within
// the query and within retention.
func (s *Stripe) listable(l *eventLog, q eventQuery, now time.Time) (lo, hi int) {
	from := max(q.from, s.edge(now))
	lo = sort.Search(len(l.ordered), func(i int) bool { return l.ordered[i].created >= from })
	hi = sort.Search(len(l.ordered), func(i int) bool { return l.ordered[i].created >= q.to })
	return lo, max(lo, hi)
}

// edge is the oldest second within retention.
func (s *Stripe) edge(now time.Time) int64 {
	if s.opts.Retention < 0 {
		return math.MinInt64
	}
	return now.Add(-s.opts.Retention).Unix()
}

// item is one event of a page, with what of it may change later.
type item struct {
	*record
	pending int
}

// page finds the events of one page, newest first.
func (s *Stripe) page(q eventQuery, c caller, f Faults) (page []item, more bool, refusal *apiError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l, now := &c.account.events, s.opts.Now()
	lo, hi := s.listable(l, q, now)
	if slices.Contains(f.EmptyAccounts, c.account.id) {
		lo, hi = 0, 0
	}
	cursor, refusal := s.cursor(l, q, c, now)
	if refusal != nil {
		return nil, false, refusal
	}
	keep := func(r *record) bool { return r.listed(now, c.key.live()) && q.matches(r) }
	if q.before != "" {
		page, more = l.upward(max(lo, l.position(cursor)+1), hi, q.limit, keep)
		return page, more, nil
	}
	if q.after != "" {
		hi = min(hi, l.position(cursor))
	}
	limit := q.limit
	if f.RepeatEdge && q.after != "" && limit > 1 {
		limit--
	}
	page, more = l.downward(lo, hi, limit, keep)
	if q.after != "" {
		page, more = f.afterCursor(page, more, cursor, q)
	}
	return page, more, nil
}

// afterCursor is what the faults make of a page that follows a cursor.
func (f Faults) afterCursor(page []item, more bool, cursor *record, q eventQuery) ([]item, bool) {
	if f.BusySecond && !q.oneSecond && len(page) > 0 && page[0].created == cursor.created {
		return nil, false
	}
	if f.RepeatEdge && q.limit > 1 {
		page = append([]item{{cursor, len(cursor.owed)}}, page...)
	}
	return page, more
}

// cursor is the event that starting_after or ending_before names; nil if
// neither is given. One that is past retention is unknown.
func (s *Stripe) cursor(l *eventLog, q eventQuery, c caller, now time.Time) (*record, *apiError) {
	id := cmp.Or(q.after, q.before)
	if id == "" {
		return nil, nil
	}
	r := l.byID[id]
	if r == nil || r.created < s.edge(now) || r.livemode != c.key.live() {
		param := "starting_after"
		if q.before != "" {
			param = "ending_before"
		}
		return nil, missing("event", id, param)
	}
	return r, nil
}

// position is where a record of the log stands in it.
func (l *eventLog) position(r *record) int {
	at, _ := slices.BinarySearchFunc(l.ordered, r, older)
	return at
}

// downward collects the newest events of [lo, hi), newest first.
func (l *eventLog) downward(lo, hi, limit int, keep func(*record) bool) (page []item, more bool) {
	for i := hi - 1; i >= lo; i-- {
		if r := l.ordered[i]; keep(r) {
			if len(page) == limit {
				return page, true
			}
			page = append(page, item{r, len(r.owed)})
		}
	}
	return page, false
}

// upward collects the oldest events of [lo, hi), newest first.
func (l *eventLog) upward(lo, hi, limit int, keep func(*record) bool) (page []item, more bool) {
	defer func() { slices.Reverse(page) }()
	for i := lo; i < hi; i++ {
		if r := l.ordered[i]; keep(r) {
			if len(page) == limit {
				return page, true
			}
			page = append(page, item{r, len(r.owed)})
		}
	}
	return page, false
}

// listed reports whether listings show the event at a time to keys of a mode.
func (r *record) listed(now time.Time, live bool) bool {
	return r.livemode == live && (r.visible == 0 || r.visible <= now.UnixNano())
}

func (q eventQuery) matches(r *record) bool {
	if q.delivered != nil && *q.delivered != (len(r.owed) == 0) {
		return false
	}
	return len(q.types) == 0 || slices.ContainsFunc(q.types, func(pattern string) bool {
		return providers.MatchType(pattern, r.typ)
	})
}

// renderPage prints a list answer.
func (s *Stripe) renderPage(page []item, more bool, a *account, q eventQuery, f Faults) []byte {
	bad := -1
	if f.BadElement != nil && !q.paging {
		bad = len(page) / 2
	}
	b := make([]byte, 0, 512+len(page)*7000)
	b = append(b, s.spaced("{", "\n  ", `"object":`, " ", `"list",`, "\n  ", `"data":`, " ", "[")...)
	between := s.spaced("", "\n    ")
	for i := range len(page) + 1 {
		if i == bad {
			b = append(append(append(b, between...), f.BadElement...), ',')
		}
		if i < len(page) {
			b = s.listedEvent(append(b, between...), page[i], a)
			b = append(b, ',')
		}
	}
	if len(page) > 0 || bad >= 0 {
		b = append(b[:len(b)-1], s.spaced("", "\n  ")...)
	}
	b = append(b, s.spaced("],", "\n  ", `"has_more":`, " ", strconv.FormatBool(more), "", ",", "\n  ", `"url":`, " ", `"/v1/events"`, "\n", "}", "\n")...)
	return b
}

// spaced joins JSON and white space, given in turns, leaving out the latter in
// compact answers.
func (s *Stripe) spaced(parts ...string) string {
	var b strings.Builder
	for i, part := range parts {
		if i%2 == 0 || !s.opts.Compact {
			b.WriteString(part)
		}
	}
	return b.String()
}

// listedEvent prints an event as an element of a list.
func (s *Stripe) listedEvent(b []byte, i item, a *account) []byte {
	l := listed
	if s.opts.Compact {
		l = compact
	}
	r := rendering{record: i.record, layout: l, pending: i.pending}
	if s.opts.AccountInList {
		r.account = a.id
	}
	return r.appendTo(b)
}

// Listed gives e exactly as a listing has it now.
func (s *Stripe) Listed(e Event) []byte {
	s.mu.RLock()
	i, a := item{e.rec, len(e.rec.owed)}, s.accounts[e.Account]
	s.mu.RUnlock()
	return s.listedEvent(nil, i, a)
}

// readEvent is GET /v1/events/{id}.
func (s *Stripe) readEvent(w http.ResponseWriter, _ url.Values, c caller, id string) *apiError {
	s.mu.RLock()
	r := c.account.events.byID[id]
	now := s.opts.Now()
	var pending int
	if r != nil {
		pending = len(r.owed)
	}
	s.mu.RUnlock()
	if r == nil || r.livemode != c.key.live() {
		return missing("event", id, "id")
	}
	if r.created < s.edge(now) {
		return missing("notification", id, "id")
	}
	out := rendering{record: r, layout: s.single(), pending: pending}
	if s.opts.AccountInList {
		out.account = c.account.id
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out.appendTo(nil)) // a client that left is no concern
	return nil
}

// single is the layout of an event that stands alone.
func (s *Stripe) single() layout {
	if s.opts.Compact {
		return compact
	}
	return alone
}
