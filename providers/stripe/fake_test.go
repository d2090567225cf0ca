package stripe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/providertest"
)

const (
	testKey   = providers.Secret("rk_test_na_SECRET0001")
	connected = "acct_na_c1"
)

// badEvent has an id and nothing else that can be read.
var badEvent = []byte(`{"id":"evt_bad","object":"event","type":7,"created":"yesterday","data":null}`)

// foreignPage is what a proxy answers, with what must not be repeated.
var foreignPage = []byte("<html><title>Sign in</title>session=sekret</html>")

// A fake plays the pages in testdata, three elements at a time.
type fake struct {
	t      testing.TB
	script providertest.Script
	pages  map[string][]json.RawMessage // by path and account

	mu       sync.Mutex
	requests []*http.Request
}

func newFake(t testing.TB, s providertest.Script) *fake {
	t.Helper()
	f := &fake{t: t, script: s, pages: map[string][]json.RawMessage{
		eventsPath:                elements(t, "testdata/events.json"),
		eventsPath + connected:    elements(t, "testdata/connected.json"),
		endpointsPath:             elements(t, "testdata/webhook_endpoints.json"),
		endpointsPath + connected: {},
		"/v1/accounts":            accounts(connected, "acct_na_c0", "acct_na_c2", "acct_na_c3"),
	}}
	if s == providertest.BadElement {
		for _, key := range []string{eventsPath, eventsPath + connected} {
			f.pages[key] = slices.Insert(f.pages[key], 2, json.RawMessage(badEvent))
		}
	}
	return f
}

func accounts(ids ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, id := range ids {
		out = append(out, json.RawMessage(fmt.Sprintf(`{"id":%q,"object":"account"}`, id)))
	}
	return out
}

// elements are the elements of a recorded list, byte for byte.
func elements(t testing.TB, file string) []json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var page struct{ Data []json.RawMessage }
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	return page.Data
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	switch f.script {
	case providertest.Rejected:
		refuse(w, http.StatusUnauthorized, "", "Invalid API Key provided: rk_test_*********0001")
		return
	case providertest.Forbidden:
		refuse(w, http.StatusForbidden, "", "The provided key 'rk_test_*********0001' does not have the required permissions for this endpoint on account 'acct_1'. Having the 'rak_event_read' permission would allow this request to continue.")
		return
	case providertest.NotTheAPI:
		w.Write(foreignPage)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testKey.Reveal() {
		refuse(w, http.StatusUnauthorized, "", "Invalid API Key provided")
		return
	}
	account := r.Header.Get("Stripe-Account")
	if id, ok := strings.CutPrefix(r.URL.Path, eventsPath+"/"); ok {
		f.one(w, f.pages[eventsPath+account], id)
		return
	}
	all, ok := f.pages[r.URL.Path+account]
	if !ok {
		refuse(w, http.StatusForbidden, "account_invalid", "The provided key 'rk_test_*********0001' does not have access to account '"+account+"' (or that account does not exist).")
		return
	}
	f.list(w, r, all)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"type": "invalid_request_error", "code": code, "message": message}})
}

func (f *fake) one(w http.ResponseWriter, all []json.RawMessage, id string) {
	for _, raw := range all {
		if idOf(raw) == id {
			w.Write(raw)
			return
		}
	}
	refuse(w, http.StatusNotFound, "resource_missing", "No such event: '"+id+"'")
}

func (f *fake) list(w http.ResponseWriter, r *http.Request, all []json.RawMessage) {
	q := r.URL.Query()
	all = created(all, q.Get("created[gte]"), q.Get("created[lt]"))
	from := 0
	if after := q.Get("starting_after"); after != "" {
		at := slices.IndexFunc(all, func(raw json.RawMessage) bool { return idOf(raw) == after })
		if at < 0 {
			refuse(w, http.StatusBadRequest, "resource_missing", "No such event: '"+after+"'")
			return
		}
		from = at + 1
		if f.script == providertest.Repeating {
			from = at
		}
	}
	const size = 3
	to := min(from+size, len(all))
	writeList(w, all[from:to], to < len(all))
}

func created(all []json.RawMessage, gte, lt string) []json.RawMessage {
	if gte == "" {
		return all
	}
	from, _ := strconv.ParseInt(gte, 10, 64)
	to, _ := strconv.ParseInt(lt, 10, 64)
	var out []json.RawMessage
	for _, raw := range all {
		e, err := decodeEvent(raw, "")
		if at := e.Created.Unix(); err != nil || at >= from && at < to {
			out = append(out, raw)
		}
	}
	return out
}

// writeList writes the elements as they are, blanks and all.
func writeList(w http.ResponseWriter, data []json.RawMessage, more bool) {
	fmt.Fprint(w, "{\n  \"object\": \"list\",\n  \"data\": [")
	for i, raw := range data {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, "\n    %s", raw)
	}
	fmt.Fprintf(w, "\n  ],\n  \"has_more\": %v,\n  \"url\": \"/v1/list\"\n}", more)
}

func (f *fake) last() *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1]
}

// serve opens a source over any handler, without a wait between tries.
func serve(t testing.TB, h http.Handler, yaml string) *provider {
	t.Helper()
	return serveAs(t, testKey, h, yaml)
}

func serveAs(t testing.TB, key providers.Secret, h http.Handler, yaml string) *provider {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	p, err := open(providers.Settings{
		Source:      "stripe-test",
		BaseURL:     server.URL,
		Credentials: map[string]providers.Secret{"api_key": key},
		YAML:        []byte(yaml),
		Client:      &http.Client{Transport: providers.NewTransport(providers.TransportOptions{Rate: 1e6, Sleep: noSleep})},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*provider)
}
