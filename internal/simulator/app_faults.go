package simulator

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"
)

// Recording says what the application does with an event.
type Recording string

// The recordings. The zero value is the right one: recorded as done, with its
// effect, before the answer.
const (
	RecordDone    Recording = ""
	RecordNothing Recording = "nothing" // the delivery is not even verified
	RecordPending Recording = "pending" // the row says pending, and there is no effect yet
	RecordLater   Recording = "later"   // answered first, recorded AppFault.After later
)

// AppFault is how the application treats a delivery. The zero value is right
// and answers 200. A lost answer after the commit is {Lose: true}; a connection
// dropped at once {Record: RecordNothing, Lose: true}; a 500 after the commit
// {Status: 500}.
type AppFault struct {
	Delay time.Duration   // passes before anything
	Hold  <-chan struct{} // if set, is waited for before anything, until it is closed
	// Record says what is recorded. A delivery that is to be recorded must be
	// verified first and is refused with 400 otherwise.
	Record Recording
	After  time.Duration // for RecordLater
	// Commit, if set, is waited for between the inserts and the commit.
	Commit <-chan struct{}
	Status int         // of the answer; 0 is 200
	Header http.Header // added to the answer: Retry-After, Location
	Body   string
	Lose   bool // the connection is closed in place of the answer
}

// Redirect answers with a 3xx status and a location, and records nothing.
func Redirect(status int, location string) AppFault {
	return AppFault{Record: RecordNothing, Status: status, Header: http.Header{"Location": {location}}}
}

// Refuse answers with a status, and records nothing.
func Refuse(status int) AppFault {
	return AppFault{Record: RecordNothing, Status: status, Body: http.StatusText(status)}
}

// Skewed refuses a delivery as an application does whose clock is wrong.
func Skewed() AppFault {
	return AppFault{Record: RecordNothing, Status: http.StatusBadRequest, Body: "timestamp outside tolerance"}
}

func (f AppFault) answer(w http.ResponseWriter) {
	if f.Lose {
		closeConnection(w, false)
		return
	}
	for k, v := range f.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(cmp.Or(f.Status, http.StatusOK))
	_, _ = w.Write([]byte(f.Body)) // a sender that left is no concern
}

// appFaults is what is wrong at present. Its zero value is nothing.
type appFaults struct {
	mu        sync.Mutex
	choose    func(eventID string) AppFault
	maxBody   int
	repeating bool
}

// SetFault treats every delivery alike from now on; the zero AppFault is right.
func (a *App) SetFault(f AppFault) { a.SetFaults(func(string) AppFault { return f }) }

// SetFaults asks choose how to treat each delivery; nil treats all right. The
// event id is what the body claims, "" if it has none. choose is called by
// several goroutines.
func (a *App) SetFaults(choose func(eventID string) AppFault) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.choose = choose
}

// SetMaxBody refuses larger bodies with 413 from now on; 0 refuses none.
func (a *App) SetMaxBody(bytes int) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.maxBody = bytes
}

// SetIdempotent says whether an event that was handled before is left alone
// (the beginning), or has its effect again.
func (a *App) SetIdempotent(idempotent bool) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.repeating = !idempotent
}

func (f *appFaults) of(eventID string) AppFault {
	f.mu.Lock()
	choose := f.choose
	f.mu.Unlock()
	if choose == nil {
		return AppFault{}
	}
	return choose(eventID)
}

func (f *appFaults) limit() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.maxBody
}

func (f *appFaults) idempotent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.repeating
}

// young checks that the signature of a verified header is no older than the
// tolerance by the application's clock.
func (a *App) young(header string) error {
	for part := range strings.SplitSeq(header, ",") {
		if t, isTime := strings.CutPrefix(part, "t="); isTime {
			at, err := strconv.ParseInt(t, 10, 64)
			if err != nil || a.opts.Now().Sub(time.Unix(at, 0)) > a.opts.Tolerance {
				return webhook.ErrTooOld
			}
		}
	}
	return nil
}
