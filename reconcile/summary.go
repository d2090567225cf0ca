package reconcile

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nightaudit/nightaudit/store"
)

// TextOptions say how a text summary looks. The zero value is plain text of 80
// columns with times in UTC.
type TextOptions struct {
	Width int            // in columns; 0 is 80, and less than 40 is 40
	Color bool           // colours of the terminal, which add nothing to the words
	Zone  *time.Location // of the times shown; nil is UTC
}

// WriteText writes the document as a summary for a person: of each source how
// the run ended, what was compared, what was repaired, and what is left to whom.
// A night on which all is well takes three lines a source. No line is wider than
// the options say, except for a command that has to stay in one piece.
func (d *Document) WriteText(w io.Writer, o TextOptions) error {
	p := &page{width: max(cmp.Or(o.Width, 80), 40), color: o.Color, zone: o.Zone}
	if p.zone == nil {
		p.zone = time.UTC
	}
	for i, r := range d.Sources {
		if i > 0 {
			p.gap()
		}
		r.summary(p, r.exitCode(d.zeroOnDrift))
	}
	for _, s := range d.Skipped {
		p.say(waiting, "SKIPPED  ", "%s was not run: %s", s.Source, s.Why)
	}
	if len(d.Sources)+len(d.Skipped) > 1 {
		p.gap()
		p.say(outcomeTone(d.Outcome), "", "All sources: %s, exit %d (%s).", outcomeWord(d.Outcome), d.ExitCode, exitMeaning(d.ExitCode))
	}
	if _, err := io.WriteString(w, p.text.String()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// summary writes one source.
func (r *Report) summary(p *page, exit int) {
	groups := r.groups()
	r.headline(p, exit)
	if r.clean() {
		r.listed(p)
		r.cannotShow(p)
		return
	}
	r.runLine(p)
	r.trouble(p)
	r.implausible(p)
	if len(r.Streams) > 0 {
		p.gap()
		p.say(strong, "  ", "Compared")
		r.compared(p, "    ")
	}
	r.done(p)
	r.left(p, groups, true)
	r.left(p, groups, false)
	if len(r.CannotShow) > 0 {
		p.gap()
		r.cannotShow(p)
	}
}

// clean reports whether there is nothing to tell but what was compared.
func (r *Report) clean() bool {
	return len(r.Findings) == 0 && len(r.Reasons) == 0 && !r.Run.DryRun && r.Gate.Why == nil &&
		(r.Run.Outcome == store.InSync || r.Run.Outcome == store.NothingToJudge)
}

// headline says how the run ended, and what nightaudit exits with for that.
func (r *Report) headline(p *page, exit int) {
	word := outcomeWord(r.Run.Outcome)
	p.say(outcomeTone(r.Run.Outcome), word+"  ", "%s (%s), exit %d: %s", r.Source, r.Provider, exit, r.verdict())
}

// outcomeWord is an outcome as a headline shows it.
func outcomeWord(o store.Outcome) string {
	switch o {
	case store.DriftRemains:
		return "DRIFT REMAINS"
	case store.NothingToJudge:
		return "NOTHING TO JUDGE"
	default:
		return strings.ToUpper(strings.ReplaceAll(string(o), "_", " "))
	}
}

func outcomeTone(o store.Outcome) tone {
	switch o {
	case store.InSync, store.AllRepaired, store.NothingToJudge:
		return good
	case store.Interrupted, Skipped:
		return waiting
	default:
		return urgent
	}
}

// exitMeaning is what an exit code says.
func exitMeaning(code int) string {
	switch code {
	case ExitInSync:
		return "nothing to do"
	case ExitDrift:
		return "drift remains"
	case ExitUsage:
		return "bad usage or config"
	case ExitSkipped:
		return "another run was going on"
	case ExitInterrupted:
		return "told to stop"
	default:
		return "something is incomplete, failed or held"
	}
}

// verdict is the headline's sentence.
func (r *Report) verdict() string {
	person, later, repaired := 0, 0, 0
	for _, f := range r.Findings {
		switch {
		case f.NeedsPerson:
			person++
		case f.State == stateOpen:
			later++
		case f.Resolution == store.Repaired:
			repaired++
		}
	}
	left := tally(person, later, repaired)
	switch r.Run.Outcome {
	case store.InSync:
		return join("every event compared is done", left)
	case store.AllRepaired:
		return join(things(repaired, "event")+" repaired and verified in the ledger", tally(person, later, 0))
	case store.NothingToJudge:
		return join("no event is old enough to be judged", left)
	case store.DriftRemains:
		return left
	case store.HeldBack:
		return join("the numbers are implausible, so all replays wait for a person", left)
	case store.Interrupted:
		return join("told to stop", left)
	case store.Failed:
		return join("the run itself went wrong", left)
	default:
		return join(r.whyIncomplete(), left)
	}
}

// tally counts findings by what becomes of them; "" if there are none.
func tally(person, later, repaired int) string {
	var parts []string
	for _, c := range []struct {
		n    int
		text string
	}{{person, "left to a person"}, {later, "left to later runs"}, {repaired, "repaired"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.text))
		}
	}
	return strings.Join(parts, ", ")
}

func join(what, left string) string {
	if left == "" {
		return what
	}
	return what + "; " + left
}

