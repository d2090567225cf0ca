package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// A UsageError says that what was asked for by hand makes no sense.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// A plan is what a run does to one stream.
type plan struct {
	create  *store.Stream     // the stream is new, and begins like this
	gap     *providers.Window // what can never be compared
	include []string          // to be remembered once the window is listed; nil if nothing is new
	window  providers.Window  // to be listed; empty if there is nothing to judge
	moves   bool              // the watermark, with each part that is compared
}

// planning is what a plan is made from.
type planning struct {
	stream       providers.Stream // its feed with the config's overrides
	remembered   *store.Stream    // nil if the stream is new
	keeps        time.Duration    // of the ledger; 0 is for ever
	include      []string         // the config's event patterns; see patterns
	hand         bool             // started by a person, who is told when there is nothing to judge
	since, until time.Time        // by hand; zero leaves it to the watermark
	now          time.Time        // by the provider's clock
	host         time.Time        // by ours; zero is now
}

// planStream says which window is listed, and what has become unknowable. It
// does no I/O and reads no clock.
func planStream(p planning) (plan, error) {
	feed := p.stream.Feed
	if p.host.IsZero() {
		p.host = p.now
	}
	edge := p.edge()
	var out plan
	known := p.remembered
	if known == nil {
		begin := ceil(later(p.safe().Add(-feed.Initial), edge))
		known = &store.Stream{Watermark: begin, Include: p.include}
		out.create = known
	}
	watermark := known.Watermark
	if p.since.IsZero() && watermark.After(later(p.now, p.host).Add(SkewLimit)) {
		return plan{}, fmt.Errorf("the watermark of %s lies in the future (%s): a clock was wrong when it was set; compare what lies "+
			"before with --since, and set it right in the table streams of nightaudit's schema", p.stream.Name, watermark.Format(time.RFC3339))
	}
	if watermark.Before(edge) {
		out.gap = &providers.Window{From: watermark, To: ceil(edge)}
		watermark = ceil(edge)
	}
	from := later(watermark.Add(-feed.Overlap), edge)
	if widened(known.Include, p.include) {
		from = earlier(from, later(p.safe().Add(-feed.Initial), edge))
	}
	if !slices.Equal(known.Include, p.include) {
		out.include = append([]string{}, p.include...)
	}
	out.moves = true
	if !p.since.IsZero() {
		if err := p.checkSince(edge); err != nil {
			return plan{}, err
		}
		// a window that begins within the overlap leaves out what became listable
		// late; of a new stream, nothing was compared that it could leave out
		out.moves = !p.since.After(from) || out.create != nil && !p.since.After(watermark)
		from, out.include = p.since, nil
	}
	out.window = providers.Window{From: from.UTC().Truncate(time.Second), To: p.to().UTC().Truncate(time.Second)}
	if out.window.To.Before(watermark.Add(-feed.Overlap)) {
		out.include = nil // the next run would not list what is younger than this window
	}
	if out.window.Empty() && p.hand {
		return plan{}, p.emptyByHand()
	}
	return out, nil
}

// edge is the time before which nothing can be compared: the provider no longer
// lists it, or the ledger no longer has it.
func (p planning) edge() time.Time {
	var edge time.Time
	for _, reach := range []time.Duration{p.stream.Feed.Retention, p.keeps} {
		if reach > 0 {
			edge = later(edge, p.safe().Add(-reach))
		}
	}
	return edge
}

// safe is the earlier of the two clocks' times: one that runs ahead must not make
// events look older than they are.
func (p planning) safe() time.Time { return earlier(p.now, p.host) }

// to is where the window ends: younger events are left to the next run. Should
// the provider's clock run ahead, it is not later than ours: no event must be
// passed over that is still to come.
func (p planning) to() time.Time {
	to := earlier(p.now.Add(-p.stream.Feed.Settle), p.host)
	if !p.until.IsZero() {
		to = earlier(to, p.until)
	}
	return to
}

func (p planning) checkSince(edge time.Time) error {
	if !p.since.Before(edge) {
		return nil
	}
	reach := p.now.Sub(edge)
	if p.keeps > 0 && reach == p.keeps {
		return &UsageError{fmt.Sprintf("--since %s lies before %s, and the ledger keeps its rows for %s (ledger.keeps): "+
			"older events would all seem missing; use --since %s or less",
			p.since.Format(time.RFC3339), edge.Format(time.RFC3339), span(p.keeps), span(p.keeps))}
	}
	return &UsageError{fmt.Sprintf("--since %s lies before %s, and the provider lists %s back; use --since %s or less",
		p.since.Format(time.RFC3339), edge.Format(time.RFC3339), span(reach), span(reach))}
}

func (p planning) emptyByHand() error {
	settle := p.stream.Feed.Settle
	return &UsageError{fmt.Sprintf("the window of %s is empty: events younger than %s (window.settle) are not judged yet; "+
		"the shortest useful --since is %s", p.stream.Name, span(settle), span(settle+time.Minute))}
}

// span writes a duration as the config does: in hours or minutes where it can.
func span(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return d.String()
	}
}

// excludeMark stands before the patterns that a filter excludes, where both kinds
// are remembered in one list.
const excludeMark = "!"

// patterns is a filter as it is remembered.
func (f Filter) patterns() []string {
	patterns := slices.Clone(f.Include)
	for _, p := range f.Exclude {
		patterns = append(patterns, excludeMark+p)
	}
	return patterns
}

// widened reports whether patterns may now take in types that they did not
// before: one is included that was not, or excluded no more. No included pattern
// at all stands for everything that is subscribed.
func widened(before, now []string) bool {
	included, stillExcluded := parted(now)
	wasIncluded, excluded := parted(before)
	if len(included) == 0 && len(wasIncluded) > 0 {
		return true
	}
	added := func(p string) bool { return !slices.Contains(wasIncluded, p) }
	freed := func(p string) bool { return !slices.Contains(stillExcluded, p) }
	return slices.ContainsFunc(included, added) || slices.ContainsFunc(excluded, freed)
}

// parted gives the included and the excluded patterns of a remembered filter.
func parted(patterns []string) (included, excluded []string) {
	for _, p := range patterns {
		if strings.HasPrefix(p, excludeMark) {
			excluded = append(excluded, p)
		} else {
			included = append(included, p)
		}
	}
	return included, excluded
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ceil is t, or the next whole second.
func ceil(t time.Time) time.Time {
	return t.UTC().Add(time.Second - 1).Truncate(time.Second)
}
