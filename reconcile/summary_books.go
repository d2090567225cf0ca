package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nightaudit/nightaudit/store"
)

// listed writes what was compared on a clean night, in one line a stream.
func (r *Report) listed(p *page) {
	for _, sr := range r.Streams {
		if sr.Window.From == nil {
			p.say(plain, "  ", "%s: nothing to judge", sr.Stream)
			continue
		}
		line := fmt.Sprintf("  %s: %s, ", clean(sr.Stream), p.window(sr.Window))
		if books := sr.books(); utf8.RuneCountInString(line+books) <= p.width {
			p.put(plain, line, books)
			continue
		}
		p.say(plain, "  ", "%s%d listed", strings.TrimLeft(line, " "), sr.Listed)
	}
}

// compared writes the books, stream by stream.
func (r *Report) compared(p *page, indent string) {
	for _, sr := range r.Streams {
		if sr.Window.From == nil {
			if sr.Complete && !r.failed {
				p.say(plain, indent, "%s: nothing to judge, no event is old enough", sr.Stream)
			}
			continue
		}
		p.say(plain, indent, "%s: %s, %s", sr.Stream, p.window(sr.Window), things(sr.Pages, "page"))
		p.say(plain, indent+"  ", "%s", sr.books())
		if !sr.Balanced {
			p.say(urgent, indent+"  ", "THE BOOKS DO NOT BALANCE")
		}
		if work := sr.workLine(); work != "" {
			p.say(plain, indent+"  ", "%s", work)
		}
		if ignored := sr.ignoredLine(); ignored != "" {
			p.say(plain, indent+"  ", "ignored: %s", ignored)
		}
		if w := sr.Watermark; sr.Complete && !r.Run.DryRun && w.After != nil && w.After.Before(*sr.Window.From) {
			p.say(plain, indent+"  ", "the next run without --since begins at %s: what lies between was not compared", p.at(*w.After))
		}
	}
}

// books is the first sum: every listed event in its class.
func (sr *StreamReport) books() string {
	var classes []string
	for _, c := range []struct {
		n    int
		name store.Class
	}{{sr.Done, store.Done}, {sr.Missing, store.Missing}, {sr.Stuck, store.Stuck}, {sr.Late, store.Late},
		{sr.Ignored, store.Ignored}, {sr.Unreadable, store.Unreadable}} {
		if c.n > 0 {
			classes = append(classes, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	if len(classes) == 0 {
		return fmt.Sprintf("%d listed", sr.Listed)
	}
	return fmt.Sprintf("%d listed = %s", sr.Listed, strings.Join(classes, " + "))
}

// workStates are the summands of the second sum, as they are shown.
var workStates = []string{"repaired", "superseded", "queued", "planned", "acknowledged", "unrecorded", "held", "rejected",
	"parked", "cancelled", "unreplayable", "none"}

// workLine is the second sum: what became of missing and stuck events.
func (sr *StreamReport) workLine() string {
	var states []string
	for _, state := range workStates {
		if n := sr.Work[state]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(states) == 0 {
		return ""
	}
	return fmt.Sprintf("%d missing or stuck = %s", sr.Missing+sr.Stuck, strings.Join(states, " + "))
}

// ignoredShown is how many types of ignored events are named.
const ignoredShown = 4

func (sr *StreamReport) ignoredLine() string {
	types := slices.Clone(sr.IgnoredTypes)
	slices.SortStableFunc(types, func(a, b IgnoredReport) int { return b.Count - a.Count })
	var texts []string
	for i, t := range types {
		if i == ignoredShown {
			texts = append(texts, fmt.Sprintf("%d other types", len(types)-i))
			break
		}
		texts = append(texts, fmt.Sprintf("%d %s (%s)", t.Count, t.Type, t.Why))
	}
	return strings.Join(texts, ", ")
}
