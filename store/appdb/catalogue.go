package appdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A relation is the application's table (or view) as the catalogue knows it.
type relation struct {
	oid          uint32
	schema, name string
	kind         string // pg_class.relkind
	database     string
	encoding     string // the server's: "UTF8"
	role         string // who we are
	usage        bool   // whether the role may use the schema at all
	columns      []column
}

// sql is the table's name in a query.
func (r relation) sql() string { return quote(r.schema, r.name) }

// String is the table's name for a person.
func (r relation) String() string { return show(r.schema, r.name) }

// A column is one column of the table.
type column struct {
	name      string
	shown     string // its type as the catalogue writes it: "character varying(64)"
	notNull   bool
	typ       string // the name of its type, or of the type under its domain: "varchar"
	typSchema string // where that type lives: "pg_catalog"
	typUsage  bool   // whether the role may use that schema
	typmod    int32
}

// String is the column's name for a person.
func (c column) String() string { return show(c.name) }

// sql is the column's name in a query.
func (c column) sql() string { return quote(c.name) }

// findRelation reads the table that o.Table means. An error of the config is a
// *FieldError.
func findRelation(ctx context.Context, tx pgx.Tx, table string) (relation, error) {
	name, err := parseName(table)
	if err != nil {
		return relation{}, err
	}
	r, err := selectRelation(ctx, tx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return relation{}, missingTable(ctx, tx, table, name)
	}
	if err != nil {
		return relation{}, err
	}
	r.columns, err = selectColumns(ctx, tx, r.oid)
	return r, err
}

const relationSQL = `
SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text,
       pg_catalog.current_database()::text, pg_catalog.current_setting('server_encoding'),
       current_user::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND c.relname::text = ANY (@names::text[])
  AND CASE WHEN pg_catalog.cardinality(@schemas::text[]) = 0
           THEN pg_catalog.pg_table_is_visible(c.oid)
           ELSE n.nspname::text = ANY (@schemas::text[]) END
ORDER BY pg_catalog.array_position(@schemas::text[], n.nspname::text),
         pg_catalog.array_position(@names::text[], c.relname::text)
LIMIT 1`

func selectRelation(ctx context.Context, tx pgx.Tx, name []namePart) (relation, error) {
	schemas := []string{}
	if len(name) == 2 {
		schemas = name[0].candidates()
	}
	var r relation
	err := tx.QueryRow(ctx, relationSQL, pgx.NamedArgs{"names": name[len(name)-1].candidates(), "schemas": schemas}).
		Scan(&r.oid, &r.schema, &r.name, &r.kind, &r.database, &r.encoding, &r.role, &r.usage)
	return r, err
}

// A column of a domain has the type, and where the domain says so the length, of
// what is under it.
const columnsSQL = `
WITH RECURSIVE c (num, name, shown, not_null, typ, typmod) AS (
  SELECT attnum, attname::text, pg_catalog.format_type(atttypid, atttypmod), attnotnull, atttypid, atttypmod
  FROM pg_catalog.pg_attribute
  WHERE attrelid = @table::oid AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT c.num, c.name, c.shown, c.not_null OR t.typnotnull, t.typbasetype,
         CASE WHEN t.typtypmod = -1 THEN c.typmod ELSE t.typtypmod END
  FROM c
  JOIN pg_catalog.pg_type AS t ON t.oid = c.typ AND t.typtype = 'd'
)
SELECT c.name, c.shown, c.not_null, t.typname::text, n.nspname::text,
       pg_catalog.has_schema_privilege(n.oid, 'USAGE'), c.typmod
FROM c
JOIN pg_catalog.pg_type AS t ON t.oid = c.typ AND t.typtype <> 'd'
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
ORDER BY c.num`

func selectColumns(ctx context.Context, tx pgx.Tx, table uint32) ([]column, error) {
	rows, err := tx.Query(ctx, columnsSQL, pgx.NamedArgs{"table": table})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (column, error) {
		var c column
		err := row.Scan(&c.name, &c.shown, &c.notNull, &c.typ, &c.typSchema, &c.typUsage, &c.typmod)
		return c, err
	})
}

const tablesSQL = `
SELECT pg_catalog.current_database()::text, n.nspname::text, c.relname::text
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
ORDER BY n.nspname, c.relname
LIMIT 1000`

// missingTable tells which tables there are and which was likely meant.
func missingTable(ctx context.Context, tx pgx.Tx, table string, name []namePart) error {
	rows, err := tx.Query(ctx, tablesSQL)
	if err != nil {
		return err
	}
	var database, schema, relname string
	var whole, bare []string
	_, err = pgx.ForEachRow(rows, []any{&database, &schema, &relname}, func() error {
		whole, bare = append(whole, show(schema, relname)), append(bare, relname)
		return nil
	})
	if err != nil {
		return err
	}
	fix := "is not there" // an empty database does not even tell its name
	if database != "" {
		fix = fmt.Sprintf("is not in database %q", database)
	}
	return &FieldError{Key: "table", Value: table,
		Fix: fix + didYouMean(nearestTable(table, name, whole, bare)) + " (its tables are: " + list(whole) + ")"}
}

// nearestTable compares whole names first, and then without the schema, which
// may be what is wrong or missing.
func nearestTable(table string, name []namePart, whole, bare []string) string {
	if near := nearest(table, whole); near != "" {
		return near
	}
	near := nearest(name[len(name)-1].text, bare)
	for i := range bare {
		if bare[i] == near {
			return whole[i]
		}
	}
	return ""
}

// column finds the column that a name in the config means; key says where it is
// written. The error is a *FieldError.
func (r relation) column(key, name string) (column, error) {
	parts, err := parseName(name)
	if err != nil {
		return column{}, err
	}
	for _, candidate := range parts[0].candidates() {
		for _, c := range r.columns {
			if c.name == candidate {
				return c, nil
			}
		}
	}
	names := r.columnNames()
	return column{}, &FieldError{Key: key, Value: name,
		Fix: fmt.Sprintf("is no column of %s%s (its columns are: %s)", r, didYouMean(nearest(name, names)), list(names))}
}

func (r relation) columnNames() []string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.String()
	}
	return names
}

// grants is what to run so that the role can read the table.
func (r relation) grants() string {
	var grants []string
	if !r.usage {
		grants = append(grants, fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;", quote(r.schema), quote(r.role)))
	}
	return strings.Join(append(grants, fmt.Sprintf("GRANT SELECT ON %s TO %s;", r.sql(), quote(r.role))), " ")
}
