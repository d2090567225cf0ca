package appdb

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Indexed reports whether an index leads with what Ask asks for, so that a large
// table is not read as a whole; if not, the text is what to run, or what else to
// do. The planner is asked, which knows partial indexes, partitions and views.
func (l *Ledger) Indexed(ctx context.Context) (bool, string, error) {
	var indexed bool
	err := ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		scans, err := l.explain(ctx, tx)
		if err != nil {
			return err
		}
		for _, s := range scans {
			if indexed, err = l.leads(ctx, tx, s); err != nil || !indexed {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, "", fmt.Errorf("looking for an index of %s: %w", l.table, err)
	}
	if indexed {
		return true, "", nil
	}
	return false, l.indexAdvice(), nil
}

// A scan is how the plan reads a table.
type scan struct {
	schema, index string // index is "" if the table is read as a whole
	cond          string // "(event_id = k.c1)"; "" if the index is read as a whole
}

// explain plans Ask for one event, with everything that needs no index made dear.
func (l *Ledger) explain(ctx context.Context, tx pgx.Tx) ([]scan, error) {
	const dear = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
	if _, err := tx.Exec(ctx, dear); err != nil {
		return nil, err
	}
	p, err := planOf(ctx, tx, l.askSQL, l.sample()...)
	return p.scans(""), err
}

// planOf is how the server would run a query.
func planOf(ctx context.Context, tx pgx.Tx, sql string, params ...any) (plan, error) {
	var text string
	if err := tx.QueryRow(ctx, "EXPLAIN (VERBOSE, FORMAT JSON) "+sql, params...).Scan(&text); err != nil {
		return plan{}, err
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		return plan{}, fmt.Errorf("reading the plan: %w", err)
	}
	if len(plans) != 1 {
		return plan{}, fmt.Errorf("reading the plan: the server gave %d", len(plans))
	}
	return plans[0].Plan, nil
}

// sample are parameters for Ask that fit any of the types.
func (l *Ledger) sample() []any {
	var params []any
	for _, k := range l.keys {
		value := "0"
		if k.typ == "uuid" {
			value = strings.Repeat("0", 32)
		}
		params = append(params, []string{value})
	}
	if l.livemode != nil {
		params = append(params, []string{"true"})
	}
	return params
}

// A plan is a node of a query plan (PostgreSQL manual, EXPLAIN).
type plan struct {
	Node   string `json:"Node Type"`
	Schema string `json:"Schema"`
	Index  string `json:"Index Name"`
	Cond   string `json:"Index Cond"`
	Plans  []plan `json:"Plans"`
}

// scans are those of tables below and at p; the index of a bitmap stands below
// the node that names the schema.
func (p plan) scans(schema string) []scan {
	if p.Schema != "" {
		schema = p.Schema
	}
	var found []scan
	switch {
	case p.Index != "":
		found = append(found, scan{schema: schema, index: p.Index, cond: p.Cond})
	case p.Node == "Seq Scan" || p.Node == "Foreign Scan":
		found = append(found, scan{schema: schema})
	}
	for _, below := range p.Plans {
		found = append(found, below.scans(schema)...)
	}
	return found
}

// has reports whether p or a plan below it is a node of a kind.
func (p plan) has(node string) bool {
	return p.Node == node || slices.ContainsFunc(p.Plans, func(below plan) bool { return below.has(node) })
}

const leadSQL = `
SELECT pg_catalog.pg_get_indexdef(c.oid, 1, true)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname::text = @schema AND c.relname::text = @index`

// leads reports whether the scan goes into its index by the index's first column.
func (l *Ledger) leads(ctx context.Context, tx pgx.Tx, s scan) (bool, error) {
	if s.cond == "" {
		return false, nil
	}
	var first string
	err := tx.QueryRow(ctx, leadSQL, pgx.NamedArgs{"schema": s.schema, "index": s.index}).Scan(&first)
	if err != nil {
		return false, err
	}
	return mentions(s.cond, first) && slices.ContainsFunc(l.keys, func(k keyColumn) bool {
		return k.identifies() && (mentions(s.cond, k.String()) || mentions(s.cond, k.sql()))
	}), nil
}

// identifies reports whether the column tells events apart.
func (k keyColumn) identifies() bool { return k.field == fieldID || k.field == fieldKey }

// mentions reports whether name stands in cond as a word of its own.
func mentions(cond, name string) bool {
	return regexp.MustCompile(`(^|[^\w"$])` + regexp.QuoteMeta(name) + `($|[^\w"$])`).MatchString(cond)
}

func (l *Ledger) indexAdvice() string {
	var columns []string
	for _, k := range l.keys {
		columns = append(columns, k.sql())
	}
	on := fmt.Sprintf("ON %s (%s);", l.table.sql(), strings.Join(columns, ", "))
	switch l.table.kind {
	case "v":
		return fmt.Sprintf("create an index that leads with what the view %s selects as %s", l.table, strings.Join(columns, ", "))
	case "f":
		return fmt.Sprintf("create an index of %s on the table behind the foreign table %s, on its own server", strings.Join(columns, ", "), l.table)
	case "p": // which cannot be indexed concurrently (PostgreSQL manual, CREATE INDEX)
		return "CREATE INDEX " + on
	}
	return "CREATE INDEX CONCURRENTLY " + on
}
