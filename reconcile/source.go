package reconcile

import (
	"context"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// A Ledger is the application's table of processed events, as the engine asks
// it. *appdb.Ledger is one.
type Ledger interface {
	replay.Ledger
	// Recorded yields the rows handled in w; appdb.ErrNotMapped if the ledger has
	// no column that says when.
	Recorded(ctx context.Context, w providers.Window, yield func(appdb.Recorded) error) error
	// Types gives the event types recorded in w; none if they are not mapped.
	Types(ctx context.Context, w providers.Window) ([]string, error)
	// OtherMode counts the rows of w in the provider's other mode.
	OtherMode(ctx context.Context, w providers.Window, livemode bool) (int, error)
	// Lag is how far behind its primary the database is.
	Lag(ctx context.Context) (time.Duration, error)
}

// A Source is one configured provider account with all that a run of it needs.
type Source struct {
	Name     string
	Provider providers.Provider
	Redact   *providers.Redactor

	Ledger     Ledger
	Recheck    replay.Ledger // asked right before and after a replay; nil is Ledger
	StuckAfter time.Duration // a row not done for longer is stuck
	Keeps      time.Duration // rows older than this prove nothing; 0 is for ever

	Targets []replay.Target
	Sender  replay.Sender
	Events  Filter
	Window  WindowOptions
	Listing listing.Options
	Gate    GateOptions
	Replay  replay.Options
	Repair  bool // replays are let through the gate by every run: mode "auto"

	// Requests gives the requests made of the provider so far, by HTTP status; nil
	// if nobody counts.
	Requests func() map[int]int
}

// recheck is the ledger that decides about a replay.
func (s Source) recheck() replay.Ledger {
	if s.Recheck != nil {
		return s.Recheck
	}
	return s.Ledger
}

// WindowOptions override what the provider's feeds say; nil leaves it to them.
type WindowOptions struct {
	Settle, Overlap, Initial *time.Duration
}

// over gives a feed with the overrides in place.
func (o WindowOptions) over(f providers.Feed) providers.Feed {
	for _, p := range []struct {
		override *time.Duration
		field    *time.Duration
	}{{o.Settle, &f.Settle}, {o.Overlap, &f.Overlap}, {o.Initial, &f.Initial}} {
		if p.override != nil {
			*p.field = *p.override
		}
	}
	return f
}

// A Filter is which events the config names. The zero value leaves it to what
// the endpoints subscribe to.
type Filter struct {
	Include []string // patterns; see providers.MatchType
	Exclude []string
}

func (f Filter) excludes(eventType string) bool { return matchesAny(f.Exclude, eventType) }

func (f Filter) includes(eventType string) bool { return matchesAny(f.Include, eventType) }

func matchesAny(patterns []string, eventType string) bool {
	for _, p := range patterns {
		if providers.MatchType(p, eventType) {
			return true
		}
	}
	return false
}
