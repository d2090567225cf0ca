package listing_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
)

// TestEveryEventIsListedOnceHoweverTheWindowIsSplit: whatever the density, the
// size of pages, the number of workers, and what arrives, repeats or fails
// meanwhile, no event is lost and none comes twice.
func TestEveryEventIsListedOnceHoweverTheWindowIsSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := providers.Window{From: from, To: from.Add(time.Duration(rapid.IntRange(1, 30*24*3600).Draw(t, "seconds")) * time.Second)}
		f := newFeed(drawTimes(t, w))
		f.pageSize = rapid.SampledFrom([]int{1, 2, 7, 30, 100}).Draw(t, "page size")
		f.repeats = rapid.Bool().Draw(t, "pages repeat their edge")
		f.busy = rapid.Bool().Draw(t, "cursors get lost in a second")
		f.shuffled = rapid.IntRange(0, 9).Draw(t, "shuffled") == 0
		if rapid.IntRange(0, 2).Draw(t, "fails") == 0 {
			f.failAt = 1 + rapid.IntRange(0, 2*len(f.events)/f.pageSize+2).Draw(t, "at request")
		}
		f.late = drawArrivals(t, w)
		before := slices.Clone(f.events)

		c := &collector{told: make(map[string]int), in: make(map[*listing.Part][]providers.Event)}
		seen, err := listing.Walk(t.Context(), f, f.stream(), w,
			listing.Options{Concurrency: rapid.IntRange(1, 16).Draw(t, "workers")}, c)

		reached := w.To
		if err != nil {
			var cutShort *listing.Incomplete
			if !errors.As(err, &cutShort) || !errors.Is(err, errPage) {
				t.Fatalf("got %v, want a listing cut short by the page that failed", err)
			}
			reached = c.reached(w.From)
			if reached.After(cutShort.Window.From) {
				t.Fatalf("closed up to %s, though %s was not listed", reached, cutShort.Window.From)
			}
		}
		c.check(t, w, reached)
		for _, e := range before {
			if e.Created.Before(reached) && c.told[e.Key] != 1 {
				t.Fatalf("%s of %s was told %d times, want once; closed up to %s", e.Key, e.Created, c.told[e.Key], reached)
			}
		}
		if err == nil && seen.Covered != w.Length() {
			t.Fatalf("covered %s of %s", seen.Covered, w.Length())
		}
	})
}

// drawTimes draws when events happened: rarely, evenly, in bursts, or all at once.
func drawTimes(t *rapid.T, w providers.Window) []time.Time {
	var times []time.Time
	seconds := int(w.Length() / time.Second)
	for range rapid.IntRange(0, 4).Draw(t, "bursts") {
		n := rapid.SampledFrom([]int{1, 3, 40, 250, 600}).Draw(t, "events")
		begin := rapid.IntRange(0, seconds-1).Draw(t, "begin")
		spread := rapid.SampledFrom([]int{1, 2, 60, 3600, seconds}).Draw(t, "spread")
		for i := range n {
			at := begin + i*spread/n
			times = append(times, w.From.Add(time.Duration(at%seconds)*time.Second))
		}
	}
	return times
}

// drawArrivals draws events that become listable while the window is listed, in it
// and after it.
func drawArrivals(t *rapid.T, w providers.Window) []arrival {
	var late []arrival
	for i := range rapid.IntRange(0, 5).Draw(t, "arrivals") {
		ago := rapid.IntRange(-60, int(w.Length()/time.Second)).Draw(t, "ago")
		late = append(late, arrival{
			event: event(fmt.Sprintf("evt_late_%d", i), w.To.Add(-time.Duration(ago)*time.Second)),
			after: rapid.IntRange(1, 20).Draw(t, "after request"),
		})
	}
	return late
}

// A collector is a Sink that keeps what it is told and when.
type collector struct {
	told  map[string]int
	in    map[*listing.Part][]providers.Event
	parts []providers.Window
	wrong []string
}

func (c *collector) Page(_ context.Context, p *listing.Part, page listing.Page) error {
	for _, e := range page.Events {
		c.told[e.Key]++
	}
	c.in[p] = append(c.in[p], page.Events...)
	return nil
}

func (c *collector) Close(_ context.Context, p *listing.Part) error {
	for _, e := range c.in[p] {
		if !p.Window.Contains(e.Created) {
			c.wrong = append(c.wrong, fmt.Sprintf("%s of %s is told in %s to %s", e.Key, e.Created, p.Window.From, p.Window.To))
		}
	}
	delete(c.in, p)
	c.parts = append(c.parts, p.Window)
	return nil
}

// reached is how far the closed parts go.
func (c *collector) reached(from time.Time) time.Time {
	if len(c.parts) == 0 {
		return from
	}
	return c.parts[len(c.parts)-1].To
}

// check holds the parts to the contract of a Sink: they meet, oldest first, and
// nothing is told twice or in a part that it does not belong to.
func (c *collector) check(t *rapid.T, w providers.Window, reached time.Time) {
	at := w.From
	for _, p := range c.parts {
		if !p.From.Equal(at) || p.Empty() {
			t.Fatalf("a part from %s to %s follows what ended at %s", p.From, p.To, at)
		}
		at = p.To
	}
	if !at.Equal(reached) {
		t.Fatalf("the parts end at %s, want %s", at, reached)
	}
	for key, n := range c.told {
		if n > 1 {
			t.Fatalf("%s was told %d times", key, n)
		}
	}
	if len(c.wrong) > 0 {
		t.Fatal(c.wrong)
	}
}

