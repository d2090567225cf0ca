package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Scales are what the gate weighs: the books of all sub-windows that it has not
// taken into account yet, and the planned replays that lie in closed ones.
type Scales struct {
	Counts
	Known   int // of missing + stuck: what earlier runs know, other than what waits at the gate
	Planned int // replays that wait at the gate
}

// Compared is how many events the planned replays are weighed against.
func (s Scales) Compared() int { return s.Listed - s.Ignored - s.Known }

const weighSQL = `
SELECT coalesce(sum(listed), 0), coalesce(sum(done), 0), coalesce(sum(missing), 0), coalesce(sum(stuck), 0),
    coalesce(sum(late), 0), coalesce(sum(ignored), 0), coalesce(sum(unreadable), 0), coalesce(sum(known), 0),
    coalesce(sum(planned), 0)
FROM nightaudit.windows
WHERE source = @source AND weighed_at IS NULL`

// A replay waits at the gate when its sub-window was closed: what an unfinished
// listing found waits for the listing. Closed windows meet or overlap, so that
// the years of a stream are a few ranges.
const atGate = `
    r.source = @source AND r.state = 'planned' AND EXISTS (
        SELECT FROM (
            SELECT w.stream, range_agg(tstzrange(w.window_from, w.window_to)) AS ranges
            FROM nightaudit.windows AS w
            WHERE w.source = @source
            GROUP BY w.stream
        ) AS closed
        WHERE closed.stream = r.stream AND closed.ranges @> r.event_created
    )`

const atGateSQL = `
SELECT count(*)
FROM nightaudit.replays AS r
WHERE` + atGate

// weighRunsSQL gives the same for each run by itself, with those of its planned
// replays that lie in sub-windows which it closed.
const weighRunsSQL = `
SELECT sum(w.listed), sum(w.done), sum(w.ignored), sum(w.known), (
    SELECT count(*)
    FROM nightaudit.replays AS r
    WHERE r.source = @source AND r.state = 'planned' AND r.run_id = w.run_id AND EXISTS (
        SELECT FROM nightaudit.windows AS o
        WHERE o.run_id = w.run_id AND o.stream = r.stream
            AND o.window_from <= r.event_created AND r.event_created < o.window_to
    ))
FROM nightaudit.windows AS w
WHERE w.source = @source AND w.weighed_at IS NULL
GROUP BY w.run_id
ORDER BY min(w.id)`

// Weigh gives what the gate has to judge for a source: all of it, and what each
// run found by itself, since many quiet nights must not hide a bad one.
func (s *Store) Weigh(ctx context.Context, source string) (all Scales, runs []Scales, err error) {
	if all, err = s.weighAll(ctx, source); err != nil {
		return all, nil, err
	}
	rows, err := s.db.Query(ctx, s.sql(weighRunsSQL), pgx.NamedArgs{"source": source})
	if err == nil {
		runs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Scales, error) {
			var sc Scales
			err := row.Scan(&sc.Listed, &sc.Done, &sc.Ignored, &sc.Known, &sc.Planned)
			return sc, err
		})
	}
	if err != nil {
		return all, nil, fmt.Errorf("weighing the runs of %s: %w", source, err)
	}
	return all, runs, nil
}

// weighAll: a run that died within a sub-window has planned replays that the run
// which closes it knows already: they wait at the gate for the first time and
// count as compared.
func (s *Store) weighAll(ctx context.Context, source string) (Scales, error) {
	var sc Scales
	var planned int // by the runs that closed the sub-windows
	args := pgx.NamedArgs{"source": source}
	err := s.db.QueryRow(ctx, s.sql(weighSQL), args).Scan(&sc.Listed, &sc.Done, &sc.Missing, &sc.Stuck,
		&sc.Late, &sc.Ignored, &sc.Unreadable, &sc.Known, &planned)
	if err == nil {
		err = s.db.QueryRow(ctx, s.sql(atGateSQL), args).Scan(&sc.Planned)
	}
	if err != nil {
		return Scales{}, fmt.Errorf("weighing the planned replays of %s: %w", source, err)
	}
	sc.Known -= min(sc.Known, max(0, sc.Planned-planned))
	return sc, nil
}

const queueSQL = `
UPDATE nightaudit.replays AS r
SET state = 'queued', reason = ''
WHERE` + atGate

const holdSQL = `
UPDATE nightaudit.replays AS r
SET state = 'held', hold = 'gate', reason = @reason
WHERE` + atGate

const weighedSQL = `
UPDATE nightaudit.windows
SET weighed_at = clock_timestamp()
WHERE source = @source AND weighed_at IS NULL`

