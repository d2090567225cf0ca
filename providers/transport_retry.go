package providers

import (
	"crypto/tls"
	"errors"
	"net/http"
	"time"
)

// next is what follows a try: the end, or a wait and another try.
type next struct {
	stop bool
	resp *http.Response
	err  error
	wait time.Duration
}

// judge decides what follows a try that ended with resp or err.
func (t *Transport) judge(req *http.Request, resp *http.Response, err error, try int, held time.Duration) next {
	if req.Context().Err() != nil || !t.transient(resp, err) || !repeatable(req) {
		return next{stop: true, resp: resp, err: t.shown(err)}
	}
	wait, asked := t.asked(resp)
	if asked {
		t.hold(wait)
	} else {
		wait = t.backoff(try)
	}
	if try < t.opts.Tries && held+wait <= t.opts.Budget {
		return next{wait: wait}
	}
	throttled := resp != nil && (resp.StatusCode == http.StatusTooManyRequests || asked && held+wait > t.opts.Budget)
	if t.opts.Tries > 1 && throttled {
		if !asked {
			wait = 0
		}
		return next{stop: true, err: &ThrottledError{Op: opOf(req), Wait: wait}}
	}
	return next{stop: true, resp: resp, err: t.shown(err)}
}

// transient reports whether the outcome may differ the next time.
func (t *Transport) transient(resp *http.Response, err error) bool {
	if err != nil {
		var final *finalError
		var certificate *tls.CertificateVerificationError
		return !errors.As(err, &final) && !errors.As(err, &certificate)
	}
	switch t.wish(resp) {
	case "true":
		return true
	case "false":
		return false
	}
	return resp.StatusCode == http.StatusTooManyRequests ||
		resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusNotImplemented
}

// wish is the provider's own word on trying again, "" if it gives none.
func (t *Transport) wish(resp *http.Response) string {
	if t.tuning.ShouldRetry == "" {
		return ""
	}
	return resp.Header.Get(t.tuning.ShouldRetry)
}

// asked is the wait that the answer asks for. A date is measured by the
// provider's clock.
func (t *Transport) asked(resp *http.Response) (time.Duration, bool) {
	if resp == nil {
		return 0, false
	}
	now := t.opts.Now()
	if skew, ok := t.Skew(); ok {
		now = now.Add(skew)
	}
	wait, verdict := RetryAfter(resp.Header.Get("Retry-After"), now)
	return wait, verdict != RetryUnasked
}

// longestBackoff ends the doubling of waits that nobody asked for.
const longestBackoff = time.Minute

// backoff doubles from one second and adds up to half of that again.
func (t *Transport) backoff(try int) time.Duration {
	wait := longestBackoff
	if doublings := try - 1; doublings < 6 {
		wait = min(wait, MinRetryAfter<<doublings)
	}
	return wait + time.Duration(t.opts.Jitter()*float64(wait)/2)
}

// hold keeps all requests of the source back for d.
func (t *Transport) hold(d time.Duration) {
	until := t.opts.Now().Add(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.After(t.paused) {
		t.paused = until
	}
}

// pause is how long requests are still held back.
func (t *Transport) pause() time.Duration {
	now := t.opts.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paused.Sub(now)
}

// shown is err without URLs and the mark of finality.
func (t *Transport) shown(err error) error {
	var final *finalError
	if errors.As(err, &final) {
		err = final.error
	}
	return (*Redactor)(nil).Error(err)
}
