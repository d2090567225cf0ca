package simulator_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/internal/simulator"
)

const appSecret = "whsec_simulator_test"

// running is a fake application with its database and its fake Stripe.
type running struct {
	*simulator.App
	stripe *simulator.Stripe
	pool   *pgxpool.Pool
	url    string
}

func startApp(t *testing.T) *running {
	t.Helper()
	pool := pgtest.Pool(t)
	for range 2 { // the second time changes nothing
		if err := simulator.CreateTables(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	app := simulator.NewApp(simulator.AppOptions{Pool: pool, Secrets: []string{"whsec_old", appSecret}, Now: atNoon})
	server := httptest.NewServer(app)
	t.Cleanup(func() { server.Close(); app.Close() })
	s := simulator.NewStripe(simulator.StripeOptions{Now: atNoon})
	s.AddEndpoint(simulator.Endpoint{URL: server.URL + "/hook", Secret: appSecret, Created: noon.AddDate(-1, 0, 0)})
	return &running{app, s, pool, server.URL}
}

// deliver sends an event and gives the status, 0 for a broken connection.
func (r *running) deliver(t *testing.T, e simulator.Event) int {
	t.Helper()
	d := r.stripe.Deliver(t.Context(), e)
	if len(d) != 1 {
		t.Fatalf("%s: got deliveries %+v, want one", e.ID, d)
	}
	return d[0].Status
}

// row is what the ledger says of an event, "" without a row.
func (r *running) row(t *testing.T, id string) string {
	t.Helper()
	var row string
	err := r.pool.QueryRow(t.Context(), `
		SELECT concat_ws(' ', event_type, '[' || account || ']', livemode, status, handled_at AT TIME ZONE 'UTC')
		FROM public.processed_events WHERE event_id = $1`, id).Scan(&row)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return row
}

// effects is how often an event had its effect.
func (r *running) effects(t *testing.T, id string) int {
	t.Helper()
	n := 0
	err := r.pool.QueryRow(t.Context(), `SELECT n FROM public.effects WHERE event_id = $1`, id).Scan(&n)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return n
}

func (r *running) state(t *testing.T, e simulator.Event) string {
	t.Helper()
	var state string
	err := r.pool.QueryRow(t.Context(), `SELECT event_id || ' ' || state FROM public.object_states WHERE subject = $1`,
		e.Subject.String()).Scan(&state)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return state
}

func (r *running) invoicePaid(id string) simulator.Event {
	return r.stripe.Emit(simulator.Emission{ID: id, Type: "invoice.paid"})
}

func TestDeliveryIsRecordedWithItsEffect(t *testing.T) {
	r := startApp(t)
	e := r.invoicePaid("evt_1")
	if status := r.deliver(t, e); status != 200 {
		t.Fatalf("got status %d: %+v", status, r.Requests())
	}
	if got, want := r.row(t, "evt_1"), "invoice.paid [] f done 2026-01-01 12:00:00"; got != want || r.effects(t, "evt_1") != 1 {
		t.Errorf("got %q and %d effects, want %q and one", got, r.effects(t, "evt_1"), want)
	}
	requests := r.Requests()
	if len(requests) != 1 || requests[0].EventID != "evt_1" || requests[0].Status != 200 || requests[0].Path != "/hook" ||
		!bytes.Contains(requests[0].Body, []byte("evt_1")) || requests[0].Header.Get("Stripe-Signature") == "" || r.Posts("evt_1") != 1 {
		t.Errorf("got log %+v", requests)
	}
}

func TestConcurrentDuplicatesHaveOneEffect(t *testing.T) {
	r := startApp(t)
	e := r.invoicePaid("evt_1")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if d := r.stripe.Deliver(t.Context(), e); !d[0].OK() {
				t.Errorf("got %+v, want an acknowledgement", d)
			}
		})
	}
	wg.Wait()
	if n := r.effects(t, "evt_1"); n != 1 || r.Posts("evt_1") != 16 || r.MaxConcurrent() < 1 {
		t.Errorf("got %d effects of %d POSTs, want 1 of 16", n, r.Posts("evt_1"))
	}
}

func TestWithoutIdempotencyEachDeliveryHasItsEffect(t *testing.T) {
	r := startApp(t)
	r.SetIdempotent(false)
	e := r.invoicePaid("evt_1")
	for range 3 {
		r.deliver(t, e)
	}
	if n := r.effects(t, "evt_1"); n != 3 {
		t.Errorf("got %d effects of 3 deliveries, want 3", n)
	}
}

