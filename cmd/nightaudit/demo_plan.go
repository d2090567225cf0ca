package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/store"
)

// demoSeed makes each demo the same story.
const demoSeed = 20260301

// demoDays is how far back the story goes: as far as a first run looks at Stripe.
const demoDays = 3

// A loss is one way in which events were lost, and what reconcile is to make of
// them.
type loss struct {
	kind   store.Kind
	cause  store.Cause
	end    store.Resolution
	events []simulator.Event
}

// A demoPlan is what is wrong in the demo, so that what reconcile says can be
// held against it.
type demoPlan struct {
	total    int // events that Stripe has
	webhooks simulator.Endpoint
	disputes simulator.Endpoint // is disabled

	outage  loss // a deploy: one stretch of time
	dropped loss // one by one
	lost    loss // acknowledged, and never recorded
	stuck   loss // recorded, and never done
	old     loss // of a subscription whose newer state is in place

	newer simulator.Event // that newer state
}

func (p demoPlan) losses() []loss { return []loss{p.outage, p.dropped, p.lost, p.stuck, p.old} }

// ordinary are the types of the shop's traffic. Each is a fact about an object
// of its own, so that one never makes another superfluous.
var ordinary = []string{
	"charge.succeeded", "charge.succeeded", "payment_intent.succeeded", "payment_intent.succeeded",
	"invoice.finalized", "invoice.paid", "invoice.payment_failed", "checkout.session.completed", "charge.refunded",
}

const subscriptionUpdated = "customer.subscription.updated"

// plant gives Stripe its endpoints at the shop and some events of the last three
// days, and decides which of them went wrong. Below 8 events there are 8.
func plant(s *simulator.Stripe, shop string, events int, now time.Time) demoPlan {
	to := now.Add(-20 * time.Minute).UTC().Truncate(time.Second)
	from := now.AddDate(0, 0, -demoDays).UTC().Truncate(time.Second)
	after := func(hours int) time.Time { return from.Add(time.Duration(hours) * time.Hour) }
	var p demoPlan
	p.webhooks = s.AddEndpoint(simulator.Endpoint{URL: shop + "/webhooks/stripe", Created: from.AddDate(-1, 0, 0),
		Types: append([]string{subscriptionUpdated}, slices.Compact(slices.Sorted(slices.Values(ordinary)))...)})
	p.disputes = s.AddEndpoint(simulator.Endpoint{URL: shop + "/webhooks/disputes", Created: from.AddDate(-1, 0, 0),
		Types: []string{"charge.dispute.closed", "charge.dispute.created"}, Disabled: true})

	alone := []simulator.Emission{
		{Type: "charge.succeeded", Created: after(9)},
		{Type: "invoice.payment_failed", Created: after(50)},
		{Type: "checkout.session.completed", Created: after(38)},
		{Type: "invoice.paid", Created: after(44)},
		subscription("past_due", after(60)),
		subscription("active", to),
	}
	s.AddHistory(simulator.History{Seed: demoSeed, N: max(events-len(alone), 2), From: from, To: to, Types: ordinary})
	history := slices.Collect(s.All(""))
	p.outage = undelivered(store.Repaired, outage(history)...)
	emitted := make([]simulator.Event, len(alone))
	for i, e := range alone {
		emitted[i] = s.Emit(e)
	}
	p.dropped = undelivered(store.Repaired, emitted[0:2]...)
	p.lost = loss{store.MissingEvent, store.DeliveredNotRecorded, store.Repaired, emitted[2:3]}
	p.stuck = loss{store.StuckEvent, store.RecordedNotDone, store.Repaired, emitted[3:4]}
	p.old, p.newer = undelivered(store.SupersededBy, emitted[4]), emitted[5]
	p.total = len(history) + len(emitted)
	return p
}

// undelivered is a loss that Stripe itself knows of.
func undelivered(end store.Resolution, events ...simulator.Event) loss {
	return loss{store.MissingEvent, store.DeliveryFailed, end, events}
}

// subscription tells of the state of one subscription.
func subscription(status string, at time.Time) simulator.Emission {
	return simulator.Emission{Type: subscriptionUpdated, Created: at,
		Object: simulator.Object{ID: "sub_1NaDemoShopSubscription", Set: map[string]any{"status": status}}}
}

// outage are the events of one stretch of time a day after the beginning: one in
// a hundred of all, and no more than reconcile sends without asking.
func outage(history []simulator.Event) []simulator.Event {
	at, n := len(history)/demoDays, min(max(len(history)/100, 1), 4000)
	return history[at : at+n]
}

// liveThroughIt lets the shop have handled what was not lost.
func (w *demoWorld) liveThroughIt(ctx context.Context) error {
	never := make(map[string]bool) // reached the shop, or its ledger
	for _, l := range []loss{w.plan.outage, w.plan.dropped, w.plan.old} {
		for _, e := range l.events {
			never[e.ID] = true
		}
	}
	lost := w.plan.lost.events[0].ID
	handled := func(yield func(simulator.Event) bool) {
		for e := range w.stripe.All("") {
			if never[e.ID] {
				continue
			}
			w.stripe.Acknowledge(e)
			if e.ID != lost && (ctx.Err() != nil || !yield(e)) {
				return
			}
		}
	}
	if _, err := w.stripe.Backfill(ctx, w.shop, handled); err != nil {
		return err
	}
	if _, err := w.shop.Exec(ctx, getStuckSQL, w.plan.stuck.events[0].ID); err != nil {
		return fmt.Errorf("leaving the work of an event undone: %w", err)
	}
	return nil
}

// getStuckSQL takes back the work of an event and leaves its row.
const getStuckSQL = `
WITH undone AS (
	DELETE FROM public.effects
	WHERE event_id = $1
	RETURNING event_id
)
UPDATE public.processed_events AS p
SET status = 'pending'
FROM undone
WHERE p.event_id = undone.event_id`
