package providers

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// TransportOptions say how a Transport behaves. The zero value works.
type TransportOptions struct {
	Base    http.RoundTripper // what carries the requests; nil is one that all Transports share
	Rate    float64           // requests a second; 0 is the Tuning's, or 10 without one
	Burst   int               // requests that may leave at once; 0 is 1
	Tries   int               // tries of one request; 0 is 6, 1 never retries
	Budget  time.Duration     // how long one request may be held up in all by throttling; 0 is 15 minutes
	Timeout time.Duration     // for one try, its body included; 0 is 1 minute
	MaxBody int64             // bytes of one answer's body, unpacked; 0 is 64 MiB

	// The clock, for tests; nil is the real one. Sleep passes time on Now, and
	// returns early with the context's cause when that ends. Jitter gives numbers
	// in [0, 1).
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
	Jitter func() float64
}

// Tuning is what an adapter knows of its provider's HTTP. The zero value is plain
// HTTP.
type Tuning struct {
	Rate        float64  // requests a second, where the options say none
	DropHeaders []string // request headers that must not leave
	ShouldRetry string   // response header whose "true" or "false" overrides the rule; "" is none
}

// A Transport carries the requests of one source to its provider, and is the
// only place where they are paced, retried and bounded:
//
//   - a token bucket paces every try, and a Retry-After holds back all requests;
//   - 429, 5xx, and connections that break are tried again with growing, jittered
//     waits, if repeating does no harm: GET, HEAD, or an Idempotency-Key;
//   - each try has a time-out of its own, each answer a bounded body;
//   - a redirect to another host is refused, so credentials stay where they belong.
//
// The last answer comes back as it is, except that throttling beyond the tries or
// the budget is a *ThrottledError. Errors carry no URL beyond scheme and host.
// A Transport is safe for concurrent use.
type Transport struct {
	*core
	tuning Tuning
}

// core is what all tunings of one Transport share.
type core struct {
	opts     TransportOptions // without zero values, except for Rate
	limiter  *rate.Limiter
	lastBody atomic.Int64 // bytes of the last answer's body

	mu     sync.Mutex
	paused time.Time // no request leaves before
	skew   time.Duration
	seen   bool // whether skew was measured
	stats  Stats
}

// NewTransport returns a Transport with the given options.
func NewTransport(o TransportOptions) *Transport {
	if o.Base == nil {
		o.Base = sharedBase()
	}
	o.Burst = cmp.Or(max(o.Burst, 0), 1)
	o.Tries = cmp.Or(max(o.Tries, 0), defaultTries)
	o.Budget = cmp.Or(o.Budget, 15*time.Minute)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.MaxBody = cmp.Or(o.MaxBody, 64<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	limit := rate.Limit(cmp.Or(o.Rate, defaultRate))
	return &Transport{core: &core{opts: o, limiter: rate.NewLimiter(limit, o.Burst)}}
}

const (
	defaultTries = 6
	defaultRate  = 10
)

// Tune returns a client for an adapter's requests, made from the one it was
// given, and the Transport in it. A Transport that is already there keeps its
// options, pace and counts and gains the tuning. Any other client is wrapped and
// then tries once, as it did before; nil gets a Transport with default options.
// The client's own time-out is off, since it would cut the waits between tries.
func Tune(c *http.Client, tuning Tuning) (*http.Client, *Transport) {
	tuned := http.Client{}
	if c != nil {
		tuned = *c
	}
	t, ok := tuned.Transport.(*Transport)
	switch {
	case ok:
	case c == nil:
		t = NewTransport(TransportOptions{})
	default:
		t = NewTransport(TransportOptions{Base: tuned.Transport, Tries: 1})
	}
	t = &Transport{core: t.core, tuning: tuning}
	if t.opts.Rate == 0 && tuning.Rate > 0 {
		t.limiter.SetLimitAt(t.opts.Now(), rate.Limit(tuning.Rate))
	}
	tuned.Transport, tuned.Timeout = t, 0
	return &tuned, t
}

// RoundTrip sends req under the rules of Transport. It implements
// http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := refuseRedirect(req); err != nil {
		closeBody(req)
		return nil, err
	}
	var held time.Duration // by throttling, back-off included
	for try := 1; ; try++ {
		if err := t.admit(req, &held); err != nil {
			if try == 1 {
				closeBody(req)
			}
			return nil, err
		}
		resp, err := t.once(req, try)
		next := t.judge(req, resp, err, try, held)
		if next.stop {
			return next.resp, next.err
		}
		t.count(func(s *Stats) { s.Retries++ })
		if err := t.wait(req.Context(), next.wait, &held); err != nil {
			return nil, err
		}
	}
}

