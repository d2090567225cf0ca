package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// An Emission says which event the fake Stripe shall have emitted. Everything
// but Type has a default.
type Emission struct {
	Account string    // connected account; "" is the platform
	ID      string    // "" generates one
	Type    string    // "invoice.paid"
	Created time.Time // whole seconds; zero is now
	Object  Object    // what it is about
	// Previous is data.previous_attributes; nil leaves it out.
	Previous map[string]any
	// VisibleAt is when listings begin to show it; zero is at once. Reading it by
	// id works at once, as only Stripe's listings lag.
	VisibleAt  time.Time
	APIVersion string // "" is the account's default version
	Livemode   *bool  // nil is the mode of the first key
	// RequestID is the API request that caused it; "" is null.
	RequestID string
	// Raw, if set, is the event's JSON, served byte by byte as it is, listed or
	// delivered. It need not be an event, but must be JSON. ID, Type, Created,
	// Livemode and Object.ID are taken from it where they are unset and it has them.
	Raw []byte
}

// An Object is the object of an event, built from Stripe's own fixture of its
// kind.
type Object struct {
	Kind string         // "invoice"; "" follows from the event's type
	ID   string         // "" generates one; an upcoming invoice has none
	Set  map[string]any // top-level fields to replace or add; json.RawMessage is kept verbatim
}

// An Event is one event that the fake Stripe has emitted.
type Event struct {
	ID         string
	Account    string // "" is the platform
	Type       string
	Created    time.Time // UTC, whole seconds
	Subject    providers.Subject
	APIVersion string
	Livemode   bool

	rec *record
}

// record is what is kept of an event; its bytes are rendered when asked for.
// Only owed changes, under Stripe.mu.
type record struct {
	id, typ  string
	account  string
	created  int64  // Unix seconds
	seq      uint64 // order of emission within the account, for ties
	visible  int64  // Unix nanoseconds; 0 is at once
	livemode bool
	made     *madeContent // of an event emitted by itself
	history  *History     // of one in a history, with n
	n        int
	targets  []*endpoint // were to get it at its creation; shared between records
	owed     []*endpoint // have not acknowledged it; shared between records
}

// madeContent is what an Emission says about the event's body.
type madeContent struct {
	kind, objectID string
	set            []field
	previous       []byte
	version        string
	request        string
	raw            []byte
}

// content is the event's body as fields.
func (r *record) content() madeContent {
	if r.made != nil {
		return *r.made
	}
	return r.history.content(r.typ, r.n)
}

// event is the record as callers see it.
func (r *record) event() Event {
	c := r.content()
	kind := c.kind
	if name := templateOf(kind).object; name != "" {
		kind = name
	}
	return Event{
		ID: r.id, Account: r.account, Type: r.typ, Created: time.Unix(r.created, 0).UTC(),
		Subject:    providers.Subject{Account: r.account, Kind: kind, ID: c.objectID},
		APIVersion: c.version, Livemode: r.livemode, rec: r,
	}
}

// eventLog holds an account's events, oldest first.
type eventLog struct {
	byID    map[string]*record
	ordered []*record // by created, then seq
	serial  uint64
}

func older(a, b *record) int {
	return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.seq, b.seq))
}

// add puts in a record that is newer in emission than all others.
func (l *eventLog) add(r *record) {
	l.register(r)
	at, _ := slices.BinarySearchFunc(l.ordered, r, older)
	l.ordered = slices.Insert(l.ordered, at, r)
}

// register gives a record its place in the order of emission.
func (l *eventLog) register(r *record) {
	if _, taken := l.byID[r.id]; taken {
		panic(fmt.Sprintf("simulator: event %q was emitted before", r.id))
	}
	l.serial++
	r.seq = l.serial
	l.byID[r.id] = r
}

// addAll puts in many records at once.
func (l *eventLog) addAll(records []record) {
	l.ordered = slices.Grow(l.ordered, len(records))
	for i := range records {
		l.register(&records[i])
		l.ordered = append(l.ordered, &records[i])
	}
	if !slices.IsSortedFunc(l.ordered, older) {
		slices.SortFunc(l.ordered, older)
	}
}

