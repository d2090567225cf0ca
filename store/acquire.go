package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A HeldError says that another process holds the lease.
type HeldError struct {
	Source  string
	Role    Role
	RunID   string
	Holder  string
	Expires time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("source %s: already running (run %s on %s)", e.Source, e.RunID, e.Holder)
}

// acquireSQL takes a lease that is free or expired, by the database's clock.
const acquireSQL = `
INSERT INTO nightaudit.leases AS l (source, role, epoch, holder, run_id, acquired_at, expires_at)
VALUES (@source, @role, 1, @holder, @run_id, clock_timestamp(), clock_timestamp() + make_interval(secs => @ttl))
ON CONFLICT (source, role) DO UPDATE
SET epoch = l.epoch + 1,
    holder = excluded.holder,
    run_id = excluded.run_id,
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => @ttl)
WHERE l.expires_at <= clock_timestamp()
RETURNING epoch`

// acquireTries is how often a lease is asked for whose row is locked; each try
// waits a twelfth of a lease's life, 5 s of 60 s.
const acquireTries = 12

// Acquire takes the lease of role on source for runID. It does not wait for one
// that is held: that is a *HeldError, at once or, while its holder has the row
// locked, after 5 s. holder names the process for a person: host and process id.
func (s *Store) Acquire(ctx context.Context, source string, role Role, holder, runID string) (*Lease, error) {
	l := &Lease{store: s, source: source, role: role, runID: runID}
	for range acquireTries {
		l.mark(time.Now())
		err := s.take(ctx, l, holder)
		switch {
		case err == nil:
			return l, nil
		case isNoRows(err):
			held, _, err := s.held(ctx, source, role)
			if err != nil {
				return nil, err
			}
			return nil, held
		case !isLocked(err):
			return nil, fmt.Errorf("taking the %s lease of source %s: %w", role, source, err)
		}
		if err := s.unlock(ctx, source, role); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("taking the %s lease of source %s: it has expired, and a transaction of its last holder keeps its row locked; "+
		"end that process, or its session in Postgres", role, source)
}

// take asks for the lease once. It waits for a lock on its row a while.
func (s *Store) take(ctx context.Context, l *Lease, holder string) error {
	return s.tx(ctx, func(tx pgx.Tx) error {
		wait := fmt.Sprintf("%dms", max(1, (s.leaseTTL/acquireTries).Milliseconds()))
		if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true)`, wait); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.sql(acquireSQL), pgx.NamedArgs{
			"source": l.source, "role": string(l.role), "holder": holder, "run_id": l.runID, "ttl": s.leaseTTL.Seconds(),
		}).Scan(&l.epoch)
	})
}

// isLocked reports whether a statement waited for a lock longer than it may.
func isLocked(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "55P03"
}

const holderSQL = `
SELECT run_id, holder, expires_at, expires_at <= clock_timestamp()
FROM nightaudit.leases
WHERE source = @source AND role = @role`

// held gives who has the lease, or had it last: then it has expired.
func (s *Store) held(ctx context.Context, source string, role Role) (held *HeldError, expired bool, err error) {
	held = &HeldError{Source: source, Role: role}
	err = s.db.QueryRow(ctx, s.sql(holderSQL), pgx.NamedArgs{"source": source, "role": string(role)}).
		Scan(&held.RunID, &held.Holder, &held.Expires, &expired)
	if err != nil {
		return nil, false, fmt.Errorf("asking who holds the %s lease of source %s: %w", role, source, err)
	}
	return held, expired, nil
}

// evictSQL ends the session that has locked the row of an expired lease for so
// long that its own time-outs should have ended it.
const evictSQL = `
SELECT pg_terminate_backend(a.pid)
FROM nightaudit.leases AS l
JOIN pg_stat_activity AS a ON a.backend_xid = l.xmax
WHERE l.source = @source AND l.role = @role AND l.expires_at <= clock_timestamp()
    AND a.datname = current_database() AND a.xact_start < clock_timestamp() - make_interval(secs => @seconds)`

// unlock clears the way to a lease whose row is locked, unless its holder lives:
// that is a *HeldError. A process that is stopped (SIGSTOP, a suspended machine)
// between two statements that it sends as one batch keeps its locks for as long as
// that lasts: to Postgres it is neither idle in its transaction nor running a
// statement, so that no time-out of limitsSQL counts. What it had not committed it
// could never commit, for its lease is over.
func (s *Store) unlock(ctx context.Context, source string, role Role) error {
	held, expired, err := s.held(ctx, source, role)
	switch {
	case isNoRows(err):
		return nil // another is just taking it for the first time
	case err != nil:
		return err
	case !expired:
		return held
	}
	_, err = s.db.Exec(ctx, s.sql(evictSQL), pgx.NamedArgs{
		"source": source, "role": string(role), "seconds": (s.leaseTTL / 3).Seconds(),
	})
	if err != nil {
		return fmt.Errorf("ending the session that keeps the expired %s lease of source %s locked: %w", role, source, err)
	}
	return nil
}
