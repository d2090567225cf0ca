package appdb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/nightaudit/nightaudit/providers"
)

// chunk is how many events one transaction asks for: enough that round trips do
// not count, few enough that each statement stays far below its time-out.
const chunk = 2000

// Ask gives one Entry an event, in their order. Of several rows with one key,
// done wins over pending, which may still become done, and pending over failed.
// An event whose key does not fit is Unrepresentable and costs nothing but
// itself. The mode is compared where both the event and the row have one. After
// an error nothing is known: a *pgconn.PgError in it has the server's SQLSTATE.
//
// Events are asked for fastest some thousand at a time, in the order in which
// they happened: what was recorded together then lies together in the table.
func (l *Ledger) Ask(ctx context.Context, events []providers.Event) ([]Entry, error) {
	entries := make([]Entry, len(events))
	for from := 0; from < len(events); from += chunk {
		to := min(from+chunk, len(events))
		if err := l.askSome(ctx, events[from:to], entries[from:to]); err != nil {
			return nil, fmt.Errorf("asking the ledger %s for %d events: %w", l.table, len(events), err)
		}
	}
	return entries, nil
}

// askSome answers events in entries, which have the zero value.
func (l *Ledger) askSome(ctx context.Context, events []providers.Event, entries []Entry) error {
	asked := l.asked(events, entries)
	switch {
	case len(asked.events) == 0:
		return nil
	case len(asked.events) < fewKeys || !l.clustered.usable:
		return ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
			return l.query(ctx, tx, l.askSQL, asked, entries)
		})
	}
	return ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		rest, err := l.askClustered(ctx, tx, asked, entries)
		if err != nil || len(rest.events) == 0 {
			return err
		}
		return l.query(ctx, tx, l.askSQL, rest, entries)
	}, genericPlans)
}

// query asks for the keys and adds the rows that are found to entries.
func (l *Ledger) query(ctx context.Context, tx pgx.Tx, sql string, k keys, entries []Entry, more ...any) error {
	rows, err := tx.Query(ctx, sql, append(k.params(), more...)...)
	if err != nil {
		return err
	}
	var g group
	_, err = pgx.ForEachRow(rows, []any{&g.ord, &g.state, &g.other, &g.at}, func() error {
		entries[k.events[g.ord-1]].add(g)
		return nil
	})
	return err
}

// keys are what a question asks for: the elements of its arrays, one array a key
// column, and one of the modes if that column is mapped.
type keys struct {
	events  []int // which event each element is of
	columns [][]pgtype.Text
}

// asked are the keys of events. The entries of events whose key does not fit are
// Unrepresentable, and the others Absent until answered.
func (l *Ledger) asked(events []providers.Event, entries []Entry) keys {
	k := makeKeys(l.arity(), len(events))
	values := make([]pgtype.Text, l.arity())
	for i, e := range events {
		if why := l.values(e, values); why != "" {
			entries[i] = Entry{State: Unrepresentable, Why: why}
			continue
		}
		entries[i].State = Absent
		k.events = append(k.events, i)
		for c := range k.columns {
			k.columns[c] = append(k.columns[c], values[c])
		}
	}
	return k
}

// arity is how many arrays a question has.
func (l *Ledger) arity() int {
	if l.livemode != nil {
		return len(l.keys) + 1
	}
	return len(l.keys)
}

// makeKeys has room for so many elements in each column.
func makeKeys(columns, elements int) keys {
	k := keys{events: make([]int, 0, elements), columns: make([][]pgtype.Text, columns)}
	for c := range k.columns {
		k.columns[c] = make([]pgtype.Text, 0, elements)
	}
	return k
}

// values writes one event's elements of the arrays, the mode's last. If its key
// does not fit, it says why.
func (l *Ledger) values(e providers.Event, into []pgtype.Text) (why string) {
	for c, k := range l.keys {
		if into[c], why = k.param(e); why != "" {
			return why
		}
	}
	if l.livemode != nil {
		into[len(l.keys)] = modeParam(e.Livemode)
	}
	return ""
}

func modeParam(livemode *bool) pgtype.Text {
	if livemode == nil {
		return pgtype.Text{}
	}
	return pgtype.Text{String: strconv.FormatBool(*livemode), Valid: true}
}

// params are the keys as parameters of a question.
func (k keys) params() []any {
	params := make([]any, 0, len(k.columns)+2)
	for _, c := range k.columns {
		params = append(params, array(c))
	}
	return params
}

// array is a column as pgx takes it: a []string, which it writes faster, unless
// one is NULL.
func array(column []pgtype.Text) any {
	texts := make([]string, len(column))
	for i, c := range column {
		if !c.Valid {
			return nullable(column)
		}
		texts[i] = c.String
	}
	return texts
}

func nullable(column []pgtype.Text) []*string {
	texts := make([]*string, len(column))
	for i := range column {
		if column[i].Valid {
			texts[i] = &column[i].String
		}
	}
	return texts
}

// only are the keys at the elements that keep holds for.
func (k keys) only(keep func(element int) bool) keys {
	kept := make([]int, 0, len(k.events))
	for i := range k.events {
		if keep(i) {
			kept = append(kept, i)
		}
	}
	if len(kept) == len(k.events) {
		return k
	}
	some := makeKeys(len(k.columns), len(kept))
	for _, i := range kept {
		some.events = append(some.events, k.events[i])
		for c := range k.columns {
			some.columns[c] = append(some.columns[c], k.columns[c][i])
		}
	}
	return some
}

// oneIn is one of each so many keys.
func (k keys) oneIn(step int) keys {
	return k.only(func(element int) bool { return element%step == step/2 })
}
