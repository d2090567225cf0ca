package simulator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/event"
	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/internal/simulator"
)

// noon is the fake's present in these tests.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// serve starts a fake Stripe at noon, unless o has a clock.
func serve(t testing.TB, o simulator.StripeOptions) (*simulator.Stripe, string) {
	t.Helper()
	if o.Now == nil {
		o.Now = atNoon
	}
	s := simulator.NewStripe(o)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

// client is Stripe's own client, pointed at a fake.
func client(base string) event.Client {
	return event.Client{Key: simulator.DefaultKey, B: stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: stripe.String(base), MaxNetworkRetries: stripe.Int64(0), EnableTelemetry: stripe.Bool(false),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})}
}

// answer is what GET path answers.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) list(t testing.TB) (ids []string, more bool) {
	t.Helper()
	var page struct {
		Object  string
		Data    []struct{ ID string }
		HasMore bool `json:"has_more"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 || page.Object != "list" {
		t.Fatalf("got status %d, %v, body %s; want a list", a.status, err, a.body)
	}
	for _, d := range page.Data {
		ids = append(ids, d.ID)
	}
	return ids, page.HasMore
}

func (a answer) refusal(t testing.TB) (code, message, param string) {
	t.Helper()
	var e struct {
		Error struct{ Code, Message, Param, Type string }
	}
	if err := json.Unmarshal(a.body, &e); err != nil || e.Error.Type == "" {
		t.Fatalf("got status %d, %v, body %s; want Stripe's error JSON", a.status, err, a.body)
	}
	return e.Error.Code, e.Error.Message, e.Error.Param
}

func get(t testing.TB, u, key, account string) answer {
	t.Helper()
	a, err := try(t, u, key, account)
	if err != nil {
		t.Fatalf("GET %s: %v", u, err)
	}
	return a
}

func try(t testing.TB, u, key, account string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if account != "" {
		req.Header.Set("Stripe-Account", account)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, body}, err
}

// listing is a random account and a random question about it.
type listing struct {
	emissions []simulator.Emission
	from, to  int64
	types     []string
	limit     int64
}

func drawListing(t *rapid.T) listing {
	types := []string{"invoice.paid", "invoice.created", "customer.updated"}
	base := noon.Unix() - 20
	var l listing
	for i := range rapid.IntRange(0, 40).Draw(t, "events") {
		l.emissions = append(l.emissions, simulator.Emission{
			ID:      fmt.Sprintf("evt_%02d", i),
			Type:    rapid.SampledFrom(types).Draw(t, "type"),
			Created: time.Unix(base+rapid.Int64Range(-5, 15).Draw(t, "created"), 0),
		})
	}
	l.from = base + rapid.Int64Range(-6, 16).Draw(t, "from")
	l.to = l.from + rapid.Int64Range(0, 20).Draw(t, "length")
	l.limit = rapid.Int64Range(1, 7).Draw(t, "limit")
	if rapid.Bool().Draw(t, "filtered") {
		l.types = types[:2]
	}
	return l
}

// want is the naive model: newest first, ties by the later emission.
func (l listing) want() []string {
	kept := slices.DeleteFunc(slices.Clone(l.emissions), func(e simulator.Emission) bool {
		return e.Created.Unix() < l.from || e.Created.Unix() >= l.to || l.types != nil && !slices.Contains(l.types, e.Type)
	})
	slices.Reverse(kept)
	slices.SortStableFunc(kept, func(a, b simulator.Emission) int { return b.Created.Compare(a.Created) })
	ids := []string{}
	for _, e := range kept {
		ids = append(ids, e.ID)
	}
	return ids
}

func (l listing) params() *stripe.EventListParams {
	p := &stripe.EventListParams{
		CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: l.from, LesserThan: l.to},
	}
	if l.types != nil {
		p.Types = stripe.StringSlice(l.types)
	}
	p.Limit = &l.limit
	return p
}

func TestWalkingAllPagesGivesExactlyTheWindowNewestFirst(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := drawListing(r)
		s := simulator.NewStripe(simulator.StripeOptions{Now: atNoon})
		server := httptest.NewServer(s)
		defer server.Close()
		for _, e := range l.emissions {
			s.Emit(e)
		}
		got := []string{}
		it := client(server.URL).List(l.params())
		for it.Next() {
			got = append(got, it.Event().ID)
		}
		if want := l.want(); it.Err() != nil || !reflect.DeepEqual(got, want) {
			r.Errorf("%+v: got %v, %v; want %v", l, got, it.Err(), want)
		}
	})
}

func TestWalkingUpwardsGivesWhatIsNewerThanTheCursorOldestFirst(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := drawListing(r)
		want := l.want()
		if len(want) == 0 {
			return
		}
		s := simulator.NewStripe(simulator.StripeOptions{Now: atNoon})
		server := httptest.NewServer(s)
		defer server.Close()
		for _, e := range l.emissions {
			s.Emit(e)
		}
		cursor := rapid.IntRange(0, len(want)-1).Draw(r, "cursor")
		params := l.params()
		params.EndingBefore = &want[cursor]
		got := []string{}
		it := client(server.URL).List(params) // the SDK turns each page around
		for it.Next() {
			got = append(got, it.Event().ID)
		}
		newer := slices.Clone(want[:cursor])
		slices.Reverse(newer)
		if it.Err() != nil || !slices.Equal(got, newer) {
			r.Errorf("%+v before %s: got %v, %v; want %v", l, want[cursor], got, it.Err(), newer)
		}
	})
}

func TestListParameters(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	for i, typ := range []string{"invoice.paid", "customer.updated", "invoice.created"} {
		s.Emit(simulator.Emission{ID: fmt.Sprintf("evt_%d", i), Type: typ, Created: noon.Add(time.Duration(i-10) * time.Second)})
	}
	second := func(i int) string { return fmt.Sprint(noon.Unix() + int64(i) - 10) }
	for _, c := range []struct {
		what, query string
		want        []string
	}{
		{"everything", "", []string{"evt_2", "evt_1", "evt_0"}},
		{"a group of types", "type=invoice.*", []string{"evt_2", "evt_0"}},
		{"one type", "type=invoice.paid", []string{"evt_0"}},
		{"several types", "types[]=invoice.paid&types[]=customer.updated", []string{"evt_1", "evt_0"}},
		{"several numbered types", "types[0]=invoice.paid&types[1]=customer.updated", []string{"evt_1", "evt_0"}},
		{"exactly a second", "created=" + second(1), []string{"evt_1"}},
		{"after a second", "created[gt]=" + second(0), []string{"evt_2", "evt_1"}},
		{"up to a second", "created[lte]=" + second(1), []string{"evt_1", "evt_0"}},
		{"a half-open window", "created[gte]=" + second(0) + "&created[lt]=" + second(2), []string{"evt_1", "evt_0"}},
		{"not delivered, without endpoints", "delivery_success=false", nil},
	} {
		if got, _ := get(t, base+"/v1/events?"+c.query, simulator.DefaultKey, "").list(t); !slices.Equal(got, c.want) {
			t.Errorf("%s (%s): got %v, want %v", c.what, c.query, got, c.want)
		}
	}
}

func TestDefaultPageSizeIsTen(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.AddHistory(simulator.History{N: 11, From: noon.Add(-time.Hour), To: noon})
	got, more := get(t, base+"/v1/events", simulator.DefaultKey, "").list(t)
	if len(got) != 10 || !more {
		t.Errorf("got %d events, has_more %v; want 10, true", len(got), more)
	}
}

func TestBadParametersAreRefused(t *testing.T) {
	_, base := serve(t, simulator.StripeOptions{})
	many := url.Values{}
	for i := range 21 {
		many.Add("types[]", fmt.Sprintf("type.%d", i))
	}
	for _, c := range []struct{ what, query, param string }{
		{"a limit of zero", "limit=0", "limit"},
		{"a limit above 100", "limit=101", "limit"},
		{"a limit in words", "limit=ten", "limit"},
		{"a time in words", "created[gte]=yesterday", "created[gte]"},
		{"an unknown bound", "created[after]=1", "created[after]"},
		{"an unknown parameter", "since=1", "since"},
		{"an unknown cursor", "starting_after=evt_none", "starting_after"},
		{"an unknown cursor upwards", "ending_before=evt_none", "ending_before"},
		{"an empty parameter", "type=", "type"},
		{"two cursors", "starting_after=a&ending_before=b", "ending_before"},
		{"type and types", "type=a.b&types[]=c.d", "types"},
		{"more than 20 types", many.Encode(), "types"},
		{"a flag that is none", "delivery_success=perhaps", "delivery_success"},
	} {
		a := get(t, base+"/v1/events?"+c.query, simulator.DefaultKey, "")
		if _, _, param := a.refusal(t); a.status != 400 || param != c.param {
			t.Errorf("%s (%s): got %d about %q, want 400 about %q", c.what, c.query, a.status, param, c.param)
		}
	}
}

func TestEventsBeyondRetentionAreGone(t *testing.T) {
	now := noon
	s, base := serve(t, simulator.StripeOptions{Now: func() time.Time { return now }})
	s.Emit(simulator.Emission{ID: "evt_old", Type: "invoice.paid", Created: noon.AddDate(0, 0, -30).Add(-time.Second)})
	s.Emit(simulator.Emission{ID: "evt_edge", Type: "invoice.paid", Created: noon.AddDate(0, 0, -30)})
	got, _ := get(t, base+"/v1/events", simulator.DefaultKey, "").list(t)
	if !slices.Equal(got, []string{"evt_edge"}) {
		t.Errorf("30 days to the second: got %v, want evt_edge alone", got)
	}
	a := get(t, base+"/v1/events/evt_old", simulator.DefaultKey, "")
	if code, message, _ := a.refusal(t); a.status != 404 || code != "resource_missing" || message != "No such notification: 'evt_old'" {
		t.Errorf("reading evt_old: got %d %s %q", a.status, code, message)
	}
	if a := get(t, base+"/v1/events?starting_after=evt_old", simulator.DefaultKey, ""); a.status != 400 {
		t.Errorf("a cursor beyond retention: got %d, want 400", a.status)
	}
}

func TestAccountsAreScopedByHeader(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.AddAccount("acct_quiet", noon.AddDate(0, -1, 0))
	s.Emit(simulator.Emission{ID: "evt_c", Account: "acct_c1", Type: "invoice.paid"})
	s.Emit(simulator.Emission{ID: "evt_p", Type: "invoice.paid"})
	for account, want := range map[string][]string{"": {"evt_p"}, s.Platform(): {"evt_p"}, "acct_c1": {"evt_c"}, "acct_quiet": nil} {
		if got, _ := get(t, base+"/v1/events", simulator.DefaultKey, account).list(t); !slices.Equal(got, want) {
			t.Errorf("account %q: got %v, want %v", account, got, want)
		}
	}
	a := get(t, base+"/v1/events/evt_c", simulator.DefaultKey, "")
	if code, _, _ := a.refusal(t); a.status != 404 || code != "resource_missing" {
		t.Errorf("evt_c read without the account: got %d %s, want 404 resource_missing", a.status, code)
	}
	if a := get(t, base+"/v1/events/evt_c", simulator.DefaultKey, "acct_c1"); a.status != 200 {
		t.Errorf("evt_c read with the account: got %d", a.status)
	}
	a = get(t, base+"/v1/events", simulator.DefaultKey, "acct_unknown")
	if code, _, _ := a.refusal(t); a.status != 403 || code != "account_invalid" {
		t.Errorf("unknown account: got %d %s, want 403 account_invalid", a.status, code)
	}
	got, _ := get(t, base+"/v1/accounts", simulator.DefaultKey, "").list(t)
	if want := []string{"acct_c1", "acct_quiet"}; !slices.Equal(got, want) {
		t.Errorf("GET /v1/accounts: got %v, want %v", got, want)
	}
}

func TestKeysAndPermissions(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{Keys: []simulator.Key{
		{Secret: "sk_live_everything_0001"},
		{Secret: "sk_test_everything_0001"},
		{Secret: "rk_live_events_only_0001", Permissions: []string{simulator.EventRead}},
		{Secret: "rk_live_nothing_at_all_1", Permissions: []string{}},
		{Secret: "sk_live_one_account_0001", Accounts: []string{"acct_mine"}},
		{Secret: "sk_live_revoked_00000001"},
	}})
	s.AddAccount("acct_other", noon)
	s.RevokeKey("sk_live_revoked_00000001")
	for _, c := range []struct {
		key, path, account string
		status             int
		message            string
	}{
		{"", "events", "", 401, "did not provide an API key"},
		{"sk_live_unknown", "events", "", 401, "Invalid API Key provided"},
		{"sk_live_revoked_00000001", "events", "", 401, "Invalid API Key provided"},
		{"sk_live_everything_0001", "events", "", 200, ""},
		{"sk_live_everything_0001", "webhook_endpoints", "", 200, ""},
		{"sk_live_everything_0001", "accounts", "", 200, ""},
		{"rk_live_events_only_0001", "events", "", 200, ""},
		{"rk_live_events_only_0001", "webhook_endpoints", "", 403, "rak_webhook_read"},
		{"rk_live_nothing_at_all_1", "events", "", 403, "rak_event_read"},
		{"rk_live_nothing_at_all_1", "events/evt_1", "", 403, "rak_event_read"},
		{"sk_live_one_account_0001", "events", "acct_other", 403, "does not have access to account 'acct_other'"},
		{"sk_live_everything_0001", "charges", "", 404, "Unrecognized request URL (GET: /v1/charges)"},
	} {
		a := get(t, base+"/v1/"+c.path, c.key, c.account)
		if a.status != c.status || !strings.Contains(string(a.body), c.message) {
			t.Errorf("%s with key %q: got %d %s, want %d %q", c.path, c.key, a.status, a.body, c.status, c.message)
		}
		if c.key != "" && strings.Contains(string(a.body), c.key) {
			t.Errorf("%s with key %q: the answer shows the key: %s", c.path, c.key, a.body)
		}
	}
}

func TestModeOfTheKeyDecidesWhichEventsAreListed(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{Keys: []simulator.Key{{Secret: "sk_live_a"}, {Secret: "sk_test_a"}}})
	test := false
	s.Emit(simulator.Emission{ID: "evt_live", Type: "invoice.paid"})
	s.Emit(simulator.Emission{ID: "evt_test", Type: "invoice.paid", Livemode: &test})
	for key, want := range map[string]string{"sk_live_a": "evt_live", "sk_test_a": "evt_test"} {
		if got, _ := get(t, base+"/v1/events", key, "").list(t); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %v, want %s", key, got, want)
		}
	}
}

func TestEventsLookLikeStripes(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.Emit(simulator.Emission{ID: "evt_1", Type: "invoice.paid", Created: noon.Add(-time.Minute), RequestID: "req_1",
		Object: simulator.Object{ID: "in_1", Set: map[string]any{"status": "paid", "extra": map[string]int{"a": 1}}}})
	e, err := client(base).Get("evt_1", nil)
	if err != nil {
		t.Fatal(err)
	}
	var invoice stripe.Invoice
	if err := json.Unmarshal(e.Data.Raw, &invoice); err != nil {
		t.Fatal(err)
	}
	if e.APIVersion != stripe.APIVersion || e.Created != noon.Unix()-60 || e.Request.ID != "req_1" || e.Type != "invoice.paid" ||
		invoice.ID != "in_1" || invoice.Status != stripe.InvoiceStatusPaid || len(invoice.Lines.Data) == 0 || len(e.Data.Raw) < 2000 {
		t.Errorf("got %+v with invoice %s of %d bytes; want a whole paid invoice in_1", e, invoice.ID, len(e.Data.Raw))
	}
}

func TestKindOfObjectFollowsFromTheType(t *testing.T) {
	s, _ := serve(t, simulator.StripeOptions{})
	for typ, want := range map[string]string{
		"invoice.paid": "invoice", "customer.subscription.updated": "subscription", "charge.dispute.created": "dispute",
		"checkout.session.completed": "checkout.session", "customer.updated": "customer", "made.up": "made",
	} {
		e := s.Emit(simulator.Emission{Type: typ})
		var shown struct {
			Data struct{ Object struct{ ID, Object string } }
		}
		if err := json.Unmarshal(s.Body(e), &shown); err != nil {
			t.Fatal(err)
		}
		if e.Subject.Kind != want || shown.Data.Object.Object != want || shown.Data.Object.ID != e.Subject.ID || e.Subject.ID == "" {
			t.Errorf("%s: subject %v, object %v; want a %s", typ, e.Subject, shown.Data.Object, want)
		}
	}
	if e := s.Emit(simulator.Emission{Type: "invoice.upcoming"}); e.Subject.ID != "" || strings.Contains(string(s.Body(e)), `"id": "in_`) {
		t.Errorf("invoice.upcoming: subject %v, want none, as the object has no id", e.Subject)
	}
}

