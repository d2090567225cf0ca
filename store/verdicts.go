package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Verdict is what a drain decided about one replay.
type Verdict struct {
	Replay Replay
	State  ReplayState
	Hold   Hold   // with ReplayHeld
	Reason string // for a person
}

// verdictSQL moves a replay that is still open to a verdict, and then tells its
// finding: closed, or open with what is now known of it.
const verdictSQL = `
WITH moved AS (
    UPDATE nightaudit.replays
    SET state = @state, hold = @hold, reason = @reason, claimed_until = NULL,
        acknowledged_at = CASE WHEN @state = 'acknowledged' THEN clock_timestamp() ELSE acknowledged_at END,
        unrecorded = unrecorded + CASE WHEN @unrecorded THEN 1 ELSE 0 END,
        closed_at = CASE WHEN @closes THEN clock_timestamp() END
    WHERE id = @id AND state IN ('queued', 'acknowledged')
    RETURNING finding_id
), told AS (
    UPDATE nightaudit.findings AS f
    SET state = CASE WHEN @resolution = '' THEN f.state ELSE 'closed' END,
        resolution = CASE WHEN @resolution = '' THEN f.resolution ELSE @resolution END,
        closed_at = CASE WHEN @resolution = '' THEN f.closed_at ELSE clock_timestamp() END,
        kind = CASE WHEN @unrecorded AND f.kind = 'missing_event' THEN 'unrecorded_event' ELSE f.kind END,
        cause = CASE WHEN @unrecorded AND f.kind = 'missing_event' THEN 'delivered_not_recorded' ELSE f.cause END,
        detail = CASE WHEN @resolution = '' THEN @reason ELSE f.detail END,
        last_run_id = @run_id
    FROM moved
    WHERE f.id = moved.finding_id AND f.state = 'open' AND @tells
    RETURNING f.id, f.kind, f.state
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT id, @run_id, kind, state, @reason
FROM told`

// Judge stores the verdicts of a drain on replays and their findings. A replay
// that is neither queued nor acknowledged any more stays as it is, and so does
// its finding.
func (l *Lease) Judge(ctx context.Context, verdicts []Verdict) error {
	if len(verdicts) == 0 {
		return nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		writes := &pgx.Batch{}
		for _, v := range verdicts {
			l.queueVerdict(writes, v)
		}
		return tx.SendBatch(ctx, writes).Close()
	})
	if err != nil {
		return fmt.Errorf("storing the outcome of %d replays: %w", len(verdicts), err)
	}
	return nil
}

func (l *Lease) queueVerdict(writes *pgx.Batch, v Verdict) {
	unrecorded := v.State == ReplayUnrecorded || v.State == ReplayParked
	resolution := map[ReplayState]Resolution{ReplayRepaired: Repaired, ReplaySuperseded: SupersededBy}[v.State]
	closes := resolution != "" || v.State == ReplayRejected || v.State == ReplayParked || v.State == ReplayCancelled
	writes.Queue(l.store.sql(verdictSQL), pgx.NamedArgs{
		"id": v.Replay.ID, "state": string(v.State), "hold": string(v.Hold), "reason": v.Reason,
		"unrecorded": unrecorded, "closes": closes, "resolution": string(resolution), "run_id": l.runID,
		"tells": v.State != ReplayQueued && v.State != ReplayAcknowledged,
	})
}

const watchedSQL = `
SELECT ` + replayColumns + `, extract(epoch FROM clock_timestamp() - r.acknowledged_at)::float8
FROM nightaudit.replays AS r
WHERE r.source = @source AND r.state = 'acknowledged' AND r.id > @after
ORDER BY r.id
LIMIT @limit`

// A Watched replay was acknowledged and waits for the ledger to show its event.
type Watched struct {
	Replay
	For time.Duration // since the acknowledgement, by the database's clock
}

// Watched gives the acknowledged replays of a source in the order of their ids,
// after one.
func (s *Store) Watched(ctx context.Context, source, after string, limit int) ([]Watched, error) {
	rows, err := s.db.Query(ctx, s.sql(watchedSQL), pgx.NamedArgs{
		"source": source, "after": after, "limit": limit,
	})
	if err != nil {
		return nil, fmt.Errorf("reading acknowledged replays of %s: %w", source, err)
	}
	watched, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Watched, error) {
		var w Watched
		var seconds float64
		err := row.Scan(append(w.fields(), &seconds)...)
		w.For = time.Duration(seconds * float64(time.Second))
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading acknowledged replays of %s: %w", source, err)
	}
	return watched, nil
}
