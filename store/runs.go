package store

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Outcome is how a run of one source ended, in one word.
type Outcome string

// The outcomes.
const (
	Running        Outcome = "running"
	InSync         Outcome = "in_sync"          // nothing was missing
	AllRepaired    Outcome = "repaired"         // what was missing is repaired and verified
	DriftRemains   Outcome = "drift"            // something is left open
	HeldBack       Outcome = "held"             // the gate holds the replays
	Incomplete     Outcome = "incomplete"       // something was not listed or compared
	Failed         Outcome = "failed"           // the run itself went wrong
	Interrupted    Outcome = "interrupted"      // it was told to stop
	NothingToJudge Outcome = "nothing_to_judge" // the window was empty
	Crashed        Outcome = "crashed"          // it never said how it ended
)

// A Run is one pass over a source.
type Run struct {
	ID         string
	Source     string
	Cause      string // what started it: "hand", "schedule"
	Mode       string // "report" or "repair"
	DryRun     bool
	Host       string // host and process
	Version    string // of nightaudit
	StartedAt  time.Time
	FinishedAt *time.Time // nil while it runs
	Outcome    Outcome
	Report     json.RawMessage // the drift report; nil until it ended
}

// NewID is a new id with a prefix: ids sort by the time they were made, then at
// random.
func NewID(prefix string, at time.Time) string {
	var b [15]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails: crypto/rand
	return prefix + "_" + strings.ToLower(base32.HexEncoding.EncodeToString(b[:]))
}

// A run of the same source that is still "running" belongs to a process that
// is gone: the lease is ours.
const crashedSQL = `
UPDATE nightaudit.runs
SET outcome = 'crashed', finished_at = clock_timestamp()
WHERE source = @source AND outcome = 'running'`

const startRunSQL = `
INSERT INTO nightaudit.runs (id, source, cause, mode, dry_run, host, version, outcome)
VALUES (@id, @source, @cause, @mode, @dry_run, @host, @version, 'running')
RETURNING started_at`

// StartRun stores that r has begun, and that older runs without an end crashed.
func (l *Lease) StartRun(ctx context.Context, r *Run) error {
	r.Outcome = Running
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, l.store.sql(crashedSQL), pgx.NamedArgs{"source": l.source}); err != nil {
			return err
		}
		return tx.QueryRow(ctx, l.store.sql(startRunSQL), pgx.NamedArgs{
			"id": r.ID, "source": r.Source, "cause": r.Cause, "mode": r.Mode, "dry_run": r.DryRun,
			"host": r.Host, "version": r.Version,
		}).Scan(&r.StartedAt)
	})
	if err != nil {
		return fmt.Errorf("storing the start of run %s: %w", r.ID, err)
	}
	return nil
}

const finishRunSQL = `
UPDATE nightaudit.runs
SET outcome = @outcome, report = nullif(@report, '')::json, finished_at = clock_timestamp()
WHERE id = @id AND outcome = 'running'`

// FinishRun stores how a run ended, once; the report may be nil.
func (l *Lease) FinishRun(ctx context.Context, id string, o Outcome, report json.RawMessage) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(finishRunSQL), pgx.NamedArgs{
			"id": id, "outcome": string(o), "report": string(report),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the end of run %s: %w", id, err)
	}
	return nil
}

const runColumns = `id, source, cause, mode, dry_run, host, version, started_at, finished_at, outcome`

// fields are the places that runColumns is scanned into.
func (r *Run) fields() []any {
	return []any{
		&r.ID, &r.Source, &r.Cause, &r.Mode, &r.DryRun, &r.Host, &r.Version, &r.StartedAt, &r.FinishedAt, &r.Outcome,
	}
}

const runsSQL = `
SELECT ` + runColumns + `
FROM nightaudit.runs
WHERE @source = '' OR source = @source
ORDER BY started_at DESC, id DESC
LIMIT nullif(@limit::bigint, 0)`

// Runs gives the newest runs of a source ("" is all), newest first, without
// their reports; limit 0 is all of them.
func (s *Store) Runs(ctx context.Context, source string, limit int) ([]Run, error) {
	rows, err := s.db.Query(ctx, s.sql(runsSQL), pgx.NamedArgs{"source": source, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("reading runs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Run, error) {
		var r Run
		err := row.Scan(r.fields()...)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading runs: %w", err)
	}
	return runs, nil
}

const reportSQL = `
SELECT ` + runColumns + `, report::text
FROM nightaudit.runs
WHERE report IS NOT NULL AND (id = @id OR @id = '') AND (source = @source OR @source = '')
ORDER BY started_at DESC, id DESC
LIMIT 1`

// ErrNoReport says that there is no such run, or that it has no report.
var ErrNoReport = errors.New("no run with a report was found; see nightaudit runs")

// Report gives a run with its report: by id, or with id "" the newest of source
// ("" is any).
func (s *Store) Report(ctx context.Context, source, id string) (Run, error) {
	var r Run
	var report string
	err := s.db.QueryRow(ctx, s.sql(reportSQL), pgx.NamedArgs{"id": id, "source": source}).
		Scan(append(r.fields(), &report)...)
	if isNoRows(err) {
		return Run{}, ErrNoReport
	}
	if err != nil {
		return Run{}, fmt.Errorf("reading the report of run %q: %w", id, err)
	}
	r.Report = json.RawMessage(report)
	return r, nil
}
