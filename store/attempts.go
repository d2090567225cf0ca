package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// An Attempt is one try of a replay.
type Attempt struct {
	ReplayID  string
	Number    int // from 1
	StartedAt time.Time
	EndedAt   *time.Time
	Endpoint  string // scheme and host of the URL
	Outcome   string // what came of it, in one word; "" while it is under way
	Phase     string // where it failed without an answer: dns, connect, tls, write, response, timeout
	Status    int    // HTTP status; 0 if there was no answer
	Why       string // one sentence, redacted
	BodyBytes int64
	Snippet   string // the beginning of the answer, redacted
}

const beginSQL = `
WITH counted AS (
    UPDATE nightaudit.replays
    SET attempts = attempts + 1, last_attempt_at = clock_timestamp()
    WHERE id = @replay_id
    RETURNING id, attempts
)
INSERT INTO nightaudit.attempts (replay_id, number, started_at, endpoint, body_bytes)
SELECT id, attempts, clock_timestamp(), @endpoint, 0
FROM counted
RETURNING number, started_at`

// overtakeSQL marks what a younger replay of the subject now passes.
const overtakeSQL = `
UPDATE nightaudit.replays AS o
SET overtaken = true
FROM nightaudit.replays AS r
WHERE r.id = ANY(@ids::text[]) AND o.source = r.source AND o.lane = r.lane
    AND o.state IN ('parked', 'rejected', 'unrecorded') AND NOT o.overtaken
    AND (o.event_created, o.event_key) < (r.event_created, r.event_key)`

// Begin stores that attempts are about to be made, before any request leaves,
// and fills in their numbers.
func (l *Lease) Begin(ctx context.Context, attempts []*Attempt) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		ids := make([]string, len(attempts))
		writes := &pgx.Batch{}
		for i, a := range attempts {
			ids[i] = a.ReplayID
			writes.Queue(l.store.sql(beginSQL), pgx.NamedArgs{"replay_id": a.ReplayID, "endpoint": a.Endpoint}).
				QueryRow(func(row pgx.Row) error { return row.Scan(&a.Number, &a.StartedAt) })
		}
		writes.Queue(l.store.sql(overtakeSQL), pgx.NamedArgs{"ids": ids})
		return tx.SendBatch(ctx, writes).Close()
	})
	if err != nil {
		return fmt.Errorf("storing the start of %d attempts: %w", len(attempts), err)
	}
	return nil
}

const endSQL = `
UPDATE nightaudit.attempts
SET ended_at = clock_timestamp(), outcome = @outcome, phase = @phase, status = @status, why = @why,
    body_bytes = @body_bytes, snippet = @snippet
WHERE replay_id = @replay_id AND number = @number AND ended_at IS NULL`

// End stores what came of an attempt. It needs no lease: it ends a row of our
// own, once, and changes no state.
func (s *Store) End(ctx context.Context, a Attempt) error {
	_, err := s.db.Exec(ctx, s.sql(endSQL), pgx.NamedArgs{
		"replay_id": a.ReplayID, "number": a.Number, "outcome": a.Outcome, "phase": a.Phase, "status": a.Status,
		"why": a.Why, "body_bytes": a.BodyBytes, "snippet": a.Snippet,
	})
	if err != nil {
		return fmt.Errorf("storing the end of attempt %d of %s: %w", a.Number, a.ReplayID, err)
	}
	return nil
}

// abandonedSQL ends the attempts of a holder that is gone: whether they arrived
// is unknown, and the ledger is asked before anything is sent again.
const abandonedSQL = `
WITH ended AS (
    UPDATE nightaudit.attempts AS a
    SET ended_at = clock_timestamp(), outcome = 'unknown', why = 'nightaudit ended before the answer came'
    FROM nightaudit.replays AS r
    WHERE r.id = a.replay_id AND r.source = @source AND a.ended_at IS NULL
    RETURNING a.replay_id
)
UPDATE nightaudit.replays
SET claimed_until = NULL
WHERE source = @source AND state = 'queued' AND claimed_until IS NOT NULL`

// Recover ends what a drain before this one left under way.
func (l *Lease) Recover(ctx context.Context) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(abandonedSQL), pgx.NamedArgs{"source": l.source})
		return err
	})
	if err != nil {
		return fmt.Errorf("closing the attempts of an earlier drain of %s: %w", l.source, err)
	}
	return nil
}

const lastAttemptsSQL = `
SELECT DISTINCT ON (replay_id) replay_id, number, started_at, ended_at, endpoint, outcome, phase, status, why,
    body_bytes, snippet
FROM nightaudit.attempts
WHERE replay_id = ANY(@ids::text[])
ORDER BY replay_id, number DESC`

// LastAttempts gives the newest attempt of each of the replays that has one, by
// the replay's id.
func (s *Store) LastAttempts(ctx context.Context, replays []string) (map[string]Attempt, error) {
	rows, err := s.db.Query(ctx, s.sql(lastAttemptsSQL), pgx.NamedArgs{"ids": list(replays)})
	if err != nil {
		return nil, fmt.Errorf("reading attempts: %w", err)
	}
	last := make(map[string]Attempt)
	var a Attempt
	_, err = pgx.ForEachRow(rows, []any{&a.ReplayID, &a.Number, &a.StartedAt, &a.EndedAt, &a.Endpoint, &a.Outcome,
		&a.Phase, &a.Status, &a.Why, &a.BodyBytes, &a.Snippet}, func() error {
		last[a.ReplayID] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading attempts: %w", err)
	}
	return last, nil
}
