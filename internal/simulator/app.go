package simulator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/nightaudit/nightaudit/providers"
)

// AppOptions is how a fake application starts.
type AppOptions struct {
	Pool    *pgxpool.Pool // its database, with the tables of CreateTables; required
	Secrets []string      // of its webhook endpoints; a delivery must be signed with one
	// Now is the application's clock, for signatures and handled_at; nil is the
	// machine's.
	Now func() time.Time
	// Tolerance is how old a signature may be; 0 is 5 minutes, as Stripe's SDKs
	// have it.
	Tolerance time.Duration
	// KeepRequests is how many of the newest requests the log keeps with header
	// and body; 0 is 10,000, negative is none. Counts are kept of all.
	KeepRequests int
}

// App is a fake application: an http.Handler for the webhook URL (any path)
// that verifies signatures, and records each event with its effect in one
// transaction. A GET, which a webhook never is, gets a log-in page with status
// 200, as many applications answer. It is safe for concurrent use.
type App struct {
	opts   AppOptions
	log    appLog
	faults appFaults
	later  sync.WaitGroup // recordings that outlive their answer
	closed context.Context
	close  context.CancelFunc
}

// NewApp makes an application that handles every event once.
func NewApp(o AppOptions) *App {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Tolerance = cmp.Or(o.Tolerance, webhook.DefaultTolerance)
	o.KeepRequests = cmp.Or(o.KeepRequests, 10_000)
	a := &App{opts: o}
	a.log.keep = max(0, o.KeepRequests)
	a.closed, a.close = context.WithCancel(context.Background()) // lives until Close, not as long as a request
	return a
}

// Close ends the recordings that RecordLater put off: those not begun
// are lost, as when a process ends, and the others are waited for.
func (a *App) Close() {
	a.close()
	a.later.Wait()
}

// ServeHTTP receives one delivery.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "body cut short", http.StatusBadRequest)
		return
	}
	var id struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(body, &id) // a body that is no event has no id
	n := a.log.begin(AppRequest{At: a.opts.Now(), Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(),
		Body: body, SHA256: sha256.Sum256(body), EventID: id.ID})
	out := &statusWriter{ResponseWriter: w}
	refused := ""
	defer func() { a.log.end(n, out.status, refused) }()
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(out, "<html><body>Please log in</body></html>")
		return
	}
	refused = a.receive(out, r, body, id.ID)
}

// receive takes one POST and answers it; why a delivery was refused is returned
// for the log.
func (a *App) receive(w http.ResponseWriter, r *http.Request, body []byte, id string) (refused string) {
	if limit := a.faults.limit(); limit > 0 && len(body) > limit {
		http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
		return "body too large"
	}
	fault := a.faults.of(id)
	if !wait(r, fault.Delay, fault.Hold) {
		return "the client left"
	}
	if fault.Record == RecordNothing {
		fault.answer(w)
		return ""
	}
	event, err := a.open(r.Header.Get("Stripe-Signature"), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return err.Error()
	}
	if err := a.handle(r.Context(), event, fault); err != nil {
		http.Error(w, "handling the event: "+err.Error(), http.StatusInternalServerError)
		return err.Error()
	}
	fault.answer(w)
	return ""
}

// handle records the event now or later, as the fault says.
func (a *App) handle(ctx context.Context, e appEvent, f AppFault) error {
	if f.Record != RecordLater {
		return a.record(ctx, e, f)
	}
	a.later.Go(func() {
		if sleep(a.closed, f.After) {
			_ = a.record(context.WithoutCancel(a.closed), e, f) // nobody is left to be told
		}
	})
	return nil
}

// sleep waits d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// appEvent is what the application reads of an event.
type appEvent struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Account  string `json:"account"`
	Created  int64  `json:"created"`
	Livemode bool   `json:"livemode"`
	Data     struct {
		Object json.RawMessage `json:"object"`
	} `json:"data"`
}

// object reads what the application needs of the event's object.
func (e appEvent) object() (subject providers.Subject, status string) {
	var o struct{ ID, Object, Status string }
	_ = json.Unmarshal(e.Data.Object, &o) // an object of another shape has no subject
	return providers.Subject{Account: e.Account, Kind: o.Object, ID: o.ID}, o.Status
}

// open verifies a delivery with the SDK's own verifier and reads it. The
// verifier knows only the machine's clock, so the age is judged here.
func (a *App) open(header string, body []byte) (appEvent, error) {
	if err := a.verify(header, body); err != nil {
		return appEvent{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	var e appEvent
	if err := decoder.Decode(&e); err != nil {
		return appEvent{}, err
	}
	return e, nil
}

// verify tries each secret.
func (a *App) verify(header string, body []byte) error {
	err := webhook.ErrNoValidSignature
	for _, secret := range a.opts.Secrets {
		if err = webhook.ValidatePayloadIgnoringTolerance(body, header, secret); err == nil {
			return a.young(header)
		}
	}
	return err
}
