package appdb

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A superuser has every right on every table (PostgreSQL manual, Role attributes).
const writableSQL = `
SELECT has_any_column_privilege(@table::oid, 'INSERT')
    OR has_any_column_privilege(@table::oid, 'UPDATE')
    OR has_table_privilege(@table::oid, 'DELETE')`

// Writable reports whether the role may change the table, which nightaudit never
// does, and what to grant a role that can only read; "" if it may not.
func (l *Ledger) Writable(ctx context.Context) (advice string, err error) {
	var writable bool
	err = ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, writableSQL, pgx.NamedArgs{"table": l.table.oid}).Scan(&writable)
	})
	if err != nil {
		return "", fmt.Errorf("asking for the rights on %s: %w", l.table, err)
	}
	if !writable {
		return "", nil
	}
	return fmt.Sprintf("role %s may change %s, and nightaudit only reads; connect as a role of its own, with GRANT USAGE ON SCHEMA %s and GRANT SELECT ON %s alone",
		show(l.table.role), l.table, quote(l.table.schema), l.table.sql()), nil
}
