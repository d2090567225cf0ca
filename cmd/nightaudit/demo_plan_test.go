package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/simulator"
)

// planned is what a demo of a number of events would be, at a time.
func planned(events int, now time.Time) demoPlan {
	return plant(simulator.NewStripe(simulator.StripeOptions{Seed: demoSeed}), "http://shop.test", events, now)
}

// lostIDs are the ids of all that went wrong.
func lostIDs(p demoPlan) []string {
	ids := []string{p.webhooks.ID, p.disputes.ID}
	for _, l := range p.losses() {
		for _, e := range l.events {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func TestADemoIsTheSameStoryEachTime(t *testing.T) {
	t.Parallel()
	one := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	other := one.Add(1000*time.Hour + 17*time.Minute)
	if got, want := lostIDs(planned(300, other)), lostIDs(planned(300, one)); !slices.Equal(got, want) {
		t.Errorf("what went wrong at %s: got %q, want as at %s: %q", other, got, one, want)
	}
}

func TestADemoOfAnySizeHasRoomForAllThatGoesWrong(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	for _, c := range []struct{ events, total, outage int }{
		{1, 8, 1}, {8, 8, 1}, {9, 9, 1}, {250, 250, 2}, {3000, 3000, 29}, {500_000, 500_000, 4000},
	} {
		t.Run(fmt.Sprint(c.events), func(t *testing.T) {
			t.Parallel()
			p := planned(c.events, now)
			if p.total != c.total || len(p.outage.events) != c.outage {
				t.Errorf("got %d events, %d of them in the outage; want %d and %d", p.total, len(p.outage.events), c.total, c.outage)
			}
			ids := lostIDs(p)
			slices.Sort(ids)
			if once := slices.Compact(slices.Clone(ids)); len(once) != len(ids) {
				t.Errorf("got an event that went wrong in two ways: %q", ids)
			}
			for _, l := range p.losses() {
				for _, e := range l.events {
					if age := now.Sub(e.Created); age < 15*time.Minute || age > demoDays*24*time.Hour {
						t.Errorf("%s is %s old; want it old enough to be judged, and in the window of a first run", e.ID, age)
					}
				}
			}
			if !p.newer.Created.After(p.old.events[0].Created) || p.newer.Subject != p.old.events[0].Subject {
				t.Errorf("got %+v as newer state than %+v", p.newer, p.old.events[0])
			}
		})
	}
}
