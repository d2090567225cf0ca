package providers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeClock passes time only by sleeping.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration // waits over zero
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d > 0 {
		c.now = c.now.Add(d)
		c.slept = append(c.slept, d)
	}
	return context.Cause(ctx)
}

// answers plays one answer a request and repeats the last one.
type answers struct {
	mu   sync.Mutex
	list []func(w http.ResponseWriter)
	got  []*http.Request
	body []string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	a.got, a.body = append(a.got, r), append(a.body, string(body))
	a.list[min(len(a.got), len(a.list))-1](w)
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, "answer")
	}
}

func hangUp(w http.ResponseWriter) {
	conn, _, _ := http.NewResponseController(w).Hijack()
	conn.Close()
}

// play starts a server and a client whose Transport runs on a fake clock.
func play(t *testing.T, o TransportOptions, tuning Tuning, list ...func(http.ResponseWriter)) (string, *answers, *http.Client, *Transport, *fakeClock) {
	t.Helper()
	a := &answers{list: list}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	clock := &fakeClock{now: noonish}
	o.Now, o.Sleep = clock.Now, clock.Sleep
	o.Rate = max(o.Rate, 1e6)
	if o.Jitter == nil {
		o.Jitter = func() float64 { return 0 }
	}
	client, transport := Tune(&http.Client{Transport: NewTransport(o)}, tuning)
	return server.URL, a, client, transport, clock
}

func TestTransportTriesAgainWhereThatCanHelp(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name   string
		method string
		key    string // Idempotency-Key
		list   []func(http.ResponseWriter)
		tries  int
		status int
		waits  []time.Duration
	}{
		{"a good answer comes once", "GET", "", []func(http.ResponseWriter){status(200)}, 1, 200, nil},
		{"a server error, then a good answer", "GET", "", []func(http.ResponseWriter){status(500), status(200)}, 2, 200, []time.Duration{second}},
		{"waits double", "GET", "", []func(http.ResponseWriter){status(502), status(503), status(504), status(200)}, 4, 200, []time.Duration{second, 2 * second, 4 * second}},
		{"six tries, then the last answer", "GET", "", []func(http.ResponseWriter){status(500)}, 6, 500, []time.Duration{second, 2 * second, 4 * second, 8 * second, 16 * second}},
		{"a broken connection", "GET", "", []func(http.ResponseWriter){hangUp, status(200)}, 2, 200, []time.Duration{second}},
		{"429 with Retry-After", "GET", "", []func(http.ResponseWriter){status(429, "Retry-After", "7"), status(200)}, 2, 200, []time.Duration{7 * second}},
		{"503 with Retry-After", "GET", "", []func(http.ResponseWriter){status(503, "Retry-After", "7"), status(200)}, 2, 200, []time.Duration{7 * second}},
		{"Retry-After of zero waits a second", "GET", "", []func(http.ResponseWriter){status(429, "Retry-After", "0"), status(200)}, 2, 200, []time.Duration{second}},
		{"a senseless Retry-After leaves the back-off", "GET", "", []func(http.ResponseWriter){status(429, "Retry-After", "soon"), status(200)}, 2, 200, []time.Duration{second}},
		{"a client error is final", "GET", "", []func(http.ResponseWriter){status(404)}, 1, 404, nil},
		{"501 is final", "GET", "", []func(http.ResponseWriter){status(501)}, 1, 501, nil},
		{"the provider says no", "GET", "", []func(http.ResponseWriter){status(500, "Should-Retry", "false")}, 1, 500, nil},
		{"the provider says yes", "GET", "", []func(http.ResponseWriter){status(409, "Should-Retry", "true"), status(200)}, 2, 200, []time.Duration{second}},
		{"a POST is not repeated", "POST", "", []func(http.ResponseWriter){status(500)}, 1, 500, nil},
		{"a POST with an idempotency key is", "POST", "k", []func(http.ResponseWriter){status(500), status(200)}, 2, 200, []time.Duration{second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, a, client, transport, clock := play(t, TransportOptions{}, Tuning{ShouldRetry: "Should-Retry"}, c.list...)
			req, _ := http.NewRequestWithContext(t.Context(), c.method, url, strings.NewReader("body"))
			if c.key != "" {
				req.Header.Set("Idempotency-Key", c.key)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("got error %v, want status %d", err, c.status)
			}
			defer resp.Body.Close()
			if len(a.got) != c.tries || resp.StatusCode != c.status {
				t.Errorf("got status %d after %d tries, want %d after %d", resp.StatusCode, len(a.got), c.status, c.tries)
			}
			if !slices.Equal(clock.slept, c.waits) {
				t.Errorf("waited %v, want %v", clock.slept, c.waits)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "answer" {
				t.Errorf("body %q, %v; want %q", body, err, "answer")
			}
			for i, body := range a.body {
				if body != "body" {
					t.Errorf("try %d carried the body %q, want %q", i+1, body, "body")
				}
			}
			stats := transport.Stats()
			if stats.Requests != int64(c.tries) || stats.Retries != int64(c.tries-1) || stats.ByStatus[c.status] == 0 {
				t.Errorf("stats are %+v after %d tries", stats, c.tries)
			}
		})
	}
}

