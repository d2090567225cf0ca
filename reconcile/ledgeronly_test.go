package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// hourly adds hours to l, one sub-window each with so many events.
func hourly(l *ledgerOnly, hours, events int) {
	from := l.due().To
	if from.IsZero() {
		from = l.from
	}
	for h := range hours {
		sub := &subWindow{window: providers.Window{From: from.Add(time.Duration(h) * time.Hour), To: from.Add(time.Duration(h+1) * time.Hour)}}
		for i := range events {
			l.note(sub, fmt.Sprintf("%s/%d", sub.window.From.Format(time.DateTime), i))
		}
		l.add(sub)
	}
}

func TestRowsAreLookedAtADayAtATimeOrSoonerIfThereAreMany(t *testing.T) {
	for _, c := range []struct {
		hours, events int
		want          bool
	}{{23, 10, false}, {24, 10, true}, {2, mostKeys - 1, false}, {2, mostKeys, true}} {
		l := &ledgerOnly{from: planned}
		hourly(l, c.hours, c.events)
		if got := l.full(); got != c.want {
			t.Errorf("%d hours of %d events: full %v, want %v", c.hours, c.events, got, c.want)
		}
	}
}

func TestWhatWasListedADayBeforeARowIsRemembered(t *testing.T) {
	l := &ledgerOnly{from: planned}
	hourly(l, 30, 2)
	l.checked(l.due())
	hourly(l, 24, 2)
	for _, c := range []struct {
		hour    int
		handled time.Time
		want    bool
	}{
		{40, planned.Add(40 * time.Hour), true},
		{40, planned.Add(53 * time.Hour), true},
		{20, planned.Add(31 * time.Hour), true},
		{50, planned.Add(40 * time.Hour), true}, // handled by a clock that is behind
		{2, planned.Add(31 * time.Hour), false}, // long before
	} {
		key := fmt.Sprintf("%s/1", planned.Add(time.Duration(c.hour)*time.Hour).Format(time.DateTime))
		if got := l.listed(key, c.handled); got != c.want {
			t.Errorf("an event of hour %d, handled at %s: listed %v, want %v", c.hour, c.handled, got, c.want)
		}
	}
	if l.listed("another", planned.Add(40*time.Hour)) {
		t.Error("an event that nobody listed counts as listed")
	}
}

func TestManyEventsTakeLittleMemory(t *testing.T) {
	l := &ledgerOnly{from: planned}
	for range 20 {
		hourly(l, 1, mostKeys/4)
		if l.full() {
			l.checked(l.due())
		}
		if l.keys > 2*mostKeys {
			t.Fatalf("%d keys are held, want at most %d", l.keys, 2*mostKeys)
		}
	}
}
