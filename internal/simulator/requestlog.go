package simulator

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// A Request is one request that the fake Stripe received. It carries no key.
type Request struct {
	N              int // from 1, over all requests
	Page           int // from 1, over the requests of GET /v1/events; 0 for others
	At             time.Time
	Method         string
	Path           string
	Query          url.Values
	Account        string // the Stripe-Account header
	APIVersion     string // the Stripe-Version header
	IdempotencyKey string
	Status         int // what was answered; 0 while open, or when the connection was closed instead
}

// Stats counts what the fake Stripe was asked.
type Stats struct {
	Requests      int
	Pages         int // requests of GET /v1/events
	MaxConcurrent int // the most requests that were open at one time
}

// requestLog keeps every request. Its zero value is ready.
type requestLog struct {
	mu       sync.Mutex
	requests []Request
	stats    Stats
	open     int
}

func (l *requestLog) begin(r Request) Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Requests++
	r.N = l.stats.Requests
	if r.Method == http.MethodGet && r.Path == "/v1/events" {
		l.stats.Pages++
		r.Page = l.stats.Pages
	}
	l.open++
	l.stats.MaxConcurrent = max(l.stats.MaxConcurrent, l.open)
	l.requests = append(l.requests, r)
	return r
}

func (l *requestLog) end(n, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if first := l.stats.Requests - len(l.requests) + 1; n >= first {
		l.requests[n-first].Status = status
	}
}

// Requests gives the requests received so far, oldest first.
func (s *Stripe) Requests() []Request {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.Clone(s.log.requests)
}

// Stats gives the counters, which are never reset.
func (s *Stripe) Stats() Stats {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.stats
}

// ForgetRequests empties the request log and leaves the counters.
func (s *Stripe) ForgetRequests() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.requests = nil
}

// statusWriter remembers the status that was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// closeConnection ends the request without an answer; reset sends a TCP RST
// instead of a plain end.
func closeConnection(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, or a recorder: net/http cuts the stream itself
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
