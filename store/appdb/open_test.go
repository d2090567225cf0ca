package appdb

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/pgtest"
)

func TestValidateNamesEveryMistake(t *testing.T) {
	t.Parallel()
	valid := Options{Table: "public.processed_events", Key: map[string]string{"event_id": "event.id"}}
	for _, c := range []struct {
		what   string
		change func(*Options)
		want   []string // what each error says, in order
	}{
		{"the least that is valid", func(o *Options) {}, nil},
		{"all that can be written", func(o *Options) {
			*o = Options{Table: `billing."Processed-Events"`, Type: `"eventType"`, HandledAt: "handled_at", Livemode: "livemode",
				Key:   map[string]string{"event_id": "event.id", "hook": "event.key", "account": "event.account", "kind": "event.type", "live": "event.livemode"},
				Where: "provider = 'a;b--c/*' AND (x OR \"odd;column\" ->> 'y' = E'it\\'s') AND n - -1 > 2 / 1", Done: "status = 'it''s done'", Failed: "tries >= 5",
				StuckAfter: time.Hour, Keeps: 90 * 24 * time.Hour, Timezone: "Europe/Berlin"}
		}, nil},
		{"nothing", func(o *Options) { *o = Options{} }, []string{"table: is missing; name the", "key: is missing; map the"}},
		{"a table of three parts", func(o *Options) { o.Table = "app.public.events" }, []string{`table: "app.public.events" has more than a schema and a table`}},
		{"a table with a hyphen", func(o *Options) { o.Table = "processed-events" }, []string{`table: "processed-events" has "-" where a dot or the end should be`}},
		{"a table that would break out", func(o *Options) { o.Table = `events; DROP TABLE events` }, []string{`table: "events; DROP TABLE events" has ";" where`}},
		{"a table with an open quote", func(o *Options) { o.Table = `"events` }, []string{`has a quote that is not closed`}},
		{"a table without a name", func(o *Options) { o.Table = `public.` }, []string{`is not a name in SQL`}},
		{"a table with an empty quoted name", func(o *Options) { o.Table = `public.""` }, []string{`has an empty name`}},
		{"a mistyped field", func(o *Options) { o.Key = map[string]string{"event_id": "event.idd"} },
			[]string{`key.event_id: "event.idd" is no field of an event; did you mean event.id?; use one of event.id, event.key, event.account, event.type, event.livemode`}},
		{"a key that does not identify an event", func(o *Options) { o.Key = map[string]string{"kind": "event.type"} }, []string{`key: does not identify an event`}},
		{"a column with its table", func(o *Options) { o.Type = "events.kind" }, []string{`type: "events.kind" has a dot; write the column's name alone`}},
		{"an empty column", func(o *Options) { o.Key = map[string]string{"": "event.id"} }, []string{`key.: `}},
		{"a statement after the condition", func(o *Options) { o.Where = "true; DELETE FROM events" }, []string{`where: "true; DELETE FROM events" has a ';' outside quotes`}},
		{"a comment to the end of the line", func(o *Options) { o.Done = "true -- yes" }, []string{`done: "true -- yes" has a comment`}},
		{"a comment within the line", func(o *Options) { o.Failed = "true /* yes */" }, []string{`failed: "true /* yes */" has a comment`}},
		{"a parenthesis that breaks out", func(o *Options) { o.Where = "true) OR (true" }, []string{"closes a parenthesis that it does not open"}},
		{"a parenthesis left open", func(o *Options) { o.Where = "(true" }, []string{"opens a parenthesis that it does not close"}},
		{"a quote left open", func(o *Options) { o.Where = "x = 'y" }, []string{"has a quote that is not closed"}},
		{"a quote kept open by an escape", func(o *Options) { o.Where = `x = E'y\'` }, []string{"has a quote that is not closed"}},
		{"a parameter", func(o *Options) { o.Where = "x = $1" }, []string{"has a '$' outside quotes"}},
		{"a dollar quote", func(o *Options) { o.Where = "x = $$;$$" }, []string{"has a '$' outside quotes"}},
		{"a NUL byte", func(o *Options) { o.Where = "x = y\x00" }, []string{"holds a NUL byte"}},
		{"negative durations", func(o *Options) { o.StuckAfter, o.Keeps = -time.Hour, -1 }, []string{`stuck_after: "-1h0m0s" is negative`, `keeps: "-1ns" is negative`}},
		{"an unknown zone", func(o *Options) { o.Timezone = "Europe/Berlinn" }, []string{`timezone: "Europe/Berlinn" is no zone`}},
		{"the machine's zone", func(o *Options) { o.Timezone = "Local" }, []string{`timezone: "Local" is no zone`}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			o := valid
			c.change(&o)
			checkErrors(t, o.Validate(), c.want)
		})
	}
}

