package reconcile_test

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errKilled is what a process that is gone gets to see: it stands for the end of
// the process, after which nothing reaches the outside any more.
var errKilled = errors.New("killed")

// An ending of a process is how the operation fared during which it ended.
type ending int

const (
	beforeIt ending = iota // the operation did not happen
	afterIt                // it happened, and its answer was lost
	toldTo                 // the process was told to stop, and may finish what is under way
	stalls                 // the process goes on after another has taken over and made a run
)

var endingNames = [...]string{"before it happened", "after it happened", "told to stop", "stalls while another takes over"}

func (e ending) String() string { return endingNames[e] }

// outside counts everything that a run does outside of its own memory, and ends
// the process at one of these operations.
type outside struct {
	mu     sync.Mutex
	count  int
	killAt int // 0: never
	how    ending
	stop   func() // with toldTo and stalls: what happens then
	dead   bool
}

// enter says what becomes of the next operation.
func (o *outside) enter() (happens, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead {
		return false, false
	}
	o.count++
	if o.killAt == 0 || o.count != o.killAt {
		return true, true
	}
	if o.how == toldTo {
		o.stop()
	}
	if o.how == toldTo || o.how == stalls {
		return true, true
	}
	o.dead = true
	return o.how == afterIt, false
}

// do makes one operation.
func (o *outside) do(f func() error) error {
	happens, answered := o.enter()
	if !happens {
		return errKilled
	}
	err := f()
	if !answered {
		return errKilled
	}
	return err
}

// call makes one operation outside of the database, of which no transaction is
// open then: here a process may stall.
func (o *outside) call(f func() error) error {
	o.mu.Lock()
	stall := o.how == stalls && o.killAt > 0 && o.count+1 >= o.killAt && o.stop != nil
	meanwhile := o.stop
	if stall {
		o.stop = nil
	}
	o.mu.Unlock()
	err := o.do(f)
	if stall {
		meanwhile()
	}
	return err
}

// mortalDB is a database as a process sees it that may end at any operation.
type mortalDB struct {
	pool *pgxpool.Pool
	*outside
}

func (db mortalDB) Begin(ctx context.Context) (pgx.Tx, error) {
	var tx pgx.Tx
	err := db.do(func() (err error) { tx, err = db.pool.Begin(ctx); return err })
	if err != nil {
		if tx != nil {
			_ = tx.Rollback(context.Background())
		}
		return nil, err
	}
	return &mortalTx{Tx: tx, outside: db.outside}, nil
}

func (db mortalDB) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = db.do(func() (err error) { tag, err = db.pool.Exec(ctx, sql, args...); return err })
	return tag, err
}

func (db mortalDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return query(db.outside, func() (pgx.Rows, error) { return db.pool.Query(ctx, sql, args...) })
}

func (db mortalDB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return &mortalRow{db.outside, func() pgx.Row { return db.pool.QueryRow(ctx, sql, args...) }}
}

// mortalTx is a transaction that the server rolls back when its process ends.
type mortalTx struct {
	pgx.Tx
	*outside
}

func (tx *mortalTx) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = tx.do(func() (err error) { tag, err = tx.Tx.Exec(ctx, sql, args...); return err })
	return tag, err
}

func (tx *mortalTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return query(tx.outside, func() (pgx.Rows, error) { return tx.Tx.Query(ctx, sql, args...) })
}

func (tx *mortalTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return &mortalRow{tx.outside, func() pgx.Row { return tx.Tx.QueryRow(ctx, sql, args...) }}
}

func (tx *mortalTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	var results pgx.BatchResults
	err := tx.do(func() error { results = tx.Tx.SendBatch(ctx, b); return nil })
	if err != nil {
		if results != nil {
			_ = results.Close()
		}
		return pgx.FailedBatchResults(b, err)
	}
	return results
}

func (tx *mortalTx) Commit(ctx context.Context) error {
	err := tx.do(func() error { return tx.Tx.Commit(ctx) })
	_ = tx.Tx.Rollback(context.Background()) // does nothing once it is committed
	return err
}

func (tx *mortalTx) Rollback(context.Context) error { return tx.Tx.Rollback(context.Background()) }

func query(o *outside, f func() (pgx.Rows, error)) (pgx.Rows, error) {
	var rows pgx.Rows
	err := o.do(func() (err error) { rows, err = f(); return err })
	if err != nil {
		if rows != nil {
			rows.Close()
		}
		return nil, err
	}
	return rows, nil
}

type mortalRow struct {
	*outside
	row func() pgx.Row
}

func (r *mortalRow) Scan(dest ...any) error {
	return r.do(func() error { return r.row().Scan(dest...) })
}