func (r *Report) whyIncomplete() string {
	if r.Coverage.Complete {
		return "a range of time can never be compared any more"
	}
	return "not everything was listed and compared"
}

func (r *Report) runLine(p *page) {
	text := "could not begin"
	if r.Run.ID != "" {
		text = fmt.Sprintf("%s, %s, took %s, mode %s", r.Run.ID, p.at(r.Run.StartedAt),
			took(r.Run.FinishedAt.Sub(r.Run.StartedAt)), r.Run.Mode)
	}
	if r.Run.DryRun {
		text += ", dry run: nothing was stored or sent"
	}
	p.say(plain, "  ", "%s", text)
}

// trouble says what was not compared and why, and how far each stream got.
func (r *Report) trouble(p *page) {
	incomplete := slices.ContainsFunc(r.Streams, func(sr *StreamReport) bool { return !sr.Complete })
	if len(r.Reasons) == 0 && !incomplete {
		return
	}
	p.gap()
	p.say(urgent, "  ", "NOT COMPLETE")
	for _, why := range r.Reasons {
		p.say(plain, "  - ", "%s", why)
	}
	for _, sr := range r.Streams {
		for _, why := range sr.Reasons {
			p.say(plain, "  - ", "%s: %s", sr.Stream, why)
		}
		if !sr.Complete {
			p.say(plain, "    ", "%s", sr.progress(p))
		}
	}
}

// implausible says what the gate would hold, before anybody opens it.
func (r *Report) implausible(p *page) {
	if r.Gate.WouldHold == nil {
		return
	}
	p.gap()
	p.say(urgent, "  ", "LOOKS WRONG")
	p.say(plain, "  - ", "%s", *r.Gate.WouldHold)
}

// progress says how far a stream that is not complete got.
func (sr *StreamReport) progress(p *page) string {
	if sr.Watermark.After == nil {
		return fmt.Sprintf("%s has not been compared yet; the next run tries again", sr.Stream)
	}
	return fmt.Sprintf("%s is fully compared up to %s (%s in this run); the next run goes on from there",
		sr.Stream, p.at(*sr.Watermark.After), things(sr.SubWindows, "sub-window"))
}

// done says what was repaired, and what needs nothing any more.
func (r *Report) done(p *page) {
	closed := make(map[store.Resolution]int)
	for _, f := range r.Findings {
		if f.State == stateClosed {
			closed[f.Resolution]++
		}
	}
	if len(closed) == 0 {
		return
	}
	p.gap()
	p.say(good, "  ", "Done")
	for _, c := range []struct {
		how  store.Resolution
		text string
	}{
		{store.Repaired, "repaired, each one seen in the ledger" + r.withoutAnswer()},
		{store.Healed, "healed without nightaudit"},
		{store.SupersededBy, "superseded: newer state of the same object is in place"},
		{store.Gone, "no longer seen"},
		{store.Acknowledged, "acknowledged by a person, and still so"},
	} {
		if n := closed[c.how]; n > 0 {
			p.say(plain, "    ", "%d %s", n, c.text)
		}
		if c.how == store.Repaired {
			r.repaired(p)
		}
	}
}

// repaired says why the repaired ones needed it, and names some: what
// happened once happens again.
func (r *Report) repaired(p *page) {
	causes := make(map[store.Cause]int)
	var some []string
	for _, f := range r.Findings {
		if f.Resolution != store.Repaired {
			continue
		}
		causes[f.Cause]++
		if len(some) < shown {
			some = append(some, f.Key)
		}
	}
	if len(some) == 0 {
		return
	}
	var texts []string
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		texts = append(texts, fmt.Sprintf("%d %s", causes[cause], strings.ReplaceAll(string(cause), "_", " ")))
	}
	p.say(plain, "      ", "why: %s", strings.Join(texts, ", "))
	if len(some) < closedAs(r.Findings, store.Repaired) {
		some = append(some, "...")
	}
	p.say(plain, "      ", "%s", strings.Join(some, " "))
}

func closedAs(findings []FindingReport, how store.Resolution) int {
	n := 0
	for _, f := range findings {
		if f.Resolution == how {
			n++
		}
	}
	return n
}

// withoutAnswer tells of the repaired ones that no acknowledgement came for.
func (r *Report) withoutAnswer() string {
	var texts []string
	if n := r.Replays.Confirmed; n > 0 {
		texts = append(texts, fmt.Sprintf("%d of them after an attempt without a good answer", n))
	}
	if n := r.Replays.Recorded; n > 0 {
		texts = append(texts, fmt.Sprintf("%d before anything was sent", n))
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

// cannotShow says in one line what a clean report does not prove; where that is
// too short, the report as JSON says the rest.
func (r *Report) cannotShow(p *page) {
	if len(r.CannotShow) == 0 {
		return
	}
	lead, more := fmt.Sprintf("  %s cannot show: ", clean(r.Provider)), " ..."
	room := p.width - utf8.RuneCountInString(lead)
	line := clean(strings.Join(r.CannotShow, "; "))
	if utf8.RuneCountInString(line) > room {
		line = strings.TrimRight(wrap(line, max(room-len(more), 1))[0], ";:,") + more
	}
	p.put(plain, lead, line)
}