// checkErrors demands one *FieldError for each text, in order.
func checkErrors(t *testing.T, errs []error, want []string) {
	t.Helper()
	if len(errs) != len(want) {
		t.Fatalf("got %d errors, want %d:\n%v", len(errs), len(want), errors.Join(errs...))
	}
	for i, err := range errs {
		var field *FieldError
		if !errors.As(err, &field) || !strings.Contains(err.Error(), want[i]) {
			t.Errorf("got  %v (%T)\nwant a *FieldError that says %s", err, err, want[i])
		}
	}
}

// openErrors are the mistakes that Open joins.
func openErrors(t *testing.T, err error) []error {
	t.Helper()
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func TestOpenNamesEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE TABLE processed_events (event_id text, "eventType" text, status text, body jsonb, live text, day date, handled_at timestamptz, handled_ms bigint);
INSERT INTO processed_events (handled_ms) VALUES (1767225600000);
CREATE SCHEMA audit;
CREATE TABLE audit.webhook_log (event_id text)`, "processed_events", "audit.webhook_log")
	const columns = `(its columns are: event_id, "eventType", status, body, live, day, handled_at, handled_ms)`
	for _, c := range []struct {
		what   string
		change func(*Options)
		want   []string
	}{
		{"a mistyped table", func(o *Options) { o.Table = "public.procesed_events" },
			[]string{`table: "public.procesed_events" is not in database "test_`, `did you mean public.processed_events? (its tables are: audit.webhook_log, public.processed_events)`}},
		{"a table of another schema", func(o *Options) { o.Table = "webhook_log" }, []string{`; did you mean audit.webhook_log?`}},
		{"a mistyped schema", func(o *Options) { o.Table = "pubic.processed_events" }, []string{`; did you mean public.processed_events?`}},
		{"a table like nothing there", func(o *Options) { o.Table = "zzz" }, []string{`table: "zzz" is not in database`}},
		{"a quoted name in the wrong case", func(o *Options) { o.Table = `"Processed_Events"` }, []string{`; did you mean public.processed_events?`}},
		{"mistyped columns and conditions", func(o *Options) {
			o.Key = map[string]string{"event_ids": "event.id"}
			o.Type, o.HandledAt, o.Livemode = "event_type", "handeld_at", "livemode"
			o.Where, o.Done, o.Failed = "provider = 'stripe'", "status == 'done'", "status"
		}, []string{
			`key.event_ids: "event_ids" is no column of public.processed_events; did you mean event_id? ` + columns,
			`type: "event_type" is no column of public.processed_events; did you mean "eventType"?`,
			`livemode: "livemode" is no column`,
			`handled_at: "handeld_at" is no column of public.processed_events; did you mean handled_at?`,
			`where: "provider = 'stripe'" is refused by the database: column "provider" does not exist; write a condition over the columns of public.processed_events`,
			`done: "status == 'done'" is refused by the database: operator does not exist: text == unknown`,
			`failed: "status" is refused by the database: argument of WHERE must be type boolean, not type text`,
		}},
		{"columns of types that do not serve", func(o *Options) {
			o.Key = map[string]string{"event_id": "event.id", "body": "event.account"}
			o.HandledAt, o.Livemode = "day", "live"
		}, []string{
			`key.body: "event.account" cannot be looked up in column body of type jsonb; map a column of type text, varchar,`,
			`livemode: "live" is of type text; map a boolean column, or none, and choose the rows of one mode with where`,
			`handled_at: "day" is of type date, which tells no instant; map a column of type timestamptz, timestamp, or bigint`,
		}},
		{"milliseconds", func(o *Options) { o.HandledAt = "handled_ms" }, []string{`handled_at: "handled_ms" holds 1767225600000, which are not seconds since 1970`}},
		{"an aggregate", func(o *Options) { o.Where = "count(*) > 1" }, []string{`aggregate functions are not allowed in WHERE`}},
		{"a value that does not fit", func(o *Options) { o.Where = "handled_at > 'yesterdayy'" }, []string{`invalid input syntax for type timestamp with time zone: "yesterdayy"`}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			o := simple
			c.change(&o)
			_, err := Open(t.Context(), a.reader(t, "cache_statement"), o, nil)
			errs := openErrors(t, err)
			if strings.HasPrefix(c.what, "a mistyped table") { // one error, two of its parts
				errs = append(errs, errs...)
			}
			checkErrors(t, errs, c.want)
		})
	}
}

