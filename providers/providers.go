// Package providers is the contract between the engine and the adapters: what a
// provider's API can tell, in the field's own terms. An adapter implements
// Provider and whichever capabilities its API really has; the engine finds them
// by assertion. Package providertest checks every adapter against the sentences
// written here.
//
// Adapters are thin: one page a call, no loops over pages, no storage, no clock
// of their own. The engine owns loops, splitting and windows; Transport owns the
// rate, the retries and the redaction.
package providers

import (
	"context"
	"time"
)

// A Provider is one configured provider account: a source.
type Provider interface {
	// Describe says what the account's API can and cannot tell. It does no I/O.
	Describe() Description
	// Check tries the credentials and each permission that the source needs, and
	// returns one Probe a permission. The error is for what stopped it from
	// trying at all.
	Check(ctx context.Context) ([]Probe, error)
	// Streams names what there is to list: accounts, hooks, domains. A rejected
	// credential is a *CredentialsError, never an empty list.
	Streams(ctx context.Context) ([]Stream, error)
}

// A Description is what an adapter says of its provider. It is printed in the
// report, so that a reader knows what a clean night does not prove.
type Description struct {
	Kind       string   // the provider's name in the config: "stripe"
	Title      string   // the provider's name for a person: "Stripe"
	CannotShow []string // sentences, e.g. "which delivery attempts failed"
}

// A Probe is the outcome of trying one permission.
type Probe struct {
	Name string // what was tried: "events read"
	Err  error  // nil when it is granted; else names what is missing and where to grant it
}

// A Stream is one thing listed from a source with a watermark of its own.
type Stream struct {
	Name    string // unique in its source: "events", "events@acct_123"
	Account string // the provider account it is listed for; "" is the credential's own
	Feed    Feed   // what the API behind it offers
	// Hooks names the set of endpoints that its events go to. Streams of one set
	// share their endpoints, which are looked at once.
	Hooks string
	// Livemode is the mode that is listed; nil where the provider has no test mode.
	Livemode *bool
}

// A Feed is the kind of listing that an API offers for a stream.
type Feed struct {
	Order       Order         // the order of items on and over pages
	Filter      Filter        // how finely the API filters by time
	Splittable  bool          // disjoint windows may be listed on their own
	Settle      time.Duration // events younger than this are not judged yet
	Overlap     time.Duration // how far a window reaches behind the watermark
	Initial     time.Duration // how far back a new stream begins
	Retention   time.Duration // how far back the API lists; 0 is for ever
	RetryWindow time.Duration // how long the provider itself still tries a delivery
	DefaultRate float64       // requests a second that the API bears from us
}

// Order is the order in which a feed lists.
type Order string

// The orders of feeds.
const (
	NewestFirst Order = "newest"
	OldestFirst Order = "oldest"
	Unordered   Order = "none"
)

// Filter is how finely a feed can be asked for a window. The engine filters what
// comes back to the exact window whatever the API promises.
type Filter string

// The filters of feeds.
const (
	FilterNone   Filter = "none"
	FilterDay    Filter = "day"
	FilterSecond Filter = "second"
)

// A Window is a half-open range of time, [From, To), in UTC.
type Window struct {
	From, To time.Time
}

// Contains reports whether t lies in w.
func (w Window) Contains(t time.Time) bool { return !t.Before(w.From) && t.Before(w.To) }

// Empty reports whether no instant lies in w.
func (w Window) Empty() bool { return !w.From.Before(w.To) }

// Length is the time between the two ends, never negative.
func (w Window) Length() time.Duration { return max(0, w.To.Sub(w.From)) }

// A Cursor is an adapter's own bookmark between two pages; "" starts a listing.
type Cursor string

// A Page is one answer of a listing.
type Page[T any] struct {
	Items      []T
	Unreadable []Unreadable // elements that could not be decoded; the others are in Items
	Next       Cursor       // "" ends the listing
}

