// Package providertest holds every adapter to the contract in package providers:
// its sentences, as subtests, over a fake of the provider's API that the
// adapter's own test brings along. A bug found in one adapter becomes a sentence
// here first.
package providertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A Script is what the fake API plays.
type Script string

// The scripts. A listing of the window gives the wanted events under the first
// three.
const (
	// Plain: at least two pages, and events of one second on both sides of a
	// page's edge.
	Plain Script = "plain"
	// Repeating: some event comes again on the next page.
	Repeating Script = "repeating"
	// BadElement: Harness.Bad stands among the events.
	BadElement Script = "bad element"
	// Rejected: the API does not accept the credentials.
	Rejected Script = "rejected"
	// Forbidden: it does, and they lack the permission for anything.
	Forbidden Script = "forbidden"
	// NotTheAPI: something else answers, with status 200 and Harness.Foreign.
	NotTheAPI Script = "not the API"
)

// A Harness is what an adapter's test brings to Run.
type Harness struct {
	// Open gives the source over a fresh fake that plays s.
	Open func(t testing.TB, s Script) providers.Provider
	// Stream names the stream to list; "" is the first.
	Stream string
	Window providers.Window
	// Served holds the wanted events of the window by key, as the fake serves
	// them.
	Served map[string][]byte
	// Unknown is a key that no event has.
	Unknown string
	Bad     []byte
	Foreign []byte
	// Missing is what a *PermissionError names under Forbidden.
	Missing string
	// Hidden are the secrets that the source knows, webhook secrets apart.
	Hidden []providers.Secret

	// For adapters that deliver: an endpoint, its secrets, and how old a
	// signature may be.
	Endpoint  providers.Endpoint
	Secrets   []providers.Secret
	Tolerance time.Duration
	// Types are event types to classify beside those of the events.
	Types []string
}

// Run checks the adapter behind h. What an adapter does not implement is not
// asked of it.
func Run(t *testing.T, h Harness) {
	for _, l := range laws {
		t.Run(l.says, func(t *testing.T) {
			if err := l.check(bench{t, h}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A law is one sentence of the contract.
type law struct {
	says  string
	check func(bench) error
}

var laws = []law{
	{"a source describes itself and names its streams", describes},
	{"a listing leaves no event out, ties at a page's edge included", complete},
	{"a page that repeats an event leaves no other out", repeats},
	{"two listings at the same time do not disturb each other", atOnce},
	{"keys are unique, and the same in a second listing", stableKeys},
	{"events lie within what the filter promises", withinFilter},
	{"events come in the order that the feed claims", ordered},
	{"a payload is what was served, byte for byte", verbatim},
	{"an undecodable element costs nothing but itself", badElement},
	{"a rejected credential is a CredentialsError, never an empty answer", rejected},
	{"a missing permission is a PermissionError that names it", forbidden},
	{"what is not the API is an error, never an empty answer", foreign},
	{"a call ends with its context", cancelled},
	{"no error shows a secret or quotes an answer", silent},
	{"an event read by its key is the one listed, and an unknown key is absent", readByKey},
	{"endpoints come in a stable order, each once", stableEndpoints},
	{"a delivery composed, signed and opened has the key of its event", delivers},
	{"signing is repeatable and leaves the message as it was", signsAnew},
	{"a forged, foreign or stale delivery is a SignatureError", refuses},
	{"every event type has a class, and a reason if it may not be replayed", classifies},
}

// bench is one law's work place.
type bench struct {
	testing.TB
	Harness
}

// source opens the provider and finds the stream under test.
func (b bench) source(s Script) (providers.Provider, providers.Stream, error) {
	p := b.Open(b, s)
	streams, err := p.Streams(b.Context())
	if err != nil {
		return p, providers.Stream{}, err
	}
	for _, stream := range streams {
		if b.Stream == "" || stream.Name == b.Stream {
			return p, stream, nil
		}
	}
	return p, providers.Stream{}, fmt.Errorf("there is no stream %q among %v", b.Stream, streams)
}

// pages lists the window to its end.
func (b bench) pages(s Script) ([]providers.Page[providers.Event], providers.Stream, error) {
	p, stream, err := b.source(s)
	if err != nil {
		return nil, stream, err
	}
	feed, ok := p.(providers.EventFeed)
	if !ok {
		return nil, stream, nil
	}
	var pages []providers.Page[providers.Event]
	seen := map[providers.Cursor]bool{}
	for cursor := providers.Cursor(""); ; {
		page, err := feed.Events(b.Context(), stream, b.Window, cursor)
		if err != nil {
			return pages, stream, err
		}
		pages = append(pages, page)
		if page.Next == "" {
			return pages, stream, nil
		}
		if seen[page.Next] {
			return pages, stream, fmt.Errorf("the cursor %q came twice", page.Next)
		}
		seen[page.Next] = true
		cursor = page.Next
	}
}

// listed is the window's events, each key once, in the order of the listing.
func (b bench) listed(s Script) ([]providers.Event, error) {
	pages, _, err := b.pages(s)
	var events []providers.Event
	seen := map[string]bool{}
	for _, page := range pages {
		for _, e := range page.Items {
			if !seen[e.Key] {
				events = append(events, e)
			}
			seen[e.Key] = true
		}
	}
	return events, err
}
