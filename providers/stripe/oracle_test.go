package stripe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/providers"
)

// oracle is an object as encoding/json reads it, with the exact names of its
// members. Reading events by it is plain and slow; what the scanner reads must be
// the same.
type oracle map[string]json.RawMessage

func oracleMember[T any](o oracle, name string) (T, bool) {
	var v, none T
	raw, ok := o[name]
	if !ok || json.Unmarshal(raw, &v) != nil {
		return none, false
	}
	return v, true
}

func (o oracle) text(name string) string {
	s, _ := oracleMember[string](o, name)
	return s
}

func (o oracle) object(name string) oracle {
	v, _ := oracleMember[oracle](o, name)
	return v
}

func oracleEvent(raw []byte, account string) (providers.Event, error) {
	var o oracle
	if err := json.Unmarshal(raw, &o); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return providers.Event{}, errors.New("malformed")
		}
		return providers.Event{}, errors.New("not a JSON object: another kind of value")
	}
	e := providers.Event{
		Key:        o.text("id"),
		ID:         o.text("id"),
		Account:    o.text("account"),
		Type:       o.text("type"),
		APIVersion: o.text("api_version"),
		Payload:    raw,
	}
	if e.Account == "" {
		e.Account = account
	}
	at, _ := oracleMember[int64](o, "created")
	hasCreated := at > 0 && at <= 253402300799
	if hasCreated {
		e.Created = time.Unix(at, 0).UTC()
	}
	e.Livemode, _ = oracleMember[*bool](o, "livemode")
	e.PendingDeliveries, _ = oracleMember[*int](o, "pending_webhooks")
	if object := o.object("data").object("object"); object.text("id") != "" {
		e.Subject = providers.Subject{Account: e.Account, Kind: object.text("object"), ID: object.text("id")}
	}
	if object := o.text("object"); object != "" && object != "event" {
		return e, errors.New("not an event of the v1 API: its object is another")
	}
	return e, missing(e, hasCreated)
}

// oraclePage reads a page; the error is not said in words.
func oraclePage(body []byte, account string) (page providers.Page[providers.Event], more bool, err error) {
	notAList := errors.New("not a list")
	var o oracle
	if json.Unmarshal(body, &o) != nil || o.text("object") != "list" || dataMembers(body) != 1 {
		return page, false, notAList
	}
	hasMore, _ := oracleMember[*bool](o, "has_more")
	data, _ := oracleMember[[]json.RawMessage](o, "data")
	if hasMore == nil || data == nil || *hasMore && len(data) == 0 {
		return page, false, notAList
	}
	var last string
	for _, raw := range data {
		event, err := oracleEvent(raw, account)
		if err == nil {
			page.Items = append(page.Items, event)
		} else {
			page.Unreadable = append(page.Unreadable, providers.Unreadable{ID: event.ID, Bytes: raw, Why: err.Error()})
		}
		if event.ID != "" {
			last = event.ID
		}
	}
	if *hasMore && last == "" {
		return page, false, errors.New("no way on")
	}
	if *hasMore {
		page.Next = providers.Cursor(last)
	}
	return page, *hasMore, nil
}

// dataMembers counts the members data of a valid object.
func dataMembers(body []byte) (n int) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.Token()
	for d.More() {
		name, _ := d.Token()
		if name == "data" {
			n++
		}
		var value json.RawMessage
		d.Decode(&value)
	}
	return n
}

// theBody answers every request with itself.
type theBody []byte

// RoundTrip implements http.RoundTripper.
func (b theBody) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: -1, Request: req}, nil
}

// A checker is what tests, fuzz targets and properties report to.
type checker interface {
	rapid.TB
	Context() context.Context
}

