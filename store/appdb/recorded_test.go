package appdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// recorded collects what Recorded gives, in the order of the ids.
func recorded(t testing.TB, l *Ledger, w providers.Window) []Recorded {
	t.Helper()
	var got []Recorded
	if err := l.Recorded(t.Context(), w, func(r Recorded) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b Recorded) int { return strings.Compare(a.ID, b.ID) })
	return got
}

func TestRecordedReadsBackWhatIsMapped(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text, hook bigint, account text, kind varchar(40), livemode boolean, provider text, handled_at timestamptz);
INSERT INTO processed_events VALUES
	('evt_1', 7, 'acct_1', 'invoice.paid', true, 'stripe', '2026-01-01 01:00Z'),
	('evt_2', NULL, NULL, NULL, NULL, 'stripe', '2026-01-01 02:00:00.123456Z'),
	('evt_3', 7, 'acct_1', 'push', true, 'github', '2026-01-01 01:00Z'),
	('evt_4', 7, 'acct_1', 'invoice.paid', true, 'stripe', NULL),
	('evt_5', 7, 'acct_1', 'invoice.paid', true, 'stripe', 'infinity')`, "processed_events")
	o := Options{Table: "processed_events", HandledAt: "handled_at", Type: "kind", Livemode: "livemode", Where: "provider = 'stripe'",
		Key: map[string]string{"event_id": "event.id", "hook": "event.key", "account": "event.account"}}
	live := true
	want := []Recorded{
		{ID: "evt_1", Key: "7", Account: "acct_1", Type: "invoice.paid", Livemode: &live, HandledAt: at("2026-01-01T01:00:00Z")},
		{ID: "evt_2", HandledAt: at("2026-01-01T02:00:00.123456Z")},
	}
	for _, mode := range modes {
		got := recorded(t, open(t, a.reader(t, mode), o), during("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("mode %s:\n got %+v\nwant %+v", mode, got, want)
		}
	}
}

func TestWindowIsHalfOpenInEveryTypeOfColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, zone            string
		before, from, in, to string // as SQL
	}{
		{"timestamptz", "", "'2026-01-15 00:29:59.999999Z'", "'2026-01-15 00:30:00Z'", "'2026-01-15 01:29:59.999999Z'", "'2026-01-15 01:30:00Z'"},
		{"timestamp", "Europe/Berlin", "'2026-01-15 01:29:59.999999'", "'2026-01-15 01:30:00'", "'2026-01-15 02:29:59.999999'", "'2026-01-15 02:30:00'"},
		{"timestamp", "", "'2026-01-15 00:29:59.999999'", "'2026-01-15 00:30:00'", "'2026-01-15 01:29:59.999999'", "'2026-01-15 01:30:00'"},
		{"bigint", "", "1768436999", "1768437000", "1768440599", "1768440600"},
		{"integer", "", "1768436999", "1768437000", "1768440599", "1768440600"},
	} {
		t.Run(c.typ+" "+c.zone, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, fmt.Sprintf(`
