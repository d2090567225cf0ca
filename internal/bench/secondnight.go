package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nightaudit/nightaudit/reconcile"
)

const (
	nightEvents = 20_000
	// spareRequests are those of a run beside the pages of its window: the look at
	// the endpoints, and a page that says that a part of the window is empty.
	spareRequests = 3
)

// handlingTakes is how long after an event the application has handled it.
const handlingTakes = time.Minute

const handledLaterSQL = `
UPDATE public.processed_events
SET handled_at = handled_at + $1`

// secondNight counts the requests of a run after one in which all was in sync,
// when nothing has happened since: right away, and a day later.
func secondNight(ctx context.Context, e *environment) ([]figure, error) {
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	s, err := e.shop(ctx, nightEvents, "--to", yesterday)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.inLedger(ctx, handledLaterSQL, handlingTakes); err != nil {
		return nil, fmt.Errorf("moving the rows of the ledger: %w", err)
	}
	own, err := s.migrated(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.reconcile(ctx, own, reconcile.ExitInSync, "--until", yesterday); err != nil {
		return nil, err
	}
	again, err := s.reconcile(ctx, own, reconcile.ExitInSync, "--until", yesterday)
	if err != nil {
		return nil, err
	}
	later, err := s.reconcile(ctx, own, reconcile.ExitInSync)
	if err != nil {
		return nil, err
	}
	return []figure{again.requested("requests of a second night, right away"), later.requested("requests of a second night, a day later")}, nil
}

// requested holds the requests of a run against the pages that its window fills.
func (n *night) requested(name string) figure {
	pages := pagesOf(n.stream.Listed)
	return figure{name: name, got: float64(n.requests), bar: float64(pages + spareRequests), unit: "requests",
		detail: fmt.Sprintf("%d events in its window", n.stream.Listed)}
}
