package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

// A story is what the demo tells while it goes on. The first failure to write it
// is kept.
type story struct {
	to    io.Writer
	color bool
	slow  io.Writer // for what is only told when something takes long
	err   error
}

// newStory tells on stdout or, where that is for the drift report alone, on
// stderr.
func newStory(edge *edge, output string) *story {
	if output == "json" {
		return &story{to: edge.stderr(), slow: edge.stderr()}
	}
	return &story{to: edge.stdout(), slow: edge.stderr(), color: terminal(edge.out) && !plain()}
}

// The colours of the summary: they add nothing to the words.
const (
	bold  = "1"
	green = "1;32"
)

func (s *story) line(color, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.color && color != "" {
		text = "\x1b[" + color + "m" + text + "\x1b[0m"
	}
	if _, err := fmt.Fprintln(s.to, text); err != nil && s.err == nil {
		s.err = fmt.Errorf("telling how the demo goes: %w", err)
	}
}

func (s *story) say(format string, args ...any) { s.line("", format, args...) }

func (s *story) title() {
	s.line(bold, "nightaudit demo: a Postgres, a fake Stripe, a fake shop, on this machine alone")
}

func (s *story) slowPostgres() {
	fmt.Fprintln(s.slow, "  still starting a Postgres; where none is installed, it is fetched first (about 30 MB)")
}

// planted tells what went wrong.
func (s *story) planted(p demoPlan) {
	out := p.outage.events
	from, to := out[0].Created, out[len(out)-1].Created.Add(time.Minute)
	s.say("")
	s.line(bold, "Three days, %s, and what nobody noticed", things(p.total, "event"))
	s.say("  %4d  never arrived: %d in a deploy (%s to %s UTC), %d singly", len(out)+len(p.dropped.events), len(out),
		from.Format("Jan 2, 15:04"), to.Format("15:04"), len(p.dropped.events))
	s.say("  %4d  never arrived either, and is out of date: a newer update is in place", len(p.old.events))
	s.say("  %4d  was answered with 200 and then lost: Stripe takes it for delivered", len(p.lost.events))
	s.say("  %4d  was recorded by the shop, and its work never done", len(p.stuck.events))
	s.say("  %4d  endpoint is disabled at Stripe: the next dispute will not arrive", 1)
}

// firstNight tells what the run found and did.
func (s *story) firstNight(doc *reconcile.Document, verified int, report string) {
	n := count(doc)
	s.say("")
	s.line(bold, "First night: nightaudit reconcile --repair")
	s.say("  found     %d of %d: %d missing, %d unfinished; and %d endpoint disabled", n.missing+n.stuck, n.listed, n.missing, n.stuck, n.endpoints)
	s.say("  replayed  %d of %d by signed POSTs to the shop; %d is out of date, not sent", n.attempts, n.missing+n.stuck, n.superseded)
	s.line(green, "  verified  %d of %d are done in the shop's own tables, each exactly once", verified, n.repaired)
	if report != "" {
		s.say("  report    %s", report)
	}
}

// counts are the figures of a drift report.
type counts struct{ listed, done, missing, stuck, endpoints, attempts, repaired, superseded int }

func count(doc *reconcile.Document) (n counts) {
	for _, r := range doc.Sources {
		n.attempts += r.Replays.Attempts
		for _, s := range r.Streams {
			n.listed += s.Listed
			n.done += s.Done
			n.missing += s.Missing
			n.stuck += s.Stuck
		}
		for _, f := range r.Findings {
			switch {
			case f.Scope == store.ScopeEndpoint:
				n.endpoints++
			case f.Resolution == store.Repaired:
				n.repaired++
			case f.Resolution == store.SupersededBy:
				n.superseded++
			}
		}
	}
	return n
}

// secondNight tells that there was nothing to do.
func (s *story) secondNight(doc *reconcile.Document) {
	n := count(doc)
	s.say("")
	s.line(bold, "Once more, after a person has enabled the endpoint (here: the demo)")
	s.line(green, "  IN SYNC   %d listed again: %d done, %d out of date; %d sent, exit %d",
		n.listed, n.done, n.missing, n.attempts, doc.ExitCode)
}

// farewell says what is left, and what to do next.
func (s *story) farewell(d *demo) {
	me := program()
	if d.kept {
		s.kept(d, me)
	}
	s.say("")
	s.line(bold, "On your own account: write nightaudit.yaml (README, \"Set up\"), then")
	for _, next := range []struct{ command, why string }{
		{"check", "is all in place? only reads"},
		{"reconcile --since 72h", "what was lost? sends nothing"},
		{"reconcile --repair", "bring it back, and verify"},
	} {
		s.say("  %s %-21s   # %s", me, next.command, next.why)
	}
}

// kept says how to look at what is kept. Stripe and the shop have ended, and what
// asks them would fail.
func (s *story) kept(d *demo, me string) {
	s.say("  kept      %s, the databases and the config", d.world.dir)
	s.say("")
	s.line(bold, "To look further; the fake Stripe and the fake shop have ended")
	s.say("  %s -c %s findings --all", me, d.world.config)
	s.say("  %s -c %s runs", me, d.world.config)
	s.say("  rm -r %s   # when you have seen enough", d.world.dir)
}

// program is how a person starts this program: by its name, or by the go command,
// which builds in a folder of that name.
func program() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/nightaudit"
	}
	return "nightaudit"
}
