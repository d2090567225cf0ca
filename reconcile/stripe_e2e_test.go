package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/stripe"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

const (
	liveKey    = "sk_live_na_SECRET"
	hookSecret = "whsec_nightaudit_test"
	hookPath   = "/hooks/pathsecret"
)

// A shop is a Stripe account and an application over real HTTP, with nightaudit
// between them.
type shop struct {
	*world
	stripe *simulator.Stripe
	app    *simulator.App
	hook   string // the application's webhook URL
}

// newShop opens a shop whose settings are in YAML. Its endpoint subscribes to
// everything.
func newShop(t *testing.T, settings string) *shop {
	t.Helper()
	pool := pgtest.Pool(t)
	w := &world{t: t, pool: pool, now: epoch}
	w.migrate()
	if err := simulator.CreateTables(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return w.now }
	s := &shop{world: w,
		stripe: simulator.NewStripe(simulator.StripeOptions{Now: clock, Keys: []simulator.Key{{Secret: liveKey}}}),
		app:    simulator.NewApp(simulator.AppOptions{Pool: pool, Secrets: []string{hookSecret}, Now: clock}),
	}
	api, app := httptest.NewServer(s.stripe), httptest.NewServer(s.app)
	t.Cleanup(func() { s.app.Close(); app.Close(); api.Close() })
	s.hook = app.URL + hookPath
	s.stripe.AddEndpoint(simulator.Endpoint{ID: "we_1", URL: s.hook, Secret: hookSecret, Created: epoch.Add(-90 * 24 * time.Hour)})

	redact := providers.NewRedactor(liveKey, hookSecret, providers.Secret(s.hook))
	client := &http.Client{Transport: providers.NewTransport(providers.TransportOptions{
		Rate: 10_000, Burst: 100, Tries: 2, Now: clock, Sleep: func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
	})}
	provider, err := stripe.Adapter().Open(providers.Settings{Source: "shop", BaseURL: api.URL, YAML: []byte(settings),
		Credentials: map[string]providers.Secret{"api_key": liveKey}, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := appdb.Open(t.Context(), pool, appdb.Options{Table: "public.processed_events",
		Key: map[string]string{"event_id": "event.id"}, Type: "event_type", HandledAt: "handled_at", Livemode: "livemode",
		Done: "status = 'done'"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.source = reconcile.Source{
		Name: "shop", Provider: provider, Redact: redact, Ledger: ledger, StuckAfter: time.Hour,
		Targets: []replay.Target{{URL: s.hook, Secrets: []providers.Secret{hookSecret}}}, Repair: true,
		Sender: &replay.Post{Deliverer: provider.(providers.Deliverer), Client: replay.NewPostClient(1), Redact: redact,
			Timeout: 10 * time.Second, Now: clock},
		Replay: replay.Options{Rate: 10_000, VerifyWithin: time.Millisecond, Concurrency: 1},
	}
	return s
}

// emit adds an event hours ago and has it delivered if delivered says so.
func (s *shop) emit(id, eventType string, hoursAgo int, delivered bool) simulator.Event {
	s.t.Helper()
	e := s.stripe.Emit(simulator.Emission{ID: id, Type: eventType, Created: s.now.Add(-time.Duration(hoursAgo) * time.Hour)})
	if delivered {
		s.deliver(e)
	}
	return e
}

func (s *shop) deliver(e simulator.Event) {
	s.t.Helper()
	for _, d := range s.stripe.Deliver(s.t.Context(), e) {
		if !d.OK() {
			s.t.Fatalf("live delivery of %s: %+v", e.ID, d)
		}
	}
}

// replayed are the events that nightaudit posted, in order.
func (s *shop) replayed() []simulator.AppRequest {
	var out []simulator.AppRequest
	for _, r := range s.app.Requests() {
		if r.Header.Get("Nightaudit-Replay-Id") != "" {
			out = append(out, r)
		}
	}
	return out
}

// wantReplayed fails the test unless nightaudit posted these events in this order.
func (s *shop) wantReplayed(want ...string) {
	s.t.Helper()
	got := []string{}
	for _, r := range s.replayed() {
		got = append(got, r.EventID)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("replayed: got %q, want %q", got, want)
	}
}

// wantNoSecrets fails the test if anything that a person may read of a run holds
// a secret.
func (s *shop) wantNoSecrets(r *reconcile.Report, more ...string) {
	s.t.Helper()
	text, err := json.Marshal(reconcile.NewDocument([]*reconcile.Report{r}, nil, false))
	if err != nil {
		s.t.Fatal(err)
	}
	rows := s.text(`SELECT coalesce(string_agg(f::text, ' '), '') FROM nightaudit.findings AS f`) +
		s.text(`SELECT coalesce(string_agg(f::text, ' '), '') FROM nightaudit.attempts AS f`) +
		s.text(`SELECT coalesce(string_agg(f::text, ' '), '') FROM nightaudit.runs AS f`)
	for _, secret := range append(more, liveKey, hookSecret, "pathsecret") {
		if strings.Contains(string(text), secret) || strings.Contains(rows, secret) {
			s.t.Errorf("the report or a row of the database shows %q", secret)
		}
	}
}

func (s *shop) text(sql string) string {
	s.t.Helper()
	var out string
	if err := s.pool.QueryRow(s.t.Context(), sql).Scan(&out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestStripeEventsOfEveryAPIVersionAreSentAsTheyAre(t *testing.T) {
	s := newShop(t, "")
	s.source.Replay.AnyVersion = true
	created := epoch.Add(-3 * time.Hour).Unix()
	for i, rest := range []string{
		`"api_version":"2023-10-16","request":{"id":"req_1","idempotency_key":null}`,
		`"api_version":"2015-02-16","request":"req_2"`,
		`"api_version":"2023-10-16","request":null`,
	} {
		s.stripe.Emit(simulator.Emission{Raw: fmt.Appendf(nil,
			`{"id":"evt_na_%d","object":"event","type":"invoice.paid","created":%d,"livemode":true,"pending_webhooks":1,%s,"data":{"object":{"id":"in_%d","object":"invoice"}}}`,
			i+1, created+int64(i), rest, i+1)})
	}
	r := s.run(reconcile.Options{})
	wantBooks(t, r, "listed 3 done 0 missing 3 stuck 0 late 0 ignored 0 unreadable 0")
	wantOutcome(t, r, store.AllRepaired)
	s.wantReplayed("evt_na_1", "evt_na_2", "evt_na_3")
	if body := string(s.replayed()[1].Body); !strings.Contains(body, `"request":"req_2"`) || !strings.Contains(body, `"api_version":"2015-02-16"`) {
		t.Errorf("body of evt_na_2: got %s, want request and version as they were", body)
	}
	s.wantNoSecrets(r)
}

// The bytes signed are the bytes sent, and both are Stripe's own.
func TestStripePayloadsAreSentByteForByte(t *testing.T) {
	s := newShop(t, "")
	created := epoch.Add(-3 * time.Hour).Unix()
	raw := fmt.Sprintf(`{"id":"evt_na_0007","object":"event","type":"invoice.paid","created":%d,"livemode":true,"api_version":"2023-10-16",`+
		`"pending_webhooks":1,"request":null,"data":{"object":{"id":"in_1","object":"invoice","note":"caf\u00e9 \ud83d\ude9a <b>&amp;","amount":1.0,`+
		`"big":9007199254740993,"nul":"a\u0000b","lone":"\ud83d"}}}`, created)
	s.stripe.Emit(simulator.Emission{Raw: []byte(raw)})

	wantOutcome(t, s.run(reconcile.Options{}), store.AllRepaired)
	s.wantReplayed("evt_na_0007")
	if got := string(s.replayed()[0].Body); got != raw {
		t.Errorf("body:\n got %s\nwant %s", got, raw)
	}
}

func TestAStripeEventOfFiveMegabytesIsSentWhole(t *testing.T) {
	s := newShop(t, "")
	s.emit("evt_small", "invoice.paid", 4, false)
	s.stripe.Emit(simulator.Emission{ID: "evt_big", Type: "invoice.paid", Created: epoch.Add(-3 * time.Hour),
		Object: simulator.Object{ID: "in_big", Set: map[string]any{"description": strings.Repeat("x", 5<<20)}}})
	wantOutcome(t, s.run(reconcile.Options{}), store.AllRepaired)
	s.wantReplayed("evt_small", "evt_big")
	if n := len(s.replayed()[1].Body); n < 5<<20 {
		t.Errorf("body of evt_big: got %d bytes, want all", n)
	}
}

func TestAnEndpointThatRefusesALargeBodyCostsThatEventAlone(t *testing.T) {
	s := newShop(t, "")
	s.app.SetMaxBody(1 << 20)
	s.stripe.Emit(simulator.Emission{ID: "evt_big", Type: "invoice.paid", Created: epoch.Add(-3 * time.Hour),
		Object: simulator.Object{ID: "in_big", Set: map[string]any{"description": strings.Repeat("x", 5<<20)}}})
	s.emit("evt_small", "invoice.paid", 2, false)
	r := s.run(reconcile.Options{})
	wantReplay(t, r, "evt_small", store.ReplayRepaired)
	rp := wantReplay(t, r, "evt_big", store.ReplayRejected)
	if !strings.Contains(rp.Reason, "413") || !strings.Contains(rp.Reason, "bytes") {
		t.Errorf("reason: got %q, want the status and the size", rp.Reason)
	}
}

func TestEventsOfConnectedAccountsAreAskedForAsThoseAccounts(t *testing.T) {
	s := newShop(t, "accounts: [acct_na_c1]")
	s.stripe.AddAccount("acct_na_c1", epoch.Add(-90*24*time.Hour))
	s.stripe.AddEndpoint(simulator.Endpoint{ID: "we_connect", URL: s.hook, Secret: hookSecret, Connect: true, Created: epoch.Add(-90 * 24 * time.Hour)})
	s.stripe.Emit(simulator.Emission{Account: "acct_na_c1", ID: "evt_na_c", Type: "invoice.paid", Created: epoch.Add(-3 * time.Hour)})

	r := s.run(reconcile.Options{})
	if len(r.Streams) != 2 || r.Streams[0].Missing != 0 || !r.Streams[0].Complete || r.Streams[1].Missing != 1 {
		t.Errorf("streams: got %+v and %+v, want the platform in sync and one missing of the account", r.Streams[0], r.Streams[1])
	}
	wantReplay(t, r, "evt_na_c", store.ReplayRepaired)
	s.wantReplayed("evt_na_c")
	if body := string(s.replayed()[0].Body); !strings.Contains(body, "acct_na_c1") {
		t.Errorf("body: got %s, want the account named as Stripe's own delivery does", body)
	}
	wantKeys(t, r, store.UnknownEvent)
	next := s.run(reconcile.Options{}) // the ledger has it, and it is not of the platform
	wantKeys(t, next, store.UnknownEvent)
}

func TestAnAccountOutOfReachCostsNothingButItself(t *testing.T) {
	s := newShop(t, "accounts: [acct_na_lost, acct_na_c3]")
	for _, id := range []string{"acct_na_lost", "acct_na_c3"} {
		s.stripe.AddAccount(id, epoch.Add(-90*24*time.Hour))
	}
	s.stripe.SetKey(simulator.Key{Secret: liveKey, Accounts: []string{"acct_na_c3"}})
	s.emit("evt_fine", "invoice.paid", 3, true)
	s.stripe.Emit(simulator.Emission{Account: "acct_na_c3", ID: "evt_3", Type: "invoice.paid", Created: epoch.Add(-3 * time.Hour)})

	r := s.run(reconcile.Options{})
	var complete []bool
	for _, sr := range r.Streams {
		complete = append(complete, sr.Complete)
	}
	if !slices.Equal(complete, []bool{true, false, true}) {
		t.Errorf("complete: got %v, want all but acct_na_lost; reasons: %s", complete, allReasons(r))
	}
	wantKeys(t, r, store.CredentialsRejected, "events@acct_na_lost")
	wantReason(t, r, "acct_na_lost", "settings.accounts")
	wantReplay(t, r, "evt_3", store.ReplayRepaired)
	wantExit(t, r, reconcile.ExitIncomplete)
}

func TestARevokedKeyIsIncompleteAndSaysWhatToDo(t *testing.T) {
	s := newShop(t, "")
	s.emit("evt_1", "invoice.paid", 3, true)
	s.run(reconcile.Options{})
	before := s.watermark()
	s.stripe.RevokeKey(liveKey)
	s.nextNight()
	r := s.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "rejected the credentials", "credentials.api_key")
	wantKeys(t, r, store.CredentialsRejected, "events")
	s.wantWatermark(before)
	s.wantNoSecrets(r)

	s.stripe.SetKey(simulator.Key{Secret: liveKey})
	wantOutcome(t, s.run(reconcile.Options{}), store.InSync) // and the finding is closed
}

func TestAKeyWithoutThePermissionIsToldItsName(t *testing.T) {
	for permission, kept := range map[string][]string{
		simulator.EventRead:   {simulator.WebhookRead},
		simulator.WebhookRead: {simulator.EventRead},
	} {
		t.Run(permission, func(t *testing.T) {
			s := newShop(t, "")
			s.emit("evt_1", "invoice.paid", 3, true)
			s.stripe.SetKey(simulator.Key{Secret: liveKey, Permissions: kept})
			r := s.run(reconcile.Options{})
			wantOutcome(t, r, store.Incomplete)
			wantReason(t, r, permission, "dashboard.stripe.com/apikeys")
			wantKeys(t, r, store.CredentialsRejected, "events")
			s.wantNoSecrets(r)
		})
	}
}

func TestAPageThatIsNoJSONIsIncompleteAndNotRepeatedToTheReader(t *testing.T) {
	s := newShop(t, "")
	s.emit("evt_1", "invoice.paid", 3, true)
	s.run(reconcile.Options{})
	before := s.watermark()
	s.nextNight()
	stop := s.stripe.FailPages(1, -1, simulator.Garbage())
	r := s.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "not a JSON object", "base_url")
	s.wantWatermark(before)
	s.wantNoSecrets(r, "Under maintenance", "<html>")
	stop()
	wantOutcome(t, s.run(reconcile.Options{}), store.InSync)
}

func TestAStripeServerErrorInTheMiddleIsIncomplete(t *testing.T) {
	s := newShop(t, "")
	s.stripe.AddHistory(simulator.History{N: 150, From: epoch.Add(-20 * time.Hour), To: epoch.Add(-2 * time.Hour)})
	if _, err := s.stripe.Backfill(t.Context(), s.pool, s.stripe.All("")); err != nil {
		t.Fatal(err)
	}
	s.window(-1, 0, 23*time.Hour) // one sub-window
	s.stripe.FailPages(2, -1, simulator.ServerError())
	r := s.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "100 compared", "page 2")
	wantBooks(t, r, "listed 100 done 100 missing 0 stuck 0 late 0 ignored 0 unreadable 0")
	s.wantReplayed()
}

func TestAnUndecodableStripeEventCostsNothingButItself(t *testing.T) {
	s := newShop(t, "")
	s.window(-1, 0, 23*time.Hour) // one sub-window: each listing has the element
	s.emit("evt_1", "invoice.paid", 3, false)
	s.emit("evt_2", "invoice.paid", 2, false)
	s.stripe.SetFaults(simulator.Faults{BadElement: []byte(`{"id":"evt_bad","object":"event","type":7,"created":"sekret"}`)})
	r := s.run(reconcile.Options{})
	wantBooks(t, r, "listed 3 done 0 missing 2 stuck 0 late 0 ignored 0 unreadable 1")
	wantKeys(t, r, store.UnreadableEvent, "evt_bad")
	s.wantReplayed("evt_1", "evt_2")
	s.wantNoSecrets(r, "sekret")
}

func TestABusySecondOfStripeIsListedWhole(t *testing.T) {
	s := newShop(t, "")
	for n := 1; n <= 150; n++ {
		s.stripe.Emit(simulator.Emission{ID: fmt.Sprintf("evt_na_%04d", n), Type: "invoice.paid", Created: epoch.Add(-2 * time.Hour)})
	}
	if _, err := s.stripe.Backfill(t.Context(), s.pool, s.stripe.All("")); err != nil {
		t.Fatal(err)
	}
	s.exec(`DELETE FROM public.processed_events WHERE event_id = 'evt_na_0007'`)
	s.stripe.SetFaults(simulator.Faults{BusySecond: true})
	r := s.run(reconcile.Options{})
	wantBooks(t, r, "listed 150 done 149 missing 1 stuck 0 late 0 ignored 0 unreadable 0")
	s.wantReplayed("evt_na_0007")
}

func TestStripeListingNothingWhereThereWasAlwaysTrafficIsSuspicious(t *testing.T) {
	s := newShop(t, "")
	s.stripe.AddHistory(simulator.History{N: 600, From: epoch.Add(-71 * time.Hour), To: epoch})
	if _, err := s.stripe.Backfill(t.Context(), s.pool, s.stripe.All("")); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, s.run(reconcile.Options{}), store.InSync)
	before := s.watermark()
	s.nextNight()
	s.stripe.SetFaults(simulator.Faults{EmptyAccounts: []string{""}})
	r := s.run(reconcile.Options{})
	wantKeys(t, r, store.SuspiciousEmpty, "events")
	wantExit(t, r, reconcile.ExitIncomplete)
	s.wantWatermark(before)
}

func TestAStripeEndpointThatMovedIsAFindingAndNoDelivery(t *testing.T) {
	s := newShop(t, "")
	for day := 1; day <= 6; day++ {
		s.emit(fmt.Sprintf("evt_%d", day), "invoice.paid", 10*day, false)
	}
	s.app.SetFault(simulator.Redirect(http.StatusTemporaryRedirect, "https://new.example/hook?token=sekret"))
	r := s.run(reconcile.Options{})
	wantBooks(t, r, "listed 6 done 0 missing 6 stuck 0 late 0 ignored 0 unreadable 0")
	if f := finding(t, r, store.EndpointFailing, "endpoints[0]"); !strings.Contains(f.Detail, "redirect") || !strings.Contains(f.Detail, "307") {
		t.Errorf("detail: got %q, want the redirect and its status", f.Detail)
	}
	if f := finding(t, r, store.MissingEvent, "evt_1"); f.Cause != store.DeliveryFailed {
		t.Errorf("cause: got %s, want %s, Stripe still waits for an acknowledgement", f.Cause, store.DeliveryFailed)
	}
	if r.Replays.Repaired != 0 || r.Replays.Failed != 6 || len(s.replayed()) != 6 {
		t.Errorf("replays: got %+v after %d posts, want six refused and none followed", r.Replays, len(s.replayed()))
	}
	s.wantNoSecrets(r, "sekret")
}

func TestARepairedEventHasItsEffectOnceWhateverTheAnswerWas(t *testing.T) {
	s := newShop(t, "")
	s.emit("evt_lost", "invoice.paid", 4, false)
	s.emit("evt_500", "invoice.paid", 3, false)
	s.emit("evt_ok", "invoice.paid", 2, false)
	s.app.SetFaults(func(id string) simulator.AppFault {
		switch id {
		case "evt_lost":
			return simulator.AppFault{Lose: true}
		case "evt_500":
			return simulator.AppFault{Status: http.StatusInternalServerError}
		}
		return simulator.AppFault{}
	})
	r := s.run(reconcile.Options{})
	wantOutcome(t, r, store.AllRepaired)
	if r.Replays.Repaired != 3 || r.Replays.Confirmed != 2 {
		t.Errorf("replays: got %+v, want three repaired, two of them confirmed by record", r.Replays)
	}
	s.run(reconcile.Options{})
	s.wantReplayed("evt_lost", "evt_500", "evt_ok")
	if n := s.count(`SELECT count(*) FROM public.effects WHERE n = 1`); n != 3 {
		t.Errorf("events with one effect: got %d, want 3", n)
	}
	s.wantNoSecrets(r)
}

func TestAnApplicationThatIsDownLeavesTheEventsQueuedAndShowsNoURL(t *testing.T) {
	s := newShop(t, "")
	s.emit("evt_1", "invoice.paid", 3, false)
	s.app.SetFault(simulator.AppFault{Record: simulator.RecordNothing, Lose: true})
	r := s.run(reconcile.Options{})
	rp := wantReplay(t, r, "evt_1", store.ReplayQueued)
	if rp.LastAttempt == nil || rp.LastAttempt.Phase == "" {
		t.Errorf("last attempt: got %+v, want the phase in which it failed", rp.LastAttempt)
	}
	wantExit(t, r, reconcile.ExitDrift)
	s.wantNoSecrets(r)
}
