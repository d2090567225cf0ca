package simulator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/nightaudit/nightaudit/internal/simulator"
)

// receiver is an endpoint that keeps what it was sent.
type receiver struct {
	url    string
	mu     sync.Mutex
	status int
	bodies []string
	header []http.Header
}

func receive(t *testing.T, status int) *receiver {
	t.Helper()
	r := &receiver{status: status}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies = append(r.bodies, string(body))
		r.header = append(r.header, req.Header)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(r.status)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) set(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func TestDeliveryIsSignedAndStrikesThePendingEndpoint(t *testing.T) {
	s := simulator.NewStripe(simulator.StripeOptions{})
	r := receive(t, 500)
	endpoint := s.AddEndpoint(simulator.Endpoint{URL: r.url, Types: []string{"invoice.paid"}, Created: noon})
	e := s.Emit(simulator.Emission{Type: "invoice.paid"})
	other := s.Emit(simulator.Emission{Type: "invoice.created"})
	if s.Pending(e) != 1 || s.Pending(other) != 0 {
		t.Errorf("before delivery: pending %d and %d; want 1 for the subscribed type and 0", s.Pending(e), s.Pending(other))
	}
	if d := s.Deliver(t.Context(), e); len(d) != 1 || d[0].Status != 500 || d[0].OK() || s.Pending(e) != 1 {
		t.Errorf("answered 500: got %+v, pending %d; want it pending still", d, s.Pending(e))
	}
	r.set(204)
	if d := s.Deliver(t.Context(), e); len(d) != 1 || !d[0].OK() || d[0].Endpoint != endpoint.ID || s.Pending(e) != 0 {
		t.Errorf("answered 204: got %+v, pending %d; want none pending", d, s.Pending(e))
	}
	for i, body := range r.bodies {
		got, err := webhook.ConstructEvent([]byte(body), r.header[i].Get("Stripe-Signature"), endpoint.Secret)
		if err != nil || got.ID != e.ID || got.PendingWebhooks != 1 {
			t.Errorf("delivery %d: Stripe's verifier says %v of %s", i, err, body)
		}
	}
	if d := s.Deliver(t.Context(), other); len(d) != 0 {
		t.Errorf("an unsubscribed type: got %+v, want no delivery", d)
	}
}

func TestDeliverySuccessFilterFollowsThePendingEndpoints(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.AddEndpoint(simulator.Endpoint{URL: "http://127.0.0.1:1", Created: noon.AddDate(-1, 0, 0)})
	owed := s.Emit(simulator.Emission{Type: "invoice.paid"})
	s.Acknowledge(s.Emit(simulator.Emission{ID: "evt_done", Type: "invoice.paid"}))
	for query, want := range map[string]string{"delivery_success=false": owed.ID, "delivery_success=true": "evt_done"} {
		if got, _ := get(t, base+"/v1/events?"+query, simulator.DefaultKey, "").list(t); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %v, want %s", query, got, want)
		}
	}
}

func TestRedirectIsAFailedDeliveryAndNotFollowed(t *testing.T) {
	s := simulator.NewStripe(simulator.StripeOptions{})
	r := receive(t, 307)
	s.AddEndpoint(simulator.Endpoint{URL: r.url})
	e := s.Emit(simulator.Emission{Type: "invoice.paid"})
	if d := s.Deliver(t.Context(), e); len(d) != 1 || d[0].Status != 307 || d[0].OK() || len(r.bodies) != 1 {
		t.Errorf("got %+v and %d requests; want one, answered 307", d, len(r.bodies))
	}
}

func TestOnlyEndpointsThatWereEnabledAtTheTimeGetAnEvent(t *testing.T) {
	s := simulator.NewStripe(simulator.StripeOptions{Now: atNoon})
	r := receive(t, 200)
	add := func(id string, created time.Time) {
		s.AddEndpoint(simulator.Endpoint{ID: id, URL: r.url, Created: created})
	}
	add("we_enabled", noon.Add(-time.Hour))
	add("we_was_disabled", noon.Add(-time.Hour))
	s.DisableEndpoint("we_was_disabled")
	add("we_too_young", noon)
	e := s.Emit(simulator.Emission{Type: "invoice.paid", Created: noon.Add(-time.Minute)})
	s.EnableEndpoint("we_was_disabled")
	add("we_later", noon.Add(-time.Hour))
	if d := s.Deliver(t.Context(), e); len(d) != 1 || d[0].Endpoint != "we_enabled" {
		t.Errorf("got %+v; want a delivery to we_enabled alone", d)
	}
	s.DeleteEndpoint("we_enabled")
	if d := s.Deliver(t.Context(), e); len(d) != 0 {
		t.Errorf("after it was deleted: got %+v, want none", d)
	}
}

