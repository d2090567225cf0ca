package stripe

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stripe/stripe-go/v76/form"
	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"
	"github.com/stripe/stripe-mock/spec"

	"github.com/nightaudit/nightaudit/providers"
)

// TestStripesOwnMockAcceptsOurRequests holds every request that the adapter makes
// to Stripe's published description of its API, which the mock validates paths and
// parameters against.
func TestStripesOwnMockAcceptsOurRequests(t *testing.T) {
	platform, account := providers.Stream{}, providers.Stream{Account: connected}
	for _, c := range []struct {
		name string
		yaml string
		call func(*provider) (got int, err error)
		want int
		asks []string // paths, and the account where it is not the key's own
	}{
		{"Check tries each permission", "accounts: all", func(p *provider) (int, error) {
			probes, err := p.Check(t.Context())
			for _, probe := range probes {
				err = errors.Join(err, probe.Err)
			}
			return len(probes), err
		}, 3, []string{"/v1/events", "/v1/webhook_endpoints", "/v1/accounts"}},
		{"Check tries the accounts that are named", "accounts: [" + connected + "]", func(p *provider) (int, error) {
			probes, err := p.Check(t.Context())
			for _, probe := range probes {
				err = errors.Join(err, probe.Err)
			}
			return len(probes), err
		}, 3, []string{"/v1/events", "/v1/webhook_endpoints", "/v1/events as " + connected}},
		{"Streams lists the connected accounts", "accounts: all", func(p *provider) (int, error) {
			streams, err := p.Streams(t.Context())
			return len(streams), err
		}, 2, []string{"/v1/accounts"}},
		{"Events, the first page", "", func(p *provider) (int, error) {
			page, err := p.Events(t.Context(), platform, window, "")
			return len(page.Items), err
		}, 1, []string{"/v1/events"}},
		{"Events, a page behind a cursor", "", func(p *provider) (int, error) {
			page, err := p.Events(t.Context(), platform, window, "evt_na_1")
			return len(page.Items), err
		}, 1, []string{"/v1/events"}},
		{"Events of a connected account", "", func(p *provider) (int, error) {
			page, err := p.Events(t.Context(), account, window, "evt_na_c")
			return len(page.Items), err
		}, 1, []string{"/v1/events as " + connected}},
		{"Event reads one", "", func(p *provider) (int, error) {
			event, _, err := p.Event(t.Context(), platform, "evt_na_1")
			return strings.Count(event.ID, "evt_na_1"), err
		}, 1, []string{"/v1/events/evt_na_1"}},
		{"Event reads one of a connected account", "", func(p *provider) (int, error) {
			event, _, err := p.Event(t.Context(), account, "evt_na_c")
			return strings.Count(event.Account, connected), err
		}, 1, []string{"/v1/events/evt_na_c as " + connected}},
		{"Endpoints", "", func(p *provider) (int, error) {
			endpoints, err := p.Endpoints(t.Context(), platform)
			return len(endpoints), err
		}, 1, []string{"/v1/webhook_endpoints"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mock := newMock(t)
			got, err := c.call(serveAs(t, "sk_test_123", mock, c.yaml))
			if err != nil || got != c.want {
				t.Errorf("got %d, %v; want %d", got, err, c.want)
			}
			if !slices.Equal(mock.asked, c.asks) {
				t.Errorf("asked %q, want %q", mock.asked, c.asks)
			}
			if slices.ContainsFunc(mock.answered, func(status int) bool { return status != http.StatusOK }) {
				t.Errorf("the mock answered %v to %q, want 200 to each", mock.answered, mock.asked)
			}
		})
	}
}

// TestStripesOwnMockRefusesBadRequests shows that the mock really looks: else its
// consent to our requests would say nothing.
func TestStripesOwnMockRefusesBadRequests(t *testing.T) {
	for _, c := range []struct {
		name, path, parameter, value string
		status                       int
	}{
		{"a parameter that the API does not have", eventsPath, "created_after", "1767225600", 400},
		{"a bound of another type", eventsPath, "created[gte]", "yesterday", 400},
		{"a limit of another type", eventsPath, "limit", "all", 400},
		{"a filter that belongs to another listing", endpointsPath, "created[gte]", "1767225600", 400},
		{"a parameter where none is taken", eventsPath + "/evt_1", "limit", "1", 400},
		{"a path that the API does not have", "/v1/event", "limit", "1", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			mock := newMock(t)
			p := serveAs(t, "sk_test_123", mock, "")
			query := &form.Values{}
			query.Add(c.parameter, c.value)
			err := p.get(t.Context(), request{op: "asking", path: c.path}, query, func(s *scanner) { s.value() })
			var refused *answerError
			if !errors.As(err, &refused) || refused.status != c.status {
				t.Errorf("%s?%s=%s: got %v, want a refusal with %d", c.path, c.parameter, c.value, err, c.status)
			}
		})
	}
}

// A mock is Stripe's own mock server, and what it was asked and answered.
type mock struct {
	server   *server.StubServer
	asked    []string
	answered []int
}

func newMock(t *testing.T) *mock {
	t.Helper()
	stub, err := stripeMock()
	if err != nil {
		t.Fatal(err)
	}
	return &mock{server: stub}
}

// stripeMock is made once: it compiles a validator for each of Stripe's methods.
var stripeMock = sync.OnceValues(func() (*server.StubServer, error) {
	var description spec.Spec
	var fixtures spec.Fixtures
	err := errors.Join(
		json.Unmarshal(embedded.OpenAPISpec, &description),
		json.Unmarshal(embedded.OpenAPIFixtures, &fixtures))
	if err != nil {
		return nil, err
	}
	return server.NewStubServer(&fixtures, &description, false, false)
})

// ServeHTTP is asked by one request at a time.
func (m *mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Path
	if account := r.Header.Get("Stripe-Account"); account != "" {
		asked += " as " + account
	}
	answer := httptest.NewRecorder()
	m.server.HandleRequest(answer, r)
	m.asked = append(m.asked, asked)
	m.answered = append(m.answered, answer.Code)
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}
