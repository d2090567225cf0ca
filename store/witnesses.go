package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// A Witness is an event that carries the state of a subject with an open
// replay. It is judged by nobody and moves no watermark; it only tells whether
// an older snapshot may still be sent.
type Witness struct {
	Event providers.Event // without payload, subject and deliveries
	Lane  string
}

const waitingSnapshotsSQL = `
SELECT ` + replayColumns + `
FROM nightaudit.replays AS r
WHERE r.source = @source AND r.class = 'snapshot' AND r.state = 'queued'
ORDER BY r.stream, r.id`

// WaitingSnapshots gives the queued replays of a source that carry state, by
// stream.
func (s *Store) WaitingSnapshots(ctx context.Context, source string) (map[string][]Replay, error) {
	rows, err := s.db.Query(ctx, s.sql(waitingSnapshotsSQL), pgx.NamedArgs{"source": source})
	if err != nil {
		return nil, fmt.Errorf("reading the queued snapshots of %s: %w", source, err)
	}
	replays, err := collectReplays(rows)
	if err != nil {
		return nil, fmt.Errorf("reading the queued snapshots of %s: %w", source, err)
	}
	byStream := make(map[string][]Replay)
	for _, r := range replays {
		byStream[r.Stream] = append(byStream[r.Stream], r)
	}
	return byStream, nil
}

const addWitnessSQL = `
INSERT INTO nightaudit.witnesses (source, stream, event_key, event_id, event_account, event_type, event_created,
    event_livemode, lane)
VALUES (@source, @stream, @event_key, @event_id, @event_account, @event_type, @event_created, @event_livemode, @lane)
ON CONFLICT (source, stream, event_key) DO NOTHING`

// AddWitnesses stores witnesses of a stream.
func (l *Lease) AddWitnesses(ctx context.Context, stream string, witnesses []Witness) error {
	if len(witnesses) == 0 {
		return nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		writes := &pgx.Batch{}
		for _, w := range witnesses {
			writes.Queue(l.store.sql(addWitnessSQL), pgx.NamedArgs{
				"source": l.source, "stream": stream, "event_key": w.Event.Key, "event_id": w.Event.ID,
				"event_account": w.Event.Account, "event_type": w.Event.Type, "event_created": w.Event.Created,
				"event_livemode": w.Event.Livemode, "lane": w.Lane,
			})
		}
		return tx.SendBatch(ctx, writes).Close()
	})
	if err != nil {
		return fmt.Errorf("storing witnesses of %s: %w", stream, err)
	}
	return nil
}

const witnessedSQL = `
UPDATE nightaudit.replays
SET witnessed_to = greatest(witnessed_to, @to)
WHERE id = ANY(@ids::text[])`

// Witnessed stores that the feed was read for newer events of these replays up
// to a time.
func (l *Lease) Witnessed(ctx context.Context, replays []string, to time.Time) error {
	if len(replays) == 0 {
		return nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(witnessedSQL), pgx.NamedArgs{"ids": replays, "to": to})
		return err
	})
	if err != nil {
		return fmt.Errorf("storing how far the feed was read for witnesses: %w", err)
	}
	return nil
}

// Replays of a subject that carry state are witnesses of each other.
const witnessesSQL = `
SELECT event_key, event_id, event_account, event_type, event_created, event_livemode, lane
FROM nightaudit.witnesses
WHERE source = @source AND lane = ANY(@lanes::text[])
UNION
SELECT event_key, event_id, event_account, event_type, event_created, event_livemode, lane
FROM nightaudit.replays
WHERE source = @source AND lane = ANY(@lanes::text[]) AND class IN ('snapshot', 'ending')
ORDER BY lane, event_created, event_key`

// Witnesses gives the witnesses of lanes, by lane, oldest first.
func (s *Store) Witnesses(ctx context.Context, source string, lanes []string) (map[string][]Witness, error) {
	rows, err := s.db.Query(ctx, s.sql(witnessesSQL), pgx.NamedArgs{"source": source, "lanes": list(lanes)})
	if err != nil {
		return nil, fmt.Errorf("reading witnesses of %s: %w", source, err)
	}
	byLane := make(map[string][]Witness)
	var w Witness
	e := &w.Event
	_, err = pgx.ForEachRow(rows, []any{&e.Key, &e.ID, &e.Account, &e.Type, &e.Created, &e.Livemode, &w.Lane}, func() error {
		e.Created = e.Created.UTC()
		byLane[w.Lane] = append(byLane[w.Lane], w)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading witnesses of %s: %w", source, err)
	}
	return byLane, nil
}

// A witness is of no use once its subject has no open replay.
const forgetWitnessesSQL = `
DELETE FROM nightaudit.witnesses AS w
WHERE w.source = @source AND NOT EXISTS (
    SELECT FROM nightaudit.replays AS r
    WHERE r.source = w.source AND r.lane = w.lane
        AND r.state IN ('planned', 'queued', 'held', 'acknowledged', 'unrecorded')
)`

// ForgetWitnesses deletes the witnesses that nothing waits for.
func (l *Lease) ForgetWitnesses(ctx context.Context) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(forgetWitnessesSQL), pgx.NamedArgs{"source": l.source})
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting witnesses of %s: %w", l.source, err)
	}
	return nil
}
