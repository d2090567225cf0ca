package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// Counts are the books of a sub-window: Listed is the sum of the classes.
type Counts struct {
	Listed     int `json:"listed"`
	Done       int `json:"done"`
	Missing    int `json:"missing"`
	Stuck      int `json:"stuck"`
	Late       int `json:"late"`
	Ignored    int `json:"ignored"`
	Unreadable int `json:"unreadable"`
}

// Add adds one event of class.
func (c *Counts) Add(class Class) {
	c.Listed++
	switch class {
	case Done:
		c.Done++
	case Missing:
		c.Missing++
	case Stuck:
		c.Stuck++
	case Late:
		c.Late++
	case Ignored:
		c.Ignored++
	case Unreadable:
		c.Unreadable++
	}
}

// AddAll adds the events of o.
func (c *Counts) AddAll(o Counts) {
	c.Listed += o.Listed
	c.Done += o.Done
	c.Missing += o.Missing
	c.Stuck += o.Stuck
	c.Late += o.Late
	c.Ignored += o.Ignored
	c.Unreadable += o.Unreadable
}

// Balances reports whether each listed event is in exactly one class.
func (c Counts) Balances() bool {
	return c.Listed == c.Done+c.Missing+c.Stuck+c.Late+c.Ignored+c.Unreadable
}

// Work says how much of what was missing is new.
type Work struct {
	Planned int // new replays
	Known   int // seen by earlier runs, and nothing new
}

const commitWindowSQL = `
INSERT INTO nightaudit.windows (source, stream, run_id, window_from, window_to,
    listed, done, missing, stuck, late, ignored, unreadable, planned, known)
VALUES (@source, @stream, @run_id, @window_from, @window_to,
    @listed, @done, @missing, @stuck, @late, @ignored, @unreadable, @planned, @known)`

// The watermark never moves back, and never over what was not covered.
const moveWatermarkSQL = `
UPDATE nightaudit.streams
SET watermark = @window_to
WHERE source = @source AND stream = @stream AND @window_from <= watermark AND watermark < @window_to`

// CommitWindow closes a fully listed and compared sub-window: its counts and
// the watermark in one transaction.
func (l *Lease) CommitWindow(ctx context.Context, stream string, w providers.Window, c Counts, work Work) error {
	return l.commitWindow(ctx, stream, w, c, work, moveWatermarkSQL)
}

// CommitAside closes a sub-window like CommitWindow and leaves the watermark
// where it is: what lies before the sub-window is not known to be covered.
func (l *Lease) CommitAside(ctx context.Context, stream string, w providers.Window, c Counts, work Work) error {
	return l.commitWindow(ctx, stream, w, c, work)
}

// commitWindow stores the counts of a sub-window and runs more statements with it.
func (l *Lease) commitWindow(ctx context.Context, stream string, w providers.Window, c Counts, work Work, more ...string) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		args := pgx.NamedArgs{
			"source": l.source, "stream": stream, "run_id": l.runID, "window_from": w.From, "window_to": w.To,
			"listed": c.Listed, "done": c.Done, "missing": c.Missing, "stuck": c.Stuck, "late": c.Late,
			"ignored": c.Ignored, "unreadable": c.Unreadable, "planned": work.Planned, "known": work.Known,
		}
		for _, statement := range append([]string{commitWindowSQL}, more...) {
			if _, err := tx.Exec(ctx, l.store.sql(statement), args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("closing %s of %s: %w", windowText(w), stream, err)
	}
	return nil
}

func windowText(w providers.Window) string {
	return w.From.Format(time.RFC3339) + " to " + w.To.Format(time.RFC3339)
}

const trafficSQL = `
SELECT coalesce(sum(listed), 0), coalesce(sum(extract(epoch FROM window_to - window_from)), 0)::float8
FROM nightaudit.windows
WHERE source = @source AND stream = @stream AND window_to > @after`

// Traffic gives how many events were listed of a stream in windows that ended
// after a time, and how long those windows were in all.
func (s *Store) Traffic(ctx context.Context, source, stream string, after time.Time) (listed int64, over time.Duration, err error) {
	var seconds float64
	err = s.db.QueryRow(ctx, s.sql(trafficSQL), pgx.NamedArgs{
		"source": source, "stream": stream, "after": after,
	}).Scan(&listed, &seconds)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the traffic of %s: %w", stream, err)
	}
	return listed, time.Duration(seconds * float64(time.Second)), nil
}
