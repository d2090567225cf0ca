package appdb

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Rows that were recorded together mostly lie together in the table. To look up
// a thousand keys of one hour one by one costs a thousand descents into an index
// whose pages are all over the place; to read the few blocks in which the rows of
// that hour lie, and join them with the keys, costs a fifth of it. Which blocks is
// learned from a sample of the keys, and what is not found in them is looked up
// one by one: where rows lie decides how fast an answer comes, never what it is.

// A clustering is how blocks of the table are read for many keys.
type clustering struct {
	usable bool
	// unique are the key columns whose values one row at most has: a row that is
	// found is the whole answer then.
	unique    []int
	sampleSQL string
	blocksSQL string
}

const (
	// fewKeys are looked up one by one.
	fewKeys = 200
	// genericPlans spares planning each batch anew, and has keys looked up by the
	// index however many they are (PostgreSQL manual, 20.7.4).
	genericPlans = "plan_cache_mode = force_generic_plan"
)

// askClustered answers the keys whose rows lie together, and gives the others.
func (l *Ledger) askClustered(ctx context.Context, tx pgx.Tx, asked keys, entries []Entry) (rest keys, err error) {
	open := func(k keys) keys {
		return k.only(func(element int) bool { return !entries[k.events[element]].answered() })
	}
	single := asked.only(func(element int) bool { return l.clustered.single(asked, element) })
	if len(single.events) < fewKeys {
		return asked, nil
	}
	blocks, err := l.sampleBlocks(ctx, tx, single.oneIn(sampleStep), entries)
	if err != nil {
		return keys{}, err
	}
	if spans := together(blocks); len(spans) > 0 {
		if err := l.query(ctx, tx, l.clustered.blocksSQL, open(single), entries, bounds(spans)...); err != nil {
			return keys{}, err
		}
	}
	return open(asked), nil
}

// bounds are spans as parameters: the ctids at which each begins and before
// which it ends.
func bounds(spans []span) []any {
	var from, to []string
	for _, s := range spans {
		from, to = append(from, tid(s.from)), append(to, tid(s.to))
	}
	return []any{from, to}
}

// single reports whether one row at most has a key.
func (c clustering) single(k keys, element int) bool {
	for _, column := range c.unique {
		if !k.columns[column][element].Valid {
			return false // NULL and '' are both the provider's own account
		}
	}
	return true
}

// sampleBlocks looks up some keys and gives the blocks of their rows.
func (l *Ledger) sampleBlocks(ctx context.Context, tx pgx.Tx, k keys, entries []Entry) (blocks []int64, err error) {
	rows, err := tx.Query(ctx, l.clustered.sampleSQL, k.params()...)
	if err != nil {
		return nil, err
	}
	var g group
	var block int64
	_, err = pgx.ForEachRow(rows, []any{&g.ord, &g.state, &g.other, &g.at, &block}, func() error {
		entries[k.events[g.ord-1]].add(g)
		blocks = append(blocks, block)
		return nil
	})
	return blocks, err
}

// buildSample writes the question for where the rows of some keys lie. A ctid
// reads as a point: its block, and its place in that (PostgreSQL manual, 5.5).
func (l *Ledger) buildSample() string {
	return fmt.Sprintf(`
SELECT k.ord, r.state, %s AS other, r.at, r.block
FROM %s
JOIN %s ON %s`,
		l.other(), l.arrays(),
		l.rows(", (ctid::pg_catalog.text::pg_catalog.point)[0]::pg_catalog.int8 AS block"), l.joined())
}

// buildBlocks writes the question for the rows in some spans. OFFSET 0 has their
// blocks read before they are joined, as they are few; without it the planner
// may look up each key and then throw away what lies elsewhere. The state, by
// conditions that may cost much or not bear every row, is taken after that, of
// the rows that were asked for.
func (l *Ledger) buildBlocks() string {
	n := l.arity()
	blocks := fmt.Sprintf("(SELECT t.* FROM %s AS t WHERE t.ctid >= span.first AND t.ctid < span.after OFFSET 0) AS %s",
		l.table.sql(), quote(l.table.name))
	return fmt.Sprintf(`
SELECT k.ord, r.state, %s AS other, r.at
FROM ROWS FROM (pg_catalog.unnest($%d::pg_catalog.text[]::pg_catalog.tid[]), pg_catalog.unnest($%d::pg_catalog.text[]::pg_catalog.tid[])) AS span (first, after)
CROSS JOIN LATERAL %s
JOIN %s ON %s`,
		l.other(), n+1, n+2, l.rowsFrom(blocks, ""), l.arrays(), l.joined())
}

