package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

// claims gathers what the demo says that does not hold.
type claims struct{ broken []string }

// that notes a claim unless it holds.
func (c *claims) that(holds bool, format string, args ...any) {
	if !holds {
		c.broken = append(c.broken, fmt.Sprintf(format, args...))
	}
}

// shownClaims is how many broken claims are told.
const shownClaims = 5

func (c *claims) err() error {
	n := len(c.broken)
	if n == 0 {
		return nil
	}
	if n > shownClaims {
		c.broken = append(c.broken[:shownClaims], fmt.Sprintf("and %d more", n-shownClaims))
	}
	return fmt.Errorf("the demo did not go as told: %s; look into it with --keep, and please report it",
		strings.Join(c.broken, "; "))
}

// checkFirstNight holds the report against what was planted, and both against
// the shop's own tables. It gives the number of events that these show as done
// which were not before.
func (w *demoWorld) checkFirstNight(ctx context.Context, doc *reconcile.Document) (verified int, err error) {
	var c claims
	c.that(doc.ExitCode == reconcile.ExitDrift, "the first night exits with %d (%s), not with %d", doc.ExitCode, doc.Outcome, reconcile.ExitDrift)
	for _, r := range doc.Sources {
		w.checkBooks(&c, r)
		differs := w.plan.verdicts().difference(r.Findings)
		c.that(differs == "", "the findings are not what was planted: %s", differs)
	}
	w.checkPosts(&c)
	verified, err = w.checkTables(ctx, &c)
	if err != nil {
		return 0, err
	}
	return verified, c.err()
}

func (w *demoWorld) checkBooks(c *claims, r *reconcile.Report) {
	listed := 0
	for _, s := range r.Streams {
		listed += s.Listed
		c.that(s.Balanced, "the books of %s do not balance", s.Stream)
	}
	c.that(r.Coverage.Complete, "not everything was compared (%s)", r.Run.Outcome)
	c.that(listed == w.plan.total, "%d events were listed of %d", listed, w.plan.total)
}

// A verdict is how a finding is to end.
type verdict struct {
	kind  store.Kind
	cause store.Cause
	end   store.Resolution // "" while it is open
}

// verdicts are what the findings must be, by the id of event or endpoint.
type verdicts map[string]verdict

func (p demoPlan) verdicts() verdicts {
	all := verdicts{p.disputes.ID: {kind: store.EndpointDisabled, cause: store.CauseUnknown}}
	for _, l := range p.losses() {
		for _, e := range l.events {
			all[e.ID] = verdict{l.kind, l.cause, l.end}
		}
	}
	return all
}

// difference says where the findings first differ from the verdicts; "" if they
// do not.
func (v verdicts) difference(findings []reconcile.FindingReport) string {
	for _, f := range findings {
		id := f.Key
		if f.Event != nil {
			id = f.Event.ID
		}
		got, want := verdict{f.Kind, f.Cause, f.Resolution}, v[id]
		if got != want {
			return fmt.Sprintf("%s: %v, not %v", id, got, want)
		}
	}
	if len(findings) != len(v) {
		return fmt.Sprintf("%d of %d", len(findings), len(v))
	}
	return ""
}

// checkPosts sees at the shop that each lost event was sent once, and the old
// state not at all.
func (w *demoWorld) checkPosts(c *claims) {
	for _, e := range w.plan.repairable() {
		c.that(w.app.Posts(e.ID) == 1, "%s was sent %d times, not once", e.ID, w.app.Posts(e.ID))
	}
	old := w.plan.old.events[0].ID
	c.that(w.app.Posts(old) == 0, "%s was sent although newer state of its subscription was in place", old)
}

// repairable are the events that a replay brings back.
func (p demoPlan) repairable() []simulator.Event {
	return slices.Concat(p.outage.events, p.dropped.events, p.lost.events, p.stuck.events)
}

// checkTables looks at the shop's own tables: all is done and has had its effect
// once, but for the old state, and the newer one is still in place.
func (w *demoWorld) checkTables(ctx context.Context, c *claims) (verified int, err error) {
	repaired := make([]string, 0, w.plan.total)
	for _, e := range w.plan.repairable() {
		repaired = append(repaired, e.ID)
	}
	var done, recorded, twice int
	var state string
	err = w.shop.QueryRow(ctx, tablesSQL, pgx.NamedArgs{"repaired": repaired, "subject": w.plan.newer.Subject.String(),
		"newer": w.plan.newer.ID}).Scan(&verified, &done, &recorded, &twice, &state)
	if err != nil {
		return 0, fmt.Errorf("looking at the shop's tables: %w", err)
	}
	c.that(verified == len(repaired), "%d of %d repaired events are done in the shop's tables", verified, len(repaired))
	c.that(done == w.plan.total-1 && recorded == done, "%d of %d rows of the shop's ledger are done, not %d", done, recorded, w.plan.total-1)
	c.that(twice == 0, "%d events had their effect more than once", twice)
	c.that(state == "active", "the subscription is %q in the shop, not active as it is now", state)
	return verified, nil
}

const tablesSQL = `
SELECT
	(SELECT count(*)
	 FROM public.processed_events AS p
	 JOIN public.effects AS e ON e.event_id = p.event_id AND e.n = 1
	 WHERE p.event_id = ANY (@repaired) AND p.status = 'done'),
	(SELECT count(*) FROM public.processed_events WHERE status = 'done'),
	(SELECT count(*) FROM public.processed_events),
	(SELECT count(*) FROM public.effects WHERE n <> 1),
	coalesce((SELECT state FROM public.object_states WHERE subject = @subject AND event_id = @newer), '')`

// checkSecondNight sees that nothing was left to do. sent is how much the shop
// had been sent before.
func (w *demoWorld) checkSecondNight(ctx context.Context, first, second *reconcile.Document, sent int) error {
	var c claims
	c.that(second.ExitCode == reconcile.ExitInSync && second.Outcome == store.InSync,
		"the second night exits with %d (%s), not with %d", second.ExitCode, second.Outcome, reconcile.ExitInSync)
	for _, r := range second.Sources {
		w.checkBooks(&c, r)
		c.that(r.Replays.Attempts == 0, "the second night sent %d replays", r.Replays.Attempts)
		for _, f := range r.Findings {
			c.that(f.Resolution != "", "%s of %s is still open", f.Kind, f.Key)
		}
	}
	c.that(len(second.Sources) == len(first.Sources), "the second night ran %d sources", len(second.Sources))
	c.that(w.app.Received() == sent, "the shop was sent %d requests in the second night", w.app.Received()-sent)
	if _, err := w.checkTables(ctx, &c); err != nil {
		return err
	}
	return c.err()
}
