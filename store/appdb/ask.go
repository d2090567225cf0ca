package appdb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// A State says what the ledger knows of an event.
type State string

// The states of events in the ledger.
const (
	Absent          State = "absent"          // no row
	Done            State = "done"            // a row whose work is done
	Pending         State = "pending"         // a row, not done, that may still become so
	Failed          State = "failed"          // a row that will not become done by itself
	Unrepresentable State = "unrepresentable" // the key columns' types cannot hold the event's key
)

// An Entry is the ledger's answer about one event.
type Entry struct {
	State State
	// Since is when the row was recorded, in UTC; of several rows in the State,
	// the earliest. It is zero if handled_at is not mapped or NULL.
	Since time.Time
	// OtherMode says that there are rows, all of the provider's other mode. State
	// is Absent then.
	OtherMode bool
	// Why says what does not fit, when State is Unrepresentable.
	Why string
}

// chunk is how many events one query asks for: enough that round trips do not
// count, few enough that each stays far below its time-out.
const chunk = 1000

// Ask gives one Entry an event, in their order. Of several rows with one key,
// done wins over pending, which may still become done, and pending over failed.
// An event whose key does not fit is Unrepresentable and costs nothing but
// itself. The mode is compared where both the event and the row have one. After an error nothing is known: a *pgconn.PgError in it has the
// server's SQLSTATE.
func (l *Ledger) Ask(ctx context.Context, events []providers.Event) ([]Entry, error) {
	entries := make([]Entry, 0, len(events))
	for some := range slices.Chunk(events, chunk) {
		answers, err := l.askSome(ctx, some)
		if err != nil {
			return nil, fmt.Errorf("asking the ledger %s for %d events: %w", l.table, len(events), err)
		}
		entries = append(entries, answers...)
	}
	return entries, nil
}

func (l *Ledger) askSome(ctx context.Context, events []providers.Event) ([]Entry, error) {
	entries := make([]Entry, len(events))
	params, asked := l.params(events, entries)
	if len(asked) == 0 {
		return entries, nil
	}
	err := ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, l.askSQL, params...)
		if err != nil {
			return err
		}
		var g group
		_, err = pgx.ForEachRow(rows, []any{&g.ord, &g.state, &g.other, &g.at}, func() error {
			entries[asked[g.ord-1]].add(g)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// params are the query's arrays: one a key column, and one of the modes if that
// column is mapped. asked tells which event each element is of. The entries of
// the others are Unrepresentable, and those of the asked Absent until answered.
func (l *Ledger) params(events []providers.Event, entries []Entry) (params []any, asked []int) {
	columns := make([][]*string, len(l.keys)+1)
	for i, e := range events {
		values, why := l.values(e)
		if why != "" {
			entries[i] = Entry{State: Unrepresentable, Why: why}
			continue
		}
		entries[i].State = Absent
		asked = append(asked, i)
		for c, v := range values {
			columns[c] = append(columns[c], v)
		}
	}
	if l.livemode == nil {
		columns = columns[:len(l.keys)]
	}
	for _, c := range columns {
		params = append(params, c)
	}
	return params, asked
}

// values are one event's elements of the arrays.
func (l *Ledger) values(e providers.Event) (values []*string, why string) {
	for _, k := range l.keys {
		v, why := k.param(e)
		if why != "" {
			return nil, why
		}
		values = append(values, v)
	}
	return append(values, modeParam(e.Livemode)), ""
}

func modeParam(livemode *bool) *string {
	if livemode == nil {
		return nil
	}
	text := "false"
	if *livemode {
		text = "true"
	}
	return &text
}

// A group is the rows of one key that are in one state and one mode.
type group struct {
	ord   int64 // the key's place in the arrays, from 1
	state State
	other bool
	at    *int64
}

// strength orders the states that rows of one key may be in.
var strength = map[State]int{Absent: 0, Failed: 1, Pending: 2, Done: 3}

// add takes in one group of rows.
func (e *Entry) add(g group) {
	if g.other {
		e.OtherMode = e.State == Absent
		return
	}
	e.OtherMode = false
	if strength[g.state] > strength[e.State] {
		e.State, e.Since = g.state, fromMicros(g.at)
	}
}

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

// buildAsk writes the query of askSome. The table stands in a query of its own,
// without an alias, so that the operator's conditions see its columns and no
// others. The planner may choose between the key's index and one pass over the
// table.
func (l *Ledger) buildAsk() string {
	var arrays, names, joins, columns []string
	for i, k := range l.keys {
		name := fmt.Sprintf("c%d", i+1)
		names, joins = append(names, name), append(joins, k.joins(name))
		arrays = append(arrays, fmt.Sprintf("pg_catalog.unnest($%d::pg_catalog.text[]::%s[])", i+1, k.cast))
		columns = append(columns, k.sql()+" AS "+name)
	}
	rows, other := l.rows(), "false"
	if l.livemode != nil {
		arrays = append(arrays, fmt.Sprintf("pg_catalog.unnest($%d::pg_catalog.text[]::pg_catalog.bool[])", len(arrays)+1))
		names, columns = append(names, "mode"), append(columns, l.livemode.sql()+" AS mode")
		other = "COALESCE(r.mode <> k.mode, false)"
	}
	return fmt.Sprintf(`
SELECT k.ord, r.state, %s AS other, pg_catalog.min(r.at) AS at
FROM ROWS FROM (%s) WITH ORDINALITY AS k (%s, ord)
JOIN (SELECT %s, %s AS state, %s AS at FROM %s WHERE %s) AS r
  ON %s
GROUP BY k.ord, r.state, other`,
		other, strings.Join(arrays, ", "), strings.Join(names, ", "),
		strings.Join(columns, ", "), l.state, l.at(), l.table.sql(), rows, strings.Join(joins, " AND "))
}

// rows is the condition for the rows that can be asked for. A mode in the key is
// compared as a list, so that an index that it leads serves.
func (l *Ledger) rows() string {
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
