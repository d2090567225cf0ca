package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/providertest"
)

func noSleep(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }

var window = providers.Window{From: time.Unix(1767225600, 0).UTC(), To: time.Unix(1767225700, 0).UTC()}

func harness(t *testing.T, stream, recorded string) providertest.Harness {
	served := map[string][]byte{}
	for _, raw := range elements(t, recorded) {
		served[idOf(raw)] = raw
	}
	return providertest.Harness{
		Open: func(t testing.TB, s providertest.Script) providers.Provider {
			t.Helper()
			return serve(t, newFake(t, s), "accounts: ["+connected+"]")
		},
		Stream:    stream,
		Window:    window,
		Served:    served,
		Unknown:   "evt_of_nobody",
		Bad:       badEvent,
		Foreign:   foreignPage,
		Missing:   "rak_event_read",
		Hidden:    []providers.Secret{testKey},
		Endpoint:  providers.Endpoint{URL: "https://app.example.com/webhooks/stripe"},
		Secrets:   []providers.Secret{"whsec_old", "whsec_nightaudit_test"},
		Tolerance: tolerance,
		Types:     []string{"invoice.paid", "customer.subscription.updated", "customer.deleted", "issuing_authorization.request"},
	}
}

func TestConformanceOfTheOwnAccount(t *testing.T) {
	providertest.Run(t, harness(t, "events", "testdata/events.json"))
}

func TestConformanceOfAConnectedAccount(t *testing.T) {
	h := harness(t, "events@"+connected, "testdata/connected.json")
	providertest.Run(t, h)
}

// listAll lists the window of an account to its end.
func listAll(t *testing.T, p *provider, account string) []providers.Event {
	t.Helper()
	var events []providers.Event
	for cursor := providers.Cursor(""); ; {
		page, err := p.Events(t.Context(), providers.Stream{Account: account}, window, cursor)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, page.Items...)
		if cursor = page.Next; cursor == "" {
			return events
		}
	}
}

func find(t *testing.T, events []providers.Event, id string) providers.Event {
	t.Helper()
	i := slices.IndexFunc(events, func(e providers.Event) bool { return e.ID == id })
	if i < 0 {
		t.Fatalf("%s is not among the %d events listed", id, len(events))
	}
	return events[i]
}

func TestEventsOfOldAPIVersionsAreReadAndCarriedAsTheyAre(t *testing.T) {
	events := listAll(t, serve(t, newFake(t, providertest.Plain), ""), "")
	for _, id := range []string{"evt_na_1", "evt_na_2", "evt_na_3"} {
		find(t, events, id)
	}
	old := find(t, events, "evt_na_2")
	if old.APIVersion != "2015-02-16" || !strings.Contains(string(old.Payload), `"request": "req_2"`) {
		t.Errorf("evt_na_2 has version %q and payload %s; want its own of 2015 with a request of text", old.APIVersion, old.Payload)
	}
}

func TestEnvelopeFieldsAreRead(t *testing.T) {
	events := listAll(t, serve(t, newFake(t, providertest.Plain), ""), "")
	for _, c := range []struct {
		id      string
		lane    string
		version string
		pending int
	}{
		{"evt_1Q5subscriptionupdated", "/subscription/sub_1MowQVLkdIwHu7ixeRlqHVzs", "2023-10-16", 1},
		{"evt_na_3", "/customer/cus_deleted", "", 2},
		{"evt_1Q5upcoming", "event//evt_1Q5upcoming", "2023-10-16", 0},
	} {
		e := find(t, events, c.id)
		if e.Lane() != c.lane || e.APIVersion != c.version || e.PendingDeliveries == nil || *e.PendingDeliveries != c.pending || e.Livemode == nil || *e.Livemode {
			t.Errorf("%s: lane %q, version %q, pending %v, livemode %v; want %q, %q, %d, false", c.id, e.Lane(), e.APIVersion, e.PendingDeliveries, e.Livemode, c.lane, c.version, c.pending)
		}
	}
	if e := find(t, events, "evt_1Q5dataless"); e.PendingDeliveries != nil {
		t.Errorf("an event that does not say how many deliveries are pending has %d", *e.PendingDeliveries)
	}
}

