package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// A Finding is one piece of drift.
type Finding struct {
	ID         string // see FindingID
	Source     string
	Stream     string
	Scope      Scope
	Kind       Kind
	Key        string // of the event; the endpoint's id or URL; what a source finding is about
	Cause      Cause
	Detail     string // one sentence for a person, without payload or secret
	Open       bool
	Resolution Resolution // "" while it is open

	EventID       string
	EventAccount  string
	EventType     string
	EventCreated  *time.Time
	EventLivemode *bool
	APIVersion    string
	Subject       string     // "" if the event has no object id
	Class         Class      // how the newest run that listed it classed it; "" if it is no event
	DueAt         *time.Time // a late event is due then

	FirstSeenAt    time.Time
	LastSeenAt     time.Time
	ClosedAt       *time.Time
	AcknowledgedAt *time.Time
	FirstRunID     string
	LastRunID      string
}

// Event is the event that f is about, as far as the ledger needs it.
func (f Finding) Event() providers.Event {
	e := providers.Event{
		Key: f.Key, ID: f.EventID, Account: f.EventAccount, Type: f.EventType, Livemode: f.EventLivemode,
	}
	if f.EventCreated != nil {
		e.Created = *f.EventCreated
	}
	return e
}

// lane names the line that a replay of f waits in; see providers.Event.Lane.
func (f Finding) lane() string {
	if f.Subject != "" {
		return f.Subject
	}
	return f.Event().Lane()
}

// NewFinding is an open finding of a run, with its identity.
func NewFinding(source, stream, runID string, scope Scope, kind Kind, key string) Finding {
	return Finding{
		ID: FindingID(source, stream, scope, kind, key), Source: source, Stream: stream,
		Scope: scope, Kind: kind, Key: key, Cause: CauseUnknown, Open: true,
		FirstRunID: runID, LastRunID: runID,
	}
}

// insertFinding is what seeSQL and recordSQL begin with: findingArgs fills it in.
const insertFinding = `
    INSERT INTO nightaudit.findings AS f (id, source, stream, scope, kind, key, cause, detail, state, resolution,
        event_id, event_account, event_type, event_created, event_livemode, api_version, subject, class, listed_by, due_at,
        first_run_id, last_run_id)
    VALUES (@id, @source, @stream, @scope, @kind, @key, @cause, @detail, 'open', '',
        @event_id, @event_account, @event_type, @event_created, @event_livemode, @api_version, @subject, @class, @listed_by, @due_at,
        @run_id, @run_id)`

// seeSQL stores a finding about an endpoint or a source, or sees it again. One
// that was closed is opened again, except by a person's acknowledgement, which
// holds as long as the finding says the same.
const seeSQL = `
WITH old AS (
    SELECT state FROM nightaudit.findings WHERE id = @id
), seen AS (` + insertFinding + `
    ON CONFLICT (id) DO UPDATE
    SET kind = excluded.kind,
        cause = excluded.cause,
        detail = excluded.detail,
        class = excluded.class,
        due_at = excluded.due_at,
        last_seen_at = clock_timestamp(),
        last_run_id = excluded.last_run_id,
        state = CASE WHEN f.resolution = 'acknowledged' AND f.detail = excluded.detail THEN 'closed' ELSE 'open' END,
        resolution = CASE WHEN f.resolution = 'acknowledged' AND f.detail = excluded.detail THEN 'acknowledged' ELSE '' END,
        closed_at = CASE WHEN f.resolution = 'acknowledged' AND f.detail = excluded.detail THEN f.closed_at END,
        acknowledged_at = CASE WHEN f.resolution = 'acknowledged' AND f.detail = excluded.detail THEN f.acknowledged_at END
    RETURNING id, kind, state
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT seen.id, @run_id, seen.kind, seen.state, 'seen'
FROM seen
WHERE NOT EXISTS (SELECT FROM old WHERE old.state = seen.state)`

func (s *Store) see(ctx context.Context, tx pgx.Tx, f Finding) error {
	_, err := tx.Exec(ctx, s.sql(seeSQL), findingArgs(f))
	return err
}

// findingArgs are the values of a finding that no listing showed.
func findingArgs(f Finding) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": f.ID, "source": f.Source, "stream": f.Stream, "scope": string(f.Scope), "kind": string(f.Kind),
		"key": f.Key, "cause": string(f.Cause), "detail": f.Detail,
		"event_id": f.EventID, "event_account": f.EventAccount, "event_type": f.EventType,
		"event_created": f.EventCreated, "event_livemode": f.EventLivemode, "api_version": f.APIVersion, "subject": f.Subject,
		"class": string(f.Class), "listed_by": "", "due_at": f.DueAt, "run_id": f.LastRunID,
	}
}

