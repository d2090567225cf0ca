package appdb

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// planText is the plan of one full question, as the server chooses it.
func planText(t *testing.T, l *Ledger, events []providers.Event) string {
	t.Helper()
	params := l.asked(events, make([]Entry, len(events))).params()
	var text string
	err := ask(t.Context(), l.db, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "EXPLAIN "+l.askSQL, params...)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		text = strings.Join(lines, "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestQuestionUsesTheIndexOfALargeTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, value, id string }{
		{"text", "'evt_' || n", "evt_%d"},
		{"varchar(64)", "'evt_' || n", "evt_%d"},
		{"uuid", "lpad(to_hex(n), 32, '0')::uuid", "%032x"},
		{"bigint", "n", "%d"},
		{"numeric", "n", "%d"},
	} {
		t.Run(c.typ, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, fmt.Sprintf(`
CREATE TABLE processed_events (event_id %s PRIMARY KEY, body text, handled_at timestamptz);
INSERT INTO processed_events SELECT %s, repeat('x', 200), now() FROM generate_series(1, 100000) AS n;
ANALYZE processed_events`, c.typ, c.value), "processed_events")
			o := simple
			o.HandledAt, o.Done = "handled_at", "body IS NOT NULL"
			var events []providers.Event
			for n := range chunk {
				events = append(events, providers.Event{ID: fmt.Sprintf(c.id, n*47+1)})
			}
			for _, mode := range modes {
				l := open(t, a.reader(t, mode), o)
				if plan := planText(t, l, events); !strings.Contains(plan, "processed_events_pkey") || strings.Contains(plan, "Seq Scan") {
					t.Errorf("%d ids in mode %s: got this plan, want one by processed_events_pkey\n%s", len(events), mode, plan)
				}
				if got := states(t, l, events); got[0] != Done || got[chunk-1] != Done {
					t.Errorf("mode %s: got %v and %v, want done", mode, got[0], got[chunk-1])
				}
			}
		})
	}
}

func TestIndexedLooksForAnIndexThatLeadsWithTheKey(t *testing.T) {
	t.Parallel()
	id := map[string]string{"event_id": "event.id"}
	account := map[string]string{"event_id": "event.id", "account": "event.account"}
	mode := map[string]string{"event_id": "event.id", "livemode": "event.livemode"}
	const create = `CREATE INDEX CONCURRENTLY ON "public"."processed_events" ("event_id");`
	for _, c := range []struct {
		what, ddl, table, where string
		key                     map[string]string
		want                    string // what to run; "" if it is indexed
	}{
		{"no index", ``, "processed_events", "", id, create},
		{"no index of a composite key", ``, "processed_events", "", account, `CREATE INDEX CONCURRENTLY ON "public"."processed_events" ("event_id", "account");`},
		{"an index of the key", `CREATE INDEX ON processed_events (event_id)`, "processed_events", "", id, ""},
		{"a hash index of the key", `CREATE INDEX ON processed_events USING hash (event_id)`, "processed_events", "", id, ""},
		{"an index that the key leads", `CREATE INDEX ON processed_events (event_id, provider)`, "processed_events", "", id, ""},
		{"an index of the key's first column", `CREATE INDEX ON processed_events (event_id)`, "processed_events", "", account, ""},
		{"an index of the account alone", `CREATE INDEX ON processed_events (account)`, "processed_events", "", account, `CREATE INDEX CONCURRENTLY ON "public"."processed_events" ("event_id", "account");`},
		{"an index that another column leads", `CREATE INDEX ON processed_events (provider, event_id)`, "processed_events", "", id, create},
		{"an index led by a column that where fixes", `CREATE INDEX ON processed_events (provider, event_id)`, "processed_events", "provider = 'stripe'", id, ""},
		{"a partial index of other rows", `CREATE INDEX ON processed_events (event_id) WHERE provider = 'github'`, "processed_events", "provider = 'stripe'", id, create},
		{"a partial index of the source's rows", `CREATE INDEX ON processed_events (event_id) WHERE provider = 'stripe'`, "processed_events", "provider = 'stripe'", id, ""},
		{"an index of an expression", `CREATE INDEX ON processed_events (lower(event_id))`, "processed_events", "", id, create},
		{"an index that the mode leads", `CREATE INDEX ON processed_events (livemode, event_id)`, "processed_events", "", mode, ""},
		{"a view over an indexed table", `CREATE INDEX ON processed_events (event_id); CREATE VIEW recent AS SELECT * FROM processed_events`, "recent", "", id, ""},
		{"a view over a table without", `CREATE VIEW recent AS SELECT * FROM processed_events`, "recent", "", id, `create an index that leads with what the view public.recent selects as "event_id"`},
		{"a partitioned table without", `CREATE TABLE recent (event_id text, n int) PARTITION BY RANGE (n); CREATE TABLE recent_1 PARTITION OF recent FOR VALUES FROM (0) TO (9)`, "recent", "", id, `CREATE INDEX ON "public"."recent" ("event_id");`},
		{"a partition without", `CREATE TABLE recent (event_id text, n int) PARTITION BY RANGE (n); CREATE TABLE recent_1 PARTITION OF recent FOR VALUES FROM (0) TO (9); CREATE TABLE recent_2 PARTITION OF recent FOR VALUES FROM (9) TO (19); CREATE INDEX ON recent_1 (event_id)`, "recent", "", id, `CREATE INDEX ON "public"."recent" ("event_id");`},
		{"an indexed partitioned table", `CREATE TABLE recent (event_id text, n int) PARTITION BY RANGE (n); CREATE TABLE recent_1 PARTITION OF recent FOR VALUES FROM (0) TO (9); CREATE INDEX ON recent (event_id)`, "recent", "", id, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, `CREATE TABLE processed_events (event_id text NOT NULL, account text, provider text, livemode boolean NOT NULL);`+c.ddl, c.table)
			indexed, run, err := a.open(t, Options{Table: c.table, Key: c.key, Where: c.where}).Indexed(t.Context())
			if err != nil || indexed != (c.want == "") || run != c.want {
				t.Errorf("%s, where %q: got %v, %q, %v, want %q", c.ddl, c.where, indexed, run, err, c.want)
			}
		})
	}
}