// eventsOf reads body as the first page of an account's events.
func eventsOf(t checker, body []byte, account string) (providers.Page[providers.Event], error) {
	t.Helper()
	p, err := open(providers.Settings{
		Credentials: map[string]providers.Secret{"api_key": testKey},
		Client: &http.Client{Transport: providers.NewTransport(providers.TransportOptions{
			Base: theBody(body), Tries: 1, Rate: 1e9,
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*provider).Events(t.Context(), providers.Stream{Account: account}, window, "")
}

// asTheOracle holds what is read of body to what encoding/json reads of it.
func asTheOracle(t checker, body []byte) {
	t.Helper()
	want, _, wantErr := oraclePage(body, "acct_1")
	got, err := eventsOf(t, body, "acct_1")
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%q\ngot error  %v\nwant error %v", body, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%q\ngot  %+v\nwant %+v", body, got, want)
	}
	e, err := decodeEvent(body, "acct_1")
	wantEvent, wantErr := oracleEvent(body, "acct_1")
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%q alone\ngot error  %v\nwant error %v", body, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(e, wantEvent) {
		t.Errorf("%q alone\ngot  %+v\nwant %+v", body, e, wantEvent)
	}
}

// oddEvents are what encoding/json has a view on.
var oddEvents = []string{
	`{"id":"evt_1","object":"event","type":"a","created":1767225600}`,
	`{"ID":"evt_1","Type":"a","CREATED":1767225600}`,
	`{"id":"evt_1","id":"evt_2","type":"a","type":7,"created":1767225600,"created":1767225601}`,
	`{"id":"evt_1","type":"a","created":1767225600,"data":{"object":{"id":"in_1","object":"invoice"}},"data":7}`,
	`{"id":"evt_1","type":"a","created":1767225600,"data":{"object":{"id":"in_1"},"object":{"object":"invoice"}}}`,
	`{"id":"evt_1","type":"a","created":1767225600,"data":{"object":{"id":"in_1","id":null,"object":"invoice"}}}`,
	`{"id":"evt_1","type":"a","created":1767225600,"data":{"object":null}}`,
	`{"id":"evt_1","type":"a","created":1767225600,"data":[{"object":{"id":"in_1"}}]}`,
	`{"id":"evt_1","type":"a","created":1767225600,"account":"acct_2","data":{"object":{"object":"invoice","id":"in_1"}}}`,
	`{"id":"evt_1","type":"a","created":1767225600,"account":7}`,
	`{"\u0069d":"evt\u005f1","ty\u0070e":"\ud83d\ude00\ud800\n","created":1767225600}`,
	"{\"id\":\"evt_\xff\xfe1\",\"type\":\"\xed\xa0\x80\",\"created\":1767225600,\"\xff\":1}",
	`{"id":"evt_1","type":"a","created":1767225600.0}`,
	`{"id":"evt_1","type":"a","created":17672256e2}`,
	`{"id":"evt_1","type":"a","created":"1767225600"}`,
	`{"id":"evt_1","type":"a","created":253402300799}`,
	`{"id":"evt_1","type":"a","created":253402300800}`,
	`{"id":"evt_1","type":"a","created":99999999999999999999999999}`,
	`{"id":"evt_1","type":"a","created":-0}`,
	`{"id":"evt_1","type":"a","created":-1767225600}`,
	`{"id":"evt_1","type":"a","created":1767225600,"pending_webhooks":-0,"livemode":true}`,
	`{"id":"evt_1","type":"a","created":1767225600,"pending_webhooks":1.5,"livemode":"true"}`,
	`{"id":"evt_1","type":"a","created":1767225600,"pending_webhooks":9223372036854775808,"livemode":null}`,
	`{"id":"evt_1","type":"a","created":1767225600,"pending_webhooks":2,"pending_webhooks":null,"livemode":true,"livemode":1}`,
	`{"id":"evt_1","type":"a","created":1767225600,"object":"v2.core.event"}`,
	`{"id":"evt_1","type":"a","created":1767225600,"object":7}`,
	`{"id":"","type":"a","created":1767225600}`,
	`{"id":7}`, `{}`, `null`, `true`, `7`, `"evt_1"`, `[]`, `[{"id":"evt_1"}]`, ` { } `,
	`{"id":"evt_1"`, `{"id":"evt_1",}`, `{'id':1}`, "{\"id\":\"evt\n1\"}", `{"id":"\x"}`, `{"a":01}`, `{"a":1}{}`, `{"a":1} x`, ``, ` `, "\xef\xbb\xbf{}",
}

func TestTheScannerReadsWhatEncodingJSONReads(t *testing.T) {
	for _, event := range oddEvents {
		asTheOracle(t, []byte(event))
		asTheOracle(t, []byte(`{"object":"list","data":[`+event+`],"has_more":false}`))
		asTheOracle(t, []byte("{\"has_more\" : true,\n\t\"data\" :\r\n[ {\"id\":\"evt_0\"} , "+event+" \n, "+event+" ] , \"object\":\"list\" } \n"))
	}
	asTheOracle(t, simulatedPage(t))
	for _, list := range []string{
		`{"object":"list","data":[],"has_more":false}`,
		`{"object":"list","data":[],"has_more":true}`,
		`{"object":"list","data":null,"has_more":false}`,
		`{"object":"list","data":{},"has_more":false}`,
		`{"object":"list","data":[7],"has_more":null}`,
		`{"object":"list","data":[7],"has_more":true,"has_more":false}`,
		`{"object":"list","object":null,"data":[7],"has_more":false}`,
		`{"object":"charge","object":"list","data":[7],"has_more":false}`,
		`{"object":"list","data":[7],"data":[8],"has_more":false}`,
		`{"object":"list","data":[7],"data":null,"has_more":false}`,
		`{"OBJECT":"list","Data":[7],"has_more":false}`,
		`{"object":"list","data":[7],"has_more":false}]`,
		`{"object":"list","data":[7,],"has_more":false}`,
		`{"object":"list","data":[7}],"has_more":false}`,
	} {
		asTheOracle(t, []byte(list))
	}
}

// anyJSON is some JSON whose names and values are those that matter to an event,
// in any order and shape, and as often as it likes.
func anyJSON(depth int) *rapid.Generator[string] {
	blank := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n    "})
	scalar := rapid.SampledFrom([]string{
		`"evt_1"`, `"event"`, `"list"`, `"in_1"`, `"a\u0062\ud83d\ude00"`, `"\ud800"`, "\"\xff\"", `""`, `"\\\""`,
		"null", "true", "false", "0", "-0", "1", "1767225600", "1.5", "1e3", "253402300800", "99999999999999999999"})
	if depth == 0 {
		return scalar
	}
	name := rapid.SampledFrom([]string{
		`"id"`, `"object"`, `"type"`, `"created"`, `"data"`, `"account"`, `"livemode"`, `"pending_webhooks"`, `"api_version"`,
		`"ID"`, `"\u0069d"`, `"x"`, `""`, "\"\xff\"", `"error"`})
	return rapid.Custom(func(t *rapid.T) string {
		var parts []string
		around := func(s string) string { return blank.Draw(t, "blank") + s + blank.Draw(t, "blank") }
		value := func() string { return around(anyJSON(depth-1).Draw(t, "value")) }
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return scalar.Draw(t, "scalar")
		case 1:
			for range rapid.IntRange(0, 3).Draw(t, "elements") {
				parts = append(parts, value())
			}
			return "[" + strings.Join(parts, ",") + blank.Draw(t, "blank") + "]"
		}
		for range rapid.IntRange(0, 8).Draw(t, "members") {
			parts = append(parts, around(name.Draw(t, "name"))+":"+value())
		}
		return "{" + strings.Join(parts, ",") + blank.Draw(t, "blank") + "}"
	})
}

