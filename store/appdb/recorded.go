package appdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// A Recorded is what one row tells of an event: what can be read back through the
// mapping, "" or nil where that maps nothing or the row holds NULL.
type Recorded struct {
	ID        string    // the column of event.id
	Key       string    // the column of event.key
	Account   string    // the column of event.account
	Type      string    // the column of ledger.type, else of event.type
	Livemode  *bool     // the column of ledger.livemode, else of event.livemode
	HandledAt time.Time // UTC
}

// batch is how many rows are fetched at a time.
const batch = 1000

// fetchSQL has no parameters and goes as a simple query, so that no mode keeps it
// prepared over cursors of other columns.
var fetchSQL = fmt.Sprintf("FETCH %d FROM nightaudit_recorded", batch)

// Recorded calls yield for each row of the source with handled_at in w, in no
// order, and holds few of them at a time. It stops at the first error, yield's
// own included; the rows so far are not all then. yield must be quick, since the
// server ends a transaction that idles for 20 s. Without handled_at the error is
// ErrNotMapped.
func (l *Ledger) Recorded(ctx context.Context, w providers.Window, yield func(Recorded) error) error {
	if l.handled == nil {
		return ErrNotMapped
	}
	if w.Empty() {
		return nil
	}
	err := read(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		err := bounded(ctx, func(ctx context.Context) error {
			_, err := tx.Exec(ctx, l.recordedSQL(w))
			return err
		})
		for n := batch; err == nil && n == batch; {
			n, err = fetch(ctx, tx, yield)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reading what %s recorded from %s to %s: %w", l.table, w.From.Format(time.RFC3339), w.To.Format(time.RFC3339), err)
	}
	return nil
}

// fetch hands the cursor's next rows to yield and counts them.
func fetch(ctx context.Context, tx pgx.Tx, yield func(Recorded) error) (n int, err error) {
	var found []Recorded
	err = bounded(ctx, func(ctx context.Context) error {
		rows, err := tx.Query(ctx, fetchSQL, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scanRecorded)
		return err
	})
	for _, r := range found {
		if err == nil {
			err = yield(r)
		}
	}
	return len(found), err
}

func scanRecorded(row pgx.CollectableRow) (Recorded, error) {
	var r Recorded
	var us *int64
	err := row.Scan(&r.ID, &r.Key, &r.Account, &r.Type, &r.Livemode, &us)
	r.HandledAt = fromMicros(us)
	return r, err
}

func (l *Ledger) recordedSQL(w providers.Window) string {
	livemode := "NULL::pg_catalog.bool"
	if l.livemode != nil {
		livemode = l.livemode.sql()
	}
	return fmt.Sprintf(`
DECLARE nightaudit_recorded NO SCROLL CURSOR FOR
SELECT %s, %s, %s, %s, %s, %s
FROM %s
WHERE %s`,
		text(l.keyFor(fieldID)), text(l.keyFor(fieldKey)), text(l.keyFor(fieldAccount)), text(l.typeColumn()), livemode, l.at(),
		l.table.sql(), l.recordedIn(w))
}

// text is a column as text, empty where it is NULL or not mapped.
func text(c *column) string {
	if c == nil {
		return "''"
	}
	return "COALESCE(" + c.sql() + "::pg_catalog.text, '')"
}

// recordedIn is the condition for the source's rows with handled_at in w.
func (l *Ledger) recordedIn(w providers.Window) string {
	return fmt.Sprintf("%s AND %s", l.where, l.handled.within(w))
}

// Types gives the types of the events recorded in w, sorted; nil if the type or
// handled_at is not mapped.
func (l *Ledger) Types(ctx context.Context, w providers.Window) ([]string, error) {
	if l.typeColumn() == nil || l.handled == nil || w.Empty() {
		return nil, nil
	}
	sql := fmt.Sprintf("SELECT DISTINCT %s FROM %s WHERE %s", text(l.typeColumn()), l.table.sql(), l.recordedIn(w))
	var types []string
	err := ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		types, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the event types in %s: %w", l.table, err)
	}
	slices.Sort(types)
	return slices.DeleteFunc(types, func(t string) bool { return t == "" }), nil
}

// OtherMode counts the rows recorded in w that are not of the given mode; 0 if
// the mode or handled_at is not mapped. A row without a mode is of both.
func (l *Ledger) OtherMode(ctx context.Context, w providers.Window, livemode bool) (int, error) {
	if l.livemode == nil || l.handled == nil || w.Empty() {
		return 0, nil
	}
	sql := fmt.Sprintf("SELECT pg_catalog.count(*) FROM %s WHERE %s AND %s = %t",
		l.table.sql(), l.recordedIn(w), l.livemode.sql(), !livemode)
	var n int
	if err := l.one(ctx, sql, &n); err != nil {
		return 0, fmt.Errorf("counting the other mode's rows of %s: %w", l.table, err)
	}
	return n, nil
}

// Oldest gives the oldest handled_at of the source's rows, in UTC; zero if there
// is none. Without handled_at the error is ErrNotMapped.
func (l *Ledger) Oldest(ctx context.Context) (time.Time, error) {
	if l.handled == nil {
		return time.Time{}, ErrNotMapped
	}
	// The column itself is ordered, since its index is not one of the instants.
	sql := fmt.Sprintf("SELECT (SELECT %s FROM %s WHERE %s AND %s IS NOT NULL ORDER BY %s LIMIT 1)",
		l.at(), l.table.sql(), l.where, l.handled.sql(), l.handled.sql())
	var us *int64
	if err := l.one(ctx, sql, &us); err != nil {
		return time.Time{}, fmt.Errorf("reading the oldest row of %s: %w", l.table, err)
	}
	return fromMicros(us), nil
}

// one reads the one value of a query that is written for this call alone, and so
// is not kept prepared.
func (l *Ledger) one(ctx context.Context, sql string, value any) error {
	return ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(value)
	})
}
