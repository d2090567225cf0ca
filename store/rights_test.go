package store_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store"
)

func TestMayMigrateSaysWhatAnAdministratorRuns(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		sql string // run by an administrator; %s is the role
		may bool
	}{
		"no schema, and no right to make one":        {"", false},
		"a schema of its own":                        {"CREATE SCHEMA nightaudit AUTHORIZATION %s", true},
		"a schema of another":                        {"CREATE SCHEMA nightaudit", false},
		"a schema of another, and a right to use it": {"CREATE SCHEMA nightaudit; GRANT USAGE, CREATE ON SCHEMA nightaudit TO %s", true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			owner := pgtest.Pool(t)
			role := pgx.Identifier{"role_of_" + owner.Config().ConnConfig.Database}.Sanitize()
			var statements []string
			if c.sql != "" {
				statements = append(statements, strings.ReplaceAll(c.sql, "%s", role))
			}
			pool := ordinary(t, owner, statements...)
			fix, err := store.MayMigrate(t.Context(), pool, "")
			if err != nil || (fix == "") != c.may {
				t.Fatalf("%s: MayMigrate() = %q, %v; want that it may: %v", what, fix, err, c.may)
			}
			if c.may {
				return
			}
			f := &fixture{t: t, pool: owner}
			f.exec(fix)
			if _, err := store.Migrate(t.Context(), pool, "", nil); err != nil {
				t.Errorf("%s: after %q, Migrate: %v", what, fix, err)
			}
		})
	}
}
