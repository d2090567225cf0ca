package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/reconcile"
)

const (
	fewEvents  = 50_000
	someEvents = 100_000
	manyEvents = 1_000_000
)

// memory runs nightaudit over accounts of different sizes, one event in a
// thousand missing: its peak memory hardly grows with the account, and an event
// costs the same in all of them. Postgres, Stripe and the application are other
// processes and not counted. The smallest account also warms what is to be warm.
func memory(ctx context.Context, e *environment) ([]figure, error) {
	few, err := runOver(ctx, e, fewEvents, 1)
	if err != nil {
		return nil, err
	}
	some, err := runOver(ctx, e, someEvents, repeats)
	if err != nil {
		return nil, err
	}
	many, err := runOver(ctx, e, manyEvents, 1)
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: "peak memory, 1,000,000 events to 50,000", got: many.peak / few.peak, bar: 1.3, unit: "x",
			detail: fmt.Sprintf("%.1f MiB to %.1f MiB", many.peak, few.peak)},
		{name: "peak memory, 1,000,000 events", got: many.peak, bar: 100, unit: "MiB"},
		{name: "time of an event, 1,000,000 to 100,000", got: many.micros / some.micros, bar: 1.10, unit: "x",
			detail: fmt.Sprintf("%.1f µs to %.1f µs", many.micros, some.micros)},
	}, nil
}

// A cost is what an account of some size costs nightaudit.
type cost struct {
	peak   float64 // of memory in MiB, the highest of all runs
	micros float64 // an event by the wall clock, the median of all runs
}

// runOver runs nightaudit so often over an account of so many events, each time
// as if it were the first.
func runOver(ctx context.Context, e *environment, events, times int) (cost, error) {
	s, err := e.shop(ctx, events, "--drop", "0.001")
	if err != nil {
		return cost{}, err
	}
	defer s.stop()
	var nights []*night
	for range times {
		n, err := s.firstRun(ctx)
		if err != nil {
			return cost{}, err
		}
		e.say("a run over %d events took %.1f s, %.1f s of its own CPU, and %.1f MiB", events, n.took.Seconds(), n.cpu.Seconds(), n.peak)
		nights = append(nights, n)
	}
	took := median(nights, func(n *night) time.Duration { return n.took }).took
	peak := slices.MaxFunc(nights, func(a, b *night) int { return cmp.Compare(a.peak, b.peak) }).peak
	return cost{peak: peak, micros: float64(took.Microseconds()) / float64(events)}, nil
}

// firstRun is one run of a nightaudit that knows nothing yet. It must list every
// event and find all that are missing.
func (s *shop) firstRun(ctx context.Context) (*night, error) {
	own, err := s.migrated(ctx)
	if err != nil {
		return nil, err
	}
	before, err := ownPeak()
	if err != nil {
		return nil, err
	}
	n, err := s.reconcile(ctx, own, reconcile.ExitDrift, "--since", s.From.Format(time.RFC3339))
	if err != nil {
		return nil, err
	}
	if n.stream.Listed != s.Events || n.stream.Missing != s.Dropped {
		return nil, fmt.Errorf("a run over %d events, %d of them missing: it listed %d and missed %d", s.Events, s.Dropped,
			n.stream.Listed, n.stream.Missing)
	}
	if n.peak <= before {
		return nil, fmt.Errorf("the peak memory of a run cannot be told: it is below the %.1f MiB of this process, which count as its own; "+
			"measure it alone (-run memory)", before)
	}
	return n, nil
}