// TestSplittingWastesFewRequests: beyond the pages that hold the events, fewer than
// 3 % and one a worker.
func TestSplittingWastesFewRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := providers.Window{From: from, To: from.Add(time.Duration(rapid.IntRange(1, 30*24).Draw(t, "hours")) * time.Hour)}
		f := newFeed(drawTimes(t, w))
		f.pageSize = rapid.SampledFrom([]int{1, 5, 100}).Draw(t, "page size")
		workers := rapid.IntRange(1, 16).Draw(t, "workers")
		if _, err := listing.Walk(t.Context(), f, f.stream(), w, listing.Options{Concurrency: workers}, listing.Pages(ignore)); err != nil {
			t.Fatal(err)
		}
		pages := max(1, (len(f.events)+f.pageSize-1)/f.pageSize)
		most := pages + int(math.Ceil(0.03*float64(pages))) + workers
		if f.requests > most {
			t.Fatalf("%d events, %d a page, %d workers: %d requests, want at most %d", len(f.events), f.pageSize, workers, f.requests, most)
		}
	})
}

func ignore(listing.Page) error { return nil }

func TestAWindowOfOnePageIsOneRequest(t *testing.T) {
	var daily []time.Time
	for day := range 30 {
		daily = append(daily, from.Add(time.Duration(day)*24*time.Hour))
	}
	f := newFeed(daily)
	w := providers.Window{From: from, To: from.Add(30 * 24 * time.Hour)}
	if _, err := listing.Walk(t.Context(), f, f.stream(), w, listing.Options{}, listing.Pages(ignore)); err != nil || f.requests != 1 {
		t.Errorf("30 events in 30 days: %d requests, %v; want one", f.requests, err)
	}
}

// A provider whose windows hold their end, and whose cursor gets lost there.
func TestAWindowThatHoldsItsEndIsNotListedForEver(t *testing.T) {
	w := providers.Window{From: from, To: from.Add(time.Hour)}
	created := []time.Time{from.Add(30 * time.Minute)}
	for range 250 {
		created = append(created, w.To)
	}
	f := newFeed(created)
	f.inclusive, f.busy = true, true
	c := &collector{told: make(map[string]int), in: make(map[*listing.Part][]providers.Event)}
	if _, err := listing.Walk(t.Context(), f, f.stream(), w, listing.Options{}, c); err == nil && len(c.told) != 1 || f.requests > 20 {
		t.Errorf("%d requests, %d events, %v; want the one event, or an error, after few requests", f.requests, len(c.told), err)
	}
}

func TestAnErrorOfTheSinkEndsTheWalk(t *testing.T) {
	var created []time.Time
	for i := range 1000 {
		created = append(created, from.Add(time.Duration(i)*time.Minute))
	}
	f := newFeed(created)
	full := errors.New("the disk is full")
	w := providers.Window{From: from, To: from.Add(1000 * time.Minute)}
	_, err := listing.Walk(t.Context(), f, f.stream(), w, listing.Options{Concurrency: 4}, listing.Pages(func(listing.Page) error { return full }))
	if !errors.Is(err, full) {
		t.Errorf("got %v, want the sink's own error", err)
	}
	var cutShort *listing.Incomplete
	if errors.As(err, &cutShort) {
		t.Errorf("got %v, which blames the provider", err)
	}
}

func TestAWalkThatIsToldToStopIsIncomplete(t *testing.T) {
	f := newFeed([]time.Time{from.Add(time.Hour)})
	ctx, stop := context.WithCancelCause(t.Context())
	told := errors.New("told to stop")
	stop(told)
	w := providers.Window{From: from, To: from.Add(24 * time.Hour)}
	_, err := listing.Walk(ctx, f, f.stream(), w, listing.Options{}, listing.Pages(ignore))
	var cutShort *listing.Incomplete
	if !errors.As(err, &cutShort) || !errors.Is(err, told) {
		t.Errorf("got %v, want a listing cut short by %q", err, told)
	}
}

// Feeds that cannot be cut at any second are listed in whole days, or in one piece.
func TestFeedsThatCannotBeSplitAreListedWhole(t *testing.T) {
	var created []time.Time
	for i := range 500 {
		created = append(created, from.Add(time.Duration(i)*10*time.Minute))
	}
	w := providers.Window{From: from, To: from.Add(500 * 10 * time.Minute)} // three days and a half
	for _, c := range []struct {
		what  string
		feed  providers.Feed
		parts int
	}{
		{"not splittable", providers.Feed{Order: providers.NewestFirst, Filter: providers.FilterSecond}, 1},
		{"filtered by day", providers.Feed{Order: providers.NewestFirst, Filter: providers.FilterDay, Splittable: true}, 3},
		{"in no order", providers.Feed{Order: providers.Unordered, Filter: providers.FilterSecond, Splittable: true}, 3},
	} {
		f := newFeed(created)
		f.pageSize = 40
		col := &collector{told: make(map[string]int), in: make(map[*listing.Part][]providers.Event)}
		s := providers.Stream{Name: "events", Feed: c.feed}
		if _, err := listing.Walk(t.Context(), f, s, w, listing.Options{Concurrency: 3}, col); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if len(col.told) != 500 || len(col.parts) != c.parts {
			t.Errorf("%s: %d events in %d parts, want 500 in %d", c.what, len(col.told), len(col.parts), c.parts)
		}
	}
}
