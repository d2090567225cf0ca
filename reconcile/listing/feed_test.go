package listing_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// from is where the windows of these tests begin.
var from = time.Unix(1767225600, 0).UTC()

// A feed lists events from memory, newest first, a page at a time, as a provider
// with a cursor does.
type feed struct {
	pageSize  int
	repeats   bool      // each page begins with the last event of the page before
	busy      bool      // the cursor gets lost within a second, unless that is asked for alone
	inclusive bool      // windows hold their end, too
	shuffled  bool      // each page comes oldest first
	failAt    int       // the request that fails, and all after it; 0 is none
	late      []arrival // events that become listable while others are listed

	mu       sync.Mutex
	events   []providers.Event // newest first
	requests int
}

// An arrival is an event that is listable from a request on.
type arrival struct {
	event providers.Event
	after int
}

var errPage = errors.New("HTTP 503")

func event(id string, created time.Time) providers.Event {
	return providers.Event{Key: id, ID: id, Type: "invoice.paid", Created: created}
}

func newFeed(created []time.Time) *feed {
	f := &feed{pageSize: 100}
	for i, at := range created {
		f.events = append(f.events, event(fmt.Sprintf("evt_%05d", i), at))
	}
	f.sort()
	return f
}

func (f *feed) sort() {
	slices.SortFunc(f.events, func(a, b providers.Event) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Key, a.Key))
	})
}

// stream is what the engine is told of the feed.
func (f *feed) stream() providers.Stream {
	return providers.Stream{Name: "events", Feed: providers.Feed{
		Order: providers.NewestFirst, Filter: providers.FilterSecond, Splittable: true,
	}}
}

func (f *feed) Events(ctx context.Context, _ providers.Stream, w providers.Window, c providers.Cursor) (providers.Page[providers.Event], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if err := ctx.Err(); err != nil {
		return providers.Page[providers.Event]{}, err
	}
	if f.failAt > 0 && f.requests >= f.failAt {
		return providers.Page[providers.Event]{}, errPage
	}
	f.arrive()
	to := w.To
	if f.inclusive {
		to = to.Add(time.Second)
	}
	matching := f.events[f.newerThan(to):f.newerThan(w.From)]
	start := 0
	if c != "" {
		start = 1 + slices.IndexFunc(matching, func(e providers.Event) bool { return e.Key == string(c) })
	}
	return f.page(matching, start, w), nil
}

// newerThan counts the events that were not created before a time.
func (f *feed) newerThan(at time.Time) int {
	n, _ := slices.BinarySearchFunc(f.events, at, func(e providers.Event, at time.Time) int {
		if e.Created.Before(at) {
			return 1
		}
		return -1
	})
	return n
}

func (f *feed) arrive() {
	for _, a := range f.late {
		if a.after == f.requests {
			f.events = append(f.events, a.event)
			f.sort()
		}
	}
}

func (f *feed) page(matching []providers.Event, start int, w providers.Window) providers.Page[providers.Event] {
	var page providers.Page[providers.Event]
	end := min(start+f.pageSize, len(matching))
	if f.busy && start > 0 && start < end && w.Length() > time.Second && matching[start-1].Created.Equal(matching[start].Created) {
		return page
	}
	page.Items = slices.Clone(matching[start:end])
	if f.repeats && start > 0 {
		page.Items = slices.Insert(page.Items, 0, matching[start-1])
	}
	if f.shuffled {
		slices.Reverse(page.Items)
	}
	if end < len(matching) {
		page.Next = providers.Cursor(matching[end-1].Key)
	}
	return page
}
