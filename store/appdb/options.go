package appdb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options says where the application records the events that it has handled: the
// section `ledger:` of a source.
type Options struct {
	Database        string `yaml:"database"`         // name under `databases:`; "" is nightaudit's own database
	RecheckDatabase string `yaml:"recheck_database"` // the primary, asked right before a replay; "" asks Database again
	Table           string `yaml:"table"`            // "public.processed_events"; the schema is optional

	// Key maps columns to the event's fields: event.id, event.key, event.account,
	// event.type, event.livemode. Several columns make a composite key.
	Key map[string]string `yaml:"key"`

	Type      string `yaml:"type"`       // column of the event's type; "" is none
	HandledAt string `yaml:"handled_at"` // column of when it was recorded; "" is none
	Livemode  string `yaml:"livemode"`   // boolean column of the provider's mode; "" is none

	Where  string `yaml:"where"`  // SQL condition: which rows are this source's; "" is all
	Done   string `yaml:"done"`   // SQL condition: the work is done; "" is every row that has not failed
	Failed string `yaml:"failed"` // SQL condition: the row will never become done by itself; "" is none

	StuckAfter time.Duration `yaml:"stuck_after"` // how long a row may be pending; 0 is DefaultStuckAfter
	Keeps      time.Duration `yaml:"keeps"`       // rows older than this may have been deleted; 0 is never
	Timezone   string        `yaml:"timezone"`    // zone of a handled_at column that has none; "" is UTC, with a warning
}

// DefaultStuckAfter is how long a row may be pending where the config does not say.
const DefaultStuckAfter = time.Hour

// StuckLimit is how long a row may be pending before its event is stuck.
func (o Options) StuckLimit() time.Duration { return cmp.Or(o.StuckAfter, DefaultStuckAfter) }

// A FieldError says which of the options is wrong.
type FieldError struct {
	Key   string // below the section: "table", "key.event_id"
	Value string // what was written; "" if nothing was
	Fix   string // what is wrong with it and what to write instead
	Err   error  // the database's answer, if it was that which refused; else nil
}

func (e *FieldError) Error() string {
	if e.Value == "" {
		return e.Key + ": " + e.Fix
	}
	return fmt.Sprintf("%s: %q %s", e.Key, e.Value, e.Fix)
}

func (e *FieldError) Unwrap() error { return e.Err }

// The fields of an event that a key column can hold.
const (
	fieldID       = "event.id"
	fieldKey      = "event.key"
	fieldAccount  = "event.account"
	fieldType     = "event.type"
	fieldLivemode = "event.livemode"
)

var fields = []string{fieldID, fieldKey, fieldAccount, fieldType, fieldLivemode}

// Validate gives every mistake that shows without a database, each a *FieldError
// whose Key is relative to the section; nil if there is none.
func (o Options) Validate() []error {
	errs := slices.Concat(o.validateTable(), o.validateKey(), o.validateColumns(), o.validateConditions())
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"stuck_after", o.StuckAfter}, {"keeps", o.Keeps}} {
		if d.value < 0 {
			errs = append(errs, &FieldError{Key: d.key, Value: d.value.String(), Fix: "is negative; write a duration such as 1h or 90d"})
		}
	}
	if err := checkZone(o.Timezone); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func (o Options) validateTable() []error {
	if o.Table == "" {
		return []error{&FieldError{Key: "table", Fix: "is missing; name the application's table of processed events, such as public.processed_events"}}
	}
	name, err := parseName(o.Table)
	if err == nil && len(name) > 2 {
		err = errors.New("has more than a schema and a table")
	}
	if err != nil {
		return []error{&FieldError{Key: "table", Value: o.Table, Fix: err.Error() + `; write schema.table, and put unusual names in double quotes: public."Processed-Events"`}}
	}
	return nil
}

func (o Options) validateKey() []error {
	const example = "{ event_id: event.id }"
	if len(o.Key) == 0 {
		return []error{&FieldError{Key: "key", Fix: "is missing; map the column that holds the event's id, such as " + example}}
	}
	var errs []error
	identifies, unknown := false, false
	for _, name := range slices.Sorted(maps.Keys(o.Key)) {
		field := o.Key[name]
		if err := checkColumn("key."+name, name); err != nil {
			errs = append(errs, err)
		}
		if !slices.Contains(fields, field) {
			unknown = true
			errs = append(errs, &FieldError{Key: "key." + name, Value: field,
				Fix: "is no field of an event" + didYouMean(nearest(field, fields)) + "; use one of " + strings.Join(fields, ", ")})
		}
		identifies = identifies || field == fieldID || field == fieldKey
	}
	if !identifies && !unknown {
		errs = append(errs, &FieldError{Key: "key", Fix: "does not identify an event; map a column to event.id or event.key, such as " + example})
	}
	return errs
}

func (o Options) validateColumns() []error {
	var errs []error
	for _, c := range []struct{ key, name string }{{"type", o.Type}, {"handled_at", o.HandledAt}, {"livemode", o.Livemode}} {
		if c.name == "" {
			continue
		}
		if err := checkColumn(c.key, c.name); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (o Options) validateConditions() []error {
	var errs []error
	for _, c := range o.conditions() {
		if err := checkCondition(c.sql); err != nil {
			errs = append(errs, &FieldError{Key: c.key, Value: c.sql, Fix: err.Error()})
		}
	}
	return errs
}

// A condition is one of the fixed SQL expressions.
type condition struct{ key, sql string }

// conditions are those that are written, in the order of the config.
func (o Options) conditions() []condition {
	all := []condition{{"where", o.Where}, {"done", o.Done}, {"failed", o.Failed}}
	return slices.DeleteFunc(all, func(c condition) bool { return strings.TrimSpace(c.sql) == "" })
}

func checkColumn(key, name string) error {
	parsed, err := parseName(name)
	if err == nil && len(parsed) > 1 {
		err = errors.New("has a dot")
	}
	if err != nil {
		return &FieldError{Key: key, Value: name, Fix: err.Error() + `; write the column's name alone, and put an unusual one in double quotes`}
	}
	return nil
}

func checkZone(zone string) error {
	_, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return &FieldError{Key: "timezone", Value: zone, Fix: "is no zone of the IANA time zone database; write a name such as Europe/Berlin"}
	}
	return nil
}
