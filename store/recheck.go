package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

const openEventsSQL = `
SELECT ` + findingColumns + `
FROM nightaudit.findings AS f
WHERE f.source = @source AND f.scope = 'event' AND f.state = 'open'
    AND f.event_id <> '' AND f.id > @after
ORDER BY f.id
LIMIT @limit`

// OpenEvents gives open findings about events whose id is known, in the order of
// their ids, after one.
func (s *Store) OpenEvents(ctx context.Context, source, after string, limit int) ([]Finding, error) {
	rows, err := s.db.Query(ctx, s.sql(openEventsSQL), pgx.NamedArgs{"source": source, "after": after, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("reading open findings of %s: %w", source, err)
	}
	found, err := collectFindings(rows)
	if err != nil {
		return nil, fmt.Errorf("reading open findings of %s: %w", source, err)
	}
	return found, nil
}

// healSQL closes findings that the ledger now shows as done, and their open
// replays with them.
const healSQL = `
WITH sent AS (
    SELECT finding_id FROM nightaudit.replays WHERE finding_id = ANY(@ids::text[]) AND attempts > 0
), replayed AS (
    UPDATE nightaudit.replays
    SET state = 'repaired', hold = '', claimed_until = NULL, closed_at = clock_timestamp(),
        reason = CASE WHEN attempts > 0 THEN 'confirmed by record' ELSE 'recorded without a replay' END
    WHERE finding_id = ANY(@ids::text[])
        AND state IN ('planned', 'queued', 'held', 'acknowledged', 'unrecorded')
), healed AS (
    UPDATE nightaudit.findings
    SET state = 'closed', closed_at = clock_timestamp(), last_run_id = @run_id, due_at = NULL,
        resolution = CASE WHEN id IN (SELECT finding_id FROM sent) THEN 'repaired' ELSE 'healed' END
    WHERE id = ANY(@ids::text[]) AND state = 'open'
    RETURNING id, kind
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT id, @run_id, kind, 'closed', 'the ledger shows it as done'
FROM healed`

// Heal closes findings whose events the ledger shows as done.
func (l *Lease) Heal(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(healSQL), pgx.NamedArgs{"ids": ids, "run_id": l.runID})
		return err
	})
	if err != nil {
		return fmt.Errorf("closing findings that healed: %w", err)
	}
	return nil
}

// dueSQL turns a late finding into one of its kind.
const dueSQL = `
WITH due AS (
    UPDATE nightaudit.findings
    SET class = 'stuck', kind = @kind, cause = @cause, detail = @detail, due_at = NULL, last_run_id = @run_id,
        last_seen_at = clock_timestamp()
    WHERE id = @id AND state = 'open' AND class = 'late'
    RETURNING id, kind
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT id, @run_id, kind, 'open', 'no longer merely late'
FROM due`

// A Due is a late event whose time is over.
type Due struct {
	Finding Finding
	Kind    Kind
	Cause   Cause
	Detail  string
	Replay  bool // it may be sent again
	Carry   providers.Class
}

// FallDue stores that late events are late no more, and plans the replays of
// those that have none.
func (l *Lease) FallDue(ctx context.Context, due []Due) error {
	if len(due) == 0 {
		return nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		ids := make([]string, len(due))
		for i, d := range due {
			ids[i] = d.Finding.ID
		}
		known, err := l.store.known(ctx, tx, ids)
		if err != nil {
			return err
		}
		writes := &pgx.Batch{}
		for _, d := range due {
			p := known[d.Finding.ID]
			if !p.open || p.class != Late {
				continue
			}
			writes.Queue(l.store.sql(dueSQL), pgx.NamedArgs{
				"id": d.Finding.ID, "kind": string(d.Kind), "cause": string(d.Cause), "detail": d.Detail, "run_id": l.runID,
			})
			if d.Replay && !p.replayed() {
				d.Finding.LastRunID = l.runID
				writes.Queue(l.store.sql(planSQL), planArgs(d.Finding, d.Carry, p.replayID))
			}
		}
		return tx.SendBatch(ctx, writes).Close()
	})
	if err != nil {
		return fmt.Errorf("storing late events that fell due: %w", err)
	}
	return nil
}
