package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// now is the time by the provider's clock, as far as it was seen.
func (r *run) now() time.Time { return r.options.Now().Add(r.skew()).UTC() }

// skew is how far the provider's clock is ahead of this host's; 0 if it was not
// seen.
func (r *run) skew() time.Duration {
	if c, ok := r.source.Provider.(providers.Clocked); ok {
		if skew, seen := c.Skew(); seen {
			return skew
		}
	}
	return 0
}

// SkewLimit is how far this host's clock and a provider's may differ, either way,
// before signatures become doubtful.
const SkewLimit = 2 * time.Minute

func (r *run) skewed() bool { return r.skew().Abs() > SkewLimit }

// noteSkew makes a finding of clocks that differ by minutes.
func (r *run) noteSkew(ctx context.Context) error {
	if !r.skewed() {
		return r.unseen(ctx, "", store.ClockSkew)
	}
	f := store.NewFinding(r.source.Name, "", r.row.ID, store.ScopeSource, store.ClockSkew, "")
	f.Detail = fmt.Sprintf("the provider's clock and this host's differ by %s: windows follow the provider's, "+
		"signatures this host's; set the clock, or handlers refuse replays as too old", r.skew().Round(time.Second))
	return r.see(ctx, f)
}