CREATE TABLE processed_events (event_id text, livemode boolean, kind text, handled_at %s);
INSERT INTO processed_events VALUES ('before', false, 'a', %s), ('from', false, 'c', %s), ('in', true, 'b', %s), ('to', false, 'd', %s)`,
				c.typ, c.before, c.from, c.in, c.to), "processed_events")
			o := simple
			o.HandledAt, o.Timezone, o.Livemode, o.Type = "handled_at", c.zone, "livemode", "kind"
			w := during("2026-01-15T00:30:00Z", "2026-01-15T01:30:00Z")
			for _, mode := range modes {
				l := open(t, a.reader(t, mode), o)
				var ids []string
				for _, r := range recorded(t, l, w) {
					ids = append(ids, r.ID)
					if r.ID == "from" && !r.HandledAt.Equal(w.From) {
						t.Errorf("handled_at %s in mode %s: got %s, want %s", c.from, mode, r.HandledAt, w.From)
					}
				}
				if want := []string{"from", "in"}; !reflect.DeepEqual(ids, want) {
					t.Errorf("recorded in %v in mode %s: got %v, want %v", w, mode, ids, want)
				}
				if got, err := l.Types(t.Context(), w); err != nil || !reflect.DeepEqual(got, []string{"b", "c"}) {
					t.Errorf("types in %v in mode %s: got %v, %v, want [b c]", w, mode, got, err)
				}
				if got, err := l.OtherMode(t.Context(), w, true); err != nil || got != 1 {
					t.Errorf("test rows in %v in mode %s: got %d, %v, want 1", w, mode, got, err)
				}
				if got, err := l.Oldest(t.Context()); err != nil || got.Unix() != w.From.Unix()-1 {
					t.Errorf("oldest in mode %s: got %s, %v, want the second before %s", mode, got, err, w.From)
				}
			}
		})
	}
}

// In Berlin the clocks of 2026-10-25 went from 03:00 back to 02:00, and those of
// 2026-03-29 from 02:00 to 03:00.
func TestWallTimesAroundAClockChange(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text, handled_at timestamp);
INSERT INTO processed_events VALUES ('before', '2026-10-25 01:59'), ('twice', '2026-10-25 02:30'), ('after', '2026-10-25 03:01'), ('spring', '2026-03-29 03:00')`, "processed_events")
	o := simple
	o.HandledAt, o.Timezone = "handled_at", "Europe/Berlin"
	l := a.open(t, o)
	seen := map[string]int{}
	for w := during("2026-10-24T23:00:00Z", "2026-10-24T23:15:00Z"); w.From.Before(at("2026-10-25T04:00:00Z")); {
		for _, r := range recorded(t, l, w) {
			seen[r.ID]++
			if !w.Contains(r.HandledAt) {
				t.Errorf("window %v gave %s at %s, which is outside", w, r.ID, r.HandledAt)
			}
		}
		w.From, w.To = w.To, w.To.Add(15*time.Minute)
	}
	if want := map[string]int{"before": 1, "twice": 1, "after": 1}; !reflect.DeepEqual(seen, want) {
		t.Errorf("quarters of the night together: got %v, want each row once: %v", seen, want)
	}
	got := recorded(t, l, during("2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z"))
	if len(got) != 1 || !got[0].HandledAt.Equal(at("2026-03-29T01:00:00Z")) {
		t.Errorf("03:00 in spring: got %+v, want 01:00Z", got)
	}
}

func TestColumnWithoutZoneIsReadAsUTCWithAWarning(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text, handled timestamp);
INSERT INTO processed_events VALUES ('evt_1', '2026-01-15 01:30:00')`, "processed_events")
	o := simple
	o.HandledAt = "handled"
	for zone, want := range map[string]struct {
		since time.Time
		warns bool
	}{
		"":              {at("2026-01-15T01:30:00Z"), true},
		"UTC":           {at("2026-01-15T01:30:00Z"), false},
		"Europe/Berlin": {at("2026-01-15T00:30:00Z"), false},
	} {
		var log bytes.Buffer
		o.Timezone = zone
		l, err := Open(t.Context(), a.reader(t, "exec"), o, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Ask(t.Context(), byID("evt_1"))
		if err != nil || !got[0].Since.Equal(want.since) {
			t.Errorf("zone %q: got %+v, %v, want %s", zone, got, err, want.since)
		}
		if warns := strings.Contains(log.String(), "table=public.processed_events column=handled"); warns != want.warns {
			t.Errorf("zone %q: got log %q, want a warning that names table and column: %v", zone, log.String(), want.warns)
		}
	}
}

func TestRowsOfTheOtherModeAreCounted(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text, livemode boolean, handled_at timestamptz);
INSERT INTO processed_events VALUES ('evt_l1', false, '2026-01-01 01:00Z'), ('evt_t1', false, '2026-01-01 01:00Z'),
	('evt_l2', true, '2026-01-01 01:00Z'), ('evt_old', false, '2025-01-01 01:00Z'), ('evt_none', NULL, '2026-01-01 01:00Z')`, "processed_events")
	w := during("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
	o := simple
	o.HandledAt = "handled_at"
	if got, err := a.open(t, o).OtherMode(t.Context(), w, true); err != nil || got != 0 {
		t.Errorf("livemode not mapped: got %d, %v, want 0", got, err)
	}
	o.Livemode = "livemode"
	for live, want := range map[bool]int{true: 2, false: 1} {
		if got, err := a.open(t, o).OtherMode(t.Context(), w, live); err != nil || got != want {
			t.Errorf("rows not of livemode %v: got %d, %v, want %d", live, got, err, want)
		}
	}
}