func TestBytesAreTheSameEachTimeAndInEachProcess(t *testing.T) {
	h := simulator.History{Seed: 7, N: 500, From: noon.Add(-time.Hour), To: noon}
	for _, compact := range []bool{false, true} {
		a, base := serve(t, simulator.StripeOptions{Compact: compact})
		b, _ := serve(t, simulator.StripeOptions{Compact: compact})
		a.AddHistory(h)
		b.AddHistory(h)
		for e := range a.All("") {
			other, known := b.Event("", e.ID)
			once, again := string(a.Body(e)), string(a.Body(e))
			if !known || once != string(b.Body(other)) || once != again {
				t.Fatalf("compact %v: %s differs between two of the same history", compact, e.ID)
			}
		}
		var page struct{ Data []json.RawMessage }
		if err := json.Unmarshal(get(t, base+"/v1/events?limit=100", simulator.DefaultKey, "").body, &page); err != nil {
			t.Fatal(err)
		}
		for _, raw := range page.Data {
			var id struct{ ID string }
			_ = json.Unmarshal(raw, &id)
			if e, _ := a.Event("", id.ID); string(a.Listed(e)) != string(raw) {
				t.Fatalf("compact %v: %s was listed as %s, want %s", compact, id.ID, raw, a.Listed(e))
			}
		}
	}
}