// An Unreadable is one element of a page that could not be decoded.
type Unreadable struct {
	ID    string // the provider's id where at least that could be read, else ""
	Bytes []byte // the element as it came
	Why   string // what is wrong with it, without its content
}

// An EventFeed lists what the provider says it emitted, one page a call.
type EventFeed interface {
	// Events gives the events of s created in w, from c on; the zero Cursor
	// starts, an empty Next ends. Pages may repeat an event and never leave one
	// out; ties at a page's edge are kept. One undecodable element is an entry of
	// Unreadable and costs nothing but itself. A rejected credential is a
	// *CredentialsError and a missing permission a *PermissionError, never an
	// empty page. A Splittable feed is asked for several windows at once.
	Events(ctx context.Context, s Stream, w Window, c Cursor) (Page[Event], error)
}

// An EventReader reads single events by key.
type EventReader interface {
	// Event reads the event of s whose key is key. Presence is Live with the
	// event, or Absent when the provider says that it does not know it.
	Event(ctx context.Context, s Stream, key string) (Event, Presence, error)
}

// Presence is what a direct read says of a thing.
type Presence string

// The answers to a direct read.
const (
	Live      Presence = "live"
	Deleted   Presence = "deleted"
	Absent    Presence = "absent"
	Forbidden Presence = "forbidden"
)

// An Event is what the provider says it emitted.
type Event struct {
	Key        string    // unique in its stream, and what the ledger is asked for
	ID         string    // the provider's id
	Account    string    // the account that the id belongs to; "" is the credential's own
	Type       string    // the provider's name of what happened: "invoice.paid"
	Created    time.Time // UTC, in the provider's resolution
	Subject    Subject   // the business object it is about; its ID may be ""
	APIVersion string    // the version it was rendered in; "" if the provider has none
	Livemode   *bool     // nil where the provider has no test mode

	// PendingDeliveries counts the endpoints that have not acknowledged it; nil
	// where the provider does not say.
	PendingDeliveries *int
	// Deliveries are the attempts that the provider shows, if it shows any.
	Deliveries []Delivery
	// Payload is the event exactly as the provider gives it; nil where the
	// listing has none. It may be part of a whole page: who keeps it for longer
	// than the page keeps a copy.
	Payload []byte
}

// A Subject is the business object of an event.
type Subject struct {
	Account, Kind, ID string
}

// String is the subject as one word; "" if it has no object id.
func (s Subject) String() string {
	if s.ID == "" {
		return ""
	}
	return s.Account + "/" + s.Kind + "/" + s.ID
}

// Lane names the line in which replays of e wait for each other: its subject, or
// e alone when it has none.
func (e Event) Lane() string {
	if s := e.Subject.String(); s != "" {
		return s
	}
	return "event/" + e.Account + "/" + e.Key
}

// A Delivery is one attempt by the provider to bring an event to an endpoint.
type Delivery struct {
	ID       string
	Endpoint string
	At       time.Time
	Status   int // HTTP status; 0 if there was no answer
}

// Endpoints is implemented by providers that show where they deliver to.
type Endpoints interface {
	// Endpoints gives all endpoints that could receive events of s, in a stable
	// order, disabled ones included.
	Endpoints(ctx context.Context, s Stream) ([]Endpoint, error)
}

// An Endpoint is one subscription at the provider.
type Endpoint struct {
	ID         string    `json:"id"`
	URL        string    `json:"url"`
	Enabled    bool      `json:"enabled"`
	Types      []string  `json:"types"`       // event types or patterns; see MatchType
	APIVersion string    `json:"api_version"` // "" is the account's default
	Livemode   *bool     `json:"livemode"`
	Created    time.Time `json:"created"` // zero if the provider does not say
}

// A Clocked provider has seen the provider's clock.
type Clocked interface {
	// Skew is how far the provider's clock is ahead of ours (negative: behind),
	// by the Date header of its newest answer; false before the first answer.
	Skew() (time.Duration, bool)
}
