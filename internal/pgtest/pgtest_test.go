package pgtest_test

import (
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nightaudit/nightaudit/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestEachDatabaseIsEmptyAndATestsOwn(t *testing.T) {
	t.Parallel()
	one, two := pgtest.Pool(t), pgtest.Pool(t)
	if _, err := one.Exec(t.Context(), `CREATE TABLE orders (id bigint)`); err != nil {
		t.Fatal(err)
	}
	var there bool
	const thereSQL = `SELECT to_regclass('orders') IS NOT NULL`
	if err := two.QueryRow(t.Context(), thereSQL).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if there {
		t.Error("a table made in one database: got it in another, want none")
	}
}

func TestDatabaseGoesWithItsTestThoughConnectionsAreOpen(t *testing.T) {
	t.Parallel()
	watcher := pgtest.Pool(t)
	var name string
	t.Run("uses one", func(t *testing.T) {
		url := pgtest.URL(t)
		pool := pgtest.Connect(t, url)
		if err := pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name); err != nil {
			t.Fatal(err)
		}
	})
	var left int
	if err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_database WHERE datname = $1`, name).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("database %s after its test: got %d, want none", name, left)
	}
}

func TestReaderMayReadItsTablesAndNothingElse(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	owner := pgtest.Connect(t, url)
	_, err := owner.Exec(t.Context(), `
CREATE TABLE orders (id bigint);
CREATE SCHEMA billing;
CREATE TABLE billing."Invoices" (id bigint);
CREATE TABLE billing.secrets (id bigint)`)
	if err != nil {
		t.Fatal(err)
	}
	reader := pgtest.Connect(t, pgtest.ReadOnlyURL(t, url, "orders", "billing.Invoices"))

	const denied = "42501" // insufficient_privilege
	for _, c := range []struct{ sql, want string }{
		{`SELECT * FROM orders`, ""},
		{`SELECT * FROM billing."Invoices"`, ""},
		{`SELECT * FROM billing.secrets`, denied},
		{`INSERT INTO orders VALUES (1)`, denied},
		{`DELETE FROM orders`, denied},
		{`SELECT * FROM orders FOR UPDATE`, denied},
		{`CREATE TABLE mine (id bigint)`, denied},
		{`CREATE TEMP TABLE mine (id bigint)`, denied},
		{`CREATE SCHEMA mine`, denied},
		{`CREATE ROLE mine`, denied},
	} {
		_, err := reader.Exec(t.Context(), c.sql)
		if got := sqlState(err); got != c.want {
			t.Errorf("%s as the reader: got SQLSTATE %q (%v), want %q", c.sql, got, err, c.want)
		}
	}
}

func TestServerOfItsOwnStopsAlone(t *testing.T) {
	t.Parallel()
	shared := pgtest.Pool(t)
	server := pgtest.Server(t)
	own := pgtest.Connect(t, server.URL(""))
	if err := own.Ping(t.Context()); err != nil {
		t.Fatalf("own server before it is stopped: %v", err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := own.Ping(t.Context()); err == nil {
		t.Error("own server after it was stopped: got an answer, want an error")
	}
	if err := shared.Ping(t.Context()); err != nil {
		t.Errorf("the shared server after another was stopped: got %v, want an answer", err)
	}
}

func BenchmarkURL(b *testing.B) {
	pgtest.URL(b)
	for b.Loop() {
		pgtest.URL(b)
	}
}

func sqlState(err error) string {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		return pgErr.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