func TestThrottlingBeyondTriesOrBudgetIsAThrottledError(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter)
		tries  int
		wait   time.Duration
	}{
		{"six answers of 429 without a word", status(429), 6, 0},
		{"six answers of 429 with a short wait", status(429, "Retry-After", "2"), 6, 2 * time.Second},
		{"waits that add up to more than 15 minutes", status(429, "Retry-After", "400"), 3, 400 * time.Second},
		{"one wait longer than the budget", status(429, "Retry-After", "901"), 1, 901 * time.Second},
		{"a wait that overflows", status(429, "Retry-After", "9223372037"), 1, 24 * time.Hour},
		{"maintenance for longer than the budget", status(503, "Retry-After", "3600"), 1, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, a, client, _, clock := play(t, TransportOptions{}, Tuning{}, c.answer)
			_, err := client.Get(url)
			var throttled *ThrottledError
			if !errors.As(err, &throttled) {
				t.Fatalf("got %v, want a *ThrottledError", err)
			}
			if throttled.Wait != c.wait || len(a.got) != c.tries {
				t.Errorf("got wait %s after %d tries, want %s after %d", throttled.Wait, len(a.got), c.wait, c.tries)
			}
			if waited := clock.Now().Sub(noonish); waited > 15*time.Minute {
				t.Errorf("waited %s in all, want at most 15m", waited)
			}
		})
	}
}

func TestARetryAfterHoldsBackTheWholeSource(t *testing.T) {
	url, _, client, _, clock := play(t, TransportOptions{Tries: 2}, Tuning{}, status(429, "Retry-After", "30"), status(429, "Retry-After", "30"), status(200))
	if _, err := client.Get(url); err == nil {
		t.Fatal("two answers of 429 in two tries gave no error")
	}
	before := clock.Now()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if waited := clock.Now().Sub(before); waited != 30*time.Second {
		t.Errorf("the next request waited %s, want the 30s that the provider asked for", waited)
	}
}

func TestARetryAfterDateIsReadByTheProvidersClock(t *testing.T) {
	ahead := noonish.Add(7 * time.Minute)
	url, _, client, _, clock := play(t, TransportOptions{}, Tuning{},
		status(429, "Date", ahead.Format(http.TimeFormat), "Retry-After", ahead.Add(30*time.Second).Format(http.TimeFormat)), status(200))
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(clock.slept) != 1 || clock.slept[0] < 29*time.Second || clock.slept[0] > 30*time.Second {
		t.Errorf("waited %v, want about 30s, not 7m30s", clock.slept)
	}
}

