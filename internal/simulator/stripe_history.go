package simulator

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// A History is many events at once, as an account's ordinary traffic would have
// left them: invoices, payments, and subscriptions whose state changes over
// time. Only a few words are kept of each; the same History gives the same
// bytes in every process.
type History struct {
	Account  string
	Seed     uint64    // two histories of one account need different ones
	N        int       // how many events
	From, To time.Time // their created lies in [From, To), evenly with some jitter
	// Types to draw from, each as often as the others; nil is a mix like that of a
	// subscription business.
	Types      []string
	APIVersion string // "" is the account's default version
	Livemode   *bool  // nil is the mode of the first key
}

// ordinaryTypes is the mix of a subscription business; a type that is named
// twice comes twice as often.
var ordinaryTypes = []string{
	"charge.succeeded", "charge.succeeded", "charge.succeeded",
	"payment_intent.created", "payment_intent.created",
	"payment_intent.succeeded", "payment_intent.succeeded", "payment_intent.succeeded",
	"invoice.created", "invoice.finalized", "invoice.paid", "invoice.paid", "invoice.payment_failed",
	"customer.created", "customer.updated",
	"customer.subscription.created", "customer.subscription.updated", "customer.subscription.updated",
	"checkout.session.completed", "charge.refunded",
}

// subscriptionStates are what a subscription goes through in a history.
var subscriptionStates = []string{"trialing", "active", "past_due", "active", "unpaid"}

// AddHistory makes all events of h. It is meant for up to millions of them.
func (s *Stripe) AddHistory(h History) {
	if h.N < 0 || h.To.Unix() <= h.From.Unix() {
		panic("simulator: a history needs a range of time and no negative number of events")
	}
	if h.Types == nil {
		h.Types = ordinaryTypes
	}
	if h.Livemode == nil {
		live := s.livemode()
		h.Livemode = &live
	}
	h.APIVersion = cmp.Or(h.APIVersion, s.opts.APIVersion)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accountFor(h.Account)
	h.Account = a.id
	h.Seed = mixText(h.Seed, a.id) // accounts share no ids
	a.events.addAll(s.recordsOf(&h))
}

// recordsOf lays out the events of h, oldest first.
func (s *Stripe) recordsOf(h *History) []record {
	records := make([]record, h.N)
	targets := s.targetsByType()
	for n := range records {
		x := mix(h.Seed, uint64(n))
		typ := h.Types[x%uint64(len(h.Types))]
		r := &records[n]
		*r = record{id: hashedID("evt_", h.Seed, uint64(n)), typ: typ, account: h.Account,
			created: h.created(n, x), livemode: *h.Livemode, history: h, n: n}
		r.targets = targets(r)
		r.owed = r.targets
	}
	return records
}

// targetsByType is Stripe.targets for the events of one history, whose records
// share one slice for each type and each endpoint's beginning.
func (s *Stripe) targetsByType() func(*record) []*endpoint {
	type key struct {
		typ  string
		from int
	}
	known := map[key][]*endpoint{}
	return func(r *record) []*endpoint {
		k := key{r.typ, s.endpointsBefore(r.created)}
		owed, seen := known[k]
		if !seen {
			owed = s.targets(r)
			known[k] = owed
		}
		return owed
	}
}

// created is when event n happened; x is its random number. It never falls as n
// rises.
func (h *History) created(n int, x uint64) int64 {
	const steps = 1024 // of jitter within an event's own share of the range
	from, span := h.From.Unix(), h.To.Unix()-h.From.Unix()
	place := int64(n)*steps + int64(x>>32%steps)
	return from + int64(float64(span)*float64(place)/float64(int64(h.N)*steps))
}

// content is the body of event n.
func (h *History) content(typ string, n int) madeContent {
	kind := kindOf(typ)
	x := mix(h.Seed+1, uint64(n))
	c := madeContent{kind: kind, version: h.APIVersion, objectID: h.objectID(kind, n, x)}
	c.set = h.state(kind, n, x)
	note := strconv.AppendInt([]byte(`{"note":"Größe № `), int64(n), 10)
	c.set = append(c.set, field{"metadata", append(note, `"}`...)})
	if strings.HasSuffix(typ, ".updated") {
		c.previous = []byte(`{"metadata":{}}`)
	}
	return c
}

// state is what of event n's object differs from the fixture.
func (h *History) state(kind string, n int, x uint64) []field {
	number := []byte(strconv.Itoa(n))
	switch kind {
	case "subscription":
		status := subscriptionStates[n%len(subscriptionStates)]
		return []field{{"status", appendText(nil, status)}}
	case "customer":
		return []field{{"balance", number}}
	case "charge", "payment_intent":
		return []field{{"amount", number}, {"customer", appendText(nil, h.pooled("customer", x))}}
	case "invoice":
		return []field{{"amount_paid", number}, {"customer", appendText(nil, h.pooled("customer", x))}}
	}
	return nil
}

// objectID is what event n is about: subscriptions and customers come again and
// again, everything else once.
func (h *History) objectID(kind string, n int, x uint64) string {
	if kind == "subscription" || kind == "customer" {
		return h.pooled(kind, x)
	}
	return hashedID(templateOf(kind).prefix, h.Seed+2, uint64(n))
}

// pooled is one of the N/50 objects of a kind that the history is about.
func (h *History) pooled(kind string, x uint64) string {
	pool := uint64(h.N/50 + 1)
	return hashedID(templateOf(kind).prefix, h.Seed+3, x%pool)
}