func TestSnapshotHandledLateRevertsTheState(t *testing.T) {
	r := startApp(t)
	emit := func(id, status string, ago time.Duration) simulator.Event {
		return r.stripe.Emit(simulator.Emission{ID: id, Type: "customer.subscription.updated", Created: noon.Add(-ago),
			Object: simulator.Object{ID: "sub_1", Set: map[string]any{"status": status}}})
	}
	older, newer := emit("evt_1", "active", time.Hour), emit("evt_2", "canceled", 0)
	r.deliver(t, newer)
	if got := r.state(t, newer); got != "evt_2 canceled" {
		t.Errorf("after the newer one: got %q", got)
	}
	r.deliver(t, older)
	if got := r.state(t, newer); got != "evt_1 active" {
		t.Errorf("after the older one: got %q, want it reverted", got)
	}
	r.deliver(t, newer)
	if got := r.state(t, newer); got != "evt_1 active" {
		t.Errorf("after a duplicate of the newer one: got %q, want no change", got)
	}
}

func TestApplicationFaults(t *testing.T) {
	r := startApp(t)
	for i, c := range []struct {
		what    string
		fault   simulator.AppFault
		status  int // 0 is a broken connection
		row     string
		effects int
	}{
		{"dropped at once", simulator.AppFault{Record: simulator.RecordNothing, Lose: true}, 0, "", 0},
		{"500 before the commit", simulator.Refuse(500), 500, "", 0},
		{"500 after the commit", simulator.AppFault{Status: 500}, 500, "done", 1},
		{"the answer lost after the commit", simulator.AppFault{Lose: true}, 0, "done", 1},
		{"200 and nothing recorded", simulator.AppFault{Record: simulator.RecordNothing}, 200, "", 0},
		{"recorded as pending", simulator.AppFault{Record: simulator.RecordPending}, 200, "pending", 0},
		{"a client error", simulator.Refuse(422), 422, "", 0},
		{"a redirect", simulator.Redirect(301, "/login"), 301, "", 0},
		{"a clock that is wrong", simulator.Skewed(), 400, "", 0},
		{"slow", simulator.AppFault{Delay: time.Millisecond}, 200, "done", 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			e, other := r.invoicePaid(fmt.Sprintf("evt_faulty_%d", i)), r.invoicePaid(fmt.Sprintf("evt_other_%d", i))
			r.SetFaults(func(id string) simulator.AppFault {
				if id == e.ID {
					return c.fault
				}
				return simulator.AppFault{}
			})
			if status := r.deliver(t, e); status != c.status {
				t.Errorf("got status %d, want %d", status, c.status)
			}
			if row := r.row(t, e.ID); !strings.Contains(row, c.row) || (row == "") != (c.row == "") || r.effects(t, e.ID) != c.effects {
				t.Errorf("got row %q and %d effects, want %q and %d", row, r.effects(t, e.ID), c.row, c.effects)
			}
			if status := r.deliver(t, other); status != 200 || r.effects(t, other.ID) != 1 {
				t.Errorf("another event: got status %d and %d effects, want it handled", status, r.effects(t, other.ID))
			}
			r.SetFault(simulator.AppFault{})
			if status := r.deliver(t, e); status != 200 || r.effects(t, e.ID) != 1 || !strings.Contains(r.row(t, e.ID), "done") {
				t.Errorf("delivered again without the fault: got %d, %q, %d effects; want it done once", status, r.row(t, e.ID), r.effects(t, e.ID))
			}
		})
	}
}

func TestRecordedLaterThanAnswered(t *testing.T) {
	r := startApp(t)
	commit := make(chan struct{})
	r.SetFault(simulator.AppFault{Record: simulator.RecordLater, Commit: commit})
	e := r.invoicePaid("evt_1")
	if status := r.deliver(t, e); status != 200 || r.row(t, e.ID) != "" {
		t.Errorf("when answered: got %d and row %q, want 200 and none", status, r.row(t, e.ID))
	}
	close(commit)
	for deadline := time.Now().Add(20 * time.Second); r.row(t, e.ID) == ""; {
		if time.Now().After(deadline) {
			t.Fatal("not recorded within 20 s")
		}
	}
	r.SetFault(simulator.AppFault{Record: simulator.RecordLater, After: time.Hour})
	lost := r.invoicePaid("evt_2")
	r.deliver(t, lost)
	r.Close()
	if row := r.row(t, lost.ID); row != "" {
		t.Errorf("work not begun when the application ended: got row %q, want it lost", row)
	}
}

func TestOpenTransactionIsNotSeenBeforeItsCommit(t *testing.T) {
	r := startApp(t)
	commit := make(chan struct{})
	r.SetFault(simulator.AppFault{Commit: commit})
	e := r.invoicePaid("evt_1")
	status := make(chan int)
	go func() { status <- r.stripe.Deliver(t.Context(), e)[0].Status }()
	for deadline := time.Now().Add(20 * time.Second); r.openTransactions(t) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no transaction was opened within 20 s")
		}
	}
	if row := r.row(t, e.ID); row != "" {
		t.Errorf("before the commit: got row %q, want none", row)
	}
	close(commit)
	if got := <-status; got != 200 || r.effects(t, e.ID) != 1 {
		t.Errorf("after the commit: got %d and %d effects, want 200 and one", got, r.effects(t, e.ID))
	}
}

