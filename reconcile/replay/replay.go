// Package replay brings missing events through the application's own handler:
// it claims queued replays, decides whether each may still be sent, makes one
// attempt through a Sender, and watches the ledger until it shows the event.
//
// Replay is at least once, with the provider's own stable id. The ledger is
// asked right before sending, after an unknown outcome, and after an
// acknowledgement; a 2xx alone proves nothing.
package replay

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// A Ledger answers whether events are recorded and done.
type Ledger interface {
	// Ask gives an entry for each event, in their order; an error means that
	// nothing is known.
	Ask(ctx context.Context, events []providers.Event) ([]appdb.Entry, error)
}

// Options are how a source's replays are sent. The zero value of each is its
// default.
type Options struct {
	Rate          float64       // requests a second; 0 is 20
	Concurrency   int           // requests at the same time; 0 is 8
	VerifyWithin  time.Duration // how long the ledger is watched; 0 is 5 min
	AnyVersion    bool          // events of another API version than the endpoint gets are sent too, not held
	MaxUnrecorded int           // runs that may see a replay acknowledged and not recorded; 0 is 3
}

func (o Options) withDefaults() Options {
	o.Rate = cmp.Or(o.Rate, 20)
	o.Concurrency = cmp.Or(o.Concurrency, 8)
	o.VerifyWithin = cmp.Or(o.VerifyWithin, 5*time.Minute)
	o.MaxUnrecorded = cmp.Or(o.MaxUnrecorded, 3)
	return o
}

// A Source is what a drain needs of one source.
type Source struct {
	Name      string
	Streams   map[string]providers.Stream
	Endpoints map[string][]providers.Endpoint // as last seen, by stream
	Feed      providers.EventFeed             // nil where there is none
	Listing   listing.Options                 // how it is read
	Witnessed map[string]time.Time            // by replay: up to when the feed was read for it just now
	Deliverer providers.Deliverer
	Ledger    Ledger
	Targets   []Target
	Sender    Sender
	Now       func() time.Time // by the provider's clock
	Skewed    func() bool      // whether that clock and ours differ by minutes
	Log       *slog.Logger     // names the run and the source

	StuckAfter time.Duration // a row not done for less may still be worked on
	Keeps      time.Duration // of older events the ledger may have forgotten that they were handled; 0 is never
}

// Stats are what a drain did.
type Stats struct {
	Repaired   int // the ledger shows them
	Confirmed  int // of these: without an acknowledgement
	Recorded   int // of these: before anything was sent
	Superseded int
	Held       int // for a tie or another API version
	Failed     int // tried, and to be tried again
	Rejected   int
	Unrecorded int
	Parked     int
	Waiting    int // acknowledged, and not seen in the ledger before the drain ended
	Unsent     int // queued, and not tried in this drain
	Attempts   int

	// Homeless counts the replays that no target takes, by account.
	Homeless map[string]int
	// Redirected says which targets answered a redirect, and with which status.
	Redirected map[string]int
	// Refusing says which targets refused all that was sent, and with which status.
	Refusing map[string]int
	// Mismatched says which API versions waited for which endpoints.
	Mismatched map[string][]string
}
