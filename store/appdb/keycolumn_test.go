package appdb

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/providers"
)

func TestKeyColumnsOfEveryType(t *testing.T) {
	t.Parallel()
	const upper, lower = "6F1E2D3C-0000-4000-8000-00000000ABCD", "6f1e2d3c-0000-4000-8000-00000000abcd"
	for _, c := range []struct {
		typ, stored string // stored as SQL
		asked       []string
		want        []State
	}{
		{"text", "'Evt_1'", []string{"Evt_1", "evt_1", "Evt_1 ", "a\x00b", "a\xffb", "'; --"}, []State{Done, Absent, Absent, Unrepresentable, Unrepresentable, Absent}},
		{"text", "'" + lower + "'", []string{upper, lower}, []State{Absent, Done}},
		{"text", `'a"b\c,{}'`, []string{`a"b\c,{}`, "NULL", "null"}, []State{Done, Absent, Absent}},
		{"varchar", "'evt_1'", []string{"evt_1", strings.Repeat("x", 5000)}, []State{Done, Absent}},
		{"varchar(5)", "'evt_é'", []string{"evt_é", "evt_é  ", "evt_éé", "evt_1"}, []State{Done, Done, Unrepresentable, Absent}},
		{"char(8)", "'evt_1'", []string{"evt_1", "evt_1   ", "evt_12345"}, []State{Done, Done, Unrepresentable}},
		{"uuid", "'" + lower + "'", []string{upper, lower, "{" + lower + "}", strings.ReplaceAll(lower, "-", ""), "evt_not_uuid", " " + lower}, []State{Done, Done, Done, Done, Unrepresentable, Unrepresentable}},
		{"smallint", "32767", []string{"32767", "32768", "+7"}, []State{Done, Unrepresentable, Absent}},
		{"integer", "-2147483648", []string{"-2147483648", "-2147483649", "1.0"}, []State{Done, Unrepresentable, Unrepresentable}},
		{"bigint", "9007199254740993", []string{"9007199254740993", "9007199254740992", "evt_1", "9223372036854775808", " 9007199254740993\n"}, []State{Done, Absent, Unrepresentable, Unrepresentable, Done}},
		{"numeric", "90071992547409930", []string{"90071992547409930", "90071992547409931", "90071992547409930.0", "evt_1", "NaN", ".", strings.Repeat("9", 1001)}, []State{Done, Absent, Done, Unrepresentable, Unrepresentable, Unrepresentable, Unrepresentable}},
		{"numeric(4,1)", "7", []string{"7", "99999", "7.04"}, []State{Done, Absent, Absent}},
		{"extensions.citext", "'Evt_1'", []string{"EVT_1", "evt_2"}, []State{Done, Absent}},
		{"event_id", "'evt_1'", []string{"evt_1", "evt_23456"}, []State{Done, Unrepresentable}}, // a domain
	} {
		t.Run(c.typ+" holding "+c.stored, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, fmt.Sprintf(`
CREATE SCHEMA extensions;
GRANT USAGE ON SCHEMA extensions TO PUBLIC;
CREATE EXTENSION citext SCHEMA extensions;
CREATE DOMAIN event_id AS varchar(8) CHECK (value LIKE 'evt%%');
CREATE TABLE processed_events (event_id %s);
INSERT INTO processed_events VALUES (%s)`, c.typ, c.stored), "processed_events")
			for _, mode := range modes {
				if got := states(t, open(t, a.reader(t, mode), simple), byID(c.asked...)); !reflect.DeepEqual(got, c.want) {
					t.Errorf("asked %q in mode %s:\n got %v\nwant %v", c.asked, mode, got, c.want)
				}
			}
		})
	}
}

