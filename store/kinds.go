package store

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Scope is what a finding is about.
type Scope string

// The scopes.
const (
	ScopeEvent    Scope = "event"
	ScopeEndpoint Scope = "endpoint"
	ScopeSource   Scope = "source"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings about events.
const (
	MissingEvent    Kind = "missing_event"    // the provider has it, the ledger does not
	StuckEvent      Kind = "stuck_event"      // the ledger has it, and its work is not done
	UnrecordedEvent Kind = "unrecorded_event" // acknowledged when replayed, still not in the ledger
	UnreadableEvent Kind = "unreadable_event" // listed, and not to be decoded
	Unreplayable    Kind = "unreplayable"     // missing, and never to be sent again
	UnknownEvent    Kind = "unknown_event"    // the ledger has it, the provider does not know it
)

// The kinds of findings about endpoints.
const (
	EndpointDisabled     Kind = "endpoint_disabled"
	EndpointMissing      Kind = "endpoint_missing"
	EndpointUnsubscribed Kind = "endpoint_unsubscribed"
	EndpointDuplicate    Kind = "endpoint_duplicate"
	EndpointFailing      Kind = "endpoint_failing"
	APIVersionMismatch   Kind = "api_version_mismatch"
)

// The kinds of findings about sources and their streams.
const (
	SuspiciousEmpty     Kind = "suspicious_empty"
	CoverageGap         Kind = "coverage_gap"
	CredentialsRejected Kind = "credentials_rejected"
	ClockSkew           Kind = "clock_skew"
)

// Kinds are all kinds, in the order above.
func Kinds() []Kind {
	return []Kind{MissingEvent, StuckEvent, UnrecordedEvent, UnreadableEvent, Unreplayable, UnknownEvent,
		EndpointDisabled, EndpointMissing, EndpointUnsubscribed, EndpointDuplicate, EndpointFailing, APIVersionMismatch,
		SuspiciousEmpty, CoverageGap, CredentialsRejected, ClockSkew}
}

// Cause says, as far as it can be known, whose fault a finding is.
type Cause string

// The causes.
const (
	NotSubscribed        Cause = "not_subscribed"         // no endpoint asked for the type when it happened
	DeliveryFailed       Cause = "delivery_failed"        // the provider got no acknowledgement
	DeliveredNotRecorded Cause = "delivered_not_recorded" // acknowledged, and not in the ledger
	RecordedNotDone      Cause = "recorded_not_done"      // the ledger's row was never finished
	PastRetention        Cause = "past_retention"         // the provider no longer shows it
	CauseUnknown         Cause = "unknown"
)

// A Class is where a listed event belongs; each is in exactly one.
type Class string

// The classes of listed events.
const (
	Done       Class = "done"
	Missing    Class = "missing"
	Stuck      Class = "stuck"
	Late       Class = "late"
	Ignored    Class = "ignored"
	Unreadable Class = "unreadable"
)

// Resolution is how a finding was closed.
type Resolution string

// The resolutions.
const (
	Repaired     Resolution = "repaired"     // by a replay that the ledger shows
	Healed       Resolution = "healed"       // without us
	SupersededBy Resolution = "superseded"   // newer state of its subject is in place
	Gone         Resolution = "gone"         // no longer seen
	Acknowledged Resolution = "acknowledged" // by a person
)

// FindingID is the identity of a finding as one word: of an event whatever its
// kind, since that may change; of anything else with its kind.
func FindingID(source, stream string, scope Scope, kind Kind, key string) string {
	if scope == ScopeEvent {
		kind = ""
	}
	return "fnd_" + shortHash(source, stream, string(scope), string(kind), key)
}

// shortHash makes one word of 128 bits out of parts.
func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}