func (r *running) openTransactions(t *testing.T) (n int) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), `
		SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSignaturesAreVerified(t *testing.T) {
	r := startApp(t)
	body := []byte(`{"id":"evt_1","type":"x.y","created":1767225600,"api_version":"2015-02-16","request":"req_2"}`)
	for _, c := range []struct {
		what, signature string
		status          int
	}{
		{"none", "", 400},
		{"another secret", simulator.Signature(noon, body, "whsec_other"), 400},
		{"other bytes", simulator.Signature(noon, body[1:], appSecret), 400},
		{"too old", simulator.Signature(noon.Add(-301*time.Second), body, appSecret), 400},
		{"young by the application's clock", simulator.Signature(noon.Add(-299*time.Second), body, appSecret), 200},
		{"an older secret", simulator.Signature(noon, body, "whsec_old"), 200},
	} {
		if status := r.post(t, body, c.signature); status != c.status {
			t.Errorf("%s: got %d, want %d", c.what, status, c.status)
		}
	}
	if refused := r.Requests()[3].Refused; !strings.Contains(refused, "tolerance") {
		t.Errorf("too old: the log says %q, want the tolerance", refused)
	}
}

func (r *running) post(t *testing.T, body []byte, signature string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Stripe-Signature", signature)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func TestLargeBodiesAreRefused(t *testing.T) {
	r := startApp(t)
	r.SetMaxBody(1000)
	e := r.invoicePaid("evt_1")
	if status := r.deliver(t, e); status != 413 || r.row(t, e.ID) != "" {
		t.Errorf("got %d and row %q, want 413 and none", status, r.row(t, e.ID))
	}
	r.SetMaxBody(0)
	if status := r.deliver(t, e); status != 200 {
		t.Errorf("without the limit: got %d, want 200", status)
	}
}

func TestRedirectedGetIsAnsweredByALoginPage(t *testing.T) {
	r := startApp(t)
	r.SetFault(simulator.Redirect(301, "/login"))
	res, err := http.Post(r.url+"/hook", "application/json", strings.NewReader(`{"id":"evt_1"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	requests := r.Requests()
	if res.StatusCode != http.StatusOK || len(requests) != 2 || requests[1].Method != http.MethodGet || requests[1].Path != "/login" {
		t.Errorf("a client that follows: got %d after %+v; want a GET of /login answered 200", res.StatusCode, requests)
	}
}

func TestLogKeepsTheNewestRequestsAndCountsAll(t *testing.T) {
	app := simulator.NewApp(simulator.AppOptions{KeepRequests: 3, Now: atNoon})
	app.SetFault(simulator.Refuse(503))
	for i := range 20 {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fmt.Sprintf(`{"id":"evt_%d"}`, i))))
	}
	kept := app.Requests()
	if len(kept) != 3 || kept[0].EventID != "evt_17" || kept[2].N != 20 || kept[2].Status != 503 || app.Received() != 20 || app.Posts("evt_0") != 1 {
		t.Errorf("got %+v of %d received; want the last three of 20", kept, app.Received())
	}
	app.Forget()
	if len(app.Requests()) != 0 || app.Posts("evt_0") != 0 {
		t.Errorf("after Forget: got %+v", app.Requests())
	}
}

func TestBackfillLeavesWhatLiveDeliveriesWouldHave(t *testing.T) {
	live, bulk := startApp(t), startApp(t)
	h := simulator.History{N: 300, From: noon.Add(-2 * time.Hour), To: noon}
	live.stripe.AddHistory(h)
	bulk.stripe.AddHistory(h)
	if _, err := live.stripe.DeliverAll(t.Context(), "", nil, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := bulk.stripe.Backfill(t.Context(), bulk.pool, bulk.stripe.All("")); err != nil || n != 300 {
		t.Fatalf("got %d, %v; want 300 recorded", n, err)
	}
	if n, err := bulk.stripe.Backfill(t.Context(), bulk.pool, bulk.stripe.All("")); err != nil || n != 0 {
		t.Errorf("a second time: got %d, %v; want none recorded", n, err)
	}
	for _, query := range []string{
		`SELECT string_agg(concat_ws(' ', event_id, event_type, account, livemode, status), E'\n' ORDER BY event_id) FROM processed_events`,
		`SELECT string_agg(concat_ws(' ', event_id, subject, n), E'\n' ORDER BY event_id) FROM effects`,
		`SELECT string_agg(concat_ws(' ', subject, event_id, created, state), E'\n' ORDER BY subject) FROM object_states`,
	} {
		var got, want string
		if err := errors.Join(bulk.pool.QueryRow(t.Context(), query).Scan(&got), live.pool.QueryRow(t.Context(), query).Scan(&want)); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s\ngot\n%.500s\nwant\n%.500s", query, got, want)
		}
	}
}
