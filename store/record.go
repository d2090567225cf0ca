package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// A Drift is one listed event that is not done, as a run stores it.
type Drift struct {
	Event  providers.Event
	Class  Class // Missing, Stuck, Late or Unreadable
	Kind   Kind
	Cause  Cause
	Detail string
	DueAt  *time.Time      // of a late one; else nil
	Replay bool            // it may be sent again
	Reread bool            // read by itself, not listed: the books of no listing hold it
	Carry  providers.Class // of the replay: whether the event carries state
}

// Record stores what one batch of a listing showed, in one short transaction:
// findings, payloads and planned replays. However often an event is seen, it has
// one finding and at most one open replay; in one batch its first sight counts.
func (l *Lease) Record(ctx context.Context, stream string, batch []Drift) (Work, error) {
	var work Work
	if len(batch) == 0 {
		return work, nil
	}
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		work = Work{}
		ids := make([]string, len(batch))
		for i, d := range batch {
			ids[i] = FindingID(l.source, stream, ScopeEvent, d.Kind, d.Event.Key)
		}
		known, err := l.store.known(ctx, tx, ids)
		if err != nil {
			return err
		}
		writes := &pgx.Batch{}
		written := make(map[string]bool, len(batch))
		for i, d := range batch {
			if written[ids[i]] {
				continue
			}
			written[ids[i]] = true
			w := l.write(writes, stream, d, known)
			work.Planned += w.Planned
			work.Known += w.Known
		}
		return tx.SendBatch(ctx, writes).Close()
	})
	if err != nil {
		return Work{}, fmt.Errorf("storing findings of %s: %w", stream, err)
	}
	return work, nil
}

// A past is what earlier runs know of an event.
type past struct {
	kind       Kind
	open       bool
	resolution Resolution
	class      Class
	replayID   string      // the newest replay; "" if there never was one
	replay     ReplayState // where that one stands
}

// replayed reports whether the newest replay still stands for the event: it is
// open, or a person has to look at it. A repaired one belongs to the past.
func (p past) replayed() bool { return p.replayID != "" && p.replay != ReplayRepaired }

const knownSQL = `
SELECT f.id, f.kind, f.state = 'open', f.resolution, f.class, coalesce(r.id, ''), coalesce(r.state, '')
FROM nightaudit.findings AS f
` + newestReplay + `
WHERE f.id = ANY(@ids::text[])`

func (s *Store) known(ctx context.Context, tx pgx.Tx, ids []string) (map[string]past, error) {
	rows, err := tx.Query(ctx, s.sql(knownSQL), pgx.NamedArgs{"ids": ids})
	if err != nil {
		return nil, err
	}
	known := make(map[string]past)
	var id string
	var p past
	_, err = pgx.ForEachRow(rows, []any{&id, &p.kind, &p.open, &p.resolution, &p.class, &p.replayID, &p.replay}, func() error {
		known[id] = p
		return nil
	})
	return known, err
}

// write queues the statements that store d, and says what work it is.
func (l *Lease) write(writes *pgx.Batch, stream string, d Drift, known map[string]past) Work {
	f := NewDriftFinding(l.source, stream, l.runID, d)
	p, seen := known[f.ID]
	if seen && p.open && p.kind == UnrecordedEvent && d.Kind == MissingEvent {
		f.Kind = UnrecordedEvent // still the same story
	}
	step := next(p, seen, d)
	writes.Queue(l.store.sql(recordSQL), recordArgs(f, step, d.Reread))
	if (step.plan || d.Class == Late) && d.Event.Payload != nil {
		writes.Queue(l.store.sql(payloadSQL), pgx.NamedArgs{"finding_id": f.ID, "body": d.Event.Payload})
	}
	if !step.plan {
		return Work{Known: step.known}
	}
	writes.Queue(l.store.sql(planSQL), planArgs(f, d.Carry, p.replayID))
	return Work{Planned: 1}
}

// A step is what becomes of a finding that is seen.
type step struct {
	plan   bool // a new replay
	known  int  // 1 if it is missing or stuck and nothing new
	closed bool // it stays closed
}