func TestEventsOfAConnectedAccountAreAskedForAsThatAccount(t *testing.T) {
	f := newFake(t, providertest.Plain)
	p := serve(t, f, "accounts: ["+connected+"]")
	c := find(t, listAll(t, p, connected), "evt_na_c")
	if c.Account != connected || c.Subject.Account != connected || c.Livemode == nil || !*c.Livemode {
		t.Errorf("evt_na_c is of account %q, subject %v, livemode %v; want %s and its own livemode", c.Account, c.Subject, c.Livemode, connected)
	}
	read, presence, err := p.Event(t.Context(), providers.Stream{Account: connected}, "evt_na_c")
	if err != nil || presence != providers.Live || !reflect.DeepEqual(read, c) {
		t.Errorf("reading it as the account gave %s, %v; want it live", presence, err)
	}
	if got := f.last().Header.Get("Stripe-Account"); got != connected {
		t.Errorf("it was read with Stripe-Account %q, want %s", got, connected)
	}
	if _, presence, err := p.Event(t.Context(), providers.Stream{}, "evt_na_c"); err != nil || presence != providers.Absent {
		t.Errorf("reading it as the platform gave %s, %v; want absent", presence, err)
	}
}

func TestAWindowIsAskedForInWholeSecondsAndPagesOfAHundred(t *testing.T) {
	f := newFake(t, providertest.Plain)
	p := serve(t, f, "")
	odd := providers.Window{From: window.From.Add(time.Nanosecond), To: window.To.Add(time.Millisecond)}
	if _, err := p.Events(t.Context(), providers.Stream{}, odd, "evt_na_2"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"created[gte]": "1767225601", "created[lt]": "1767225701", "limit": "100", "starting_after": "evt_na_2"} {
		if got := f.last().URL.Query().Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"X-Stripe-Client-User-Agent", "X-Stripe-Client-Telemetry"} {
		if got := f.last().Header.Get(name); got != "" {
			t.Errorf("%s: %q left the house", name, got)
		}
	}
}

// answer serves one status and body for everything.
func answer(status int, body string, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	})
}