func TestSkewIsMeasuredAtTheMiddleOfARequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		date   time.Time
		travel time.Duration
		want   time.Duration
	}{
		{"the same second", noonish, 0, 0},
		{"what a second's resolution explains", noonish.Add(-time.Second), 0, 0},
		{"what the travel explains", noonish.Add(2 * time.Second), 6 * time.Second, 0},
		{"seven minutes ahead", noonish.Add(7 * time.Minute), 0, 7*time.Minute + 500*time.Millisecond},
		{"three minutes behind", noonish.Add(-3 * time.Minute), 0, -3*time.Minute + 500*time.Millisecond},
		{"ahead, over a slow line", noonish.Add(60 * time.Second), 4 * time.Second, 58*time.Second + 500*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := NewTransport(TransportOptions{})
			if skew, ok := transport.Skew(); ok {
				t.Errorf("before any answer the skew is %s, want none", skew)
			}
			transport.observe("soon", noonish, noonish)
			transport.observe(c.date.Format(http.TimeFormat), noonish, noonish.Add(c.travel))
			if got, ok := transport.Skew(); !ok || got != c.want {
				t.Errorf("Date %s, travel %s: skew %s, %v; want %s", c.date, c.travel, got, ok, c.want)
			}
		})
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	a := &answers{list: []func(http.ResponseWriter){status(429, "Retry-After", "600")}}
	server := httptest.NewServer(a)
	defer server.Close()
	stop := errors.New("the run was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := make(chan struct{})
	transport := NewTransport(TransportOptions{Rate: 1e6, Sleep: func(ctx context.Context, d time.Duration) error {
		if d > time.Minute {
			close(waiting)
		}
		return sleep(ctx, d)
	}})
	go func() {
		<-waiting
		cancel(stop)
	}()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	_, err := transport.RoundTrip(req)
	if !errors.Is(err, stop) || len(a.got) != 1 {
		t.Errorf("got %v after %d requests, want %v after 1", err, len(a.got), stop)
	}
}

func TestEachTryHasItsOwnTimeOut(t *testing.T) {
	release := make(chan struct{})
	stuck := func(http.ResponseWriter) { <-release }
	url, _, client, transport, _ := play(t, TransportOptions{Timeout: 20 * time.Millisecond, Tries: 1}, Tuning{}, stuck)
	defer close(release)
	_, err := client.Get(url)
	if err == nil || !strings.Contains(err.Error(), "no whole answer within 20ms") {
		t.Errorf("got %v, want an error that names the time-out", err)
	}
	if got := transport.Stats().ByStatus[0]; got != 1 {
		t.Errorf("%d requests are counted as unanswered, want 1", got)
	}
}

func TestABodyThatBreaksOffIsFetchedAgain(t *testing.T) {
	half := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "half")
	}
	url, a, client, _, _ := play(t, TransportOptions{}, Tuning{}, half, status(200))
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "answer" || len(a.got) != 2 {
		t.Errorf("got %q after %d tries, want %q after 2", body, len(a.got), "answer")
	}
}

func TestAnAnswerBeyondTheBoundIsAClearErrorAndNotRepeated(t *testing.T) {
	big := func(w http.ResponseWriter) { io.WriteString(w, strings.Repeat("x", 101)) }
	url, a, client, _, _ := play(t, TransportOptions{MaxBody: 100}, Tuning{}, big)
	_, err := client.Get(url)
	if err == nil || !strings.Contains(err.Error(), "larger than 100 bytes") {
		t.Errorf("got %v, want an error that names the bound", err)
	}
	if len(a.got) != 1 {
		t.Errorf("asked %d times, want once", len(a.got))
	}
	fits := func(w http.ResponseWriter) { io.WriteString(w, strings.Repeat("x", 100)) }
	url, _, client, _, _ = play(t, TransportOptions{MaxBody: 100}, Tuning{}, fits)
	resp, err := client.Get(url)
	if err != nil {
		t.Fatalf("an answer of just the bound: %v", err)
	}
	resp.Body.Close()
}

