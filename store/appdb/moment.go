package appdb

import (
	"fmt"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A moment is the column that says when a row was recorded.
type moment struct {
	column
	zone string // of a column that has none; "" where the column's type knows its instant
}

// newMoment is how c is read; the error is a *FieldError.
func newMoment(c column, zone string) (moment, error) {
	if c.typSchema == "pg_catalog" {
		switch c.typ {
		case "timestamptz", "int2", "int4", "int8":
			return moment{column: c}, nil
		case "timestamp":
			if zone == "" {
				zone = "UTC"
			}
			return moment{column: c, zone: zone}, nil
		}
	}
	return moment{}, &FieldError{Key: "handled_at", Value: c.name,
		Fix: fmt.Sprintf("is of type %s, which tells no instant; map a column of type timestamptz, timestamp, or bigint with seconds since 1970", c.shown)}
}

// isEpoch reports whether the column counts seconds since 1970.
func (m moment) isEpoch() bool { return m.typ != "timestamptz" && m.typ != "timestamp" }

// maxEpoch is the year 5138 in seconds since 1970, or 1973 in milliseconds: a
// greater number counts something else than seconds.
const maxEpoch = 100_000_000_000

// instant is the column as timestamptz; not for a column that isEpoch.
func (m moment) instant() string {
	if m.zone != "" {
		return fmt.Sprintf("(%s AT TIME ZONE %s)", m.sql(), literal(m.zone))
	}
	return m.sql()
}

// micros is the column in microseconds since 1970, which reads the same in every
// mode, DateStyle and TimeZone; NULL where it is no instant.
func (m moment) micros() string {
	if m.isEpoch() {
		return fmt.Sprintf("CASE WHEN %s BETWEEN -%d AND %d THEN %s::pg_catalog.int8 * 1000000 END", m.sql(), maxEpoch, maxEpoch, m.sql())
	}
	return fmt.Sprintf("CASE WHEN pg_catalog.isfinite(%s) THEN (EXTRACT(epoch FROM %s) * 1000000)::pg_catalog.int8 END", m.sql(), m.instant())
}

// within is the condition that the column lies in w. The column itself is
// compared, so that an index on it serves.
func (m moment) within(w providers.Window) string {
	if m.isEpoch() {
		return fmt.Sprintf("%s >= %d AND %s < %d", m.sql(), ceilSeconds(w.From), m.sql(), ceilSeconds(w.To))
	}
	from, to := timestamp(w.From), timestamp(w.To)
	exact := fmt.Sprintf("%s >= %s AND %s < %s", m.instant(), from, m.instant(), to)
	if m.zone == "" {
		return exact
	}
	// A wall time does not rise with time where the clocks go back, so the index
	// is asked for some hours more, and the instants decide.
	wall := func(t string) string { return fmt.Sprintf("(%s AT TIME ZONE %s)", t, literal(m.zone)) }
	return fmt.Sprintf("%s >= %s - interval '3 hours' AND %s < %s + interval '3 hours' AND %s", m.sql(), wall(from), m.sql(), wall(to), exact)
}

// timestamp writes t for SQL, rounded up to the microseconds of the server, which
// keeps both ends of a half-open window exact.
func timestamp(t time.Time) string {
	t = t.Add(time.Microsecond - time.Nanosecond).UTC()
	return t.Format("'2006-01-02T15:04:05.000000Z'") + "::pg_catalog.timestamptz"
}

func ceilSeconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// fromMicros is the inverse of micros; NULL is the zero time.
func fromMicros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us).UTC()
}
