package store_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store"
)

// connectConfig opens a pool of a test.
func connectConfig(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func pending(t testing.TB, pool *pgxpool.Pool, schema string) bool {
	t.Helper()
	yes, err := store.Pending(t.Context(), pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

func TestMigrateDoesItsWorkOnceAndInItsSchemaOnly(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "audit_x"} {
		f := &fixture{t: t, pool: pgtest.Pool(t)}
		if !pending(t, f.pool, schema) {
			t.Errorf("schema %q before Migrate: got nothing pending, want something", schema)
		}
		for i, want := range [][]int64{{1}, nil} {
			applied, err := store.Migrate(t.Context(), f.pool, schema, nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "versions applied by call "+string(rune('1'+i)), applied, want)
		}
		if pending(t, f.pool, schema) {
			t.Errorf("schema %q after Migrate: got something pending, want nothing", schema)
		}
		want := schema
		if want == "" {
			want = store.DefaultSchema
		}
		same(t, "schemas with tables of ours", column[string](f, `
SELECT DISTINCT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'`), []string{want})
		for _, table := range []string{"schema_versions", "schema_lock", "replays"} {
			if !value[bool](f, `SELECT to_regclass($1) IS NOT NULL`, want+"."+table) {
				t.Errorf("schema %q: no table %s in it", want, table)
			}
		}
	}
}

func TestFiveThatMigrateAtOnceAllSucceed(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var all sync.WaitGroup
	applied := make([][]int64, 5)
	for i := range applied {
		pool := pgtest.Connect(t, url)
		all.Go(func() {
			var err error
			if applied[i], err = store.Migrate(t.Context(), pool, "", nil); err != nil {
				t.Errorf("process %d of 5: %v", i+1, err)
			}
		})
	}
	all.Wait()
	total := 0
	for _, versions := range applied {
		total += len(versions)
	}
	same(t, "migrations applied by all five", total, 1)
	if pending(t, pgtest.Connect(t, url), "") {
		t.Error("after all five: got something pending, want nothing")
	}
}

// ordinary gives a pool of a new role that may connect and nothing else.
func ordinary(t *testing.T, owner *pgxpool.Pool, statements ...string) *pgxpool.Pool {
	t.Helper()
	role := pgx.Identifier{"role_of_" + owner.Config().ConnConfig.Database}.Sanitize()
	statements = append([]string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'test'`,
		`REVOKE ALL ON DATABASE ` + pgx.Identifier{owner.Config().ConnConfig.Database}.Sanitize() + ` FROM PUBLIC`,
		`GRANT CONNECT ON DATABASE ` + pgx.Identifier{owner.Config().ConnConfig.Database}.Sanitize() + ` TO ` + role,
	}, statements...)
	f := &fixture{t: t, pool: owner}
	for _, s := range statements {
		f.exec(s)
	}
	t.Cleanup(func() {
		ctx := contextAfter(t)
		for _, s := range []string{`DROP OWNED BY ` + role + ` CASCADE`, `DROP ROLE ` + role} {
			if _, err := owner.Exec(ctx, s); err != nil {
				t.Errorf("%s: %v", s, err)
			}
		}
	})
	config := owner.Config()
	config.ConnConfig.User, config.ConnConfig.Password = "role_of_"+config.ConnConfig.Database, "test"
	return connectConfig(t, config)
}

func TestARoleThatMayNotCreateSchemasUsesTheOneItWasGiven(t *testing.T) {
	t.Parallel()
	owner := pgtest.Pool(t)
	role := pgx.Identifier{"role_of_" + owner.Config().ConnConfig.Database}.Sanitize()
	pool := ordinary(t, owner, `CREATE SCHEMA nightaudit AUTHORIZATION `+role)
	s := migrated(t, pool, store.Options{})
	acquire(t, s, "shop", store.RoleRun, "run_1")
	if pending(t, pool, "") {
		t.Error("after Migrate: got something pending, want nothing")
	}
}

func TestARoleThatMayNotCreateItsSchemaIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	pool := ordinary(t, pgtest.Pool(t))
	_, err := store.Migrate(t.Context(), pool, "", nil)
	mentions(t, err, "creating schema nightaudit", "permission denied", "grant CREATE on the database")
}

func TestMigrateWorksOnASmallPool(t *testing.T) {
	t.Parallel()
	for _, size := range []int32{1, 2} {
		config := pgtest.Pool(t).Config()
		config.MaxConns = size
		migrated(t, connectConfig(t, config), store.Options{})
	}
}
