package stripe

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/providers"
)

// BenchmarkPage is a page of a hundred events from the socket to the events, with
// what it takes to serve it. A body that is not announced is how a packed answer
// looks to its reader.
func BenchmarkPage(b *testing.B) {
	body := simulatedPage(b)
	for name, length := range map[string]string{"announced": strconv.Itoa(len(body)), "unannounced": ""} {
		b.Run(name, func(b *testing.B) {
			p := serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				w.Write(body)
			}), "")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				page, err := p.Events(b.Context(), providers.Stream{}, window, "")
				if err != nil || len(page.Items) != pageSize {
					b.Fatalf("%d events, %v; want %d", len(page.Items), err, pageSize)
				}
			}
		})
	}
}

// BenchmarkDecode is the same page from its bytes to the events, and as it was
// done by encoding/json.
func BenchmarkDecode(b *testing.B) {
	body := simulatedPage(b)
	for name, read := range map[string]func() int{
		"scanner": func() int {
			var events []providers.Event
			s := scan(body)
			s.list(func(s *scanner) {
				e, _ := s.event("")
				events = append(events, e)
			})
			return len(events)
		},
		"encoding-json": func() int {
			page, _, _ := oraclePage(body, "")
			return len(page.Items)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if n := read(); n != pageSize {
					b.Fatalf("%d events, want %d", n, pageSize)
				}
			}
		})
	}
}

// simulatedPage is a full page of ordinary traffic, as the fake Stripe prints it.
func simulatedPage(t testing.TB) []byte {
	t.Helper()
	fake := simulator.NewStripe(simulator.StripeOptions{Keys: []simulator.Key{{Secret: testKey.Reveal()}}})
	now := fake.Now()
	fake.AddHistory(simulator.History{Seed: 1, N: 2 * pageSize, From: now.Add(-24 * time.Hour), To: now.Add(-time.Hour)})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, eventsPath+"?limit="+strconv.Itoa(pageSize), nil)
	req.Header.Set("Authorization", "Bearer "+testKey.Reveal())
	w := httptest.NewRecorder()
	fake.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Fatalf("the fake answered %d: %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}
