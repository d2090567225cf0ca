package store

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const mayMigrateSQL = `
SELECT coalesce(
        (SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace AS n WHERE n.nspname = @schema),
        has_database_privilege(current_database(), 'CREATE')),
    current_user`

// MayMigrate reports whether the role may create tables in schema ("" is
// DefaultSchema), or the schema itself where there is none, and what an
// administrator runs if it may not; "" if it may.
func MayMigrate(ctx context.Context, pool *pgxpool.Pool, schema string) (fix string, err error) {
	schema = cmp.Or(schema, DefaultSchema)
	var may bool
	var role string
	if err := pool.QueryRow(ctx, mayMigrateSQL, pgx.NamedArgs{"schema": schema}).Scan(&may, &role); err != nil {
		return "", fmt.Errorf("asking for the rights on schema %s: %w", schema, err)
	}
	if may {
		return "", nil
	}
	name, owner := pgx.Identifier{schema}.Sanitize(), pgx.Identifier{role}.Sanitize()
	return fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS %s AUTHORIZATION %s; GRANT CREATE, USAGE ON SCHEMA %s TO %[2]s", name, owner, name), nil
}
