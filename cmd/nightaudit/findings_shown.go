package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/store"
)

// A findingShown is a finding as --output json gives it.
type findingShown struct {
	ID           string           `json:"id"`
	Source       string           `json:"source"`
	Stream       string           `json:"stream"`
	Kind         store.Kind       `json:"kind"`
	Key          string           `json:"key"`
	Open         bool             `json:"open"`
	Resolution   store.Resolution `json:"resolution"`
	Cause        store.Cause      `json:"cause"`
	Detail       string           `json:"detail"`
	EventType    string           `json:"event_type"`
	EventCreated *time.Time       `json:"event_created"` // null if it is about no event, or its time is not known
	Late         bool             `json:"late"`          // it may still come by itself until due_at
	FirstSeenAt  time.Time        `json:"first_seen_at"`
	LastSeenAt   time.Time        `json:"last_seen_at"`
	DueAt        *time.Time       `json:"due_at"`
	Replay       *replayShown     `json:"replay"` // its newest; null if there is none
}

// A replayShown is where the replay of a finding stands.
type replayShown struct {
	ID       string            `json:"id"`
	State    store.ReplayState `json:"state"`
	Hold     store.Hold        `json:"hold"` // "" if it is not held
	Attempts int               `json:"attempts"`
	Reason   string            `json:"reason"`
}

func showFinding(f store.Finding, replays map[string]store.Replay) findingShown {
	shown := findingShown{
		ID: f.ID, Source: f.Source, Stream: f.Stream, Kind: f.Kind, Key: f.Key, Open: f.Open, Resolution: f.Resolution,
		Cause: f.Cause, Detail: f.Detail, EventType: f.EventType, EventCreated: utc(f.EventCreated),
		Late: f.Open && f.Class == store.Late, FirstSeenAt: f.FirstSeenAt.UTC(), LastSeenAt: f.LastSeenAt.UTC(), DueAt: utc(f.DueAt),
	}
	if r, ok := replays[f.ID]; ok {
		shown.Replay = &replayShown{r.ID, r.State, r.Hold, r.Attempts, r.Reason}
	}
	return shown
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	in := t.UTC()
	return &in
}

// writeFindings writes findings for a person, and says so if there are more.
func writeFindings(w io.Writer, shown []findingShown, all int, zone *time.Location) error {
	if len(shown) == 0 {
		_, err := fmt.Fprintln(w, "nothing is open")
		return err
	}
	for _, f := range shown {
		for i, line := range f.lines(zone) {
			if i > 0 {
				line = "    " + line
			}
			if _, err := fmt.Fprintln(w, oneLine(line)); err != nil {
				return err
			}
		}
	}
	if len(shown) < all {
		_, err := fmt.Fprintf(w, "these are the first %d of %d; --limit 0 shows all\n", len(shown), all)
		return err
	}
	return nil
}

// lines are a finding in words: what it is, why, where its replay stands, and
// since when it is known.
func (f findingShown) lines(zone *time.Location) []string {
	lines := []string{strings.Join([]string{string(f.Kind), f.Source, f.Key}, "  ")}
	if f.Late {
		lines[0] += "  (late)"
	}
	var event []string
	if f.EventType != "" {
		event = append(event, f.EventType)
	}
	if f.EventCreated != nil {
		event = append(event, "of "+clock(*f.EventCreated, zone))
	}
	event = append(event, "cause "+string(f.Cause))
	lines = append(lines, strings.Join(event, ", "), f.Detail)
	if f.Late && f.DueAt != nil {
		lines = append(lines, "late: not lost before "+clock(*f.DueAt, zone))
	}
	if f.Replay != nil {
		lines = append(lines, f.Replay.line())
	}
	since := "since " + clock(f.FirstSeenAt, zone)
	if !f.Open {
		since += ", closed: " + string(f.Resolution)
	}
	return append(lines, since+", "+f.ID)
}

func (r replayShown) line() string {
	line := "replay " + string(r.State)
	if r.Hold != "" {
		line += " (" + string(r.Hold) + ")"
	}
	line += ", " + things(r.Attempts, "attempt")
	if r.Reason != "" {
		line += ": " + r.Reason
	}
	return line
}
