package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// A ReplayState is where a replay stands.
type ReplayState string

// The states of a replay. Planned, queued, held, acknowledged and unrecorded
// ones are open: their event has no other.
const (
	ReplayPlanned      ReplayState = "planned"      // found by a run, not yet weighed by the gate
	ReplayQueued       ReplayState = "queued"       // let through, to be sent
	ReplayHeld         ReplayState = "held"         // a person or the config must decide
	ReplayAcknowledged ReplayState = "acknowledged" // answered with 2xx, watched in the ledger
	ReplayRepaired     ReplayState = "repaired"     // the ledger shows it
	ReplayUnrecorded   ReplayState = "unrecorded"   // acknowledged, and the ledger never showed it
	ReplaySuperseded   ReplayState = "superseded"   // newer state of its subject is in place
	ReplayRejected     ReplayState = "rejected"     // refused for good by the receiver
	ReplayParked       ReplayState = "parked"       // given up after all tries
	ReplayCancelled    ReplayState = "cancelled"    // by a person
)

// A Hold is why a replay is held.
type Hold string

// The holds.
const (
	HoldGate    Hold = "gate"    // the gate found the numbers implausible
	HoldLane    Hold = "lane"    // an older one of its subject is held
	HoldTie     Hold = "tie"     // other state of the same second is in place
	HoldVersion Hold = "version" // the endpoint gets another API version
)

// A Replay is the durable work item that repairs one finding.
type Replay struct {
	ID             string
	FindingID      string
	Source         string
	Stream         string
	Event          providers.Event // without payload, subject and deliveries
	Class          providers.Class
	Lane           string // replays of one lane go one after another; see providers.Event.Lane
	State          ReplayState
	Hold           Hold       // "" if it is not held
	Reason         string     // one sentence for a person about its state; "" if there is nothing to say
	Attempts       int        // begun so far
	Unrecorded     int        // runs that saw it acknowledged and not recorded
	Overtaken      bool       // a younger one of its lane was sent after it was given up
	WitnessedTo    *time.Time // the feed was read up to here for newer events of its subject; nil if never
	ReplayedFrom   string     // the replay of the same finding before it; "" if it is the first
	PlannedAt      time.Time
	AcknowledgedAt *time.Time // of the newest acknowledgement; nil if there is none
	ClosedAt       *time.Time // nil while it is open
}

const replayColumns = `r.id, r.finding_id, r.source, r.stream,
    r.event_key, r.event_id, r.event_account, r.event_type, r.event_created, r.event_livemode, r.api_version,
    r.class, r.lane, r.state, r.hold, r.reason, r.attempts, r.unrecorded, r.overtaken, r.witnessed_to,
    coalesce(r.replayed_from, ''), r.planned_at, r.acknowledged_at, r.closed_at`

// fields are the places that replayColumns is scanned into.
func (r *Replay) fields() []any {
	e := &r.Event
	return []any{
		&r.ID, &r.FindingID, &r.Source, &r.Stream,
		&e.Key, &e.ID, &e.Account, &e.Type, &e.Created, &e.Livemode, &e.APIVersion,
		&r.Class, &r.Lane, &r.State, &r.Hold, &r.Reason, &r.Attempts, &r.Unrecorded, &r.Overtaken, &r.WitnessedTo,
		&r.ReplayedFrom, &r.PlannedAt, &r.AcknowledgedAt, &r.ClosedAt,
	}
}

func collectReplays(rows pgx.Rows) ([]Replay, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Replay, error) {
		var r Replay
		err := row.Scan(r.fields()...)
		r.Event.Created = r.Event.Created.UTC()
		return r, err
	})
}

const replaysOfSQL = `
SELECT DISTINCT ON (r.finding_id) ` + replayColumns + `
FROM nightaudit.replays AS r
WHERE r.finding_id = ANY(@findings::text[])
ORDER BY r.finding_id, r.planned_at DESC, r.id DESC`

// NewestReplays gives the newest replay of each of the findings that has one, by
// the finding's id.
func (s *Store) NewestReplays(ctx context.Context, findings []string) (map[string]Replay, error) {
	rows, err := s.db.Query(ctx, s.sql(replaysOfSQL), pgx.NamedArgs{"findings": list(findings)})
	if err != nil {
		return nil, fmt.Errorf("reading replays: %w", err)
	}
	replays, err := collectReplays(rows)
	if err != nil {
		return nil, fmt.Errorf("reading replays: %w", err)
	}
	newest := make(map[string]Replay, len(replays))
	for _, r := range replays {
		newest[r.FindingID] = r
	}
	return newest, nil
}

// newestReplay joins the newest replay r, if there is one, to each finding f.
const newestReplay = `LEFT JOIN LATERAL (
    SELECT id, state FROM nightaudit.replays
    WHERE finding_id = f.id
    ORDER BY planned_at DESC, id DESC
    LIMIT 1
) AS r ON true`

const listedStatesSQL = `
SELECT f.stream, CASE WHEN f.kind = 'unreplayable' THEN 'unreplayable' ELSE coalesce(r.state, 'none') END, count(*)
FROM nightaudit.findings AS f
` + newestReplay + `
WHERE f.listed_by = @run_id AND f.class IN ('missing', 'stuck')
GROUP BY 1, 2`

// ListedStates counts, by stream, what became of the events that a run listed
// as missing or stuck: the states of their newest replays, and "unreplayable".
// The rest, "none", would be a fault in the books.
func (s *Store) ListedStates(ctx context.Context, runID string) (map[string]map[string]int, error) {
	rows, err := s.db.Query(ctx, s.sql(listedStatesSQL), pgx.NamedArgs{"run_id": runID})
	if err != nil {
		return nil, fmt.Errorf("counting replays of run %s: %w", runID, err)
	}
	states := make(map[string]map[string]int)
	var stream, state string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&stream, &state, &n}, func() error {
		if states[stream] == nil {
			states[stream] = make(map[string]int)
		}
		states[stream][state] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting replays of run %s: %w", runID, err)
	}
	return states, nil
}

const payloadOfSQL = `
SELECT body
FROM nightaudit.payloads
WHERE finding_id = @finding_id`

// Payload gives the exact bytes of a finding's event.
func (s *Store) Payload(ctx context.Context, findingID string) ([]byte, error) {
	var body []byte
	err := s.db.QueryRow(ctx, s.sql(payloadOfSQL), pgx.NamedArgs{"finding_id": findingID}).Scan(&body)
	if err != nil {
		return nil, fmt.Errorf("reading the payload of %s: %w", findingID, err)
	}
	return body, nil
}

const countReplaysSQL = `
SELECT state, count(*)
FROM nightaudit.replays
WHERE source = @source AND state IN ('planned', 'queued', 'held', 'acknowledged', 'unrecorded')
GROUP BY state`

// CountReplays counts the open replays of a source by state.
func (s *Store) CountReplays(ctx context.Context, source string) (map[ReplayState]int, error) {
	rows, err := s.db.Query(ctx, s.sql(countReplaysSQL), pgx.NamedArgs{"source": source})
	if err != nil {
		return nil, fmt.Errorf("counting the replays of %s: %w", source, err)
	}
	counts := make(map[ReplayState]int)
	var state ReplayState
	var n int
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		counts[state] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting the replays of %s: %w", source, err)
	}
	return counts, nil
}
