package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMomentsAreReadInTheConfigsZone(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ what, value, want string }{
		{"a date is its midnight there", "2026-03-08", "2026-03-08T05:00:00Z"},
		{"a time in summer", "2026-07-01T12:00", "2026-07-01T16:00:00Z"},
		{"a time that the clock change skips is as far after the gap", "2026-03-08T02:30:00", "2026-03-08T07:30:00Z"},
		{"a time that comes twice is the first one", "2026-11-01T01:30:00", "2026-11-01T05:30:00Z"},
		{"a time after the second one comes once", "2026-11-01T02:00:00", "2026-11-01T07:00:00Z"},
		{"a zone of its own wins", "2026-03-08T02:30:00+01:00", "2026-03-08T01:30:00Z"},
		{"a duration counts back from now", "36h", "2026-11-30T00:00:00Z"},
		{"days are 24 hours", "3d", "2026-11-28T12:00:00Z"},
		{"now is not the future", "0s", "2026-12-01T12:00:00Z"},
	} {
		got, err := parseMoment("--since", c.value, now, newYork)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s: %q: got %s, %v, want %s", c.what, c.value, got.Format(time.RFC3339), err, c.want)
		}
	}
}

func TestMomentsThatAreRefused(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ what, value, want string }{
		{"the future", "2099-01-01", "is in the future"},
		{"a second ahead", "2026-12-01T12:00:01Z", "is in the future"},
		{"a word", "yesterday", "is no moment; give a duration like 72h"},
		{"a number without a unit", "36", "is no moment"},
		{"a negative duration", "-36h", "is no moment"},
		{"a day that there is not", "2026-02-30", "is no moment"},
		{"blanks", " ", "is no moment"},
	} {
		got, err := parseMoment("--until", c.value, now, time.UTC)
		var usage *usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "--until ") {
			t.Errorf("%s: %q: got %s, %v, want a usage error with %q", c.what, c.value, got, err, c.want)
		}
	}
}