func TestWhatIsNoListIsNeverAnEmptyPage(t *testing.T) {
	for _, c := range []struct{ name, body string }{
		{"no data", `{"object":"list","has_more":false}`},
		{"null data", `{"object":"list","data":null,"has_more":false}`},
		{"no has_more", `{"object":"list","data":[]}`},
		{"data twice", `{"object":"list","data":[{"id":"evt_1","type":"a","created":1}],"data":[],"has_more":false}`},
		{"a second text behind it", `{"object":"list","data":[],"has_more":false}{}`},
		{"names in capitals", `{"OBJECT":"list","DATA":[],"HAS_MORE":false}`},
		{"another object", `{"object":"account","data":[],"has_more":false}`},
		{"an empty object", `{}`},
		{"data of another kind", `{"object":"list","data":{"sekret":1},"has_more":false}`},
		{"more of an empty page", `{"object":"list","data":[],"has_more":true}`},
		{"half a page", `{"object":"list","data":[{"id":"evt_sekret"`},
		{"no object at all", `["sekret"]`},
		{"nothing", ``},
		{"only elements without ids, and more", `{"object":"list","data":[{"sekret":1}],"has_more":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			page, err := serve(t, answer(200, c.body), "").Events(t.Context(), providers.Stream{}, window, "")
			if err == nil {
				t.Fatalf("%s gave the page %+v without error", c.body, page)
			}
			if strings.Contains(err.Error(), "sekret") {
				t.Errorf("the error quotes the page: %v", err)
			}
		})
	}
}

func TestACursorThatStandsStillIsAnError(t *testing.T) {
	same := answer(200, `{"object":"list","data":[{"id":"evt_1","object":"event","type":"a","created":1767225600}],"has_more":true}`)
	if _, err := serve(t, same, "").Events(t.Context(), providers.Stream{}, window, "evt_1"); err == nil {
		t.Error("a page whose last event is the cursor's own gave no error")
	}
	if _, err := serve(t, same, "accounts: all").Streams(t.Context()); err == nil {
		t.Error("a listing of accounts that repeats one page for ever gave no error")
	}
}

func TestAnUnreadableLastElementLosesNothingBehindIt(t *testing.T) {
	f := newFake(t, providertest.Plain)
	f.pages[eventsPath] = slices.Insert(f.pages[eventsPath], 2, json.RawMessage(`{"object":"event","note":"no id"}`))
	p := serve(t, f, "")
	events := map[string]bool{}
	for _, e := range listAll(t, p, "") {
		events[e.ID] = true
	}
	if len(events) != 7 {
		t.Errorf("%d events are listed around an element without id at a page's end, want 7", len(events))
	}
}

func TestStreamsAreTheOwnAccountAndTheConnectedOnes(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		want       []string
	}{
		{"nothing configured", "", []string{"events"}},
		{"accounts named", "accounts: [acct_b, acct_a]", []string{"events", "events@acct_b", "events@acct_a"}},
		{"all accounts, over two pages", "accounts: all", []string{"events", "events@acct_na_c0", "events@acct_na_c1", "events@acct_na_c2", "events@acct_na_c3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			streams, err := serve(t, newFake(t, providertest.Plain), c.yaml).Streams(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range streams {
				got = append(got, s.Name)
				if s.Feed.DefaultRate != testRate || s.Feed.Retention != 30*24*time.Hour || s.Feed.RetryWindow != 72*time.Hour {
					t.Errorf("%s has the feed %+v", s.Name, s.Feed)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestEndpointsAreListedWithWhatIsKnownOfThem(t *testing.T) {
	f := newFake(t, providertest.Plain)
	f.pages[endpointsPath] = append(f.pages[endpointsPath], json.RawMessage(`{"id":"we_0","object":"webhook_endpoint","created":1751000000,"enabled_events":["*"],"livemode":false,"status":"enabled","url":"https://old.example"}`))
	p := serve(t, f, "")
	got, err := p.Endpoints(t.Context(), providers.Stream{Account: connected})
	if err != nil {
		t.Fatal(err)
	}
	test := false
	want := []providers.Endpoint{
		{ID: "we_0", URL: "https://old.example", Enabled: true, Types: []string{"*"}, Livemode: &test, Created: time.Unix(1751000000, 0).UTC()},
		{ID: "we_1", URL: "https://App.example/hook", Enabled: true, Types: []string{"invoice.paid", "customer.subscription.updated"}, Livemode: &test, Created: time.Unix(1751000001, 0).UTC()},
		{ID: "we_2", URL: "https://App.example/connect", Types: []string{"*"}, APIVersion: "2023-10-16", Livemode: &test, Created: time.Unix(1751000001, 0).UTC()},
		{ID: "we_3", URL: "https://app.example/hook/", Enabled: true, Types: []string{"invoice.paid"}, Livemode: &test, Created: time.Unix(1751000002, 0).UTC()},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCheckTriesEachPermission(t *testing.T) {
	p := serve(t, newFake(t, providertest.Plain), "accounts: ["+connected+", acct_gone]")
	probes, err := p.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, probe := range probes {
		line := probe.Name + ": ok"
		if probe.Err != nil {
			line = probe.Err.Error()
		}
		got = append(got, line)
	}
	want := []string{
		"reading events: ok",
		"reading webhook endpoints: ok",
		"reading events of acct_na_c1: ok",
		"reading events of acct_gone: the credentials lack access to account acct_gone; connect the account to this platform again, or take it out of settings.accounts",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	wrap := func(message string) string {
		text, _ := json.Marshal(map[string]any{"error": map[string]any{"type": "invalid_request_error", "message": message}})
		return string(text)
	}
	for _, c := range []struct {
		name    string
		status  int
		body    string
		account string
		check   func(error) bool
		says    string
	}{
		{"a rejected key", 401, wrap("Invalid API Key provided: rk_test_****0001"), "",
			func(err error) bool { var e *providers.CredentialsError; return errors.As(err, &e) }, "credentials.api_key"},
		{"a permission that Stripe names", 403, wrap("The provided key 'rk_test_****0001' does not have the required permissions for this endpoint on account 'acct_1'. Having the 'rak_webhook_read' permission would allow this request to continue."), "",
			isPermission, "rak_webhook_read"},
		{"the same under another status", 401, wrap("Having the 'rak_event_read' permission would allow this request to continue."), "",
			isPermission, "rak_event_read"},
		{"no Connect permissions", 403, wrap("You passed a restricted API key with the Stripe-Account header, but the restricted API key does not have any Connect permissions."), connected,
			isPermission, "Events read"},
		{"an account that cut the tie", 403, wrap("The provided key does not have access to account 'acct_na_c1'. Application access may have been revoked."), connected,
			isPermission, "access to account acct_na_c1"},
		{"a refusal of another kind", 403, wrap("Requests from this address are not allowed."), "",
			isPermission, "Requests from this address are not allowed."},
		{"a request that Stripe does not like", 400, wrap("Invalid integer: x"), "",
			func(err error) bool { return !isPermission(err) }, "HTTP 400: Invalid integer: x"},
		{"a page with a status and no JSON", 502, "<html>sekret bad gateway</html>", "",
			func(err error) bool { return true }, "HTTP 502: the answer is not a JSON object"},
		{"JSON that is not Stripe's", 500, `{"message":"sekret"}`, "",
			func(err error) bool { return true }, "HTTP 500: the answer names no error"},
		{"an error of another shape", 400, `{"error":"sekret"}`, "",
			func(err error) bool { return true }, "HTTP 400"},
		{"an error whose fields have other shapes", 400, `{"error":{"message":["sekret"]}}`, "",
			func(err error) bool { return true }, "not the shape"},
		{"a redirect without a place", 302, "sekret", "",
			func(err error) bool { return true }, "not the shape"},
		{"throttling that does not end", 429, wrap("Too many requests"), "",
			func(err error) bool { var e *providers.ThrottledError; return errors.As(err, &e) }, "listing events"},
		{"throttling that must not be tried again", 429, wrap("Too many requests"), "no retry",
			func(err error) bool { var e *providers.ThrottledError; return errors.As(err, &e) }, "listing events"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := []string{}
			if c.account == "no retry" {
				header, c.account = []string{"Stripe-Should-Retry", "false"}, ""
			}
			_, err := serve(t, answer(c.status, c.body, header...), "").Events(t.Context(), providers.Stream{Account: c.account}, window, "")
			if err == nil || !c.check(err) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %T %v, want one of the right kind that says %q", err, err, c.says)
			}
			for _, hidden := range []string{"sekret", testKey.Reveal(), "rk_test_"} {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("the error shows %q: %v", hidden, err)
				}
			}
		})
	}
}

func isPermission(err error) bool {
	var e *providers.PermissionError
	return errors.As(err, &e)
}

func TestAnAgedEventIsAbsent(t *testing.T) {
	aged := answer(400, `{"error":{"type":"invalid_request_error","message":"This event has aged out of our retention policy."}}`)
	if _, presence, err := serve(t, aged, "").Event(t.Context(), providers.Stream{}, "evt_1"); err != nil || presence != providers.Absent {
		t.Errorf("got %s, %v; want absent", presence, err)
	}
	nowhere := answer(404, `{"error":{"type":"invalid_request_error","message":"Unrecognized request URL"}}`)
	if _, _, err := serve(t, nowhere, "").Event(t.Context(), providers.Stream{}, "evt_1"); err == nil {
		t.Error("an unknown path gave no error; want one, since it says nothing of the event")
	}
	other := answer(200, `{"id":"evt_2","object":"event","type":"a","created":1767225600}`)
	if _, _, err := serve(t, other, "").Event(t.Context(), providers.Stream{}, "evt_1"); err == nil {
		t.Error("another event's answer was taken for the one asked for")
	}
}

func TestABrokenConnectionShowsNoURL(t *testing.T) {
	p, err := open(providers.Settings{BaseURL: "http://127.0.0.1:1", Credentials: map[string]providers.Secret{"api_key": testKey}, Client: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.(*provider).Events(t.Context(), providers.Stream{}, window, "")
	if err == nil || strings.Contains(err.Error(), "created") || !strings.Contains(err.Error(), "http://127.0.0.1:1: ") {
		t.Errorf("got %v, want the host and neither path nor query", err)
	}
}

func TestTheProvidersClockIsSeen(t *testing.T) {
	ahead := time.Now().Add(7 * time.Minute).UTC().Format(http.TimeFormat)
	p := serve(t, answer(200, `{"object":"list","data":[],"has_more":false}`, "Date", ahead), "")
	if _, ok := p.Skew(); ok {
		t.Error("a skew is known before the first answer")
	}
	if _, err := p.Events(t.Context(), providers.Stream{}, window, ""); err != nil {
		t.Fatal(err)
	}
	if skew, ok := p.Skew(); !ok || skew < 6*time.Minute || skew > 8*time.Minute {
		t.Errorf("skew %s, %v; want about 7m", skew, ok)
	}
}

func TestClassAndReplayableGoByTheType(t *testing.T) {
	p := &provider{}
	for eventType, want := range map[string]providers.Class{
		"customer.subscription.updated": providers.Snapshot,
		"charge.refund.updated":         providers.Snapshot,
		"customer.subscription.deleted": providers.Ending,
		"invoice.paid":                  providers.Fact,
		"updated":                       providers.Fact,
	} {
		if got := p.Class(eventType); got != want {
			t.Errorf("Class(%q) = %s, want %s", eventType, got, want)
		}
	}
	if ok, why := p.Replayable("issuing_authorization.request"); ok || why == "" {
		t.Error("a question to approve a payment may be replayed")
	}
}