func TestIndentedBytesAreWhatIndentingGives(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.Emit(simulator.Emission{Type: "invoice.paid", Previous: map[string]any{"a": []int{1}},
		Object: simulator.Object{Set: map[string]any{"metadata": map[string]string{"k": "<&>"}}}})
	body := string(get(t, base+"/v1/events", simulator.DefaultKey, "").body)
	var plain json.RawMessage
	if err := json.Unmarshal([]byte(body), &plain); err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(plain, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(strings.TrimSpace(body), "<&>", `\u003c\u0026\u003e`)
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRawEventsAreServedByteByByte(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	for _, raw := range []string{
		`{"id":"evt_a","created":1767225600,"type":"x.y","note":"café \ud83d\ude9a <b>&amp;","amount":1.0}`,
		`{"id":"evt_b","created":1767225601,"type":"x.y","n":9007199254740993,"lone":"\ud800","nul":"\u0000"}`,
		`{"id":"evt_c","created":1767225602,"type":"x.y","api_version":"2015-02-16","request":"req_2"}`,
		`"not an event"`,
	} {
		e := s.Emit(simulator.Emission{Raw: []byte(raw)})
		if got := string(s.Body(e)); got != raw {
			t.Errorf("delivered: got %s, want %s", got, raw)
		}
		if body := get(t, base+"/v1/events", simulator.DefaultKey, "").body; !strings.Contains(string(body), raw) {
			t.Errorf("the listing lacks %s", raw)
		}
	}
	if e, known := s.Event("", "evt_c"); !known || e.APIVersion != "2015-02-16" || e.Created.Unix() != 1767225602 {
		t.Errorf("evt_c: got %+v, want the raw event's own fields", e)
	}
}

func TestConnectEventsCarryTheirAccountInDeliveries(t *testing.T) {
	for _, inList := range []bool{false, true} {
		s, _ := serve(t, simulator.StripeOptions{AccountInList: inList, Compact: true})
		e := s.Emit(simulator.Emission{Account: "acct_c1", Type: "invoice.paid"})
		const field = `"object":"event","account":"acct_c1"`
		if body := string(s.Body(e)); !strings.Contains(body, field) {
			t.Errorf("delivered: got %s, want %s in it", body, field)
		}
		if listed := string(s.Listed(e)); strings.Contains(listed, field) != inList {
			t.Errorf("listed with AccountInList %v: got %s", inList, listed)
		}
	}
}

func TestHistoryLiesInItsRangeOldestFirst(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	from := noon.AddDate(0, 0, -29)
	s.AddHistory(simulator.History{N: 100_000, From: from, To: noon})
	last, n, subjects := from, 0, map[string]int{}
	for e := range s.All("") {
		if e.Created.Before(last) || !e.Created.Before(noon) {
			t.Fatalf("event %d was created %s after one of %s", n, e.Created, last)
		}
		last = e.Created
		subjects[e.Subject.String()]++
		n++
	}
	if n != 100_000 || len(subjects) == n {
		t.Errorf("got %d events about %d subjects; want 100000, some about the same", n, len(subjects))
	}
	window := fmt.Sprintf("/v1/events?limit=100&created[gte]=%d&created[lt]=%d", from.Unix(), from.Add(time.Hour).Unix())
	if ids, more := get(t, base+window, simulator.DefaultKey, "").list(t); len(ids) != 100 || !more {
		t.Errorf("the first hour: got %d events, has_more %v; want a full page and more", len(ids), more)
	}
}

func TestHistoryMixesWithSingleEvents(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.Emit(simulator.Emission{ID: "evt_middle", Type: "invoice.paid", Created: noon.Add(-30 * time.Minute)})
	s.AddHistory(simulator.History{N: 20, From: noon.Add(-time.Hour), To: noon, Types: []string{"invoice.paid"}})
	it := client(base).List(&stripe.EventListParams{})
	newest, found := noon.Unix(), 0
	for it.Next() {
		if it.Event().Created > newest {
			t.Errorf("%s of %d was listed after one of %d", it.Event().ID, it.Event().Created, newest)
		}
		newest = it.Event().Created
		found++
	}
	if it.Err() != nil || found != 21 {
		t.Errorf("got %d events, %v; want 21", found, it.Err())
	}
}

func BenchmarkListingPage(b *testing.B) {
	s, _ := serve(b, simulator.StripeOptions{})
	s.AddHistory(simulator.History{N: 1_000_000, From: noon.AddDate(0, 0, -29), To: noon})
	middle := noon.AddDate(0, 0, -15).Unix()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/v1/events?limit=100&created[lt]=%d", middle), nil)
		r.Header.Set("Authorization", "Bearer "+simulator.DefaultKey)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		b.SetBytes(int64(w.Body.Len()))
	}
}
