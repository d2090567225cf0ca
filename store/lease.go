package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Role is what a lease allows its holder to do for a source.
type Role string

// The roles.
const (
	RoleRun   Role = "run"
	RoleDrain Role = "drain"
)

// A Lease is the right to run or to drain one source. It is held by heartbeats
// (Keep) and proved anew in every transaction (Tx): a holder that was stopped
// past the lease's expiry and goes on commits nothing.
type Lease struct {
	store  *Store
	source string
	role   Role
	epoch  int64
	runID  string

	renewed atomic.Pointer[time.Time] // by the monotonic clock
}

// ErrLeaseLost says that another process has taken over; the holder stops.
var ErrLeaseLost = errors.New("the lease was lost to another process; this one stops and writes nothing more")

// sendMargin is how much of a lease's life must be left for a request to leave:
// of 60 s it is sent within 45 s of the last renewal.
const sendMargin = 0.75

// MaySend reports whether a request may still leave under this lease: the last
// renewal is not too long ago by the monotonic clock.
func (l *Lease) MaySend() bool {
	return time.Since(*l.renewed.Load()) < time.Duration(sendMargin*float64(l.store.leaseTTL))
}

func (l *Lease) mark(at time.Time) { l.renewed.Store(&at) }

// renewSQL keeps a lease that is still ours; an expired one is not revived.
const renewSQL = `
UPDATE nightaudit.leases
SET expires_at = clock_timestamp() + make_interval(secs => @ttl)
WHERE source = @source AND role = @role AND epoch = @epoch AND expires_at > clock_timestamp()`

// Renew makes the lease live on for its full time, or returns ErrLeaseLost.
func (l *Lease) Renew(ctx context.Context) error {
	at := time.Now()
	tag, err := l.store.db.Exec(ctx, l.store.sql(renewSQL), pgx.NamedArgs{
		"source": l.source, "role": string(l.role), "epoch": l.epoch, "ttl": l.store.leaseTTL.Seconds(),
	})
	if err != nil {
		return fmt.Errorf("renewing the %s lease of source %s: %w", l.role, l.source, err)
	}
	if tag.RowsAffected() == 0 {
		return ErrLeaseLost
	}
	l.mark(at)
	return nil
}

// Keep renews the lease until ctx ends, and calls lost once if it is lost. A
// database that does not answer is no loss yet: Tx and MaySend guard the rest.
func (l *Lease) Keep(ctx context.Context, lost func(error)) {
	tick := time.NewTicker(l.store.heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := l.Renew(ctx); errors.Is(err, ErrLeaseLost) {
				lost(err)
				return
			}
		}
	}
}

const releaseSQL = `
UPDATE nightaudit.leases
SET expires_at = clock_timestamp()
WHERE source = @source AND role = @role AND epoch = @epoch`

// Release gives the lease back, so that the next holder need not wait for its
// expiry. Releasing a lost lease does nothing.
func (l *Lease) Release(ctx context.Context) error {
	_, err := l.store.db.Exec(ctx, l.store.sql(releaseSQL), pgx.NamedArgs{
		"source": l.source, "role": string(l.role), "epoch": l.epoch,
	})
	if err != nil {
		return fmt.Errorf("releasing the %s lease of source %s: %w", l.role, l.source, err)
	}
	return nil
}

// limitsSQL bounds every statement of a fenced transaction and the time between
// two of them, for this transaction only.
const limitsSQL = `
SELECT set_config('statement_timeout', '20s', true),
       set_config('idle_in_transaction_session_timeout', '20s', true)`

// fenceSQL locks the lease's row: whoever wants to take the lease over waits for
// this transaction, and this transaction sees who took it before.
const fenceSQL = `
SELECT epoch = @epoch AND expires_at > clock_timestamp()
FROM nightaudit.leases
WHERE source = @source AND role = @role
FOR UPDATE`

// Tx runs f in a transaction that holds only while the lease is ours, and
// commits. It returns ErrLeaseLost, and nothing is written, when it is not. f
// makes no outside call.
func (l *Lease) Tx(ctx context.Context, f func(tx pgx.Tx) error) error {
	return l.store.tx(ctx, func(tx pgx.Tx) error {
		var ours bool
		err := tx.QueryRow(ctx, l.store.sql(fenceSQL), pgx.NamedArgs{
			"source": l.source, "role": string(l.role), "epoch": l.epoch,
		}).Scan(&ours)
		if err != nil {
			return fmt.Errorf("checking the %s lease of source %s: %w", l.role, l.source, err)
		}
		if !ours {
			return ErrLeaseLost
		}
		return f(tx)
	})
}

// tx runs f in a transaction with the time-outs of limitsSQL.
func (s *Store) tx(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, limitsSQL); err != nil {
			return err
		}
		return f(tx)
	})
}
