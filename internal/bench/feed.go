package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
)

// memoryFeed is a provider that lists traffic from memory, as Stripe does: the
// newest first, by seconds. It holds the ids as one text, so that they cost no
// collection of garbage that is not the engine's.
type memoryFeed struct {
	traffic traffic
	lines   string // the ids of the listed events, a line each
	width   int    // of a line
}

func newMemoryFeed(t traffic) *memoryFeed {
	var lines strings.Builder
	for n := range listedEvents {
		lines.WriteString(t.id(listedFrom + n))
		lines.WriteByte('\n')
	}
	return &memoryFeed{traffic: t, lines: lines.String(), width: lines.Len() / listedEvents}
}

func (f *memoryFeed) id(n int) string {
	from := (n - listedFrom) * f.width
	return f.lines[from : from+f.width-1]
}

// feedPage is how many events it gives on a page.
const feedPage = 100

// Describe implements providers.Provider.
func (f *memoryFeed) Describe() providers.Description { return providers.Description{Kind: "bench"} }

// Check implements providers.Provider.
func (f *memoryFeed) Check(context.Context) ([]providers.Probe, error) { return nil, nil }

// Streams implements providers.Provider.
func (f *memoryFeed) Streams(context.Context) ([]providers.Stream, error) {
	return []providers.Stream{{Name: "events", Feed: providers.Feed{Order: providers.NewestFirst, Filter: providers.FilterSecond,
		Splittable: true, Initial: f.traffic.end().Sub(f.traffic.created(listedFrom))}}}, nil
}

// Events implements providers.EventFeed. The cursor is the number of the last
// event given.
func (f *memoryFeed) Events(_ context.Context, _ providers.Stream, w providers.Window, c providers.Cursor) (providers.Page[providers.Event], error) {
	from, to := max(listedFrom, f.traffic.since(w.From)), f.traffic.since(w.To)
	if c != "" {
		last, err := strconv.Atoi(string(c))
		if err != nil {
			return providers.Page[providers.Event]{}, fmt.Errorf("cursor %q is none of this feed: %w", c, err)
		}
		to = last
	}
	first := max(from, to-feedPage)
	var page providers.Page[providers.Event]
	for n := to - 1; n >= first; n-- {
		id := f.id(n)
		page.Items = append(page.Items, providers.Event{Key: id, ID: id, Type: eventType, Created: f.traffic.created(n)})
	}
	if first > from {
		page.Next = providers.Cursor(strconv.Itoa(first))
	}
	return page, nil
}

var _ providers.EventFeed = (*memoryFeed)(nil)