func TestConnectEndpointGetsConnectedAccountsEvents(t *testing.T) {
	s := simulator.NewStripe(simulator.StripeOptions{})
	r := receive(t, 200)
	s.AddEndpoint(simulator.Endpoint{ID: "we_connect", URL: r.url, Connect: true, Created: noon})
	s.AddEndpoint(simulator.Endpoint{ID: "we_own", URL: r.url, Created: noon})
	for account, want := range map[string]string{"": "we_own", "acct_c1": "we_connect"} {
		d := s.Deliver(t.Context(), s.Emit(simulator.Emission{Account: account, Type: "invoice.paid"}))
		if len(d) != 1 || d[0].Endpoint != want {
			t.Errorf("account %q: got %+v, want %s", account, d, want)
		}
	}
}

func TestPinnedEndpointGetsItsOwnVersion(t *testing.T) {
	s := simulator.NewStripe(simulator.StripeOptions{})
	r := receive(t, 200)
	s.AddEndpoint(simulator.Endpoint{URL: r.url, APIVersion: "2020-08-27"})
	e := s.Emit(simulator.Emission{Type: "invoice.paid", APIVersion: "2022-11-15"})
	s.Deliver(t.Context(), e)
	if !strings.Contains(r.bodies[0], `"api_version": "2020-08-27"`) || !strings.Contains(string(s.Listed(e)), `"api_version": "2022-11-15"`) {
		t.Errorf("delivered %.200s, listed %.200s; want 2020-08-27 delivered and 2022-11-15 listed", r.bodies[0], s.Listed(e))
	}
}

func TestDeliverAllLeavesOutWhatIsDropped(t *testing.T) {
	s := simulator.NewStripe(simulator.StripeOptions{Now: atNoon})
	r := receive(t, 200)
	s.AddEndpoint(simulator.Endpoint{URL: r.url, Created: noon.AddDate(-1, 0, 0)})
	s.AddHistory(simulator.History{N: 400, From: noon.Add(-time.Hour), To: noon})
	drop := simulator.DropRatio(3, 0.25)
	got, err := s.DeliverAll(t.Context(), "", drop, 8)
	if err != nil || got.Events+got.Dropped != 400 || got.Dropped < 50 || got.Dropped > 150 || got.Acknowledged != got.Events || len(r.bodies) != got.Events {
		t.Errorf("got %+v, %v and %d requests; want about 100 of 400 dropped and the others sent once", got, err, len(r.bodies))
	}
	for e := range s.All("") {
		if dropped := drop(e); dropped != (s.Pending(e) == 1) {
			t.Fatalf("%s: dropped %v, pending %d", e.ID, dropped, s.Pending(e))
		}
	}
}

func TestUnreachableEndpointIsAnError(t *testing.T) {
	s := simulator.NewStripe(simulator.StripeOptions{})
	s.AddEndpoint(simulator.Endpoint{URL: "http://127.0.0.1:1/"})
	d := s.Deliver(t.Context(), s.Emit(simulator.Emission{Type: "invoice.paid"}))
	if len(d) != 1 || d[0].Status != 0 || d[0].Err == nil || errors.Is(d[0].Err, http.ErrUseLastResponse) {
		t.Errorf("got %+v, want an error and no status", d)
	}
}

func TestEndpointsAreListedNewestFirstAndPaged(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	for i := range 5 {
		s.AddEndpoint(simulator.Endpoint{ID: fmt.Sprintf("we_%d", i), URL: "https://app.example/hook", Created: noon.Add(time.Duration(i) * time.Second)})
	}
	s.AddEndpoint(simulator.Endpoint{ID: "we_other", Account: "acct_c1", URL: "https://app.example/hook"})
	s.DeleteEndpoint("we_4")
	s.DisableEndpoint("we_3")
	s.UpdateTypes("we_2", "invoice.paid", "invoice.created")
	s.UpdateURL("we_2", "https://new.example/hook")
	for query, want := range map[string]string{
		"limit=2":                      "[we_3 we_2] true",
		"limit=2&starting_after=we_2":  "[we_1 we_0] false",
		"limit=2&ending_before=we_0":   "[we_2 we_1] true",
		"limit=100&ending_before=we_2": "[we_3] false",
	} {
		ids, more := get(t, base+"/v1/webhook_endpoints?"+query, simulator.DefaultKey, "").list(t)
		if got := fmt.Sprint(ids, more); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	for id, want := range map[string]string{"we_3": "disabled", "we_2": "enabled"} {
		var e struct {
			Status, URL   string
			EnabledEvents []string `json:"enabled_events"`
		}
		if err := json.Unmarshal(get(t, base+"/v1/webhook_endpoints/"+id, simulator.DefaultKey, "").body, &e); err != nil || e.Status != want {
			t.Errorf("%s: got %+v, %v; want %s", id, e, err, want)
		}
		if id == "we_2" && (e.URL != "https://new.example/hook" || !slices.Equal(e.EnabledEvents, []string{"invoice.paid", "invoice.created"})) {
			t.Errorf("%s: got %+v, want the new URL and types", id, e)
		}
	}
	if a := get(t, base+"/v1/webhook_endpoints/we_4", simulator.DefaultKey, ""); a.status != 404 {
		t.Errorf("a deleted endpoint: got %d, want 404", a.status)
	}
}
