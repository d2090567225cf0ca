package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// An Endpoint is a webhook endpoint at the fake Stripe.
type Endpoint struct {
	ID         string // "" generates one
	Account    string // whose it is; "" is the platform
	URL        string
	Types      []string  // names, or "*"; nil is "*"
	Created    time.Time // zero is now
	APIVersion string    // deliveries are rendered in it; "" is the account's default
	Secret     string    // "" generates one
	Connect    bool      // of the platform: gets the events of connected accounts instead of its own
	Livemode   *bool     // nil is the mode of the first key
	Disabled   bool
}

// endpoint is an Endpoint with its state; guarded by Stripe.mu.
type endpoint struct {
	Endpoint
	deleted bool
}

// AddEndpoint registers an endpoint and returns it with everything filled in.
func (s *Stripe) AddEndpoint(e Endpoint) Endpoint {
	if e.Livemode == nil {
		live := s.livemode()
		e.Livemode = &live
	}
	if e.Types == nil {
		e.Types = []string{"*"}
	}
	if e.Created.IsZero() {
		e.Created = s.opts.Now()
	}
	e.Created = e.Created.UTC().Truncate(time.Second)
	e.ID = cmp.Or(e.ID, s.newID("we_"))
	e.Secret = cmp.Or(e.Secret, s.newID("whsec_"))
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Account = s.accountFor(e.Account).id
	if s.find(e.ID) != nil {
		panic(fmt.Sprintf("simulator: endpoint %q exists already", e.ID))
	}
	s.endpoints = append(s.endpoints, &endpoint{Endpoint: e})
	sort.SliceStable(s.endpoints, func(i, j int) bool { return s.endpoints[i].Created.Before(s.endpoints[j].Created) })
	return e
}

// find is the endpoint with this id; s.mu is held.
func (s *Stripe) find(id string) *endpoint {
	i := slices.IndexFunc(s.endpoints, func(e *endpoint) bool { return e.ID == id })
	if i < 0 {
		return nil
	}
	return s.endpoints[i]
}

// change applies a change to an endpoint that must exist.
func (s *Stripe) change(id string, apply func(*endpoint)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(id)
	if e == nil || e.deleted {
		panic(fmt.Sprintf("simulator: there is no endpoint %q", id))
	}
	apply(e)
}

// DisableEndpoint stops an endpoint's deliveries. What is emitted meanwhile is
// never sent to it.
func (s *Stripe) DisableEndpoint(id string) { s.change(id, func(e *endpoint) { e.Disabled = true }) }

// EnableEndpoint ends DisableEndpoint.
func (s *Stripe) EnableEndpoint(id string) { s.change(id, func(e *endpoint) { e.Disabled = false }) }

// DeleteEndpoint removes an endpoint for good.
func (s *Stripe) DeleteEndpoint(id string) { s.change(id, func(e *endpoint) { e.deleted = true }) }

// UpdateTypes replaces the types that an endpoint is subscribed to.
func (s *Stripe) UpdateTypes(id string, types ...string) {
	s.change(id, func(e *endpoint) { e.Types = slices.Clone(types) })
}

// UpdateURL moves an endpoint to another URL.
func (s *Stripe) UpdateURL(id, url string) { s.change(id, func(e *endpoint) { e.URL = url }) }

// targets are the endpoints that an event is to be delivered to; s.mu is held.
func (s *Stripe) targets(r *record) []*endpoint {
	var owed []*endpoint
	for _, e := range s.endpoints {
		if e.wants(r) {
			owed = append(owed, e)
		}
	}
	return owed
}

// endpointsBefore counts the endpoints created no later than a second; s.mu is
// held.
func (s *Stripe) endpointsBefore(second int64) int {
	return sort.Search(len(s.endpoints), func(i int) bool { return s.endpoints[i].Created.Unix() > second })
}

// wants reports whether an event that happens now goes to the endpoint.
func (e *endpoint) wants(r *record) bool {
	if e.deleted || e.Disabled || *e.Livemode != r.livemode || e.Created.Unix() > r.created {
		return false
	}
	if e.Connect != (r.account != "" && e.Account == "") || !e.Connect && e.Account != r.account {
		return false
	}
	return slices.ContainsFunc(e.Types, func(t string) bool { return providers.MatchType(t, r.typ) })
}

// endpointJSON is a webhook endpoint as the API shows it.
type endpointJSON struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	APIVersion    *string           `json:"api_version"`
	Application   *string           `json:"application"`
	Created       int64             `json:"created"`
	Description   *string           `json:"description"`
	EnabledEvents []string          `json:"enabled_events"`
	Livemode      bool              `json:"livemode"`
	Metadata      map[string]string `json:"metadata"`
	Status        string            `json:"status"`
	URL           string            `json:"url"`
}

func (e *endpoint) json() endpointJSON {
	j := endpointJSON{ID: e.ID, Object: "webhook_endpoint", Created: e.Created.Unix(), EnabledEvents: slices.Clone(e.Types),
		Livemode: *e.Livemode, Metadata: map[string]string{}, Status: "enabled", URL: e.URL}
	if e.Disabled {
		j.Status = "disabled"
	}
	if e.APIVersion != "" {
		version := e.APIVersion
		j.APIVersion = &version
	}
	if e.Connect {
		application := "ca_nightauditSimulated"
		j.Application = &application
	}
	return j
}

// visibleEndpoints are the caller's, newest first.
func (s *Stripe) visibleEndpoints(c caller) []endpointJSON {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var visible []endpointJSON
	for _, e := range slices.Backward(s.endpoints) {
		if !e.deleted && e.Account == c.account.id && *e.Livemode == c.key.live() {
			visible = append(visible, e.json())
		}
	}
	return visible
}

// listEndpoints is GET /v1/webhook_endpoints.
func (s *Stripe) listEndpoints(w http.ResponseWriter, q url.Values, c caller, _ string) *apiError {
	page, more, refusal := pageOf(s.visibleEndpoints(c), endpointJSON.id, "webhook endpoint", q)
	if refusal != nil {
		return refusal
	}
	writeList(w, "/v1/webhook_endpoints", page, more)
	return nil
}

func (e endpointJSON) id() string { return e.ID }

// readEndpoint is GET /v1/webhook_endpoints/{id}.
func (s *Stripe) readEndpoint(w http.ResponseWriter, _ url.Values, c caller, id string) *apiError {
	for _, e := range s.visibleEndpoints(c) {
		if e.ID == id {
			writeJSON(w, http.StatusOK, e)
			return nil
		}
	}
	return missing("webhook endpoint", id, "id")
}

// writeList answers with one page of things.
func writeList[T any](w http.ResponseWriter, path string, page []T, more bool) {
	if page == nil {
		page = []T{}
	}
	writeJSON(w, http.StatusOK, struct {
		Object  string `json:"object"`
		Data    []T    `json:"data"`
		HasMore bool   `json:"has_more"`
		URL     string `json:"url"`
	}{"list", page, more, path})
}