func TestWhatDoesNotFitIsToldWithColumnAndType(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id uuid, "accountNo" varchar(3), kind text)`, "processed_events")
	o := simple
	o.Key = map[string]string{"event_id": "event.key", "accountNo": "event.account", "kind": "event.type"}
	l := a.open(t, o)
	const key = "6f1e2d3c-0000-4000-8000-00000000abcd"
	for _, c := range []struct {
		event providers.Event
		want  string
	}{
		{providers.Event{Key: "evt_x", Type: "ping"}, `event key "evt_x" does not fit column event_id of type uuid`},
		{providers.Event{Key: strings.Repeat("x", 200), Type: "ping"}, `event key "` + strings.Repeat("x", 100) + `"... does not fit column event_id of type uuid`},
		{providers.Event{Key: key, Account: "acct_1", Type: "ping"}, `event account "acct_1" does not fit column "accountNo" of type character varying(3)`},
		{providers.Event{Key: key}, `the event has no type for column kind`},
	} {
		got, err := l.Ask(t.Context(), []providers.Event{c.event})
		if err != nil || got[0].State != Unrepresentable || got[0].Why != c.want {
			t.Errorf("Ask(%+v):\n got %+v, %v\nwant Why %q", c.event, got, err, c.want)
		}
	}
}

// What we send, the server must be able to cast: one that it cannot would fail
// the question for every other event.
func TestWhatFitsTheServerReads(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (u uuid, s smallint, i integer, b bigint, n numeric, v varchar(4), t text)`, "processed_events")
	pool := a.reader(t, "exec")
	columns := map[string]*Ledger{}
	for _, name := range []string{"u", "s", "i", "b", "n", "v", "t"} {
		o := simple
		o.Key = map[string]string{name: "event.id"}
		columns[name] = open(t, pool, o)
	}
	ids := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[ \t\n]?[+-]{0,2}[0-9]{0,21}[.]?[0-9]{0,3}[ _]?`),
		rapid.StringMatching(`[{]?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-{0,2}[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{15,17}-?[}]?`),
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }),
		rapid.SampledFrom([]string{"9223372036854775807", "-9223372036854775808", "9223372036854775808", "32768", "0x1F", "1e5", "1_000", "inf", "NaN", "+", "-", "", " ", "abcd ", "abcde", "\u2028"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		asked := rapid.SliceOfN(ids, 1, 20).Draw(t, "ids")
		for name, l := range columns {
			if _, err := l.Ask(t.Context(), byID(asked...)); err != nil {
				t.Fatalf("column %s, asked %q: %v", name, asked, err)
			}
		}
	})
}

// And what does not fit, the server must not read either: else an event that the
// table can hold would never be looked for. What we leave out on purpose is no
// id: NaN, Infinity, exponents, and the 0x and _ forms of newer servers.
func TestWhatTheServerReadsFits(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text)`, "processed_events")
	const hex = "6f1e2d3c000040008000" + "00000000abcd"
	uuids := []string{hex, strings.ToUpper(hex), "{" + hex + "}", "{" + hex, hex + "}", "{}", hex + "0", hex[1:], hex + "-", "-" + hex,
		"6f1e-2d3c-0000-4000-8000-0000-0000-abcd", "6f1e--2d3c000040008000" + "00000000abcd", "6f1-e2d3c000040008000" + "00000000abcd", "6f1e2d3c-0000-4000-8000-00000000abcd", " " + hex, hex + " ", "g" + hex[1:]}
	numbers := []string{"1", "+1", "-1", "--1", "+-1", "-+1", "- 1", " 1 ", "\t1\n", "1 1", "00", "-0", "", " ", "+", "1.", ".5", ".", "1.5", "1..5", "1,5", "a", "1a", "\u00a01"}
	wide := []string{"32767", "32768", "-32768", "-32769", "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"}
	for typ, c := range map[string]struct {
		fit    func(string) (string, bool)
		values []string
	}{
		"uuid":    {uuidFit, uuids},
		"int2":    {integerFit(16), append(numbers, wide...)},
		"int4":    {integerFit(32), append(numbers, wide...)},
		"int8":    {integerFit(64), append(numbers, wide...)},
		"numeric": {numericFit, append(numbers, wide...)},
	} {
		for _, value := range c.values {
			_, err := a.owner.Exec(t.Context(), "SELECT "+literal(value)+"::"+typ)
			if _, got := c.fit(value); got != (err == nil) {
				t.Errorf("%q as %s: got fits %v, want %v (the server: %v)", value, typ, got, err == nil, err)
			}
		}
	}
}

// A letter that the server's encoding does not have would fail the whole query.
func TestServerInAnotherEncoding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		encoding, id string
		want         bool
	}{
		{"UTF8", "evt_é", true}, {"LATIN1", "evt_1", true}, {"LATIN1", "evt_é", false}, {"LATIN1", "evt_漢", false}, {"SQL_ASCII", "evt_é", true},
	} {
		if _, got := textFit(c.encoding)(c.id); got != c.want {
			t.Errorf("%q on a server in %s: got fits %v, want %v", c.id, c.encoding, got, c.want)
		}
	}
}