// next decides what a listed event that is not done leads to. An event that was
// repaired or healed and is missing again starts anew; superseded stays closed,
// and so does what a person closed and nobody can repair; whatever is open,
// parked, rejected or cancelled is nothing new.
func next(p past, seen bool, d Drift) step {
	work := d.Class == Missing || d.Class == Stuck
	switch {
	case seen && !p.open && p.resolution == Acknowledged && !d.Replay:
		return step{closed: true, known: one(work)}
	case seen && !p.open && p.resolution == SupersededBy:
		return step{closed: true, known: one(work)}
	case seen && p.open && p.replayed():
		return step{known: one(work)}
	case work && d.Replay:
		return step{plan: true}
	default:
		return step{known: one(work && seen && p.open)}
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// NewDriftFinding is the finding of a listed event that is not done.
func NewDriftFinding(source, stream, runID string, d Drift) Finding {
	f := NewFinding(source, stream, runID, ScopeEvent, d.Kind, d.Event.Key)
	f.Cause, f.Detail, f.Class, f.DueAt = d.Cause, d.Detail, d.Class, d.DueAt
	f.EventID, f.EventAccount, f.EventType = d.Event.ID, d.Event.Account, d.Event.Type
	f.EventLivemode, f.APIVersion, f.Subject = d.Event.Livemode, d.Event.APIVersion, d.Event.Subject.String()
	if !d.Event.Created.IsZero() {
		f.EventCreated = &d.Event.Created
	}
	return f
}

// recordSQL stores the finding of a listed event or sees it again. What it says of
// the event is kept while the event cannot be decoded.
const recordSQL = `
WITH old AS (
    SELECT kind, state FROM nightaudit.findings WHERE id = @id
), seen AS (` + insertFinding + `
    ON CONFLICT (id) DO UPDATE
    SET kind = CASE WHEN @closed THEN f.kind ELSE excluded.kind END,
        cause = excluded.cause,
        detail = CASE WHEN @closed THEN f.detail ELSE excluded.detail END,
        event_id = coalesce(nullif(excluded.event_id, ''), f.event_id),
        event_account = coalesce(nullif(excluded.event_account, ''), f.event_account),
        event_type = coalesce(nullif(excluded.event_type, ''), f.event_type),
        event_created = coalesce(excluded.event_created, f.event_created),
        event_livemode = coalesce(excluded.event_livemode, f.event_livemode),
        api_version = coalesce(nullif(excluded.api_version, ''), f.api_version),
        subject = coalesce(nullif(excluded.subject, ''), f.subject),
        class = CASE WHEN @reread THEN f.class ELSE excluded.class END,
        listed_by = CASE WHEN @reread THEN f.listed_by ELSE excluded.listed_by END,
        due_at = excluded.due_at,
        last_seen_at = clock_timestamp(),
        last_run_id = excluded.last_run_id,
        state = CASE WHEN @closed THEN f.state ELSE 'open' END,
        resolution = CASE WHEN @closed THEN f.resolution ELSE '' END,
        closed_at = CASE WHEN @closed THEN f.closed_at END,
        acknowledged_at = CASE WHEN @closed THEN f.acknowledged_at END
    RETURNING id, kind, state
)
INSERT INTO nightaudit.finding_history (finding_id, run_id, kind, state, why)
SELECT seen.id, @run_id, seen.kind, seen.state, 'listed'
FROM seen
WHERE NOT EXISTS (SELECT FROM old WHERE old.state = seen.state AND old.kind = seen.kind)`

func recordArgs(f Finding, s step, reread bool) pgx.NamedArgs {
	args := findingArgs(f)
	args["listed_by"], args["closed"], args["reread"] = f.LastRunID, s.closed, reread
	return args
}

const payloadSQL = `
INSERT INTO nightaudit.payloads (finding_id, body)
VALUES (@finding_id, @body)
ON CONFLICT (finding_id) DO UPDATE
SET body = excluded.body, stored_at = clock_timestamp()`

const planSQL = `
INSERT INTO nightaudit.replays (id, finding_id, source, stream, event_key, event_id, event_account, event_type,
    event_created, event_livemode, api_version, class, lane, state, replayed_from, run_id)
VALUES (@id, @finding_id, @source, @stream, @event_key, @event_id, @event_account, @event_type,
    @event_created, @event_livemode, @api_version, @class, @lane, 'planned', nullif(@replayed_from, ''), @run_id)`

func planArgs(f Finding, carry providers.Class, replayedFrom string) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": NewID("rpl", time.Now()), "finding_id": f.ID, "source": f.Source, "stream": f.Stream,
		"event_key": f.Key, "event_id": f.EventID, "event_account": f.EventAccount, "event_type": f.EventType,
		"event_created": f.EventCreated, "event_livemode": f.EventLivemode, "api_version": f.APIVersion,
		"class": string(carry), "lane": f.lane(), "replayed_from": replayedFrom, "run_id": f.LastRunID,
	}
}