// cluster finds out whether blocks of the table can be read for many keys. A
// server that refuses to say is one of which they cannot.
func (l *Ledger) cluster(ctx context.Context) error {
	c := clustering{sampleSQL: l.buildSample(), blocksSQL: l.buildBlocks()}
	if l.table.kind != "r" && l.table.kind != "m" {
		return nil
	}
	err := ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) (err error) {
		c.usable, err = l.readsBlocks(ctx, tx, c)
		if err == nil && c.usable {
			c.unique, err = l.uniqueColumns(ctx, tx)
		}
		return err
	})
	switch {
	case err == nil:
		c.usable = c.usable && len(c.unique) > 0
		l.clustered = c
	case refusal(err) == nil:
		return err
	}
	return nil
}

// readsBlocks reports whether the server reads blocks of the table and no more:
// since Postgres 14, with its own storage.
func (l *Ledger) readsBlocks(ctx context.Context, tx pgx.Tx, c clustering) (bool, error) {
	if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
		return false, err
	}
	if _, err := planOf(ctx, tx, c.sampleSQL, l.sample()...); err != nil {
		return false, err
	}
	p, err := planOf(ctx, tx, c.blocksSQL, append(l.sample(), bounds([]span{{0, 1}})...)...)
	return p.has("Tid Range Scan"), err
}

// uniqueColumns are key columns of which the planner knows that no two rows of
// the source have the same; nil if there are none. The fewer the better: an
// account may be NULL, which is unique to no one.
func (l *Ledger) uniqueColumns(ctx context.Context, tx pgx.Tx) ([]int, error) {
	var never, all []int
	for i, k := range l.keys {
		all = append(all, i)
		if !k.ownIsNull {
			never = append(never, i)
		}
	}
	for _, columns := range [][]int{never, all} {
		if unique, err := l.isUnique(ctx, tx, columns); err != nil || unique {
			return columns, err
		}
	}
	return nil, nil
}

// isUnique asks the planner, which knows indexes on other columns that where
// fixes: it leaves out an outer join that cannot add rows, and then reads
// nothing but the keys. It takes all collations for the same, which those are
// not in which different texts are equal.
func (l *Ledger) isUnique(ctx context.Context, tx pgx.Tx, columns []int) (bool, error) {
	var deterministic bool
	err := tx.QueryRow(ctx, deterministicSQL, pgx.NamedArgs{"table": l.table.oid, "columns": l.keyNames(columns)}).Scan(&deterministic)
	if err != nil || !deterministic {
		return false, err
	}
	var joins []string
	for _, i := range columns {
		joins = append(joins, fmt.Sprintf("r.%s %s k.%s", keyName(i), l.keys[i].equal, keyName(i)))
	}
	p, err := planOf(ctx, tx, fmt.Sprintf("SELECT k.ord FROM %s LEFT JOIN %s ON %s",
		l.arrays(), l.rows(""), strings.Join(joins, " AND ")), l.sample()...)
	return p.Node == "Function Scan" && len(p.Plans) == 0, err
}

const deterministicSQL = `
SELECT NOT EXISTS (
  SELECT FROM pg_catalog.pg_attribute AS a
  JOIN pg_catalog.pg_collation AS c ON c.oid = a.attcollation
  WHERE a.attrelid = @table::oid AND a.attname::text = ANY (@columns::text[]) AND NOT c.collisdeterministic)`

func (l *Ledger) keyNames(columns []int) []string {
	var names []string
	for _, i := range columns {
		names = append(names, l.keys[i].name)
	}
	return names
}
