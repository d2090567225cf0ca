package listing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
)

// TestAWalkComesToItsEndWhateverGoesWrong: whenever the feed or the sink fails or
// the walk is told to stop, whichever worker or the sink is the slow one then, no
// goroutine waits for ever, and what was closed had been told, all of it and once.
// The bubble finds those that wait.
func TestAWalkComesToItsEndWhateverGoesWrong(t *testing.T) {
	for seed := range uint64(60) {
		for _, goesWrong := range []string{"nothing", "the feed fails", "it is told to stop", "the sink fails"} {
			synctest.Test(t, func(t *testing.T) { newTrouble(t, seed, goesWrong).check() })
		}
	}
}

// trouble is a walk of which each page, on both sides, takes a time of its own.
type trouble struct {
	*testing.T
	what   string // for a person
	random *rand.Rand
	window providers.Window
	feed   *troubledFeed
	sink   *troubledSink
}

func newTrouble(t *testing.T, seed uint64, goesWrong string) *trouble {
	r := rand.New(rand.NewPCG(seed, 1))
	w := providers.Window{From: from, To: from.Add(time.Duration(1+r.IntN(10*24*3600)) * time.Second)}
	created := make([]time.Time, r.IntN(2000))
	for i := range created {
		created[i] = w.From.Add(time.Duration(r.IntN(int(w.Length()/time.Second))) * time.Second)
	}
	f := &troubledFeed{feed: newFeed(created), slow: rand.New(rand.NewPCG(seed, 2))}
	f.pageSize = []int{1, 3, 20, 100}[r.IntN(4)]
	s := &troubledSink{all: slices.Clone(f.events), slow: rand.New(rand.NewPCG(seed, 3)),
		collector: &collector{told: make(map[string]int), in: make(map[*listing.Part][]providers.Event)}}
	switch at := 1 + r.IntN(len(created)/f.pageSize+3); goesWrong {
	case "the feed fails":
		f.failAt = at
	case "it is told to stop":
		f.stopAt = at
	case "the sink fails":
		s.failAt = at
	}
	return &trouble{T: t, what: fmt.Sprintf("seed %d, %s", seed, goesWrong), random: r, window: w, feed: f, sink: s}
}

func (t *trouble) check() {
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	t.feed.stop = func() { stop(errTold) }
	s := providers.Stream{Name: "events", Feed: []providers.Feed{
		t.feed.stream().Feed,
		{Order: providers.NewestFirst, Filter: providers.FilterSecond},
		{Order: providers.NewestFirst, Filter: providers.FilterDay, Splittable: true},
		{Order: providers.Unordered, Filter: providers.FilterSecond, Splittable: true},
	}[max(0, t.random.IntN(8)-4)]}
	seen, err := listing.Walk(ctx, t.feed, s, t.window, listing.Options{Concurrency: 1 + t.random.IntN(12)}, t.sink)

	reached := t.sink.reached(t.window.From)
	switch {
	case err == nil && (!reached.Equal(t.window.To) || seen.Covered != t.window.Length()):
		t.Fatalf("%s: closed up to %s and covered %s, want all of %v", t.what, reached, seen.Covered, t.window)
	case err != nil && !errors.Is(err, errPage) && !errors.Is(err, errTold) && !errors.Is(err, errSink):
		t.Fatalf("%s: got %v, want the error that was made", t.what, err)
	}
	for _, e := range t.sink.all {
		if n := t.sink.told[e.Key]; n > 1 || n == 0 && e.Created.Before(reached) {
			t.Fatalf("%s: %s of %s was told %d times; closed up to %s", t.what, e.Key, e.Created, n, reached)
		}
	}
	if len(t.sink.wrong) > 0 {
		t.Fatalf("%s: %v", t.what, t.sink.wrong)
	}
}

var (
	errTold = errors.New("told to stop")
	errSink = errors.New("the disk is full")
)

// A troubledFeed cannot decode some events, and from a request on answers only
// when its caller gives up.
type troubledFeed struct {
	*feed
	slow   *rand.Rand
	stop   func()
	stopAt int // 0 is never
}

// Events implements providers.EventFeed.
func (f *troubledFeed) Events(ctx context.Context, s providers.Stream, w providers.Window, c providers.Cursor) (providers.Page[providers.Event], error) {
	f.mu.Lock()
	takes := time.Duration(f.slow.IntN(1000)) * time.Millisecond
	f.mu.Unlock()
	time.Sleep(takes)
	page, err := f.feed.Events(ctx, s, w, c)
	f.mu.Lock()
	stopped := f.stopAt > 0 && f.requests >= f.stopAt
	f.mu.Unlock()
	if stopped {
		f.stop()
		<-ctx.Done()
		return providers.Page[providers.Event]{}, context.Cause(ctx)
	}
	page.Items = slices.DeleteFunc(page.Items, func(e providers.Event) bool {
		if !unreadable(e.Key) {
			return false
		}
		page.Unreadable = append(page.Unreadable, providers.Unreadable{ID: e.Key})
		return true
	})
	return page, err
}

func unreadable(key string) bool { return strings.HasSuffix(key, "7") }

// A troubledSink fails at a call, after which there must be no other.
type troubledSink struct {
	*collector
	all    []providers.Event
	slow   *rand.Rand
	calls  int
	failAt int // 0 is never
}

func (s *troubledSink) call() error {
	time.Sleep(time.Duration(s.slow.IntN(700)) * time.Millisecond)
	if s.calls++; s.failAt == 0 || s.calls < s.failAt {
		return nil
	}
	if s.calls > s.failAt {
		s.wrong = append(s.wrong, "the sink is called again after its error")
	}
	return errSink
}

// Page implements listing.Sink.
func (s *troubledSink) Page(ctx context.Context, p *listing.Part, page listing.Page) error {
	if err := s.call(); err != nil {
		return err
	}
	for _, u := range page.Unreadable {
		s.told[u.ID]++
	}
	return s.collector.Page(ctx, p, page)
}

// Close implements listing.Sink. All that lies in the part was told, also what
// could not be decoded.
func (s *troubledSink) Close(ctx context.Context, p *listing.Part) error {
	if err := s.call(); err != nil {
		return err
	}
	for _, e := range s.all {
		if p.Window.Contains(e.Created) && s.told[e.Key] != 1 {
			s.wrong = append(s.wrong, fmt.Sprintf("%s was told %d times when its part was closed", e.Key, s.told[e.Key]))
		}
	}
	return s.collector.Close(ctx, p)
}