func TestWithoutHandledAtNothingIsReadByTime(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text, kind text, livemode boolean); INSERT INTO processed_events VALUES ('evt_1', 'ping', true)`, "processed_events")
	o := simple
	o.Type, o.Livemode = "kind", "livemode"
	l := a.open(t, o)
	w := during("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
	if err := l.Recorded(t.Context(), w, func(Recorded) error { return nil }); !errors.Is(err, ErrNotMapped) {
		t.Errorf("Recorded: got %v, want ErrNotMapped", err)
	}
	if _, err := l.Oldest(t.Context()); !errors.Is(err, ErrNotMapped) {
		t.Errorf("Oldest: got %v, want ErrNotMapped", err)
	}
	if types, err := l.Types(t.Context(), w); err != nil || types != nil {
		t.Errorf("Types: got %v, %v, want nil", types, err)
	}
	if n, err := l.OtherMode(t.Context(), w, false); err != nil || n != 0 {
		t.Errorf("OtherMode: got %v, %v, want 0", n, err)
	}
}

func TestEmptyTableHasNoOldestRow(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text, handled_at timestamptz)`, "processed_events")
	o := simple
	o.HandledAt = "handled_at"
	if got, err := a.open(t, o).Oldest(t.Context()); err != nil || !got.IsZero() {
		t.Errorf("got %s, %v, want the zero time", got, err)
	}
}

func TestRecordedStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	a := newApp(t, slowDDL, "processed_events")
	o := simple
	o.HandledAt = "handled_at"
	w := during("2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z")
	l := a.open(t, o)

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := l.Recorded(ctx, w, func(Recorded) error { return nil }); sqlState(err) != "57014" {
		t.Errorf("the server times out: got %v, want SQLSTATE 57014", err)
	}

	a = newApp(t, `CREATE TABLE processed_events AS SELECT 'evt_' || n AS event_id, timestamptz '2026-01-01Z' AS handled_at FROM generate_series(1, 5000) AS n`, "processed_events")
	full, n := errors.New("full"), 0
	err := a.open(t, o).Recorded(t.Context(), w, func(Recorded) error {
		if n++; n == 1500 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || n != 1500 {
		t.Errorf("yield's error at the 1500th row: got %v after %d rows, want it at once", err, n)
	}
}

// Not parallel, so that the heap is this test's own.
func TestRecordedHoldsFewRowsAtATime(t *testing.T) {
	const rows, width, most = 40_000, 1000, 16 << 20
	a := newApp(t, fmt.Sprintf(`
CREATE TABLE processed_events (event_id text, handled_at timestamptz);
INSERT INTO processed_events SELECT rpad(n::text, %d, 'x'), '2026-01-01Z' FROM generate_series(1, %d) AS n`, width, rows), "processed_events")
	o := simple
	o.HandledAt = "handled_at"
	l := a.open(t, o)
	before, n, peak := heap(), 0, uint64(0)
	err := l.Recorded(t.Context(), during("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), func(Recorded) error {
		if n++; n%10_000 == 500 {
			peak = max(peak, heap())
		}
		return nil
	})
	if err != nil || n != rows {
		t.Fatalf("got %d rows, %v, want %d", n, err, rows)
	}
	if peak > before+most {
		t.Errorf("heap in use while %d MB were read: got %d MB more than before, want at most %d", rows*width>>20, (peak-before)>>20, most>>20)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
