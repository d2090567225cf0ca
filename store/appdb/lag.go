package appdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A replay is how far a server has replayed another's log.
type replay struct {
	standby   bool
	streaming bool   // connected to the server that it follows
	received  *int64 // positions in the log; nil if it has received none
	replayed  *int64
	behind    *int64 // microseconds since the commit of the last transaction replayed
}

const (
	// lagLooks and lagWait bound how long Lag watches a standby catch up.
	lagLooks = 10
	lagWait  = 100 * time.Millisecond
)

// Lag is how far the data that the ledger is read from is behind: 0 on a primary
// and on a standby that has replayed all that it is sent. A standby that is cut
// off from its primary, or still has log to replay after a second, is as far
// behind as the commit of its last replayed transaction is past; that is an upper
// bound, since the primary may have been idle. If it cannot be known, the error
// says so.
func (l *Ledger) Lag(ctx context.Context) (time.Duration, error) {
	lag, err := watchReplay(ctx, l.look)
	if err != nil {
		return 0, fmt.Errorf("reading how far the replica with %s is behind: %w; if it is none that follows by streaming, read the ledger from the primary", l.table, err)
	}
	return lag, nil
}

// watchReplay looks until the log that had been received at the first look is
// replayed.
func watchReplay(ctx context.Context, look func(context.Context) (replay, error)) (time.Duration, error) {
	first, err := look(ctx)
	for r, n := first, 1; err == nil; n++ {
		if !r.standby || r.caughtUp(first.received) {
			return 0, nil
		}
		if !r.streaming || n == lagLooks {
			return r.lag()
		}
		if err = wait(ctx, lagWait); err == nil {
			r, err = look(ctx)
		}
	}
	return 0, err
}

// caughtUp reports whether a standby that is being sent the log has replayed it
// up to a position. The time of the last transaction does not tell: on an idle
// primary it is long ago.
func (r replay) caughtUp(to *int64) bool {
	return r.streaming && to != nil && r.replayed != nil && *r.replayed >= *to
}

func (r replay) lag() (time.Duration, error) {
	if r.behind == nil {
		return 0, errors.New("the standby has replayed no transaction since it started")
	}
	return max(0, time.Duration(*r.behind)*time.Microsecond), nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Without further rights, pg_stat_wal_receiver shows that there is a receiver.
const replaySQL = `
SELECT pg_catalog.pg_is_in_recovery(),
       EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver),
       pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_receive_lsn(), '0/0')::int8,
       pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0')::int8,
       (EXTRACT(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) * 1000000)::int8`

func (l *Ledger) look(ctx context.Context) (replay, error) {
	var r replay
	err := ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, replaySQL).Scan(&r.standby, &r.streaming, &r.received, &r.replayed, &r.behind)
	})
	return r, err
}