// See stores what a run found out about endpoints and sources.
func (l *Lease) See(ctx context.Context, found ...Finding) error {
	if len(found) == 0 {
		return nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		for _, f := range found {
			if err := l.store.see(ctx, tx, f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("storing findings of %s: %w", l.source, err)
	}
	return nil
}

// goneSQL closes what a look over its whole scope no longer shows.
const goneSQL = `
WITH gone AS (
    UPDATE nightaudit.findings
    SET state = 'closed', resolution = 'gone', closed_at = coalesce(closed_at, clock_timestamp()), last_run_id = @run_id
    WHERE source = @source AND stream = @stream AND (state = 'open' OR resolution = 'acknowledged')
        AND kind = ANY(@kinds::text[])
        AND last_run_id <> @run_id
    RETURNING id, kind
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT id, @run_id, kind, 'closed', 'no longer seen'
FROM gone`

// CloseUnseen closes the open findings of the kinds in a stream that this run,
// having looked, did not see again. An acknowledgement ends with its finding.
func (l *Lease) CloseUnseen(ctx context.Context, stream string, kinds ...Kind) error {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(goneSQL), pgx.NamedArgs{
			"source": l.source, "stream": stream, "kinds": names, "run_id": l.runID,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("closing findings of %s that are gone: %w", l.source, err)
	}
	return nil
}

const dismissSQL = `
WITH dismissed AS (
    UPDATE nightaudit.findings
    SET state = 'closed', resolution = 'gone', closed_at = clock_timestamp(), last_run_id = @run_id
    WHERE id = @id AND state = 'open'
    RETURNING id, kind
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT id, @run_id, kind, 'closed', @why
FROM dismissed`

// Dismiss closes an open finding that turned out to be none, and says why.
func (l *Lease) Dismiss(ctx context.Context, id, why string) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(dismissSQL), pgx.NamedArgs{"id": id, "run_id": l.runID, "why": why})
		return err
	})
	if err != nil {
		return fmt.Errorf("closing finding %s: %w", id, err)
	}
	return nil
}

const findingColumns = `f.id, f.source, f.stream, f.scope, f.kind, f.key, f.cause, f.detail, f.state = 'open', f.resolution,
    f.event_id, f.event_account, f.event_type, f.event_created, f.event_livemode, f.api_version, f.subject, f.class, f.due_at,
    f.first_seen_at, f.last_seen_at, f.closed_at, f.acknowledged_at, f.first_run_id, f.last_run_id`

// fields are the places that findingColumns is scanned into.
func (f *Finding) fields() []any {
	return []any{
		&f.ID, &f.Source, &f.Stream, &f.Scope, &f.Kind, &f.Key, &f.Cause, &f.Detail, &f.Open, &f.Resolution,
		&f.EventID, &f.EventAccount, &f.EventType, &f.EventCreated, &f.EventLivemode, &f.APIVersion, &f.Subject, &f.Class, &f.DueAt,
		&f.FirstSeenAt, &f.LastSeenAt, &f.ClosedAt, &f.AcknowledgedAt, &f.FirstRunID, &f.LastRunID,
	}
}

func collectFindings(rows pgx.Rows) ([]Finding, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Finding, error) {
		var f Finding
		err := row.Scan(f.fields()...)
		return f, err
	})
}

// A FindingFilter says which findings are asked for. The zero value is all open
// ones.
type FindingFilter struct {
	Source string
	Kind   Kind
	Closed bool     // closed ones too
	RunID  string   // those that the run saw, open or closed, and all that are open
	IDs    []string // only these; nil is all
	After  string   // ids greater than this, for reading on
	Limit  int      // 0 is no limit
}

const findingsSQL = `
SELECT ` + findingColumns + `
FROM nightaudit.findings AS f
WHERE (@source = '' OR f.source = @source)
    AND (@kind = '' OR f.kind = @kind)
    AND (f.state = 'open' OR @closed OR f.last_run_id = @run_id)
    AND (cardinality(@ids::text[]) = 0 OR f.id = ANY(@ids::text[]))
    AND f.id > @after
ORDER BY f.id
LIMIT nullif(@limit::bigint, 0)`

// Findings gives findings in the order of their ids, which two nights share.
func (s *Store) Findings(ctx context.Context, q FindingFilter) ([]Finding, error) {
	rows, err := s.db.Query(ctx, s.sql(findingsSQL), pgx.NamedArgs{
		"source": q.Source, "kind": string(q.Kind), "closed": q.Closed, "run_id": q.RunID,
		"ids": list(q.IDs), "after": q.After, "limit": q.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("reading findings: %w", err)
	}
	found, err := collectFindings(rows)
	if err != nil {
		return nil, fmt.Errorf("reading findings: %w", err)
	}
	return found, nil
}
