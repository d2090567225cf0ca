package simulator

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// AppRequest is one request that the application received.
type AppRequest struct {
	N       int // from 1
	At      time.Time
	Method  string
	Path    string
	Header  http.Header // Stripe-Signature, Nightaudit-…
	Body    []byte
	SHA256  [32]byte // of the body
	EventID string   // the id in the body, "" if it has none
	Status  int      // what was answered; 0 while open, or when the connection was closed instead
	Refused string   // why it was not handled; "" if it was, or a fault decided
}

// appLog keeps the newest requests and counts all.
type appLog struct {
	mu        sync.Mutex
	keep      int
	requests  []AppRequest
	received  int
	posts     map[string]int
	open, max int
}

func (l *appLog) begin(r AppRequest) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received++
	r.N = l.received
	l.open++
	l.max = max(l.max, l.open)
	if r.Method == http.MethodPost {
		if l.posts == nil {
			l.posts = map[string]int{}
		}
		l.posts[r.EventID]++
	}
	l.requests = append(l.requests, r)
	if surplus := len(l.requests) - l.keep; surplus > l.keep/2 {
		l.requests = slices.Delete(l.requests, 0, surplus) // now and then, not each time
	}
	return r.N
}

func (l *appLog) end(n, status int, refused string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if i := n - 1 - (l.received - len(l.requests)); i >= 0 {
		l.requests[i].Status = status
		l.requests[i].Refused = refused
	}
}

// Requests gives the requests that the log keeps, oldest first.
func (a *App) Requests() []AppRequest {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return slices.Clone(a.log.requests[max(0, len(a.log.requests)-a.log.keep):])
}

// Received counts the requests, of any method.
func (a *App) Received() int {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return a.log.received
}

// Posts counts the POSTs that claimed to be of an event, however they were
// answered.
func (a *App) Posts(eventID string) int {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return a.log.posts[eventID]
}

// MaxConcurrent is the most requests that were open at one time.
func (a *App) MaxConcurrent() int {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return a.log.max
}

// Forget empties the log and the counts.
func (a *App) Forget() {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	a.log.requests, a.log.posts, a.log.max = nil, nil, a.log.open
}
