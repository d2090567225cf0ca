package appdb

import (
	"context"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/providers"
)

// Only where a row that is found is the whole answer are rows read in any other
// way than by their key.
func TestBlocksAreReadOnlyWhereOneRowAtMostHasAKey(t *testing.T) {
	t.Parallel()
	byID := map[string]string{"event_id": "event.id"}
	withAccount := map[string]string{"event_id": "event.id", "account": "event.account"}
	for _, c := range []struct {
		what, ddl string
		o         Options
		unique    []int // of the key columns, event_id first; nil: blocks are not read
	}{
		{"a primary key", `CREATE TABLE events (event_id text PRIMARY KEY)`, Options{Key: byID}, []int{0}},
		{"no index", `CREATE TABLE events (event_id text)`, Options{Key: byID}, nil},
		{"an index that is not unique", `CREATE TABLE events (event_id text); CREATE INDEX ON events (event_id)`, Options{Key: byID}, nil},
		{"a unique index that checks at the end", `CREATE TABLE events (event_id text UNIQUE DEFERRABLE INITIALLY DEFERRED)`, Options{Key: byID}, nil},
		{"unique in another spelling", `CREATE TABLE events (event_id text); CREATE UNIQUE INDEX ON events (lower(event_id))`, Options{Key: byID}, nil},
		{"unique among others", `CREATE TABLE events (event_id text, provider text, PRIMARY KEY (provider, event_id))`, Options{Key: byID}, nil},
		{"unique among those of where", `CREATE TABLE events (event_id text, provider text, PRIMARY KEY (provider, event_id))`, Options{Key: byID, Where: "provider = 'stripe'"}, []int{0}},
		{"a partial index for less than where", `CREATE TABLE events (event_id text, provider text); CREATE UNIQUE INDEX ON events (event_id) WHERE provider = 'stripe'`, Options{Key: byID}, nil},
		{"the id alone, with the account beside it", `CREATE TABLE events (event_id text PRIMARY KEY, account text)`, Options{Key: withAccount}, []int{0}},
		{"id and account", `CREATE TABLE events (event_id text, account text NOT NULL, UNIQUE (event_id, account))`, Options{Key: withAccount}, []int{0, 1}},
		{"id and account, which may be NULL", `CREATE TABLE events (event_id text, account text, UNIQUE (event_id, account))`, Options{Key: withAccount}, []int{0, 1}},
		{"both modes have the id", `CREATE TABLE events (event_id text, livemode boolean, UNIQUE (event_id, livemode))`, Options{Key: map[string]string{"event_id": "event.id", "livemode": "event.livemode"}}, nil},
		{"a collation in which texts are equal that are not the same", `CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE events (event_id text COLLATE loose PRIMARY KEY)`, Options{Key: byID}, nil},
		{"a table with children", `CREATE TABLE events (event_id text PRIMARY KEY); CREATE TABLE more () INHERITS (events)`, Options{Key: byID}, nil},
		{"partitions", `CREATE TABLE events (event_id text PRIMARY KEY) PARTITION BY HASH (event_id); CREATE TABLE events_1 PARTITION OF events FOR VALUES WITH (MODULUS 1, REMAINDER 0)`, Options{Key: byID}, nil},
		{"a view", `CREATE TABLE stored (event_id text PRIMARY KEY); CREATE VIEW events AS SELECT * FROM stored`, Options{Key: byID}, nil},
		{"a materialized view", `CREATE MATERIALIZED VIEW events AS SELECT 'a'::text AS event_id; CREATE UNIQUE INDEX ON events (event_id)`, Options{Key: byID}, []int{0}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			c.o.Table = "events"
			l := newApp(t, c.ddl, "events").open(t, c.o)
			var got []int
			if l.clustered.usable {
				got = l.clustered.unique
			}
			if !reflect.DeepEqual(got, c.unique) {
				t.Errorf("%s; where %q: got unique columns %v, want %v", c.ddl, c.o.Where, got, c.unique)
			}
		})
	}
}

