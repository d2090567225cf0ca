// Package pgtest gives tests real Postgres databases. A package that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// and then gets as many databases as it asks for. They live on one throw-away
// server of the test process, started with the first, or on the server that
// NIGHTAUDIT_TEST_DATABASE_URL names, as a role that may create databases and
// roles. Tests may run in parallel; each database is a test's own.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/store/embedded"
)

// urlVariable names the server to use instead of an embedded one.
const urlVariable = "NIGHTAUDIT_TEST_DATABASE_URL"

// shared is the server of this test process; nil until Main runs.
var shared *sharedServer

// Main runs the tests of a package and gives the exit code for os.Exit. The
// server, if a test asked for one, is stopped and removed afterwards.
func Main(m interface{ Run() int }) int {
	shared = &sharedServer{}
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

// URL creates an empty database and gives its address as a role that may do
// everything in it. The database is dropped, with all connections to it, when
// the test ends.
func URL(t testing.TB) string {
	t.Helper()
	admin := adminPool(t)
	name := "test_" + strings.ToLower(rand.Text())
	if _, err := admin.Exec(t.Context(), `CREATE DATABASE `+quote(name)+` TEMPLATE template0`); err != nil {
		t.Fatalf("pgtest: creating a database: %v", err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), `DROP DATABASE `+quote(name)+` WITH (FORCE)`); err != nil {
			t.Errorf("pgtest: dropping the database %s: %v", name, err)
		}
	})
	return withDatabase(t, shared.url, name)
}

// Pool creates an empty database and connects to it. The pool is closed when the
// test ends.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Connect(t, URL(t))
}

// Connect connects to url. The pool is closed when the test ends.
func Connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatalf("pgtest: connecting: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// ReadOnlyURL gives the address of the database behind url, which URL has
// given, as a new role that may connect, use the tables' schemas and read the
// tables, and nothing else: the database's public grants (temporary tables, new
// tables in the schema public) are revoked. Tables are named like
// "public.processed_events"; without a schema they are in public. The role is
// dropped when the test ends.
func ReadOnlyURL(t testing.TB, url string, tables ...string) string {
	t.Helper()
	role, password := "reader_"+strings.ToLower(rand.Text()), rand.Text()
	execute(t, t.Context(), url, grants(t, url, role, password, tables))
	t.Cleanup(func() {
		execute(t, context.Background(), url, []string{`DROP OWNED BY ` + quote(role), `DROP ROLE ` + quote(role)})
	})
	return withUser(t, url, role, password)
}

// Server starts a server of the test's own, for tests that stop or crash it. It
// is stopped and removed when the test ends.
func Server(t testing.TB) *embedded.Server {
	t.Helper()
	dir, err := makeDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := dir.remove(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: dir.path, Ephemeral: true})
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return server
}

// A sharedServer is what the databases of one test process live on.
type sharedServer struct {
	start    sync.Once
	startErr error
	url      string // of the database to create others from
	admin    *pgxpool.Pool
	dir      *dir             // nil with a server that the environment names
	server   *embedded.Server // likewise
}

// adminPool is connected to the shared server, which it starts when it is the
// first to be asked.
func adminPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	if shared == nil {
		t.Fatal("pgtest: call pgtest.Main from the package's TestMain: os.Exit(pgtest.Main(m))")
	}
	shared.start.Do(func() { shared.startErr = shared.open(context.Background()) })
	if shared.startErr != nil {
		t.Fatalf("pgtest: %v", shared.startErr)
	}
	return shared.admin
}

func (s *sharedServer) open(ctx context.Context) (err error) {
	if s.url = os.Getenv(urlVariable); s.url == "" {
		if s.dir, err = makeDir(); err != nil {
			return err
		}
		s.server, err = embedded.Start(ctx, embedded.Options{Dir: s.dir.path, Ephemeral: true})
		if err != nil {
			return err
		}
		s.url = s.server.URL("postgres")
	}
	s.admin, err = pgxpool.New(ctx, s.url)
	if err != nil {
		return fmt.Errorf("connecting to the test server: %w", err)
	}
	return nil
}

func (s *sharedServer) close() error {
	var errs []error
	if s.admin != nil {
		s.admin.Close()
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop(context.Background()))
	}
	if s.dir != nil {
		errs = append(errs, s.dir.remove())
	}
	return errors.Join(errs...)
}

// grants are the statements that make a reader of the tables.
func grants(t testing.TB, url, role, password string, tables []string) []string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	database := quote(config.Database)
	statements := []string{
		`CREATE ROLE ` + quote(role) + ` LOGIN PASSWORD '` + password + `'`,
		`REVOKE ALL ON DATABASE ` + database + ` FROM PUBLIC`,
		`REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`GRANT CONNECT ON DATABASE ` + database + ` TO ` + quote(role),
	}
	for _, table := range tables {
		schema, name, found := strings.Cut(table, ".")
		if !found {
			schema, name = "public", table
		}
		statements = append(statements,
			`GRANT USAGE ON SCHEMA `+quote(schema)+` TO `+quote(role),
			`GRANT SELECT ON `+quote(schema, name)+` TO `+quote(role))
	}
	return statements
}

// execute runs statements on a connection of their own.
func execute(t testing.TB, ctx context.Context, url string, statements []string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Errorf("pgtest: connecting: %v", err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Errorf("pgtest: %s: %v", strings.SplitN(statement, " PASSWORD", 2)[0], err)
		}
	}
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

func withDatabase(t testing.TB, address, name string) string {
	t.Helper()
	u := parse(t, address)
	u.Path = "/" + name
	return u.String()
}

func withUser(t testing.TB, address, name, password string) string {
	t.Helper()
	u := parse(t, address)
	u.User = url.UserPassword(name, password)
	return u.String()
}

func parse(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		t.Fatalf("pgtest: the database's address must be a URL; set %s to postgres://user:password@host/database", urlVariable)
	}
	return u
}
