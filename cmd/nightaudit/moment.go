package main

import (
	"fmt"
	"time"

	"github.com/nightaudit/nightaudit/internal/config"
)

// momentForms are the ways to write one instant on the command line.
const momentForms = "a duration like 72h or 3d, a date like 2026-03-08, or a time like 2026-03-08T02:30:00Z"

// parseMoment reads the value of a flag such as --since: a duration counts back
// from now, a date or time without a zone is in zone. A time that a clock change
// skips is the same distance after the gap, and one that it repeats is the
// first. The future is refused.
func parseMoment(flag, value string, now time.Time, zone *time.Location) (time.Time, error) {
	at, ok := readMoment(value, now, zone)
	if !ok {
		return at, &usageError{fmt.Errorf("%s %q is no moment; give %s", flag, value, momentForms)}
	}
	if at.After(now) {
		return at, &usageError{fmt.Errorf("%s %s is in the future; give a past instant", flag, at.UTC().Format(time.RFC3339))}
	}
	return at.UTC(), nil
}

func readMoment(value string, now time.Time, zone *time.Location) (time.Time, bool) {
	if d, err := config.ParseDuration(value); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at, true
	}
	for _, form := range []string{time.DateOnly, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if wall, err := time.Parse(form, value); err == nil {
			return instantOf(wall, zone), true
		}
	}
	return time.Time{}, false
}

// instantOf is when the clocks of zone show what wall shows in UTC. By the offset
// before a clock change, a skipped time lies as far after the gap, and a repeated
// one is the first.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	_, before := wall.AddDate(0, 0, -1).In(zone).Zone()
	at := wall.Add(-time.Duration(before) * time.Second)
	year, month, day := wall.Date()
	later := time.Date(year, month, day, wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	if !shows(at, wall, zone) && shows(later, wall, zone) {
		return later
	}
	return at
}

func shows(at, wall time.Time, zone *time.Location) bool {
	return at.In(zone).Format(time.DateTime) == wall.Format(time.DateTime)
}
