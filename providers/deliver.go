package providers

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// A Deliverer knows how a delivery of its provider looks, out and in; nothing
// else does. The law: Open(Sign(Compose(e))) has the key of e, so that live and
// replayed copies of one event meet in the ledger.
type Deliverer interface {
	// Compose builds the delivery of e as ep would get it: URL, headers and body,
	// not yet signed. The body is e.Payload verbatim wherever the provider gives
	// the bytes.
	Compose(ctx context.Context, ep Endpoint, e Event) (Message, error)
	// Sign returns m signed with every secret for the time at. It is called anew
	// for each attempt, since receivers refuse old signatures.
	Sign(m Message, secrets []Secret, at time.Time) (Message, error)
	// Open verifies a delivery and then parses it. An error of verification is a
	// *SignatureError.
	Open(r Request, secrets []Secret, now time.Time) (Event, error)
	// Replayable reports whether an event of this type may ever be sent again,
	// and if not, why: sign-ins, one-time codes and calls belong to a moment.
	Replayable(eventType string) (ok bool, why string)
	// Class says what replaying an old event of this type can do to newer state.
	Class(eventType string) Class
}

// A Message is one delivery, ready to be sent as it is.
type Message struct {
	URL    string
	Header http.Header
	Body   []byte
}

// A Request is one delivery as it was received.
type Request struct {
	URL    string // the public URL that it was sent to
	Header http.Header
	Body   []byte // the raw bytes
}

// Class says what an event carries.
type Class string

// The classes of events. A snapshot carries the state of its subject and must
// never overwrite a newer one; an ending says that its subject is gone; a fact
// carries no state and is always sent.
const (
	Snapshot Class = "snapshot"
	Ending   Class = "ending"
	Fact     Class = "fact"
)

// CarriesState reports whether an event of the class, once handled, makes older
// snapshots of its subject obsolete.
func (c Class) CarriesState() bool { return c == Snapshot || c == Ending }

// MatchType reports whether an event type falls under a pattern: "*" is every
// type, "invoice.*" every type that begins with "invoice.", anything else itself.
func MatchType(pattern, eventType string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	if wild {
		return strings.HasPrefix(eventType, prefix)
	}
	return pattern == eventType
}
