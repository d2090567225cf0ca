package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store"
)

// expire ends all leases as the database's clock would.
func (f *fixture) expire() {
	f.t.Helper()
	f.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp() - interval '1 second'`)
}

func TestAHeldLeaseIsRefusedWithTheNameOfItsHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.store.Acquire(t.Context(), "shop", store.RoleRun, "host 2", "run_2")
	var held *store.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("acquiring a held lease: got %v, want a *HeldError", err)
	}
	same(t, "run and holder", held.RunID+" on "+held.Holder, f.run.RunID()+" on host 1")
	same(t, "text", err, "source shop: already running (run "+f.run.RunID()+" on host 1)")
	if left := time.Until(held.Expires); left < 50*time.Second || left > time.Minute {
		t.Errorf("expiry: got %s from now, want just under a minute", left)
	}
	for _, c := range []struct {
		source string
		role   store.Role
	}{{"shop", store.RoleDrain}, {"other", store.RoleRun}} {
		if _, err := f.store.Acquire(t.Context(), c.source, c.role, "host 2", "run_2"); err != nil {
			t.Errorf("the %s lease of %s beside the run lease of shop: got %v, want it", c.role, c.source, err)
		}
	}
}

func TestAnExpiredHolderCanDoNothingMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		name     string
		takeover bool
	}{{"nobody has taken over", false}, {"another has taken over", true}} {
		t.Run(c.name, func(t *testing.T) {
			old := f.newRun()
			f.expire()
			if c.takeover {
				acquire(t, f.store, "shop", store.RoleRun, "run_2")
			}
			before := value[int](f, `SELECT count(*) FROM nightaudit.findings`)
			for what, do := range map[string]func() error{
				"Renew":     func() error { return old.Renew(t.Context()) },
				"Tx":        func() error { return old.Tx(t.Context(), func(pgx.Tx) error { t.Error("Tx ran"); return nil }) },
				"FinishRun": func() error { return old.FinishRun(t.Context(), old.RunID(), store.InSync, nil) },
				"Record": func() error {
					_, err := old.Record(t.Context(), stream, []store.Drift{missing("evt_1", 1, "")})
					return err
				},
			} {
				if err := do(); !errors.Is(err, store.ErrLeaseLost) {
					t.Errorf("%s of the expired holder: got %v, want ErrLeaseLost", what, err)
				}
			}
			same(t, "findings", value[int](f, `SELECT count(*) FROM nightaudit.findings`), before)
			same(t, "outcome", value[string](f, `SELECT outcome FROM nightaudit.runs WHERE id = $1`, old.RunID()), store.Running)
			f.expire()
		})
	}
}

func TestATakeoverRaisesTheEpochAndNamesTheNewHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expire()
	acquire(t, f.store, "shop", store.RoleRun, "run_2")
	same(t, "epoch and run", value[string](f, `SELECT epoch || ' ' || run_id FROM nightaudit.leases`), "2 run_2")
	if err := f.run.Release(t.Context()); err != nil {
		t.Errorf("releasing a lost lease: got %v, want nothing to happen", err)
	}
	if _, err := f.store.Acquire(t.Context(), "shop", store.RoleRun, "host 3", "run_3"); err == nil {
		t.Error("releasing a lost lease freed the lease of its new holder")
	}
}

func TestAReleasedLeaseIsFreeAtOnceAndOfNoUseAnyMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.run.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.run.Renew(t.Context()); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("renewing a released lease: got %v, want ErrLeaseLost", err)
	}
	acquire(t, f.store, "shop", store.RoleRun, "run_2")
}

func TestOfManyThatAcquireAtOnceOneWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expire()
	var won, refused atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var held *store.HeldError
			switch _, err := f.store.Acquire(t.Context(), "shop", store.RoleRun, "host", "run"); {
			case err == nil:
				won.Add(1)
			case errors.As(err, &held):
				refused.Add(1)
			default:
				t.Errorf("acquiring: %v", err)
			}
		})
	}
	all.Wait()
	same(t, "winners and refused", []int32{won.Load(), refused.Load()}, []int32{1, 7})
}

func TestATakeoverWaitsForTheOldHoldersOpenTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	inside, goOn, old := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		old <- f.run.Tx(t.Context(), func(tx pgx.Tx) error {
			// Time passes while the transaction is open.
			_, err := tx.Exec(t.Context(), `UPDATE nightaudit.leases SET expires_at = clock_timestamp()`)
			close(inside)
			<-goOn
			return err
		})
	}()
	<-inside
	taken := make(chan error, 1)
	go func() {
		_, err := f.store.Acquire(t.Context(), "shop", store.RoleRun, "host 2", "run_2")
		taken <- err
	}()
	eventually(t, "the takeover waits for the lease's row", func() bool {
		return value[int](f, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	select {
	case err := <-taken:
		t.Errorf("takeover while a transaction of the old holder is open: got %v, want it to wait", err)
	default:
	}
	close(goOn)
	if err := <-old; err != nil {
		t.Errorf("the transaction that was open: got %v, want it committed", err)
	}
	if err := <-taken; err != nil {
		t.Errorf("takeover after the transaction: got %v, want the lease", err)
	}
	if err := f.run.Tx(t.Context(), func(pgx.Tx) error { return nil }); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("next transaction of the old holder: got %v, want ErrLeaseLost", err)
	}
}

func TestTimeOutsAreSetInsideATransactionOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	config := f.pool.Config()
	config.MaxConns = 1
	single := connectConfig(t, config)
	lease := acquire(t, opened(t, single, store.Options{}), "other", store.RoleRun, "run_2")
	show := func(q interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}) (got [2]string) {
		for i, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
			if err := q.QueryRow(t.Context(), `SHOW `+name).Scan(&got[i]); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	before := show(single)
	err := lease.Tx(t.Context(), func(tx pgx.Tx) error {
		same(t, "inside", show(tx), []string{"20s", "20s"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "after, on the same connection", show(single), before)
}

func TestAFailedTransactionWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wrong := errors.New("something went wrong")
	err := f.run.Tx(t.Context(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `UPDATE nightaudit.streams SET watermark = now()`); err != nil {
			return err
		}
		return wrong
	})
	if !errors.Is(err, wrong) {
		t.Errorf("got %v, want %v", err, wrong)
	}
	same(t, "watermark", value[time.Time](f, `SELECT watermark FROM nightaudit.streams`).UTC(), midnight)
}

func TestNoRequestLeavesLongAfterTheLastRenewal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if !f.run.MaySend() {
		t.Error("a lease of 60 s, just taken: got no, want that requests may leave")
	}
	const ttl = 200 * time.Millisecond
	begun := time.Now()
	lease := acquire(t, opened(t, f.pool, store.Options{LeaseTTL: ttl}), "other", store.RoleRun, "run_2")
	eventually(t, "no request may leave under a lease that is not renewed", func() bool { return !lease.MaySend() })
	if took := time.Since(begun); took < ttl*3/4 {
		t.Errorf("a lease of %s: requests stopped after %s, want three quarters of it", ttl, took)
	}
	eventually(t, "requests may leave again after a renewal", func() bool {
		f.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp() + interval '1 hour'`)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		return lease.MaySend()
	})
}

func TestKeepRenewsAndTellsOnceThatTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	quick := opened(t, &unsteady{DB: f.pool}, store.Options{Heartbeat: time.Millisecond})
	lease := acquire(t, quick, "other", store.RoleRun, "run_2")
	f.exec(`UPDATE nightaudit.leases SET expires_at = clock_timestamp() + interval '10 seconds' WHERE source = 'other'`)
	lost := make(chan error, 10)
	kept := make(chan struct{})
	go func() {
		lease.Keep(t.Context(), func(err error) { lost <- err })
		close(kept)
	}()
	eventually(t, "Keep renews the lease, though the database answers only now and then", func() bool {
		return value[bool](f, `SELECT expires_at > clock_timestamp() + interval '30 seconds' FROM nightaudit.leases WHERE source = 'other'`)
	})
	f.exec(`UPDATE nightaudit.leases SET epoch = epoch + 1 WHERE source = 'other'`)
	<-kept
	same(t, "losses told", len(lost), 1)
	if err := <-lost; !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the loss: got %v, want ErrLeaseLost", err)
	}
}

func TestKeepEndsQuietlyWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.run.Keep(ctx, func(err error) { t.Errorf("Keep told of a loss (%v), want nothing", err) })
}

// unsteady is a database that fails every second statement.
type unsteady struct {
	store.DB
	n atomic.Int32
}

func (u *unsteady) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	if u.n.Add(1)%2 == 1 {
		return tag, errors.New("connection refused")
	}
	return u.DB.Exec(ctx, sql, args...)
}

var _ store.DB = (*unsteady)(nil)

func TestOptionsNameAPlainSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for _, name := range []string{"Audit", "a-b", `a"; DROP SCHEMA public; --`, "1a", "a.b"} {
		if _, err := store.New(pool, store.Options{Schema: name}); err == nil {
			t.Errorf("New in schema %q: got a store, want an error", name)
		}
		if _, err := store.Migrate(t.Context(), pool, name, nil); err == nil {
			t.Errorf("Migrate of schema %q: got no error, want one", name)
		}
	}
}