// admit waits until req may leave: first for the end of a pause that the provider
// asked for, then for a token.
func (t *Transport) admit(req *http.Request, held *time.Duration) error {
	if pause := t.pause(); pause > 0 {
		if *held+pause > t.opts.Budget {
			return &ThrottledError{Op: opOf(req), Wait: pause}
		}
		if err := t.wait(req.Context(), pause, held); err != nil {
			return err
		}
	}
	now := t.opts.Now()
	token := t.limiter.ReserveN(now, 1)
	delay := token.DelayFrom(now)
	if delay < shortestDelay {
		delay = 0
	}
	if err := t.opts.Sleep(req.Context(), delay); err != nil {
		token.CancelAt(t.opts.Now())
		return err
	}
	return nil
}

// shortestDelay is the least that a request sleeps for a token. What it is spared
// is not given away: the bucket keeps the debt, and later requests pay it.
const shortestDelay = time.Millisecond

func (t *Transport) wait(ctx context.Context, d time.Duration, held *time.Duration) error {
	*held += d
	t.count(func(s *Stats) { s.Waited += d })
	return t.opts.Sleep(ctx, d)
}

// sleep waits for d or the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// once makes one try and reads the whole answer, within one time-out.
func (t *Transport) once(req *http.Request, try int) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), t.opts.Timeout, &timeoutError{op: opOf(req), limit: t.opts.Timeout})
	defer cancel()
	out, err := t.outgoing(ctx, req, try)
	if err != nil {
		return nil, err
	}
	sent := t.opts.Now()
	resp, err := t.opts.Base.RoundTrip(out)
	if err != nil {
		t.count(func(s *Stats) { s.tally(0) })
		return nil, causeOf(ctx, err)
	}
	t.count(func(s *Stats) { s.tally(resp.StatusCode) })
	t.observe(resp.Header.Get("Date"), sent, t.opts.Now())
	if err := t.buffer(resp, opOf(req)); err != nil {
		return nil, causeOf(ctx, err)
	}
	return resp, nil
}

// outgoing is the copy of req that leaves: without the dropped headers, and from
// the second try on with a fresh body.
func (t *Transport) outgoing(ctx context.Context, req *http.Request, try int) (*http.Request, error) {
	out := req.Clone(ctx)
	for _, name := range t.tuning.DropHeaders {
		out.Header.Del(name)
	}
	if try == 1 || req.GetBody == nil {
		return out, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, &finalError{fmt.Errorf("%s: repeating the request's body: %w", opOf(req), err)}
	}
	out.Body = body
	return out, nil
}

// causeOf prefers the reason why the context ended over what the network said.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// opOf names a request without its path and query.
func opOf(req *http.Request) string {
	return req.Method + " " + req.URL.Scheme + "://" + req.URL.Host
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// refuseRedirect refuses a request that a redirect sends to another place than
// the request before it: its headers and query may carry credentials.
func refuseRedirect(req *http.Request) error {
	if req.Response == nil || req.Response.Request == nil {
		return nil
	}
	from, to := req.Response.Request.URL, req.URL
	if from.Scheme == to.Scheme && from.Host == to.Host {
		return nil
	}
	return fmt.Errorf("%s: redirected to %s://%s, where the credentials must not go; set base_url if the API has moved",
		req.Method+" "+from.Scheme+"://"+from.Host, to.Scheme, to.Host)
}

// A timeoutError says that one try took too long.
type timeoutError struct {
	op    string
	limit time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("%s: no whole answer within %s", e.op, e.limit)
}

// Timeout marks the error as a time-out, as net.Error does.
func (e *timeoutError) Timeout() bool { return true }

// A finalError would come back however often the request was repeated.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// repeatable reports whether a second copy of req does no harm.
func repeatable(req *http.Request) bool {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	safe := []string{"", http.MethodGet, http.MethodHead}
	return slices.Contains(safe, req.Method) || req.Header.Get("Idempotency-Key") != ""
}
