package providers

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd is how many requests the tests have under way at once.
const crowd = 32

func TestConnectionsAreKeptForManyRequestsAtOnce(t *testing.T) {
	var together sync.WaitGroup // nobody is answered before all have asked
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		together.Done()
		together.Wait()
		w.Write(make([]byte, 10_000))
	}))
	var opened atomic.Int64
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for round := range 3 {
		client := &http.Client{Transport: NewTransport(TransportOptions{Rate: 1e9})} // as each run makes its own
		together.Add(crowd)
		var asking sync.WaitGroup
		for range crowd {
			asking.Go(func() {
				if resp, err := client.Get(server.URL); err != nil {
					t.Error(err)
				} else {
					resp.Body.Close()
				}
			})
		}
		asking.Wait()
		if got := opened.Load(); got > crowd {
			t.Fatalf("after round %d of %d requests at once %d connections were opened, want %d", round+1, crowd, got, crowd)
		}
	}
}

func TestTheSharedBaseIsTheStandardOneWithMoreConnectionsKept(t *testing.T) {
	base, standard := sharedBase().(*http.Transport), http.DefaultTransport.(*http.Transport)
	if base == standard || base.MaxIdleConnsPerHost < crowd || base.MaxIdleConns < base.MaxIdleConnsPerHost {
		t.Errorf("it keeps %d connections to a host and %d in all, want at least %d", base.MaxIdleConnsPerHost, base.MaxIdleConns, crowd)
	}
	if !base.ForceAttemptHTTP2 || base.Proxy == nil || base.TLSHandshakeTimeout != standard.TLSHandshakeTimeout {
		t.Error("it does not speak HTTP/2, or knows no proxy or no time-out, as the standard one does")
	}
}

func TestAPaceBeyondAllNeedsWaitsForNoTimer(t *testing.T) {
	var slept atomic.Int64
	transport := NewTransport(TransportOptions{Rate: 1e9, Sleep: func(_ context.Context, d time.Duration) error {
		if d > 0 {
			slept.Add(1)
		}
		return nil
	}})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://provider.example", nil)
	var asking sync.WaitGroup
	for range crowd {
		asking.Go(func() {
			for range 100 {
				var held time.Duration
				if err := transport.admit(req, &held); err != nil {
					t.Error(err)
				}
			}
		})
	}
	asking.Wait()
	if slept.Load() > 0 {
		t.Errorf("%d of %d requests slept at a billion a second, want none", slept.Load(), crowd*100)
	}
}

func TestWaitsThatAreTooShortToSleepAreOwed(t *testing.T) {
	clock := &fakeClock{now: noonish}
	transport := NewTransport(TransportOptions{Rate: 8000, Now: clock.Now, Sleep: clock.Sleep})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://provider.example", nil)
	for range 16_001 {
		var held time.Duration
		if err := transport.admit(req, &held); err != nil {
			t.Fatal(err)
		}
	}
	if took := clock.Now().Sub(noonish); took < 2*time.Second-shortestDelay || took > 2*time.Second {
		t.Errorf("16001 requests at 8000 a second took %s, want 2s less at most %s", took, shortestDelay)
	}
	for _, d := range clock.slept {
		if d < shortestDelay {
			t.Fatalf("a request slept for %s, want none for less than %s", d, shortestDelay)
		}
	}
}