// The place of a row in the table is a column of its own, with a right of its own.
func TestRoleThatMayReadSomeColumnsReadsNoBlocks(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text PRIMARY KEY, secret text);
INSERT INTO processed_events SELECT 'evt_' || n FROM generate_series(1, 1000) AS n`)
	a.exec(t, `GRANT SELECT (event_id) ON processed_events TO PUBLIC`)
	l := a.open(t, simple)
	if l.clustered.usable {
		t.Error("with the right to SELECT event_id alone: blocks are read, want not")
	}
	if got := states(t, l, numbered(1, 1000)); got[0] != Done || got[999] != Done {
		t.Errorf("got %v and %v, want done", got[0], got[999])
	}
}

// numbered are the events evt_<first> to evt_<last>.
func numbered(first, last int) []providers.Event {
	var ids []string
	for n := first; n <= last; n++ {
		ids = append(ids, fmt.Sprintf("evt_%d", n))
	}
	return byID(ids...)
}

func TestKeysWhoseRowsLieTogetherAreNotLookedUp(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text PRIMARY KEY, body text);
INSERT INTO processed_events SELECT 'evt_' || n, repeat('x', 100) FROM generate_series(1, 20000) AS n;
DELETE FROM processed_events WHERE event_id = 'evt_5100';
ANALYZE processed_events`, "processed_events")
	for _, c := range []struct {
		what   string
		events []providers.Event
		most   int // of the keys that are left to look up
	}{
		{"one piece of the table, without one row", numbered(5000, 6999), 1},
		{"two pieces", append(numbered(1, 1000), numbered(15001, 16000)...), 0},
		{"both, and some rows from elsewhere", append(numbered(1, 990), byID("evt_9001", "evt_9999", "evt_absent", "evt_19000")...), 4},
	} {
		for _, mode := range modes {
			l := open(t, a.reader(t, mode), simple)
			entries := make([]Entry, len(c.events))
			var rest keys
			err := ask(t.Context(), l.db, func(ctx context.Context, tx pgx.Tx) (err error) {
				rest, err = l.askClustered(ctx, tx, l.asked(c.events, entries), entries)
				return err
			}, genericPlans)
			if err != nil || len(rest.events) > c.most {
				t.Errorf("%s, in mode %s: got %d of %d keys to look up, %v, want at most %d", c.what, mode, len(rest.events), len(c.events), err, c.most)
			}
		}
	}
}

// A row beside those that were asked for may be one that a condition does not
// bear.
func TestConditionsAreAskedOfNoRowButThoseAskedFor(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text PRIMARY KEY, tries int);
INSERT INTO processed_events SELECT 'evt_' || n, n - 500 FROM generate_series(1, 5000) AS n;
ANALYZE processed_events`, "processed_events")
	o := simple
	o.Done = "1000 / tries >= 0"
	events := append(numbered(1, 499), numbered(501, 1000)...)
	for _, mode := range modes {
		l := open(t, a.reader(t, mode), o)
		if got := states(t, l, events); got[0] != Pending || got[len(got)-1] != Done {
			t.Errorf("mode %s: got %v and %v, want pending and done", mode, got[0], got[len(got)-1])
		}
		if _, err := l.Ask(t.Context(), numbered(1, 1000)); sqlState(err) != "22012" {
			t.Errorf("mode %s, asked for the row that %s fails on: got %v, want SQLSTATE 22012", mode, o.Done, err)
		}
	}
}

// The questions have names of their own, which must not hide the table's.
func TestTableMayHaveAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"span", "r", "k", "t", "unnest", "Ledger of \"us\""} {
		a := newApp(t, fmt.Sprintf(`
CREATE TABLE %[1]s (event_id text PRIMARY KEY, first text, after text, ord text, c1 text, state text);
INSERT INTO %[1]s SELECT 'evt_' || n, '1', '2', '3', '4', 'done' FROM generate_series(1, 1000) AS n`, quote(name)), name)
		l := a.open(t, Options{Table: quote(name), Key: simple.Key,
			Done: fmt.Sprintf("%s.first = '1' AND after = '2' AND ord = '3' AND c1 = '4' AND state = 'done'", quote(name))})
		if !l.clustered.usable {
			t.Errorf("a table %s: blocks are not read", quote(name))
		}
		if got := states(t, l, numbered(1, 1001)); got[0] != Done || got[999] != Done || got[1000] != Absent {
			t.Errorf("a table %s: got %v, %v and %v, want done, done and absent", quote(name), got[0], got[999], got[1000])
		}
	}
}

// shapes are ledgers that differ in what tells their rows apart.
var shapes = []struct {
	id, constraint string
	o              Options
}{
	{"text", "PRIMARY KEY (event_id)", Options{}},
	{"uuid", "PRIMARY KEY (event_id)", Options{Livemode: "livemode"}},
	{"citext", "UNIQUE (event_id)", Options{Failed: "status = 'failed'"}},
	{"char(36)", "PRIMARY KEY (event_id)", Options{Where: "provider = 'stripe'"}},
	{"varchar(40)", "PRIMARY KEY (provider, event_id)", Options{Where: "provider = 'stripe'", Done: "status = 'done'"}},
	{"text", "PRIMARY KEY (provider, event_id)", Options{Done: "status = 'done'", Failed: "status = 'failed'"}},
	{"text", "CHECK (true)", Options{Done: "status = 'done'", Livemode: "livemode"}},
	{"text", "UNIQUE (event_id, account)", Options{Done: "status = 'done'", Key: map[string]string{"event_id": "event.id", "account": "event.account"}}},
	{"uuid", "PRIMARY KEY (event_id)", Options{Key: map[string]string{"event_id": "event.id", "account": "event.account"}}},
	{"text", "UNIQUE (event_id, livemode)", Options{Key: map[string]string{"event_id": "event.id", "livemode": "event.livemode"}}},
	{"text", "UNIQUE (event_id)", Options{Livemode: "livemode", Key: map[string]string{"event_id": "event.id", "account": "event.account"}}},
}

// fillSQL makes rows of which each column is drawn by a hash of the row's number
// and a seed; then some move, and some go.
const fillSQL = `
TRUNCATE %[1]s;
INSERT INTO %[1]s (event_id, provider, account, livemode, status, handled_at, body)
SELECT md5(id::text)::%[2]s, (ARRAY['stripe', 'stripe', 'github'])[draw(n, 1, 3)], (ARRAY[NULL, '', 'acct_1'])[draw(n, 2, 3)],
       (ARRAY[true, true, false, NULL])[draw(n, 3, 4)], (ARRAY['done', 'done', 'pending', 'failed', NULL])[draw(n, 4, 5)],
       timestamptz '2026-01-01Z' + draw(n, 5, 99999) * interval '1 second', repeat('x', draw(n, 6, 400))
