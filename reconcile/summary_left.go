package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nightaudit/nightaudit/store"
)

// A group is the open findings that are one story: of one kind and cause, with
// replays that stand at the same point.
type group struct {
	story
	findings []FindingReport
}

type story struct {
	person bool
	late   bool
	kind   store.Kind
	cause  store.Cause
	state  store.ReplayState // "" without a replay
	hold   store.Hold
}

// groups are the open findings, story by story; in each the oldest come first.
func (r *Report) groups() []group {
	var groups []group
	for _, f := range r.Findings {
		if f.State != stateOpen {
			continue
		}
		s := storyOf(f)
		i := slices.IndexFunc(groups, func(g group) bool { return g.story == s })
		if i < 0 {
			i, groups = len(groups), append(groups, group{story: s})
		}
		groups[i].findings = append(groups[i].findings, f)
	}
	for _, g := range groups {
		slices.SortStableFunc(g.findings, olderFirst)
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(rank(a.kind)-rank(b.kind), strings.Compare(string(a.hold), string(b.hold)),
			strings.Compare(string(a.state), string(b.state)), strings.Compare(string(a.cause), string(b.cause)))
	})
	return groups
}

func storyOf(f FindingReport) story {
	s := story{person: f.NeedsPerson, late: f.Late, kind: f.Kind, cause: f.Cause}
	if f.Replay != nil {
		s.state, s.hold = f.Replay.State, f.Replay.Hold
	}
	return s
}

func olderFirst(a, b FindingReport) int {
	if a.Event == nil || b.Event == nil || a.Event.Created == nil || b.Event.Created == nil {
		return 0
	}
	return cmp.Or(a.Event.Created.Compare(*b.Event.Created), strings.Compare(a.Key, b.Key))
}

// left writes what is left for a person, or to later runs.
func (r *Report) left(p *page, groups []group, person bool) {
	groups = slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return g.person != person })
	if len(groups) == 0 {
		return
	}
	n := 0
	for _, g := range groups {
		n += len(g.findings)
	}
	p.gap()
	mark, heading, t := "! ", "NEEDS A PERSON", urgent
	if !person {
		mark, heading, t = "- ", "Left to later runs", waiting
	}
	p.say(t, "  ", "%s (%d)", heading, n)
	for i, g := range groups {
		if i > 0 {
			p.gap()
		}
		r.tell(p, mark, g)
	}
}

// shown is how many findings of a group are named.
const shown = 3

// tell writes one group: what it is, the first few, and what to do.
func (r *Report) tell(p *page, mark string, g group) {
	p.say(strong, "  "+mark, "%s", g.title())
	same := g.sameWhy()
	if same {
		p.say(plain, "      ", "%s", why(g.findings[0]))
	}
	r.examples(p, g.findings[:min(shown, len(g.findings))], !same)
	if more := len(g.findings) - shown; more > 0 {
		p.pair("      ", fmt.Sprintf("and %d more: %s", more, r.fullList(g.kind)))
	}
	advice, command := r.advice(g)
	p.say(plain, "      -> ", "%s", advice)
	if command != "" {
		p.put(plain, "         ", clean(command))
	}
}

// sameWhy reports whether all findings of the group say the same of themselves.
func (g group) sameWhy() bool {
	return !slices.ContainsFunc(g.findings, func(f FindingReport) bool { return why(f) != why(g.findings[0]) })
}

// why is what is known of how a finding came to stand where it does.
func why(f FindingReport) string {
	if f.Replay != nil && f.Replay.Reason != "" {
		return f.Replay.Reason
	}
	return f.Detail
}

// fullList is where all findings are shown; those of a dry run are not stored.
func (r *Report) fullList(k store.Kind) string {
	if r.Run.DryRun {
		return "see --output json"
	}
	return fmt.Sprintf("nightaudit findings --source %s --kind %s", clean(r.Source), k)
}

// examples writes findings of one group, one a line where it fits: id, type and
// time, how old it is and, unless the group has said it, why.
func (r *Report) examples(p *page, findings []FindingReport, withWhy bool) {
	rows := make([][]string, len(findings))
	var widths []int
	for i, f := range findings {
		for column, cell := range r.cells(p, f) {
			cell = clean(cell)
			rows[i] = append(rows[i], cell)
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(cell))
		}
	}
	for i, row := range rows {
		p.row("      ", row, widths)
		if withWhy {
			p.say(plain, "        ", "%s", why(findings[i]))
		}
	}
}

// cells are what names a finding.
func (r *Report) cells(p *page, f FindingReport) []string {
	var cells []string
	if e := f.Event; e != nil {
		cells = append(cells, cmp.Or(e.ID, f.Key))
		if e.Type != "" {
			cells = append(cells, e.Type)
		}
		if e.Created != nil {
			cells = append(cells, p.second(*e.Created), age(r.Run.StartedAt.Sub(*e.Created))+" ago")
		}
	} else if f.Scope == store.ScopeEndpoint || f.Kind == store.UnknownEvent {
		cells = append(cells, f.Key)
	}
	var notes []string
	if !f.New {
		notes = append(notes, "open for "+age(r.Run.FinishedAt.Sub(f.FirstSeenAt)))
	}
	if f.Replay != nil && f.Replay.Attempts > 1 {
		notes = append(notes, things(f.Replay.Attempts, "attempt"))
	}
	if len(notes) > 0 {
		cells = append(cells, strings.Join(notes, ", "))
	}
	return cells
}

// title is what a group is, in a line.
func (g group) title() string {
	n := len(g.findings)
	title := titleOf(g.kind, n)
	if g.late {
		title = things(n, "late event")
	}
	if at := stateTitle(g.state, g.hold); at != "" {
		title += ", " + at
	}
	if g.cause == store.NotSubscribed || g.cause == store.DeliveryFailed || g.cause == store.DeliveredNotRecorded && g.kind != store.UnrecordedEvent {
		title += " (" + strings.ReplaceAll(string(g.cause), "_", " ") + ")"
	}
	return title
}

func stateTitle(s store.ReplayState, h store.Hold) string {
	switch s {
	case store.ReplayPlanned:
		return "replay planned"
	case store.ReplayQueued:
		return "replay queued"
	case store.ReplayAcknowledged:
		return "replay acknowledged, not verified yet"
	case store.ReplayUnrecorded:
		return "replay to be sent again"
	case store.ReplayRejected:
		return "replay refused for good"
	case store.ReplayParked:
		return "replay given up"
	case store.ReplayCancelled:
		return "replay cancelled"
	case store.ReplayHeld:
		return "replay held: " + map[store.Hold]string{
			store.HoldGate: "implausible numbers", store.HoldLane: "behind an older one of its object",
			store.HoldTie: "newer or older cannot be told", store.HoldVersion: "other API version",
		}[h]
	default:
		return ""
	}
}