func TestTheScannerReadsAnyEventAsEncodingJSONDoes(t *testing.T) {
	whole := rapid.SampledFrom([]string{"", `,"id":"evt_2"`, `,"type":"a"`, `,"created":1`, `,"id":"evt_2","type":"a","created":1`})
	rapid.Check(t, func(r *rapid.T) {
		var events []string
		for range rapid.IntRange(1, 3).Draw(r, "events") {
			event := anyJSON(4).Draw(r, "event")
			if open, ok := strings.CutSuffix(event, "}"); ok && strings.Contains(open, ":") {
				event = open + whole.Draw(r, "whole") + "}"
			}
			asTheOracle(r, []byte(event))
			events = append(events, event)
		}
		more := rapid.Bool().Draw(r, "more")
		asTheOracle(r, fmt.Appendf(nil, `{"object":"list","data":[%s],"has_more":%v}`, strings.Join(events, " , "), more))
	})
}

func TestNestingIsReadAsDeepAsEncodingJSONReadsIt(t *testing.T) {
	const deepest = 10000 // what encoding/json bears
	for _, depth := range []int{deepest - 6, deepest - 5, deepest - 4, deepest - 3, deepest, 1 << 20} {
		for _, around := range []struct{ open, closed string }{{"[", "]"}, {`{"a":`, "}"}} {
			deep := strings.Repeat(around.open, depth) + "1" + strings.Repeat(around.closed, depth)
			body := fmt.Appendf(nil, `{"object":"list","data":[{"id":"evt_1","type":"a","created":1,"data":{"object":%s}}],"has_more":false}`, deep)
			_, _, wantErr := oraclePage(body, "")
			if _, err := eventsOf(t, body, ""); (err != nil) != (wantErr != nil) {
				t.Errorf("%d times %s: got error %.200v, want one: %v", depth, around.open, err, wantErr != nil)
			}
		}
	}
}

// FuzzOracle: whatever the answer, what is read of it is what encoding/json reads.
func FuzzOracle(f *testing.F) {
	for _, event := range oddEvents {
		f.Add([]byte(`{"object":"list","data":[` + event + `],"has_more":false}`))
		f.Add([]byte(event))
	}
	f.Fuzz(func(t *testing.T, body []byte) { asTheOracle(t, body) })
}

func TestPayloadsShareThePagesMemoryAndDoNotReachIntoEachOther(t *testing.T) {
	first, second := `{"id":"evt_1","type":"a","created":1767225600}`, `{"id":"evt_2","type":"a","created":1767225600}`
	page, err := eventsOf(t, []byte(`{"object":"list","data":[`+first+`,`+second+`],"has_more":false}`), "")
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("got %+v, %v; want two events", page, err)
	}
	_ = append(page.Items[0].Payload, "overwritten"...)
	if got := string(page.Items[1].Payload); got != second {
		t.Errorf("appending to the payload of the first made the second %s, want %s", got, second)
	}
}
