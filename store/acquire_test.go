package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nightaudit/nightaudit/store"
)

// A frozen holder stands still between two statements of a batch, with the row of
// its lease locked: no time-out of Postgres counts then.
type frozen struct{ batch *pgconn.Pipeline }

func (f *fixture) freeze() *frozen {
	t := f.t
	t.Helper()
	conn, err := pgconn.ConnectConfig(t.Context(), &f.pool.Config().ConnConfig.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	begin := conn.Exec(t.Context(), `BEGIN; SET LOCAL statement_timeout = '1s'; SET LOCAL idle_in_transaction_session_timeout = '1s'`)
	if err := begin.Close(); err != nil {
		t.Fatal(err)
	}
	batch := conn.StartPipeline(t.Context())
	batch.SendQueryParams(`SELECT source FROM nightaudit.leases WHERE source = 'shop' FOR UPDATE`, nil, nil, nil, nil)
	batch.SendFlushRequest()
	if err := batch.Flush(); err != nil {
		t.Fatal(err)
	}
	results, err := batch.GetResults()
	if err != nil {
		t.Fatal(err)
	}
	if rows := results.(*pgconn.ResultReader).Read(); rows.Err != nil || len(rows.Rows) != 1 {
		t.Fatalf("locking the row of a lease: got %d rows (%v), want 1", len(rows.Rows), rows.Err)
	}
	return &frozen{batch}
}

// thaw lets the holder go on, and gives what it meets with.
func (z *frozen) thaw() error { return errors.Join(z.batch.Sync(), z.batch.Close()) }

func TestAHolderThatStandsStillInABatchIsStillNamedToOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	still := f.freeze()
	quick := opened(t, f.pool, store.Options{LeaseTTL: time.Second})
	_, err := quick.Acquire(t.Context(), "shop", store.RoleRun, "host 2", "run_2")
	var held *store.HeldError
	if !errors.As(err, &held) || held.RunID != f.run.RunID() {
		t.Errorf("acquiring a lease whose row its living holder has locked: got %v, want a *HeldError of run %s", err, f.run.RunID())
	}
	if err := still.thaw(); err != nil {
		t.Errorf("the living holder when it goes on: got %v, want nothing to have happened", err)
	}
}

func TestAnExpiredHolderThatStandsStillInABatchIsTakenOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expire()
	still := f.freeze()
	quick := opened(t, f.pool, store.Options{LeaseTTL: 6 * time.Second})
	lease := acquire(t, quick, "shop", store.RoleRun, "run_2")
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("renewing the lease that was taken over: %v", err)
	}
	if err := still.thaw(); err == nil {
		t.Error("the expired holder when it goes on: got no error, want its session ended")
	}
}
