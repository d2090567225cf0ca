package replay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A Sender makes one attempt to bring an event to its endpoint.
type Sender interface {
	Send(ctx context.Context, w Work) Result
}

// Work is one event on its way to one endpoint.
type Work struct {
	Event    providers.Event // with its payload
	Endpoint providers.Endpoint
	Secrets  []providers.Secret
	ReplayID string
	Attempt  int
}

// An Outcome is what came of one attempt.
type Outcome string

// The outcomes of attempts. After Failed and Unknown it is asked whether the
// event was recorded all the same.
const (
	Acknowledged Outcome = "acknowledged" // a 2xx
	Failed       Outcome = "failed"       // no answer, or one that may change: 408, 425, 429, 5xx
	Rejected     Outcome = "rejected"     // another 4xx
	Redirected   Outcome = "redirected"   // a 3xx: the signature must not travel to another host
	ClockSkewed  Outcome = "clock_skew"   // a 4xx, while our clock and the provider's differ
	NotSent      Outcome = "not_sent"     // the drain was told to stop before it left
	Unknown      Outcome = "unknown"      // nightaudit ended before the answer came
)

// A Phase is where an attempt without an answer failed.
type Phase string

// The phases, in their order.
const (
	PhaseDNS      Phase = "dns"
	PhaseConnect  Phase = "connect"
	PhaseTLS      Phase = "tls"
	PhaseWrite    Phase = "write"
	PhaseResponse Phase = "response"
	PhaseTimeout  Phase = "timeout"
)

// A Result is what is known of one attempt.
type Result struct {
	Outcome   Outcome
	Phase     Phase  // "" if there was an answer
	Status    int    // 0 if there was none
	Why       string // one redacted sentence
	BodyBytes int    // of the request
	Snippet   string // the first KiB of the answer, redacted
}

// snippetSize is how much of an answer is kept.
const snippetSize = 1 << 10

// A Post sends correctly signed HTTP POSTs to the application's webhook URL.
type Post struct {
	Deliverer providers.Deliverer
	Client    *http.Client // must not follow redirects; see NewPostClient
	Redact    *providers.Redactor
	Timeout   time.Duration
	Now       func() time.Time
}

// NewPostClient is a client that keeps connections for a number of requests at
// the same time and follows no redirect.
func NewPostClient(concurrency int) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = concurrency
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Send signs the delivery anew and posts it once.
func (p *Post) Send(ctx context.Context, w Work) Result {
	m, err := p.Deliverer.Compose(ctx, w.Endpoint, w.Event)
	if err == nil {
		m, err = p.Deliverer.Sign(m, w.Secrets, p.Now())
	}
	if err != nil {
		return Result{Outcome: NotSent, Why: "composing the delivery: " + p.Redact.String(err.Error())}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout,
		fmt.Errorf("no answer within %s", p.Timeout))
	defer cancel()
	return p.post(ctx, m, w)
}

func (p *Post) post(ctx context.Context, m providers.Message, w Work) Result {
	var reached tracer
	req, err := http.NewRequestWithContext(reached.trace(ctx), http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Result{Outcome: NotSent, Why: "the endpoint's URL cannot be used; correct it in the config"}
	}
	req.Header = m.Header.Clone()
	req.Header.Set("Nightaudit-Event-Id", w.Event.ID)
	req.Header.Set("Nightaudit-Replay-Id", w.ReplayID)
	req.Header.Set("Nightaudit-Attempt", strconv.Itoa(w.Attempt))
	resp, err := p.Client.Do(req)
	if err != nil {
		return p.unanswered(ctx, err, reached.phase(), len(m.Body))
	}
	defer resp.Body.Close()
	return p.answered(resp, len(m.Body))
}

// unanswered is the result of a request whose outcome at the receiver is unknown.
func (p *Post) unanswered(ctx context.Context, err error, phase Phase, size int) Result {
	why := p.Redact.Error(err).Error()
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		phase, why = PhaseTimeout, context.Cause(ctx).Error()
	case errors.As(err, &dns):
		phase = PhaseDNS
	}
	return Result{Outcome: Failed, Phase: phase, Why: why, BodyBytes: size}
}

func (p *Post) answered(resp *http.Response, size int) Result {
	// more is read than kept, so that no secret is cut where the redactor looks
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 2*snippetSize))
	// the rest is drained, within bounds, so that the connection can be used again
	_, _ = io.CopyN(io.Discard, resp.Body, 256<<10)
	r := Result{
		Outcome: classify(resp.StatusCode), Status: resp.StatusCode, BodyBytes: size,
		Snippet: shorten(p.Redact.String(printable(head))),
	}
	switch r.Outcome {
	case Redirected:
		r.Why = fmt.Sprintf("the endpoint answered %d, a redirect; set its final URL in the config", resp.StatusCode)
	case Rejected:
		r.Why = fmt.Sprintf("the endpoint refused it with %d (%d bytes sent)", resp.StatusCode, size)
	case Failed:
		r.Why = fmt.Sprintf("the endpoint answered %d", resp.StatusCode)
	}
	return r
}

// classify says what an HTTP status means for a replay.
func classify(status int) Outcome {
	switch {
	case status >= 200 && status < 300:
		return Acknowledged
	case status >= 300 && status < 400:
		return Redirected
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= 500:
		return Failed
	default:
		return Rejected
	}
}

// printable makes text of an answer that can be stored and shown.
func printable(b []byte) string {
	clean := bytes.ToValidUTF8(b, []byte("\uFFFD"))
	return string(bytes.ReplaceAll(clean, []byte{0}, []byte("\uFFFD")))
}

// shorten is the beginning of a text, whole characters only.
func shorten(s string) string {
	if len(s) <= snippetSize {
		return s
	}
	return strings.ToValidUTF8(s[:snippetSize], "")
}
