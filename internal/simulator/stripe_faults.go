package simulator

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Faults are the ways in which a listing of events can be wrong or slow while
// every answer is a 200. The zero value has none.
type Faults struct {
	// PageDelay passes before each answer, counted on the machine's clock.
	PageDelay time.Duration
	// BusySecond makes a cursor inside a second unable to drain it: the page after
	// it is empty and has no more, unless the window is exactly that second.
	BusySecond bool
	// RepeatEdge begins each page after the first with the last event of the page
	// before.
	RepeatEdge bool
	// BadElement, if set, is put into the middle of the first page of each listing.
	// It must be JSON, or the whole page is not.
	BadElement []byte
	// EmptyAccounts list nothing although they have events; "" is the platform.
	EmptyAccounts []string
}

// An Answer is what a fault puts in the place of the right answer.
type Answer struct {
	Status int           // 0 is 200
	Header http.Header   // added to the usual ones
	Body   string        // written as it is
	Close  bool          // the connection is closed instead, without an answer
	Reset  bool          // as Close, by a TCP reset
	Delay  time.Duration // passes first, on the machine's clock
	// Hold, if set, is waited for first: the answer comes when it is closed, or
	// never if the client leaves before.
	Hold <-chan struct{}
	// Pass lets the right answer follow the delay or the hold.
	Pass bool
}

// RateLimited is Stripe's 429. retryAfter is the value of the Retry-After
// header, which Stripe does not document; "" sends none.
func RateLimited(retryAfter string) Answer {
	h := http.Header{"Content-Type": {"application/json"}, "Stripe-Rate-Limited-Reason": {"endpoint-rate"}}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return Answer{Status: http.StatusTooManyRequests, Header: h, Body: string(indented(map[string]*apiError{"error": {
		Type: "invalid_request_error", Code: "rate_limit",
		Message: "Request rate limit exceeded. Learn more about rate limits here: https://stripe.com/docs/rate-limits."}}))}
}

// ServerError is Stripe's 500.
func ServerError() Answer {
	return Answer{Status: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}},
		Body: string(indented(map[string]*apiError{"error": {Type: "api_error",
			Message: "An unknown error occurred"}}))}
}

// Garbage is a page of HTML with status 200, as a proxy in between sends it.
func Garbage() Answer {
	return Answer{Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html><body>Under maintenance</body></html>"}
}

// stripeFaults is what is wrong at present. Its zero value is nothing.
type stripeFaults struct {
	mu         sync.Mutex
	listing    Faults
	hooks      map[int]func(Request) *Answer // by the order in which they were set
	hookSerial int
}

// SetFaults replaces the faults of listings from the next request on.
func (s *Stripe) SetFaults(f Faults) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.listing = f
}

// ClearFaults ends all faults, those of Intercept and FailPages included.
func (s *Stripe) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.listing = Faults{}
	s.faults.hooks = nil
}

// Intercept asks hook about each request before it is answered; nil lets it
// through. The hook that was set first and has an answer decides. The hook may
// block, and is called by several goroutines. The function returned ends it.
func (s *Stripe) Intercept(hook func(Request) *Answer) (remove func()) {
	f := &s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hooks == nil {
		f.hooks = map[int]func(Request) *Answer{}
	}
	f.hookSerial++
	n := f.hookSerial
	f.hooks[n] = hook
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.hooks, n)
	}
}

// FailPages answers the pages of events number from (the next one is 1) up to
// but without from+times with a; times below 0 fails every page from there on.
func (s *Stripe) FailPages(from, times int, a Answer) (remove func()) {
	seen := s.Stats().Pages
	return s.Intercept(func(r Request) *Answer {
		n := r.Page - seen
		if r.Page == 0 || n < from || times >= 0 && n >= from+times {
			return nil
		}
		return &a
	})
}

func (f *stripeFaults) current() Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listing
}

// delay waits the listing's delay; false if the client left meanwhile.
func (f *stripeFaults) delay(r *http.Request) bool {
	d := f.current().PageDelay
	return d == 0 || r.URL.Path != "/v1/events" || wait(r, d, nil)
}

// answer is what the hooks say of a request.
func (f *stripeFaults) answer(r Request) *Answer {
	f.mu.Lock()
	hooks := maps.Clone(f.hooks)
	f.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(hooks)) {
		if a := hooks[n](r); a != nil {
			return a
		}
	}
	return nil
}

// write gives the answer in place of the right one.
func (a *Answer) write(w http.ResponseWriter) {
	if a.Close || a.Reset {
		closeConnection(w, a.Reset)
		return
	}
	for k, v := range a.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = w.Write([]byte(a.Body))
}

// wait waits d and then for hold, if either is set; false if the client left
// meanwhile.
func wait(r *http.Request, d time.Duration, hold <-chan struct{}) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return false
		}
	}
	if hold == nil {
		return true
	}
	select {
	case <-hold:
		return true
	case <-r.Context().Done():
		return false
	}
}
