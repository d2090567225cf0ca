// Package simulator acts out the two ends that nightaudit stands between: a
// provider's API (Stripe) and an application that receives the provider's
// webhooks. Both are real HTTP servers on loopback, behave like the originals
// where the difference could matter, and can be told to fail in every way that
// the originals are known to. Tests, the demo and the benchmarks use them.
//
// A mistake in using the simulator itself (an event id given twice, an unknown
// endpoint) panics; nothing that arrives over HTTP does.
package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultKey is the key of a fake Stripe that was given none: a full test key.
const DefaultKey = "sk_test_nightaudit_simulator"

// DefaultPlatform is the account id of the fake Stripe's own account.
const DefaultPlatform = "acct_1NightauditPlatform"

// DefaultAPIVersion is the version that events are rendered in unless told
// otherwise; it is the one that stripe-go v76 expects.
const DefaultAPIVersion = "2023-10-16"

// StripeOptions is how a fake Stripe starts. The zero value is a platform with
// one full test key, the machine's clock and Stripe's own retention.
type StripeOptions struct {
	Now       func() time.Time // Stripe's clock, also in the Date header; nil is time.Now
	Keys      []Key            // the keys it knows; nil is DefaultKey with every permission
	Platform  string           // id of its own account; "" is DefaultPlatform
	Retention time.Duration    // how far back events are listed; 0 is 30 days, negative is for ever
	// APIVersion is the account's default version; "" is DefaultAPIVersion.
	APIVersion string
	// Compact answers without white space. Stripe indents by two spaces.
	Compact bool
	// AccountInList gives listed events of connected accounts the field "account"
	// that their deliveries carry. Stripe does not document whether it does so.
	AccountInList bool
	Client        *http.Client // sends deliveries; nil is one that follows no redirect and waits 30 s
	Seed          uint64       // varies generated ids
}

// Stripe is a fake Stripe API. It is an http.Handler and safe for concurrent
// use.
type Stripe struct {
	opts   StripeOptions
	log    requestLog
	faults stripeFaults
	serial atomic.Uint64 // counts generated ids

	mu        sync.RWMutex
	keys      map[string]Key
	accounts  map[string]*account // by id; "" is the platform's own
	order     []*account          // connected accounts in order of creation
	endpoints []*endpoint         // in order of creation
}

// account is one account's events and when it was created.
type account struct {
	id      string
	created time.Time
	events  eventLog
}

// NewStripe makes a fake Stripe without events or endpoints.
func NewStripe(o StripeOptions) *Stripe {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Keys == nil {
		o.Keys = []Key{{Secret: DefaultKey}}
	}
	if o.Client == nil {
		o.Client = deliveryClient()
	}
	o.Platform = cmp.Or(o.Platform, DefaultPlatform)
	o.Retention = cmp.Or(o.Retention, 30*24*time.Hour)
	o.APIVersion = cmp.Or(o.APIVersion, DefaultAPIVersion)
	s := &Stripe{opts: o, keys: map[string]Key{}, accounts: map[string]*account{}}
	for _, k := range o.Keys {
		s.keys[k.Secret] = k
	}
	s.accounts[""] = newAccount("", time.Time{})
	return s
}

func newAccount(id string, created time.Time) *account {
	return &account{id: id, created: created, events: eventLog{byID: map[string]*record{}}}
}

// AddAccount connects an account to the platform. Emitting an event for an
// unknown account, or adding an endpoint to it, connects it as well.
func (s *Stripe) AddAccount(id string, created time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.accounts[id]; known {
		panic(fmt.Sprintf("simulator: account %q is connected already", id))
	}
	s.connect(id, created)
}

// connect adds an account; s.mu is held.
func (s *Stripe) connect(id string, created time.Time) *account {
	a := newAccount(id, created.UTC().Truncate(time.Second))
	s.accounts[id] = a
	s.order = append(s.order, a)
	return a
}

// accountFor is the account with this id, connected now if need be; s.mu is held.
func (s *Stripe) accountFor(id string) *account {
	if id == s.opts.Platform {
		id = ""
	}
	if a := s.accounts[id]; a != nil {
		return a
	}
	return s.connect(id, s.opts.Now())
}

// Now is the fake's own clock.
func (s *Stripe) Now() time.Time { return s.opts.Now() }

// Platform is the id of the fake's own account.
func (s *Stripe) Platform() string { return s.opts.Platform }

// livemode is the mode of events and endpoints that name none: that of the
// first key.
func (s *Stripe) livemode() bool { return s.opts.Keys[0].live() }

// ServeHTTP answers as api.stripe.com does. Every request is logged, also those
// that a fault answers.
func (s *Stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entry := s.log.begin(Request{
		At:             s.opts.Now(),
		Method:         r.Method,
		Path:           r.URL.Path,
		Query:          r.URL.Query(),
		Account:        r.Header.Get("Stripe-Account"),
		APIVersion:     r.Header.Get("Stripe-Version"),
		IdempotencyKey: r.Header.Get("Idempotency-Key"),
	})
	out := &statusWriter{ResponseWriter: w}
	defer func() { s.log.end(entry.N, out.status) }()

	out.Header().Set("Date", s.opts.Now().UTC().Format(http.TimeFormat))
	out.Header().Set("Request-Id", fmt.Sprintf("req_simulated%d", entry.N))
	if !s.faults.delay(r) {
		return
	}
	answer := s.faults.answer(entry)
	if answer != nil && !wait(r, answer.Delay, answer.Hold) {
		return
	}
	if answer != nil && !answer.Pass {
		answer.write(out)
		return
	}
	s.answer(out, r)
}

// answer is the way of a request that no fault takes.
func (s *Stripe) answer(w http.ResponseWriter, r *http.Request) {
	c, refusal := s.admit(r)
	if refusal != nil {
		refusal.write(w)
		return
	}
	if refusal := s.route(w, r, c); refusal != nil {
		refusal.write(w)
	}
}
