package simulator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const createTablesSQL = `
CREATE TABLE IF NOT EXISTS public.processed_events (
	event_id   text PRIMARY KEY,
	event_type text NOT NULL,
	account    text,
	livemode   boolean,
	status     text NOT NULL,
	handled_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS public.effects (
	event_id text PRIMARY KEY,
	subject  text NOT NULL,
	n        integer NOT NULL
);
CREATE TABLE IF NOT EXISTS public.object_states (
	subject  text PRIMARY KEY,
	event_id text NOT NULL,
	created  timestamptz NOT NULL,
	state    text NOT NULL
)`

// CreateTables makes the application's tables where they are absent: its ledger
// processed_events, effects, which counts how often each event had its effect,
// and object_states, the state that the last handled snapshot of each object
// left. Account is "" for the platform.
func CreateTables(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, createTablesSQL); err != nil {
		return fmt.Errorf("creating the application's tables: %w", err)
	}
	return nil
}

// handleSQL records one event and, if that is news, has its effect. A row that
// is pending is finished by a second delivery. The state is overwritten
// without a look at its age, so that events handled in the wrong order show.
const handleSQL = `
WITH recorded AS (
	INSERT INTO public.processed_events AS p (event_id, event_type, account, livemode, status, handled_at)
	VALUES (@event_id, @event_type, @account, @livemode, @status, @handled_at)
	ON CONFLICT (event_id) DO UPDATE
	SET status = excluded.status, handled_at = excluded.handled_at
	WHERE p.status <> 'done' AND excluded.status = 'done'
	RETURNING event_id
), due AS (
	SELECT 1
	WHERE @status = 'done' AND (NOT @idempotent OR EXISTS (SELECT FROM recorded))
), effect AS (
	INSERT INTO public.effects AS e (event_id, subject, n)
	SELECT @event_id, @subject, 1 FROM due
	ON CONFLICT (event_id) DO UPDATE
	SET n = e.n + 1
)
INSERT INTO public.object_states (subject, event_id, created, state)
SELECT @subject, @event_id, @created::timestamptz, @state FROM due WHERE @snapshot
ON CONFLICT (subject) DO UPDATE
SET event_id = excluded.event_id, created = excluded.created, state = excluded.state`

// record handles an event in one transaction.
func (a *App) record(ctx context.Context, e appEvent, f AppFault) error {
	status := "done"
	if f.Record == RecordPending {
		status = "pending"
	}
	subject, state := e.state()
	return pgx.BeginFunc(ctx, a.opts.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, handleSQL, pgx.NamedArgs{
			"event_id": e.ID, "event_type": e.Type, "account": e.Account, "livemode": e.Livemode,
			"status": status, "handled_at": a.opts.Now(), "idempotent": a.faults.idempotent(),
			"subject": subject, "created": time.Unix(e.Created, 0), "state": state, "snapshot": state != "" && subject != "",
		})
		if err != nil || f.Commit == nil {
			return err
		}
		select {
		case <-f.Commit:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// snapshotVerb is the last word of a type whose events carry an object's state,
// "" for other types.
func snapshotVerb(eventType string) string {
	_, verb, _ := cutLast(eventType, ".")
	if verb == "created" || verb == "updated" || verb == "deleted" {
		return verb
	}
	return ""
}

// state is the object of an event and what its state is after it.
func (e appEvent) state() (subject, state string) {
	s, status := e.object()
	return s.String(), stateAfter(e.Type, status)
}

// stateAfter is what a snapshot says of its object, which has a status or "": that
// it is deleted, else the status, else the event's verb. It is "" for other
// events.
func stateAfter(eventType, status string) string {
	verb := snapshotVerb(eventType)
	if verb == "" || verb == "deleted" {
		return verb
	}
	return cmp.Or(status, verb)
}

// Backfill records events as handled, in bulk and without any delivery, as
// their live deliveries would have left them. Events that are recorded already
// are left alone. handled_at is the event's own time.
func (s *Stripe) Backfill(ctx context.Context, pool *pgxpool.Pool, events iter.Seq[Event]) (recorded int64, err error) {
	var all [][]any
	states := map[string][]any{}
	for e := range events {
		subject := e.Subject.String()
		all = append(all, []any{e.ID, e.Type, e.Account, e.Livemode, e.Created, subject})
		if state := s.stateOf(e); state != "" && subject != "" {
			states[subject] = []any{subject, e.ID, e.Created, state}
		}
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		recorded, err = backfill(ctx, tx, all, slices.Collect(maps.Values(states)))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("recording %d events in bulk: %w", len(all), err)
	}
	return recorded, nil
}

// stateOf is the state that a snapshot event carries, "" for other events. Unless
// the event was given as JSON, it is known without any: there may be millions.
func (s *Stripe) stateOf(e Event) string {
	if snapshotVerb(e.Type) == "" {
		return ""
	}
	c := e.rec.content()
	if c.raw == nil {
		return stateAfter(e.Type, c.status())
	}
	var read appEvent
	if json.Unmarshal(s.Body(e), &read) != nil {
		return ""
	}
	_, state := read.state()
	return state
}

// status is the object's field of this name, "" if it has none.
func (c madeContent) status() string {
	for _, f := range c.set {
		if f.name == "status" {
			return text(f.raw)
		}
	}
	for _, f := range templateOf(c.kind).fields {
		if f.name == "status" {
			return text(f.raw[compact])
		}
	}
	return ""
}

const (
	stageSQL = `
CREATE TEMPORARY TABLE staged (
	event_id text, event_type text, account text, livemode boolean, handled_at timestamptz, subject text
) ON COMMIT DROP;
CREATE TEMPORARY TABLE staged_states (
	subject text, event_id text, created timestamptz, state text
) ON COMMIT DROP`

	ledgerFromStageSQL = `
INSERT INTO public.processed_events (event_id, event_type, account, livemode, status, handled_at)
SELECT event_id, event_type, account, livemode, 'done', handled_at FROM staged
ON CONFLICT (event_id) DO NOTHING`

	effectsFromStageSQL = `
INSERT INTO public.effects (event_id, subject, n)
SELECT event_id, subject, 1 FROM staged
ON CONFLICT (event_id) DO NOTHING`

	statesFromStageSQL = `
INSERT INTO public.object_states (subject, event_id, created, state)
SELECT subject, event_id, created, state FROM staged_states
ON CONFLICT (subject) DO NOTHING`
)

// backfill copies the rows into staging tables and from there to where they are
// absent.
func backfill(ctx context.Context, tx pgx.Tx, events, states [][]any) (int64, error) {
	if _, err := tx.Exec(ctx, stageSQL); err != nil {
		return 0, err
	}
	_, err1 := tx.CopyFrom(ctx, pgx.Identifier{"staged"},
		[]string{"event_id", "event_type", "account", "livemode", "handled_at", "subject"}, pgx.CopyFromRows(events))
	_, err2 := tx.CopyFrom(ctx, pgx.Identifier{"staged_states"},
		[]string{"subject", "event_id", "created", "state"}, pgx.CopyFromRows(states))
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, ledgerFromStageSQL)
	if err != nil {
		return 0, err
	}
	for _, sql := range []string{effectsFromStageSQL, statesFromStageSQL} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	return tag.RowsAffected(), nil
}
