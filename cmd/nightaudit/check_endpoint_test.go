package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestDialConnectsAsAReplayWouldAndSendsNothing(t *testing.T) {
	var requests atomic.Int32
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	open, untrusted, down := httptest.NewServer(count), httptest.NewTLSServer(count), httptest.NewServer(count)
	t.Cleanup(open.Close)
	t.Cleanup(untrusted.Close)
	down.Close()
	for name, test := range map[string]struct{ url, want string }{
		"takes connections":                    {open.URL + "/hook", ""},
		"has a certificate nobody vouches for": {untrusted.URL, "certificate"},
		"is down":                              {down.URL, "refused"},
	} {
		_, err := dial(t.Context(), test.url)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("a host that %s: dial(%s) = %v, want %q", name, test.url, err, test.want)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("dial made %d requests, want none", n)
	}
}