// heldBefore: an older replay of the lane is held for a reason of its own.
const heldBefore = `EXISTS (
        SELECT FROM nightaudit.replays AS h
        WHERE h.source = r.source AND h.lane = r.lane AND h.state = 'held' AND h.hold <> 'lane'
            AND (h.event_created, h.event_key) < (r.event_created, r.event_key)
    )`

// joinHoldSQL: a held replay holds its lane.
const joinHoldSQL = `
UPDATE nightaudit.replays AS r
SET state = 'held', hold = 'lane', reason = 'an older replay of the same subject is held'
WHERE r.source = @source AND r.state = 'queued' AND ` + heldBefore

// leaveHoldSQL: the hold of a lane ends with the one that held it.
const leaveHoldSQL = `
UPDATE nightaudit.replays AS r
SET state = 'queued', hold = '', reason = ''
WHERE r.source = @source AND r.state = 'held' AND r.hold = 'lane' AND NOT ` + heldBefore

// OpenGate queues the planned replays of the source.
func (l *Lease) OpenGate(ctx context.Context) (queued int, err error) {
	err = l.gate(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.store.sql(queueSQL), pgx.NamedArgs{"source": l.source})
		queued = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("queueing the replays of %s: %w", l.source, err)
	}
	return queued, nil
}

// HoldGate holds the planned replays of the source, and says why.
func (l *Lease) HoldGate(ctx context.Context, reason string) error {
	err := l.gate(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(holdSQL), pgx.NamedArgs{"source": l.source, "reason": reason})
		return err
	})
	if err != nil {
		return fmt.Errorf("holding the replays of %s: %w", l.source, err)
	}
	return nil
}

// gate runs one decision of the gate, in which all counts so far are weighed.
func (l *Lease) gate(ctx context.Context, decide func(tx pgx.Tx) error) error {
	return l.lanes(ctx, func(tx pgx.Tx) error {
		if err := decide(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, l.store.sql(weighedSQL), pgx.NamedArgs{"source": l.source})
		return err
	})
}

// lanes runs f and then settles which lanes are held.
func (l *Lease) lanes(ctx context.Context, f func(tx pgx.Tx) error) error {
	return l.Tx(ctx, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		for _, statement := range []string{leaveHoldSQL, joinHoldSQL} {
			if _, err := tx.Exec(ctx, l.store.sql(statement), pgx.NamedArgs{"source": l.source}); err != nil {
				return err
			}
		}
		return nil
	})
}

const freeSQL = `
UPDATE nightaudit.replays
SET state = 'queued', hold = '', reason = @reason
WHERE source = @source AND state = 'held' AND hold = @hold`

// Free lets the replays of the source go that are held for one reason.
func (l *Lease) Free(ctx context.Context, hold Hold, reason string) (freed int, err error) {
	err = l.lanes(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.store.sql(freeSQL), pgx.NamedArgs{
			"source": l.source, "hold": string(hold), "reason": reason,
		})
		freed = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("releasing held replays of %s: %w", l.source, err)
	}
	return freed, nil
}

const holdsSQL = `
SELECT hold, count(*)
FROM nightaudit.replays
WHERE source = @source AND state = 'held'
GROUP BY hold`

// Holds counts the held replays of a source by why they are held.
func (s *Store) Holds(ctx context.Context, source string) (map[Hold]int, error) {
	rows, err := s.db.Query(ctx, s.sql(holdsSQL), pgx.NamedArgs{"source": source})
	if err != nil {
		return nil, fmt.Errorf("counting the held replays of %s: %w", source, err)
	}
	counts := make(map[Hold]int)
	var hold Hold
	var n int
	_, err = pgx.ForEachRow(rows, []any{&hold, &n}, func() error {
		counts[hold] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting the held replays of %s: %w", source, err)
	}
	return counts, nil
}

const requeueSQL = `
UPDATE nightaudit.replays
SET state = 'queued', reason = 'acknowledged by an earlier run and not recorded; tried again', acknowledged_at = NULL
WHERE source = @source AND state = 'unrecorded' AND last_attempt_at < @before`

// RequeueUnrecorded queues again what was acknowledged and not recorded when it
// was last sent, before a time.
func (l *Lease) RequeueUnrecorded(ctx context.Context, before time.Time) (int64, error) {
	var n int64
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.store.sql(requeueSQL), pgx.NamedArgs{"source": l.source, "before": before})
		n = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("queueing unrecorded replays of %s again: %w", l.source, err)
	}
	return n, nil
}