FROM (SELECT n, CASE WHEN draw(n, 7, 10) = 1 THEN draw(n, 8, %[4]d) ELSE n END AS id FROM generate_series(1, %[4]d) AS n) AS drawn
ORDER BY CASE WHEN %[5]t THEN draw(n, 9, 1000000) ELSE n END
ON CONFLICT DO NOTHING;
UPDATE %[1]s SET status = 'done', body = repeat('y', 300) WHERE draw(length(body), 10, 5) = 1;
DELETE FROM %[1]s WHERE draw(length(body), 11, 7) = 1;`

const drawSQL = `
CREATE OR REPLACE FUNCTION draw(n int, salt int, most int) RETURNS int LANGUAGE sql AS
	$$SELECT 1 + abs(hashint8(%d::int8 * 1000003 + n::int8 * 97 + salt) %% most)$$;`

// However the rows lie, what Ask answers is what looking up each key answers.
func TestAskAnswersAsIfEachKeyWereLookedUp(t *testing.T) {
	t.Parallel()
	ddl := `CREATE EXTENSION citext;`
	var tables []string
	for i, s := range shapes {
		tables = append(tables, fmt.Sprintf("ledger_%d", i))
		ddl += fmt.Sprintf(`CREATE TABLE ledger_%d (event_id %s, provider text, account text, livemode boolean,
			status text, handled_at timestamptz, body text, %s);`, i, s.id, s.constraint)
	}
	a := newApp(t, ddl, tables...)
	ledgers := make(map[string]*Ledger)
	for i, s := range shapes {
		o := s.o
		o.Table, o.HandledAt = tables[i], "handled_at"
		if o.Key == nil {
			o.Key = map[string]string{"event_id": "event.id"}
		}
		for _, mode := range modes {
			ledgers[tables[i]+mode] = open(t, a.reader(t, mode), o)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		shape := rapid.IntRange(0, len(shapes)-1).Draw(r, "shape")
		mode, seed := rapid.SampledFrom(modes).Draw(r, "mode"), rapid.IntRange(1, 1_000_000).Draw(r, "seed")
		rows, shuffled := rapid.IntRange(0, 4000).Draw(r, "rows"), rapid.Bool().Draw(r, "shuffled")
		a.exec(t, fmt.Sprintf(drawSQL, seed)+fmt.Sprintf(fillSQL, tables[shape], shapes[shape].id, seed, rows, shuffled))
		events := draw(rand.New(rand.NewPCG(uint64(seed), 1)), rows, rapid.IntRange(0, 3000).Draw(r, "events"))

		l := ledgers[tables[shape]+mode]
		byKey := *l
		byKey.clustered.usable = false
		got, err := l.Ask(t.Context(), events)
		if err != nil {
			r.Fatal(err)
		}
		want, err := byKey.Ask(t.Context(), events)
		if err != nil {
			r.Fatal(err)
		}
		for i := range want {
			if got[i] != want[i] {
				r.Fatalf("%s, %s, mode %s, event %d, %+v:\n got %+v\nwant %+v", shapes[shape].id, shapes[shape].constraint, mode, i, events[i], got[i], want[i])
			}
		}
	})
}

// draw gives events of which most have rows, in the order of the rows, some
// twice, some never recorded, some with another account or mode, and some whose
// id no column can hold.
func draw(r *rand.Rand, rows, count int) []providers.Event {
	var events []providers.Event
	first := r.IntN(rows + 1)
	for i := range count {
		n := (first+i)%(rows+1) + 1
		if r.IntN(20) == 0 {
			n = r.IntN(2*rows + 1)
		}
		e := providers.Event{ID: fmt.Sprintf("%x", md5.Sum([]byte(fmt.Sprint(n))))}
		if r.IntN(50) == 0 {
			e.ID = []string{"", "a\x00b", "'", "evt_\xff"}[r.IntN(4)]
		}
		if r.IntN(2) == 0 {
			e.Account = "acct_1"
		}
		if r.IntN(3) > 0 {
			live := r.IntN(4) > 0
			e.Livemode = &live
		}
		events = append(events, e)
	}
	return events
}