func TestNamesOfTablesAndColumns(t *testing.T) {
	t.Parallel()
	a := newApp(t, `
CREATE SCHEMA "My.App";
CREATE TABLE "My.App"."Processed""Events" ("eventId" text, "order" text, ord bigint, state text, c1 text, r text);
INSERT INTO "My.App"."Processed""Events" VALUES ('evt_1', 'invoice.paid', 5, 'x', 'y', 'z');
CREATE TABLE processed_events (event_id text);
CREATE VIEW "Recent" AS SELECT * FROM processed_events;
CREATE TABLE parted (event_id text, n int) PARTITION BY RANGE (n);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE MATERIALIZED VIEW seen AS SELECT * FROM processed_events`, "processed_events")
	for _, c := range []struct{ what, table, column, where string }{
		{"quoted", `"My.App"."Processed""Events"`, `"eventId"`, `"order" = 'invoice.paid' AND ord = 5 AND state = 'x' AND c1 = 'y' AND r = 'z'`},
		{"camelCase without quotes", `"My.App"."Processed""Events"`, `eventId`, ""},
		{"folded to lower case", `PUBLIC.Processed_Events`, `EVENT_ID`, "Processed_Events.event_id <> ''"},
		{"without a schema", `processed_events`, `event_id`, ""},
		{"a view", `Recent`, `event_id`, ""},
		{"a partitioned table", `parted`, `event_id`, ""},
		{"a materialized view", `seen`, `event_id`, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			o := Options{Table: c.table, Key: map[string]string{c.column: "event.id"}, Where: c.where}
			if got := states(t, open(t, a.owner, o), byID("evt_0")); got[0] != Absent {
				t.Errorf("%+v: got %v, want absent", o, got)
			}
		})
	}
	o := Options{Table: `"My.App"."Processed""Events"`, Key: map[string]string{`eventId`: "event.id"}, Type: "order",
		Where: `"order" = 'invoice.paid' AND ord = 5 AND state = 'x' AND c1 = 'y' AND r = 'z'`}
	if got := states(t, open(t, a.owner, o), byID("evt_1")); got[0] != Done {
		t.Errorf("columns named like ours: got %v, want done", got)
	}
}

func TestMissingRightsAreToldWithTheGrant(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	owner := app{owner: pgtest.Connect(t, url)}
	owner.exec(t, `
CREATE TABLE other (id int);
CREATE SCHEMA billing;
CREATE SCHEMA extensions;
CREATE EXTENSION citext SCHEMA extensions;
CREATE TABLE billing.events (event_id text);
CREATE TABLE processed_events (event_id text, secret text, id extensions.citext)`)
	pool := pgtest.Connect(t, pgtest.ReadOnlyURL(t, url, "other"))
	var role string
	if err := pool.QueryRow(t.Context(), `SELECT current_user`).Scan(&role); err != nil {
		t.Fatal(err)
	}
	grants := func(o Options, want string) {
		t.Helper()
		_, err := Open(t.Context(), pool, o, slog.New(slog.DiscardHandler))
		checkErrors(t, openErrors(t, err), []string{want})
	}
	conditions := simple
	conditions.Where = "event_id <> ''"
	grants(conditions, `table: "processed_events" cannot be read by role `+role+`: permission denied for table processed_events; run GRANT SELECT ON "public"."processed_events" TO "`+role+`";`)
	events := simple
	events.Table = "billing.events"
	grants(events, `run GRANT USAGE ON SCHEMA "billing" TO "`+role+`"; GRANT SELECT ON "billing"."events" TO "`+role+`";`)

	owner.exec(t, `GRANT SELECT (event_id, id) ON processed_events TO `+quote(role))
	if got := states(t, open(t, pool, simple), byID("evt_1")); got[0] != Absent {
		t.Errorf("the right to read the mapped columns alone: got %v, want absent", got)
	}
	secret := simple
	secret.Done = "secret = 'x'"
	grants(secret, `done: "secret = 'x'" cannot be read by role`)
	citext := simple
	citext.Key = map[string]string{"id": "event.id"}
	grants(citext, `run GRANT USAGE ON SCHEMA "extensions" TO "`+role+`";`)
}

func TestDatabaseThatDoesNotAnswerIsNoMistakeInTheConfig(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text)`, "processed_events")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, a.owner, simple, nil)
	var field *FieldError
	if !errors.Is(err, context.Canceled) || errors.As(err, &field) || !strings.HasPrefix(err.Error(), "opening the ledger processed_events: ") {
		t.Errorf("got %v, want the context's error, and that the ledger was being opened", err)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := []time.Duration{Options{}.StuckLimit(), Options{StuckAfter: time.Minute}.StuckLimit()}
	if want := []time.Duration{time.Hour, time.Minute}; !reflect.DeepEqual(got, want) {
		t.Errorf("stuck after, not set and set to 1m: got %v, want %v", got, want)
	}
}
