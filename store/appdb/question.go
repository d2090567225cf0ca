package appdb

import (
	"fmt"
	"strings"
)

// whereSQL is the condition for the source's rows.
func whereSQL(o Options) string {
	if strings.TrimSpace(o.Where) == "" {
		return "true"
	}
	return "(" + o.Where + ")"
}

// stateSQL is the State of a row. A condition that is NULL does not hold.
func stateSQL(o Options) string {
	holds := func(sql string) string { return "COALESCE((" + sql + "), false)" }
	done, failed := strings.TrimSpace(o.Done) != "", strings.TrimSpace(o.Failed) != ""
	switch {
	case done && failed:
		return fmt.Sprintf("CASE WHEN %s THEN 'done' WHEN %s THEN 'failed' ELSE 'pending' END", holds(o.Done), holds(o.Failed))
	case done:
		return fmt.Sprintf("CASE WHEN %s THEN 'done' ELSE 'pending' END", holds(o.Done))
	case failed:
		return fmt.Sprintf("CASE WHEN %s THEN 'failed' ELSE 'done' END", holds(o.Failed))
	}
	return "'done'"
}

// buildAsk writes the question for any keys: a group of rows a key, state and
// mode. The planner may choose between the key's index and one pass over the
// table.
func (l *Ledger) buildAsk() string {
	return fmt.Sprintf(`
SELECT k.ord, r.state, %s AS other, pg_catalog.min(r.at) AS at
FROM %s
JOIN %s ON %s
GROUP BY k.ord, r.state, other`,
		l.other(), l.arrays(), l.rows(""), l.joined())
}

// arrays are the keys that are asked for, k, with their places in ord.
func (l *Ledger) arrays() string {
	var arrays, names []string
	for i, k := range l.keys {
		names = append(names, keyName(i))
		arrays = append(arrays, fmt.Sprintf("pg_catalog.unnest($%d::pg_catalog.text[]::%s[])", i+1, k.cast))
	}
	if l.livemode != nil {
		names = append(names, "mode")
		arrays = append(arrays, fmt.Sprintf("pg_catalog.unnest($%d::pg_catalog.text[]::pg_catalog.bool[])", len(arrays)+1))
	}
	return fmt.Sprintf("ROWS FROM (%s) WITH ORDINALITY AS k (%s, ord)", strings.Join(arrays, ", "), strings.Join(names, ", "))
}

// keyName is what the questions call the key column at i.
func keyName(i int) string { return fmt.Sprintf("c%d", i+1) }

// rows are those of the source, r, with more columns than all questions read. The
// table stands in a query of its own, without an alias, so that the operator's
// conditions see its columns and no others.
func (l *Ledger) rows(more string) string { return l.rowsFrom(l.table.sql(), more) }

// rowsFrom are rows from something else that has the table's name and columns.
func (l *Ledger) rowsFrom(table, more string) string {
	var columns []string
	for i, k := range l.keys {
		columns = append(columns, k.sql()+" AS "+keyName(i))
	}
	if l.livemode != nil {
		columns = append(columns, l.livemode.sql()+" AS mode")
	}
	return fmt.Sprintf("(SELECT %s, %s AS state, %s AS at%s FROM %s WHERE %s) AS r",
		strings.Join(columns, ", "), l.state, l.at(), more, table, l.askable())
}

// askable is the condition for the rows that can be asked for. A mode in the key
// is compared as a list, so that an index that it leads serves.
func (l *Ledger) askable() string {
	if l.livemode != nil && l.livemode.inKey {
		return fmt.Sprintf("%s AND %s = ANY ('{false,true}'::pg_catalog.bool[])", l.where, l.livemode.sql())
	}
	return l.where
}

// at is when a row was recorded, in microseconds since 1970, or NULL.
func (l *Ledger) at() string {
	if l.handled == nil {
		return "NULL::pg_catalog.int8"
	}
	return l.handled.micros()
}

// joined is the condition under which a row has the key.
func (l *Ledger) joined() string {
	var joins []string
	for i, k := range l.keys {
		joins = append(joins, k.joins(keyName(i)))
	}
	return strings.Join(joins, " AND ")
}

// other is whether a row is of the provider's other mode.
func (l *Ledger) other() string {
	if l.livemode == nil {
		return "false"
	}
	return "COALESCE(r.mode <> k.mode, false)"
}
