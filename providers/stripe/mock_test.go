package stripe

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"
	"github.com/stripe/stripe-mock/spec"

	"github.com/nightaudit/nightaudit/providers"
)

// TestStripesOwnMockAcceptsOurRequests holds every request to Stripe's published
// description of its API, which the mock validates parameters against.
func TestStripesOwnMockAcceptsOurRequests(t *testing.T) {
	p := serveAs(t, "sk_test_123", stripeMock(t), "accounts: all")
	if probes, err := p.Check(t.Context()); err != nil || len(probes) != 3 {
		t.Errorf("Check gave %v, %v; want three probes", probes, err)
	}
	page, err := p.Events(t.Context(), providers.Stream{}, window, "evt_1")
	if err != nil || len(page.Items)+len(page.Unreadable) == 0 {
		t.Errorf("Events gave %+v, %v; want the mock's one event", page, err)
	}
	if endpoints, err := p.Endpoints(t.Context(), providers.Stream{}); err != nil || len(endpoints) == 0 {
		t.Errorf("Endpoints gave %+v, %v; want the mock's one endpoint", endpoints, err)
	}
	if streams, err := p.Streams(t.Context()); err != nil || len(streams) != 2 {
		t.Errorf("Streams gave %+v, %v; want the account's and the mock's one", streams, err)
	}
}

func stripeMock(t *testing.T) http.Handler {
	t.Helper()
	var description spec.Spec
	var fixtures spec.Fixtures
	if err := json.Unmarshal(embedded.OpenAPISpec, &description); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(embedded.OpenAPIFixtures, &fixtures); err != nil {
		t.Fatal(err)
	}
	mock, err := server.NewStubServer(&fixtures, &description, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(mock.HandleRequest)
}
