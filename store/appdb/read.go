package appdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A DB is the application's database; *pgxpool.Pool is one. Nothing but read-only
// transactions is ever begun on it.
type DB interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

const (
	// statementTimeout is how long the server works on one statement of ours. It
	// is below clientTimeout, since a client that gives up closes its connection
	// and may leave the server working.
	statementTimeout = 20 * time.Second
	// idleTimeout is how long the server keeps a transaction of ours in which
	// nothing is asked.
	idleTimeout = 20 * time.Second
	// clientTimeout is how long we wait for one statement.
	clientTimeout = 30 * time.Second
	// endTimeout is how long the end of a transaction may take that is given up.
	endTimeout = 5 * time.Second
)

// ask runs do, a statement or a few, in a read-only transaction within
// clientTimeout. Settings, such as "jit = off", hold for it alone.
func ask(ctx context.Context, db DB, do func(context.Context, pgx.Tx) error, settings ...string) error {
	return bounded(ctx, func(ctx context.Context) error { return read(ctx, db, do, settings...) })
}

// read runs do in a read-only transaction, whose time-outs and settings hold for
// it alone and so survive a transaction pooler. What do has read counts only if
// read returns nil.
func read(ctx context.Context, db DB, do func(context.Context, pgx.Tx) error, settings ...string) error {
	var tx pgx.Tx
	err := bounded(ctx, func(ctx context.Context) (err error) {
		tx, err = db.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginSQL(ctx, settings)})
		return err
	})
	if err != nil {
		return err
	}
	if err := do(ctx, tx); err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		_ = tx.Rollback(end) // where it fails, pgx closes the connection, which ends the transaction too
		return err
	}
	return bounded(ctx, tx.Commit)
}

// beginSQL is one round trip: it has no parameters, so pgx sends it as a simple
// query in every mode.
func beginSQL(ctx context.Context, settings []string) string {
	sql := fmt.Sprintf("BEGIN READ ONLY; SET LOCAL statement_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d",
		serverTimeout(ctx).Milliseconds(), idleTimeout.Milliseconds())
	for _, s := range settings {
		sql += "; SET LOCAL " + s
	}
	return sql
}

// serverTimeout is statementTimeout, or less if ctx ends soon, so that the server
// gives up before the client does. It is never 0, which would be no time-out.
func serverTimeout(ctx context.Context) time.Duration {
	limit := statementTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)*3/4)
	}
	return max(limit, time.Millisecond)
}

// bounded runs do, which waits for the server, within clientTimeout.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clientTimeout,
		fmt.Errorf("no answer from the application's database within %s", clientTimeout))
	defer cancel()
	return withCause(ctx, do(ctx))
}

// withCause adds to err why ctx ended, if it did.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// refusal is the server's own answer in err, or nil if it is another error.
func refusal(err error) *pgconn.PgError {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}