func TestARedirectToAnotherHostIsRefused(t *testing.T) {
	other := &answers{list: []func(http.ResponseWriter){status(200)}}
	otherServer := httptest.NewServer(other)
	defer otherServer.Close()
	away := func(w http.ResponseWriter) {
		w.Header().Set("Location", otherServer.URL+"/login?token=q")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	url, a, client, _, _ := play(t, TransportOptions{}, Tuning{}, away)
	_, err := client.Get(url)
	if err == nil || !strings.Contains(err.Error(), "redirected to "+otherServer.URL) {
		t.Errorf("got %v, want an error that names the other host", err)
	}
	if len(a.got) != 1 || len(other.got) != 0 {
		t.Errorf("%d requests went to the provider and %d elsewhere, want 1 and 0", len(a.got), len(other.got))
	}
}

func TestARedirectOnTheSameHostIsFollowed(t *testing.T) {
	moved := func(w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	url, a, client, _, _ := play(t, TransportOptions{}, Tuning{}, moved, status(200))
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(a.got) != 2 || a.got[1].URL.Path != "/elsewhere" {
		t.Errorf("%d requests, want the second at /elsewhere", len(a.got))
	}
}

func TestDroppedHeadersDoNotLeave(t *testing.T) {
	url, a, client, _, _ := play(t, TransportOptions{}, Tuning{DropHeaders: []string{"x-telemetry"}}, status(200))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	req.Header.Set("X-Telemetry", "uname")
	req.Header.Set("Authorization", "Bearer k")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := a.got[0].Header.Get("X-Telemetry"); got != "" {
		t.Errorf("X-Telemetry: %q left", got)
	}
	if a.got[0].Header.Get("Authorization") == "" || req.Header.Get("X-Telemetry") == "" {
		t.Errorf("another header was dropped, or the caller's request was changed")
	}
}

func TestTheRatePacesAllRequests(t *testing.T) {
	a := &answers{list: []func(http.ResponseWriter){status(200)}}
	server := httptest.NewServer(a)
	defer server.Close()
	clock := &fakeClock{now: noonish}
	client, _ := Tune(&http.Client{Transport: NewTransport(TransportOptions{Now: clock.Now, Sleep: clock.Sleep})}, Tuning{Rate: 4})
	for range 9 {
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if took := clock.Now().Sub(noonish); took != 2*time.Second {
		t.Errorf("9 requests at 4 a second took %s, want 2s", took)
	}
}

func TestTuneKeepsWhatAClientHas(t *testing.T) {
	shared := NewTransport(TransportOptions{Rate: 3})
	_, tuned := Tune(&http.Client{Transport: shared}, Tuning{Rate: 50})
	if tuned.limiter.Limit() != 3 {
		t.Errorf("the configured rate became %v, want 3", tuned.limiter.Limit())
	}
	tuned.count(func(s *Stats) { s.tally(200) })
	if shared.Stats().Requests != 1 {
		t.Error("the counts of a tuned Transport are not those of the one it was made from")
	}
	if _, plain := Tune(&http.Client{}, Tuning{}); plain.opts.Tries != 1 {
		t.Errorf("a foreign client tries %d times, want once as before", plain.opts.Tries)
	}
	if _, fresh := Tune(nil, Tuning{}); fresh.opts.Tries != defaultTries {
		t.Errorf("without a client there are %d tries, want %d", fresh.opts.Tries, defaultTries)
	}
}

func TestJitterNeverShortensAWait(t *testing.T) {
	for _, jitter := range []float64{0, 0.5, 0.999} {
		transport := NewTransport(TransportOptions{Jitter: func() float64 { return jitter }})
		for try := 1; try <= 100; try++ {
			least := min(time.Second<<min(try-1, 10), time.Minute)
			if got := transport.backoff(try); got < least || got > least+least/2 {
				t.Errorf("try %d, jitter %v: waits %s, want within [%s, %s]", try, jitter, got, least, least+least/2)
			}
		}
	}
}

func TestErrorsOfTheTransportShowNoPath(t *testing.T) {
	url, _, client, _, _ := play(t, TransportOptions{Tries: 1}, Tuning{}, hangUp)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/services/sekret?token=q", nil)
	_, err := client.Transport.RoundTrip(req)
	if err == nil || leaks(err.Error(), "sekret", "token") != "" {
		t.Errorf("got %v, want an error without the path", err)
	}
}
