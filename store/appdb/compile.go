package appdb

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// insufficientPrivilege is the SQLSTATE of a missing right.
const insufficientPrivilege = "42501"

// A probe is a query that reads no row and shows whether one option compiles.
type probe struct{ key, value, sql string }

// compile has the server plan each expression, and the mapped columns. The
// *FieldErrors say which it refused; the error, that it could not be asked.
func (l *Ledger) compile(ctx context.Context, o Options) (refused []error, err error) {
	for _, p := range l.probes(o) {
		err := ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, p.sql)
			return err
		})
		answer := refusal(err)
		switch {
		case err == nil:
		case answer == nil || !isMistake(answer.Code):
			return nil, err
		case answer.Code == insufficientPrivilege && p.key == "table":
			return append(refused, l.refused(p, answer)), nil // what follows would only repeat it
		default:
			refused = append(refused, l.refused(p, answer))
		}
	}
	return refused, nil
}

// probes begin with the table, whose refusal explains the others'.
func (l *Ledger) probes(o Options) []probe {
	from := " FROM " + l.table.sql()
	probes := []probe{{"table", o.Table, "SELECT " + strings.Join(l.mapped(), ", ") + from + " LIMIT 0"}}
	for _, c := range o.conditions() {
		probes = append(probes, probe{c.key, c.sql, "SELECT 1" + from + " WHERE (" + c.sql + ") LIMIT 0"})
	}
	if l.handled != nil && l.handled.zone != "" {
		probes = append(probes, probe{"timezone", l.handled.zone, "SELECT pg_catalog.now() AT TIME ZONE " + literal(l.handled.zone)})
	}
	return probes
}

// mapped are the columns that are read, never none.
func (l *Ledger) mapped() []string {
	columns := []string{"1"}
	for _, k := range l.keys {
		columns = append(columns, k.sql())
	}
	if l.typ != nil {
		columns = append(columns, l.typ.sql())
	}
	if l.livemode != nil {
		columns = append(columns, l.livemode.sql())
	}
	if l.handled != nil {
		columns = append(columns, l.handled.sql())
	}
	return columns
}

// isMistake reports whether a refusal is about what was written rather than
// about the server: a value (22), a feature (0A), syntax, names and rights (42),
// a write (25006).
func isMistake(code string) bool {
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "0A") || strings.HasPrefix(code, "42") || code == "25006"
}

func (l *Ledger) refused(p probe, answer *pgconn.PgError) error {
	fix := "is refused by the database: " + answer.Message
	if answer.Hint != "" {
		fix += " (" + answer.Hint + ")"
	}
	switch {
	case answer.Code == insufficientPrivilege:
		fix = fmt.Sprintf("cannot be read by role %s: %s; run %s", show(l.table.role), answer.Message, l.table.grants())
	case p.key != "timezone":
		fix += fmt.Sprintf("; write a condition over the columns of %s (%s)", l.table, list(l.table.columnNames()))
	}
	return &FieldError{Key: p.key, Value: p.value, Fix: fix, Err: answer}
}

// checkEpoch looks at some rows of a handled_at column of integers, which may
// count something else than seconds.
func (l *Ledger) checkEpoch(ctx context.Context) error {
	if l.handled == nil || !l.handled.isEpoch() {
		return nil
	}
	h := l.handled.sql()
	sql := fmt.Sprintf("SELECT pg_catalog.max(h)::pg_catalog.int8 FROM (SELECT %s FROM %s LIMIT 100) AS r (h)", h, l.table.sql())
	var most *int64
	err := ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, sql).Scan(&most) })
	if err == nil && most != nil && *most > maxEpoch {
		return &FieldError{Key: "handled_at", Value: l.handled.name,
			Fix: fmt.Sprintf("holds %d, which are not seconds since 1970; map a column of type timestamptz, timestamp, or bigint with seconds (a view can divide)", *most)}
	}
	return err
}

// checkAsk has the server plan the question itself, with parameters as they are
// sent in the pool's mode.
func (l *Ledger) checkAsk(ctx context.Context) error {
	return ask(ctx, l.db, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "EXPLAIN "+l.askSQL, l.sample()...)
		return err
	})
}

// warn tells of what the config leaves to guesses.
func (l *Ledger) warn(ctx context.Context, o Options, log *slog.Logger) {
	if log == nil {
		return
	}
	if l.handled != nil && l.handled.typ == "timestamp" && o.Timezone == "" {
		log.WarnContext(ctx, "ledger column has no time zone and is read as UTC; set ledger.timezone",
			"table", l.table.String(), "column", l.handled.String())
	}
	if o.Done != "" && l.handled == nil {
		log.WarnContext(ctx, "ledger has no handled_at column, so nothing tells how long a row has been pending; set ledger.handled_at",
			"table", l.table.String())
	}
}