// Emit makes an event, as Stripe does when something happens. It is delivered
// to nobody; Deliver does that. Endpoints that are enabled and subscribed now,
// and were created no later than the event, are owed a delivery.
func (s *Stripe) Emit(e Emission) Event {
	e = s.completed(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accountFor(e.Account)
	r := s.recordOf(e, a)
	r.targets = s.targets(r)
	r.owed = r.targets
	a.events.add(r)
	return r.event()
}

// recordOf turns a completed emission into a record.
func (s *Stripe) recordOf(e Emission, a *account) *record {
	r := &record{id: e.ID, typ: e.Type, account: a.id, created: e.Created.Unix(), livemode: *e.Livemode}
	if !e.VisibleAt.IsZero() {
		r.visible = e.VisibleAt.UnixNano()
	}
	r.made = &madeContent{kind: e.Object.Kind, objectID: e.Object.ID, set: fieldsOf(e.Object.Set),
		version: e.APIVersion, request: e.RequestID, raw: slices.Clone(e.Raw)}
	if e.Previous != nil {
		r.made.previous = rawJSON(e.Previous)
	}
	return r
}

// completed fills in what an emission leaves open.
func (s *Stripe) completed(e Emission) Emission {
	if e.Raw != nil {
		e = fromRaw(e)
	}
	if e.Type == "" && e.Raw == nil {
		panic("simulator: an event needs a type")
	}
	if e.Livemode == nil {
		e.Livemode = new(bool)
		*e.Livemode = s.livemode()
	}
	if e.Created.IsZero() {
		e.Created = s.opts.Now()
	}
	e.ID = cmp.Or(e.ID, s.newID("evt_"))
	e.APIVersion = cmp.Or(e.APIVersion, s.opts.APIVersion)
	e.Object.Kind = cmp.Or(e.Object.Kind, kindOf(e.Type))
	if e.Raw == nil && e.Object.ID == "" && e.Type != "invoice.upcoming" {
		e.Object.ID = s.newID(templateOf(e.Object.Kind).prefix)
	}
	return e
}

// fromRaw reads what Raw says of the event itself, field by field, so that one
// of a foreign shape costs nothing but itself.
func fromRaw(e Emission) Emission {
	if !json.Valid(e.Raw) {
		panic("simulator: the raw event is not JSON: " + string(e.Raw))
	}
	var top, data, object map[string]json.RawMessage
	if json.Unmarshal(e.Raw, &top) != nil {
		return e
	}
	_ = json.Unmarshal(top["data"], &data)
	_ = json.Unmarshal(data["object"], &object)
	e.ID = cmp.Or(e.ID, text(top["id"]))
	e.Type = cmp.Or(e.Type, text(top["type"]))
	e.APIVersion = cmp.Or(e.APIVersion, text(top["api_version"]))
	e.Object.ID = cmp.Or(e.Object.ID, text(object["id"]))
	e.Object.Kind = cmp.Or(e.Object.Kind, text(object["object"]))
	var created int64
	if e.Created.IsZero() && json.Unmarshal(top["created"], &created) == nil && created != 0 {
		e.Created = time.Unix(created, 0)
	}
	var live bool
	if e.Livemode == nil && top["livemode"] != nil && json.Unmarshal(top["livemode"], &live) == nil {
		e.Livemode = &live
	}
	return e
}

// text is a JSON string, or "" if raw is none.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// kindOf is the kind of object that events of a type are about: an invoice for
// "invoice.paid", a subscription for "customer.subscription.updated".
func kindOf(eventType string) string {
	about, _, _ := cutLast(eventType, ".")
	if templateOf(about).known {
		return about
	}
	if _, last, nested := cutLast(about, "."); nested {
		return last
	}
	return about
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// All gives the events of an account as it has them now, oldest first, whether
// or not they are listed.
func (s *Stripe) All(accountID string) iter.Seq[Event] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var ordered []*record
	if a := s.accounts[s.internal(accountID)]; a != nil {
		ordered = slices.Clone(a.events.ordered)
	}
	return func(yield func(Event) bool) {
		for _, r := range ordered {
			if !yield(r.event()) {
				return
			}
		}
	}
}

// internal is the account id that is used inside: "" for the platform.
func (s *Stripe) internal(accountID string) string {
	if accountID == s.opts.Platform {
		return ""
	}
	return accountID
}

// Event finds an event of an account by its id.
func (s *Stripe) Event(accountID, id string) (Event, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	a := s.accounts[s.internal(accountID)]
	if a == nil || a.events.byID[id] == nil {
		return Event{}, false
	}
	return a.events.byID[id].event(), true
}

// Pending counts the endpoints that have not acknowledged e.
func (s *Stripe) Pending(e Event) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(e.rec.owed)
}

// Acknowledge takes e as acknowledged by every endpoint, without sending it.
func (s *Stripe) Acknowledge(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.rec.owed = nil
}
