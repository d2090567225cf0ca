package store_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store"
)

// databases are migrated ones that tests take turns with: making one takes far
// longer than most tests.
type databases struct {
	mu   sync.Mutex
	free []*pgxpool.Pool
	all  []*pgxpool.Pool
}

var shared databases

// emptySQL makes a used database as good as new.
const emptySQL = `
DELETE FROM nightaudit.witnesses;
DELETE FROM nightaudit.attempts;
DELETE FROM nightaudit.replays;
DELETE FROM nightaudit.payloads;
DELETE FROM nightaudit.finding_history;
DELETE FROM nightaudit.findings;
DELETE FROM nightaudit.endpoint_looks;
DELETE FROM nightaudit.windows;
DELETE FROM nightaudit.runs;
DELETE FROM nightaudit.streams;
DELETE FROM nightaudit.leases`

// take gives a migrated, empty database to a test, until it ends.
func (d *databases) take(t testing.TB) *pgxpool.Pool {
	t.Helper()
	d.mu.Lock()
	var pool *pgxpool.Pool
	if n := len(d.free); n > 0 {
		pool, d.free = d.free[n-1], d.free[:n-1]
	}
	d.mu.Unlock()
	if pool == nil {
		pool = d.create(t)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(contextAfter(t), emptySQL); err != nil {
			t.Errorf("emptying a database: %v", err)
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free = append(d.free, pool)
	})
	return pool
}

func (d *databases) create(t testing.TB) *pgxpool.Pool {
	t.Helper()
	neighbour := pgtest.Pool(t)
	config := neighbour.Config()
	config.ConnConfig.Database = "store_" + strings.ToLower(rand.Text())
	if _, err := neighbour.Exec(t.Context(), `CREATE DATABASE `+pgx.Identifier{config.ConnConfig.Database}.Sanitize()+` TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.all = append(d.all, pool)
	d.mu.Unlock()
	if _, err := store.Migrate(t.Context(), pool, "", nil); err != nil {
		t.Fatal(err)
	}
	return pool
}

// A tidyRun drops the shared databases when the tests have run.
type tidyRun struct{ m *testing.M }

func (r tidyRun) Run() int {
	code := r.m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, pool := range shared.all {
		config := pool.Config().ConnConfig
		pool.Close()
		if err := drop(ctx, config); err != nil {
			fmt.Fprintln(os.Stderr, "dropping a shared database:", err)
			code = max(code, 1)
		}
	}
	return code
}

func drop(ctx context.Context, config *pgx.ConnConfig) error {
	name := config.Database
	config.Database = "template1" // every server has it
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `DROP DATABASE `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
	return err
}
