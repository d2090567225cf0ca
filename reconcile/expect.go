package reconcile

import (
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// An expectation says which events the application should have got.
type expectation struct {
	filter Filter
	states []state // what the looks showed, oldest first
	older  []state // what the first endpoints subscribed to since they were created, oldest first
	seen   bool    // an endpoint of ours was ever seen
}

// A state is what the endpoints subscribed to from one look to the last that
// showed the same.
type state struct {
	from, to time.Time
	types    []string
	ends     bool // nothing is said of what comes after it
}

// A reason is why an event counts or does not.
type reason string

const (
	named        reason = "named in the config"
	subscribed   reason = "subscribed"
	excluded     reason = "excluded in the config"
	unnamed      reason = "not named in the config"
	unsubscribed reason = "not subscribed"
)

// expected reports whether an event of a type that was created at a time should
// be in the ledger, and why. Where the config names events, those alone count.
// Else a type counts if an endpoint subscribed to it at the last look before the
// event or at the first look after it.
func (x expectation) expected(eventType string, created time.Time) (bool, reason) {
	switch {
	case x.filter.excludes(eventType):
		return false, excluded
	case x.filter.includes(eventType):
		return true, named
	case len(x.filter.Include) > 0:
		return false, unnamed
	case x.subscribed(eventType, created):
		return true, subscribed
	default:
		return false, unsubscribed
	}
}

// subscribed reports whether the type was subscribed at the last look before or
// the first look after a time, or by then to an endpoint of the first look that
// showed any.
func (x expectation) subscribed(eventType string, at time.Time) bool {
	return subscribedIn(x.states, eventType, at) || subscribedIn(x.older, eventType, at)
}

func subscribedIn(states []state, eventType string, at time.Time) bool {
	for i, s := range states {
		next := i+1 < len(states)
		if next && !states[i+1].from.After(at) {
			continue // a later state came before the event too
		}
		if at.Before(s.from) {
			return false
		}
		if matchesAny(s.types, eventType) {
			return at.Before(s.to) || !s.ends
		}
		return next && at.After(s.to) && matchesAny(states[i+1].types, eventType)
	}
	return false
}

// known reports whether anything says what to expect.
func (x expectation) known() bool { return len(x.filter.Include) > 0 || x.seen }

// expect builds the expectation from all looks at a stream's endpoints. Only
// endpoints behind one of our targets count; without targets, all do. A disabled
// or vanished endpoint keeps its types until its URL leaves the config or another
// endpoint with that URL is seen. Before the first look an endpoint counts from
// when it was created.
func expect(f Filter, looks []store.Look, targets []replay.Target) expectation {
	x := expectation{filter: f}
	remembered := make(map[string]providers.Endpoint) // by id: the last that was seen of each
	for _, look := range looks {
		ours := behind(look.Endpoints, targets)
		remembered = remember(remembered, ours)
		if !x.seen && len(ours) > 0 {
			x.older, x.seen = before(look, ours), true
		}
		x.states = append(x.states, state{from: look.FirstAt, to: look.LastAt, types: typesOf(remembered)})
	}
	return x
}

// behind gives the endpoints whose URL is one of the targets'.
func behind(endpoints []providers.Endpoint, targets []replay.Target) []providers.Endpoint {
	if len(targets) == 0 {
		return endpoints
	}
	var ours []providers.Endpoint
	for _, ep := range endpoints {
		for _, t := range targets {
			if replay.SameURL(ep.URL, t.Public()) {
				ours = append(ours, ep)
				break
			}
		}
	}
	return ours
}

// remember merges a look into what is remembered: an endpoint that is gone keeps
// its types as long as no other has its URL.
func remember(old map[string]providers.Endpoint, seen []providers.Endpoint) map[string]providers.Endpoint {
	merged := make(map[string]providers.Endpoint)
	for _, ep := range seen {
		merged[ep.ID] = ep
	}
	for id, ep := range old {
		if _, there := merged[id]; !there && !anySameURL(seen, ep.URL) {
			merged[id] = ep
		}
	}
	return merged
}

func anySameURL(endpoints []providers.Endpoint, url string) bool {
	for _, ep := range endpoints {
		if replay.SameURL(ep.URL, url) {
			return true
		}
	}
	return false
}

// before are the states before the first look: each endpoint of it, from its
// creation on.
func before(first store.Look, ours []providers.Endpoint) []state {
	var states []state
	for _, at := range creations(ours) {
		var types []string
		for _, ep := range ours {
			if !ep.Created.After(at) {
				types = append(types, ep.Types...)
			}
		}
		states = append(states, state{from: at, to: at, types: types})
	}
	for i := range states {
		if i+1 < len(states) {
			states[i].to = states[i+1].from
		} else {
			states[i].to, states[i].ends = first.FirstAt, true
		}
	}
	return states
}

// creations are the times at which endpoints came to be, oldest first. One that
// does not say has always been there.
func creations(endpoints []providers.Endpoint) []time.Time {
	var times []time.Time
	for _, ep := range endpoints {
		times = append(times, ep.Created)
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

func typesOf(endpoints map[string]providers.Endpoint) []string {
	var types []string
	for _, ep := range endpoints {
		types = append(types, ep.Types...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}
