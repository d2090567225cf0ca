// Package appdb reads the application's own database: which of a provider's
// events the application has recorded as handled. It is strictly read-only, and
// the right to SELECT is all that it needs.
//
// Every query runs in a READ ONLY transaction whose time-outs are set for it
// alone, in one round trip, without session state or temporary tables: it works
// on a replica, behind a transaction pooler and in every exec mode of pgx.
package appdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrNotMapped says that the config maps no column for what was asked.
var ErrNotMapped = errors.New("the ledger maps no column for this; set ledger.handled_at")

// A Ledger is the application's table of processed events. It is safe for
// concurrent use.
type Ledger struct {
	db       DB
	table    relation
	keys     []keyColumn // never empty; those of event.livemode are in livemode
	typ      *column     // nil if not mapped
	livemode *mode       // nil if not mapped
	handled  *moment     // nil if not mapped
	where    string      // a condition, never empty
	state    string      // an expression that gives a State
	askSQL   string

	clustered clustering
}

// A mode is the boolean column of the provider's mode.
type mode struct {
	column
	inKey bool // part of the key, so that a row without one is nobody's
}

// Open reads the catalogue and checks o against it. What is wrong with o is told
// all at once, joined, each mistake a *FieldError; another error says that the
// database could not be asked. A nil log discards warnings.
func Open(ctx context.Context, db DB, o Options, log *slog.Logger) (*Ledger, error) {
	if errs := o.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	l := &Ledger{db: db}
	err := ask(ctx, db, func(ctx context.Context, tx pgx.Tx) (err error) {
		l.table, err = findRelation(ctx, tx, o.Table)
		return err
	})
	if err != nil {
		return nil, opening(o, err)
	}
	l.where, l.state = whereSQL(o), stateSQL(o)
	errs := l.resolve(o)
	refused, err := l.compile(ctx, o)
	if err != nil {
		return nil, opening(o, err)
	}
	if errs = append(errs, refused...); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	l.askSQL = l.buildAsk()
	if err := errors.Join(l.checkEpoch(ctx), l.checkAsk(ctx), l.cluster(ctx)); err != nil {
		return nil, opening(o, err)
	}
	l.warn(ctx, o, log)
	return l, nil
}

// opening wraps what is no mistake in the config.
func opening(o Options, err error) error {
	var field *FieldError
	if errors.As(err, &field) {
		return err
	}
	return fmt.Errorf("opening the ledger %s: %w", o.Table, err)
}

// resolve finds the mapped columns and checks their types.
func (l *Ledger) resolve(o Options) []error {
	var errs []error
	find := func(key, name string, use func(column) error) {
		if name == "" {
			return
		}
		c, err := l.table.column(key, name)
		if err == nil {
			err = use(c)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range keyOrder(o.Key) {
		find("key."+name, name, func(c column) error { return l.addKey(name, o.Key[name], c) })
	}
	find("type", o.Type, func(c column) error { l.typ = &c; return nil })
	find("livemode", o.Livemode, func(c column) error { return l.setMode("livemode", c, false) })
	find("handled_at", o.HandledAt, func(c column) error {
		m, err := newMoment(c, o.Timezone)
		if err == nil {
			l.handled = &m
		}
		return err
	})
	return errs
}

// keyOrder puts the columns that tell events apart best first, and is stable.
func keyOrder(key map[string]string) []string {
	return slices.SortedFunc(maps.Keys(key), func(a, b string) int {
		if c := slices.Index(fields, key[a]) - slices.Index(fields, key[b]); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
}

func (l *Ledger) addKey(name, field string, c column) error {
	if field == fieldLivemode {
		return l.setMode("key."+name, c, true)
	}
	k, err := newKeyColumn("key."+name, field, c, l.table)
	if err != nil {
		return err
	}
	l.keys = append(l.keys, k)
	return nil
}

func (l *Ledger) setMode(key string, c column, inKey bool) error {
	if c.typSchema != "pg_catalog" || c.typ != "bool" {
		return &FieldError{Key: key, Value: c.name,
			Fix: fmt.Sprintf("is of type %s; map a boolean column, or none, and choose the rows of one mode with where, such as where: \"mode = 'live'\"", c.shown)}
	}
	if l.livemode != nil && l.livemode.name != c.name {
		return &FieldError{Key: key, Value: c.name, Fix: fmt.Sprintf("and %s are both mapped to the mode; map one of them", l.livemode.column)}
	}
	l.livemode = &mode{column: c, inKey: inKey || l.livemode != nil}
	return nil
}

// typeColumn is the column that a recorded event's type is read from, or nil.
func (l *Ledger) typeColumn() *column {
	if l.typ != nil {
		return l.typ
	}
	return l.keyFor(fieldType)
}

// keyFor is the key column that holds a field, or nil.
func (l *Ledger) keyFor(field string) *column {
	for i := range l.keys {
		if l.keys[i].field == field {
			return &l.keys[i].column
		}
	}
	return nil
}
