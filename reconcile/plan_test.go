package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

const day = 24 * time.Hour

var planned = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// stripeLike is a planning of a feed like Stripe's, at the time planned.
func stripeLike() planning {
	return planning{now: planned, stream: providers.Stream{Name: "events", Feed: providers.Feed{
		Settle: 10 * time.Minute, Overlap: time.Hour, Initial: 3 * day, Retention: 30 * day,
	}}}
}

func ago(d time.Duration) time.Time { return planned.Add(-d) }

func TestWindowsAreHalfOpenAndBeginBehindTheWatermark(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*planning)
		from, to time.Time
		gap      *providers.Window
	}{
		{"a new stream", func(*planning) {}, ago(3*day + time.Hour), ago(10 * time.Minute), nil},
		{"a new stream of a ledger that forgets sooner", func(p *planning) { p.keeps = 2 * day }, ago(2 * day), ago(10 * time.Minute), nil},
		{"a new stream of a feed that forgets sooner", func(p *planning) { p.stream.Feed.Initial = 60 * day }, ago(30 * day), ago(10 * time.Minute), nil},
		{"the next night", func(p *planning) { p.remembered = &store.Stream{Watermark: ago(day)} }, ago(day + time.Hour), ago(10 * time.Minute), nil},
		{"an overlap that reaches behind retention is no gap", func(p *planning) {
			p.remembered = &store.Stream{Watermark: ago(30*day - time.Minute)}
		}, ago(30 * day), ago(10 * time.Minute), nil},
		{"a watermark behind retention", func(p *planning) { p.remembered = &store.Stream{Watermark: ago(40 * day)} },
			ago(30 * day), ago(10 * time.Minute), &providers.Window{From: ago(40 * day), To: ago(30 * day)}},
		{"a watermark behind what the ledger keeps", func(p *planning) {
			p.keeps, p.remembered = 10*day, &store.Stream{Watermark: ago(20 * day)}
		}, ago(10 * day), ago(10 * time.Minute), &providers.Window{From: ago(20 * day), To: ago(10 * day)}},
		{"by hand", func(p *planning) { p.since, p.until = ago(5*day), ago(4*day) }, ago(5 * day), ago(4 * day), nil},
		{"by hand up to the present", func(p *planning) { p.since, p.until = ago(5*day), planned }, ago(5 * day), ago(10 * time.Minute), nil},
		{"an included type that is new", func(p *planning) {
			p.remembered = &store.Stream{Watermark: ago(day), Include: []string{"invoice.*"}}
			p.include = []string{"invoice.*", "charge.*"}
		}, ago(3 * day), ago(10 * time.Minute), nil},
		{"an included type fewer", func(p *planning) {
			p.remembered = &store.Stream{Watermark: ago(day), Include: []string{"invoice.*", "charge.*"}}
			p.include = []string{"invoice.*"}
		}, ago(day + time.Hour), ago(10 * time.Minute), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := stripeLike()
			c.change(&p)
			got, err := planStream(p)
			if err != nil {
				t.Fatal(err)
			}
			if !got.window.From.Equal(c.from) || !got.window.To.Equal(c.to) {
				t.Errorf("window: got %s to %s, want %s to %s", got.window.From, got.window.To, c.from, c.to)
			}
			if (got.gap == nil) != (c.gap == nil) || got.gap != nil && (!got.gap.From.Equal(c.gap.From) || !got.gap.To.Equal(c.gap.To)) {
				t.Errorf("gap: got %v, want %v", got.gap, c.gap)
			}
			if (got.create != nil) != (p.remembered == nil) {
				t.Errorf("create: got %v, remembered %v", got.create, p.remembered)
			}
		})
	}
}

func TestWhatIsAskedForByHandAndMakesNoSenseIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*planning)
		says   []string
	}{
		{"beyond retention", func(p *planning) { p.since = ago(31 * day) }, []string{"lists 720h back", "--since 720h"}},
		{"beyond what the ledger keeps", func(p *planning) { p.since, p.keeps = ago(8*day), 7*day }, []string{"ledger.keeps", "--since 168h"}},
		{"younger than what is judged", func(p *planning) { p.since = ago(time.Minute) }, []string{"window.settle", "11m"}},
		{"in the future", func(p *planning) { p.since = planned.Add(day) }, []string{"empty"}},
		{"an end before the beginning", func(p *planning) { p.since, p.until = ago(day), ago(2*day) }, []string{"empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := stripeLike()
			p.hand = true
			c.change(&p)
			_, err := planStream(p)
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Fatalf("got %v, want a usage error", err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want it to say %q", err, part)
				}
			}
		})
	}
}

func TestThePatternsToRememberAreThoseThatChanged(t *testing.T) {
	for _, c := range []struct{ before, now, want []string }{
		{nil, nil, nil},
		{[]string{"a"}, []string{"a"}, nil},
		{nil, []string{"a"}, []string{"a"}},
		{[]string{"a", "b"}, []string{"a"}, []string{"a"}},
		{[]string{"a"}, nil, []string{}},
	} {
		p := stripeLike()
		p.remembered, p.include = &store.Stream{Watermark: ago(day), Include: c.before}, c.now
		got, err := planStream(p)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.include, c.want) || (got.include == nil) != (c.want == nil) {
			t.Errorf("from %q to %q: got %#v, want %#v", c.before, c.now, got.include, c.want)
		}
	}
}

func TestTheWatermarkMovesOnlyOverWhatIsListedWhole(t *testing.T) {
	for _, c := range []struct {
		name  string
		since time.Time
		moves bool
	}{
		{"by schedule", time.Time{}, true},
		{"by hand from before the overlap", ago(2 * day), true},
		{"by hand from where the schedule would begin", ago(day + time.Hour), true},
		{"by hand from within the overlap", ago(day + time.Minute), false},
		{"by hand from after the watermark", ago(time.Hour), false},
	} {
		p := stripeLike()
		p.remembered, p.since = &store.Stream{Watermark: ago(day)}, c.since
		got, err := planStream(p)
		if err != nil {
			t.Fatal(err)
		}
		if got.moves != c.moves {
			t.Errorf("%s: moves the watermark %v, want %v", c.name, got.moves, c.moves)
		}
	}
}
