package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// claimSQL takes the heads of lanes: queued replays that no older open one of
// the same subject waits before. The head is looked up in the lane's index for
// each candidate: as a join, a long lane would be compared with itself. The
// coalesce hides from the planner how few heads it expects, so that it reads the
// queue in order and stops at the limit.
const claimSQL = `
WITH heads AS (
    SELECT r.id
    FROM nightaudit.replays AS r
    WHERE r.source = @source AND r.state = 'queued'
        AND (r.last_attempt_at IS NULL OR r.last_attempt_at < @since)
        AND (r.claimed_until IS NULL OR r.claimed_until < clock_timestamp())
        AND NOT r.id = ANY(@except::text[])
        AND coalesce(r.id = (
            SELECT o.id
            FROM nightaudit.replays AS o
            WHERE o.source = r.source AND o.lane = r.lane AND o.state IN ('queued', 'held', 'acknowledged')
            ORDER BY o.event_created, o.event_key
            LIMIT 1
        ), false)
    ORDER BY r.event_created, r.event_key
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE nightaudit.replays AS r
    SET claimed_until = clock_timestamp() + make_interval(secs => @claim_seconds)
    FROM heads
    WHERE r.id = heads.id
    RETURNING ` + replayColumns + `
)
SELECT * FROM claimed ORDER BY event_created, event_key`

// claimTime is how long a claim lasts if nobody gives it back, so that a crashed
// holder blocks nothing.
const claimTime = 2 * time.Minute

// Claim takes up to limit queued replays for sending: the oldest of each subject.
// Those attempted since a time are left alone, and so are the ones named.
func (l *Lease) Claim(ctx context.Context, since time.Time, except []string, limit int) ([]Replay, error) {
	var claimed []Replay
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, l.store.sql(claimSQL), pgx.NamedArgs{
			"source": l.source, "since": since, "except": list(except), "limit": limit,
			"claim_seconds": claimTime.Seconds(),
		})
		if err != nil {
			return err
		}
		claimed, err = collectReplays(rows)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claiming replays of %s: %w", l.source, err)
	}
	return claimed, nil
}

const unclaimSQL = `
UPDATE nightaudit.replays
SET claimed_until = NULL
WHERE id = ANY(@ids::text[])`

// Unclaim gives claimed replays back that are not sent now.
func (l *Lease) Unclaim(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(unclaimSQL), pgx.NamedArgs{"ids": ids})
		return err
	})
	if err != nil {
		return fmt.Errorf("giving claimed replays of %s back: %w", l.source, err)
	}
	return nil
}
