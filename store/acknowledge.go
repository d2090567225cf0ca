package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const acknowledgeSQL = `
WITH acked AS (
    UPDATE nightaudit.findings
    SET acknowledged_at = clock_timestamp(), state = 'closed', resolution = 'acknowledged', closed_at = clock_timestamp()
    WHERE id = @id AND state = 'open' AND (scope <> 'event' OR kind IN ('unreadable_event', 'unreplayable'))
    RETURNING id, kind, last_run_id
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT id, last_run_id, kind, 'closed', 'acknowledged by a person'
FROM acked`

// Acknowledge closes an open finding on a person's word: one about an endpoint or
// a source, or about an event that cannot be read or never be sent again. Other
// drift of events is closed by its repair alone.
func (s *Store) Acknowledge(ctx context.Context, id string) error {
	tag, err := s.db.Exec(ctx, s.sql(acknowledgeSQL), pgx.NamedArgs{"id": id})
	if err != nil {
		return fmt.Errorf("acknowledging %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("acknowledging %s: no open finding that a person can close has this id; see nightaudit findings", id)
	}
	return nil
}

const acknowledgedSQL = `
SELECT EXISTS (SELECT FROM nightaudit.findings WHERE id = @id AND resolution = 'acknowledged')`

// IsAcknowledged reports whether a person closed the finding.
func (s *Store) IsAcknowledged(ctx context.Context, id string) (bool, error) {
	var yes bool
	err := s.db.QueryRow(ctx, s.sql(acknowledgedSQL), pgx.NamedArgs{"id": id}).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("reading finding %s: %w", id, err)
	}
	return yes, nil
}
