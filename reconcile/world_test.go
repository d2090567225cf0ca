package reconcile_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// epoch is 2026-01-01T00:00:00Z, at which the worlds of these tests begin.
var epoch = time.Unix(1767225600, 0).UTC()

const hookURL = "https://app.example.com/webhooks"

// A world is a provider, an application and nightaudit, with a clock that stands
// still until a test moves it. The databases are real; provider and application
// are scripted.
type world struct {
	t        testing.TB
	pool     *pgxpool.Pool
	store    *store.Store
	provider *scripted
	app      *app
	source   reconcile.Source
	now      time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	pool := pgtest.Pool(t)
	w := &world{t: t, pool: pool, now: epoch}
	w.migrate()
	w.provider = &scripted{now: func() time.Time { return w.now }, pageSize: 100, feed: providers.Feed{
		Order: providers.NewestFirst, Filter: providers.FilterSecond, Splittable: true,
		Settle: 10 * time.Minute, Overlap: time.Hour, Initial: 72 * time.Hour, Retention: 30 * 24 * time.Hour,
		RetryWindow: 72 * time.Hour,
	}}
	w.provider.endpoints = []providers.Endpoint{{ID: "we_1", URL: hookURL, Enabled: true, Types: []string{"*"}}}
	w.app = newApp(t, pool)
	w.source = reconcile.Source{
		Name: "shop", Provider: w.provider, Ledger: w.ledger(appdb.Options{}), StuckAfter: time.Hour,
		Targets: []replay.Target{{URL: hookURL}}, Sender: w.app, Repair: true,
		Replay: replay.Options{Rate: 10_000, VerifyWithin: time.Millisecond, Concurrency: 4},
	}
	return w
}

func (w *world) migrate() {
	w.t.Helper()
	if _, err := store.Migrate(w.t.Context(), w.pool, "", nil); err != nil {
		w.t.Fatal(err)
	}
	st, err := store.New(w.pool, store.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = st
}

// ledger opens the application's table as the config would map it; what is set
// in o wins.
func (w *world) ledger(o appdb.Options) *appdb.Ledger {
	w.t.Helper()
	o.Table = "public.processed_events"
	if o.Key == nil {
		o.Key = map[string]string{"event_id": "event.id"}
	}
	o.Type, o.HandledAt, o.Done = "event_type", "handled_at", "status = 'done'"
	l, err := appdb.Open(w.t.Context(), w.pool, o, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// run makes one run and fails the test if it cannot be made at all.
func (w *world) run(o reconcile.Options) *reconcile.Report {
	w.t.Helper()
	r, err := w.try(w.t.Context(), o)
	if err != nil {
		w.t.Fatalf("run: %v", err)
	}
	return r
}

func (w *world) try(ctx context.Context, o reconcile.Options) (*reconcile.Report, error) {
	o.Now = func() time.Time { return w.now }
	r, err := reconcile.Run(ctx, w.store, w.source, o)
	if r != nil {
		valid(w.t, reconcile.NewDocument([]*reconcile.Report{r}, nil, false))
	}
	return r, err
}

// watermark is the stored watermark of the stream "events".
func (w *world) watermark() time.Time {
	w.t.Helper()
	st, err := w.store.Stream(w.t.Context(), "shop", "events")
	if err != nil || st == nil {
		w.t.Fatalf("watermark: %v, %v", st, err)
	}
	return st.Watermark
}

// scripted is a provider that lists what a test put into it, and goes wrong when
// the test says so.
type scripted struct {
	mu        sync.Mutex
	now       func() time.Time
	feed      providers.Feed
	pageSize  int
	events    []scriptedEvent
	endpoints []providers.Endpoint
	requests  []request
	// fault, if not nil, is asked before each page; an error is the answer.
	fault func(r request) error
	// page, if not nil, may change a page before it is given out.
	page func(r request, p *providers.Page[providers.Event])
	// streamsErr is the answer to Streams, if not nil.
	streamsErr error
	cannotShow []string
	// streamName is the only stream; "" is "events".
	streamName string
	// endpointsErr is the answer to Endpoints, if not nil.
	endpointsErr error
	// livemode is the mode of the streams; nil where there is none.
	livemode *bool
	// skew, if not nil, is how far the provider's clock is ahead.
	skew *time.Duration
}

type scriptedEvent struct {
	providers.Event
	visible time.Time
	raw     string // not decodable: listed as unreadable
}

type request struct {
	stream string
	window providers.Window
	cursor providers.Cursor
}

// emit adds an event that is visible from when it was created on.
func (p *scripted) emit(id, eventType string, created time.Time) *scriptedEvent {
	return p.emitFor(id, eventType, created, "")
}

// emitFor adds an event about an object.
func (p *scripted) emitFor(id, eventType string, created time.Time, object string) *scriptedEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := scriptedEvent{visible: created, Event: providers.Event{
		Key: id, ID: id, Type: eventType, Created: created.UTC(),
		Subject: providers.Subject{Kind: "object", ID: object},
	}}
	e.Payload, _ = json.Marshal(map[string]any{"id": id, "type": eventType, "created": created.Unix()})
	p.events = append(p.events, e)
	return &p.events[len(p.events)-1]
}

func (p *scripted) Describe() providers.Description {
	return providers.Description{Kind: "scripted", CannotShow: p.cannotShow}
}

func (p *scripted) Check(context.Context) ([]providers.Probe, error) { return nil, nil }

func (p *scripted) Streams(context.Context) ([]providers.Stream, error) {
	if p.streamsErr != nil {
		return nil, p.streamsErr
	}
	return []providers.Stream{{Name: cmp.Or(p.streamName, "events"), Feed: p.feed, Livemode: p.livemode}}, nil
}

func (p *scripted) Skew() (time.Duration, bool) {
	if p.skew == nil {
		return 0, false
	}
	return *p.skew, true
}

func (p *scripted) Events(_ context.Context, s providers.Stream, w providers.Window, c providers.Cursor) (providers.Page[providers.Event], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := request{s.Name, w, c}
	p.requests = append(p.requests, r)
	var page providers.Page[providers.Event]
	if p.fault != nil {
		if err := p.fault(r); err != nil {
			return page, err
		}
	}
	matching := p.matching(w)
	start := 0
	if c != "" {
		start = 1 + slices.IndexFunc(matching, func(e scriptedEvent) bool { return e.Key == string(c) })
	}
	end := min(start+p.pageSize, len(matching))
	for _, e := range matching[start:end] {
		if e.raw != "" {
			page.Unreadable = append(page.Unreadable, providers.Unreadable{ID: e.ID, Bytes: []byte(e.raw), Why: "not an event"})
			continue
		}
		page.Items = append(page.Items, e.Event)
	}
	if end < len(matching) {
		page.Next = providers.Cursor(matching[end-1].Key)
	}
	if p.page != nil {
		p.page(r, &page)
	}
	return page, nil
}

// matching gives what is listable of a window now, newest first.
func (p *scripted) matching(w providers.Window) []scriptedEvent {
	var out []scriptedEvent
	for _, e := range p.events {
		if w.Contains(e.Created) && !e.visible.After(p.now()) && e.Created.After(p.now().Add(-p.feed.Retention)) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b scriptedEvent) int {
		return cmpOr(b.Created.Compare(a.Created), strings.Compare(b.Key, a.Key))
	})
	return out
}

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

func (p *scripted) Event(_ context.Context, _ providers.Stream, key string) (providers.Event, providers.Presence, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Key == key && e.raw != "" {
			return providers.Event{}, "", errors.New("not an event")
		}
		if e.Key == key {
			return e.Event, providers.Live, nil
		}
	}
	return providers.Event{}, providers.Absent, nil
}

func (p *scripted) Endpoints(context.Context, providers.Stream) ([]providers.Endpoint, error) {
	if p.endpointsErr != nil {
		return nil, p.endpointsErr
	}
	return slices.Clone(p.endpoints), nil
}

func (p *scripted) Compose(_ context.Context, ep providers.Endpoint, e providers.Event) (providers.Message, error) {
	return providers.Message{URL: ep.URL, Body: e.Payload}, nil
}

func (p *scripted) Sign(m providers.Message, _ []providers.Secret, _ time.Time) (providers.Message, error) {
	return m, nil
}

func (p *scripted) Open(providers.Request, []providers.Secret, time.Time) (providers.Event, error) {
	return providers.Event{}, errors.New("scripted deliveries are not opened")
}

func (p *scripted) Replayable(eventType string) (bool, string) {
	return !strings.HasPrefix(eventType, "login."), "a sign-in belongs to its moment"
}

func (p *scripted) Class(eventType string) providers.Class {
	switch {
	case strings.HasSuffix(eventType, ".updated"):
		return providers.Snapshot
	case strings.HasSuffix(eventType, ".deleted"):
		return providers.Ending
	default:
		return providers.Fact
	}
}

// app is the application: an idempotent handler over a real table. As a Sender
// it stands for the HTTP in between too.
type app struct {
	t    testing.TB
	pool *pgxpool.Pool

	mu    sync.Mutex
	posts []string          // event ids, in the order of arrival
	urls  map[string]string // where each was sent last, by event id
	// behave, if not nil, says how an event is answered.
	behave func(eventID string) behaviour
}

// A behaviour is how the application answers an event. The zero value records
// it and answers 200.
type behaviour struct {
	skip    bool // do not record
	pending bool // record, with the work not done
	result  replay.Result
}

func newApp(t testing.TB, pool *pgxpool.Pool) *app {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		CREATE TABLE public.processed_events (
			event_id text PRIMARY KEY, event_type text, account text, livemode boolean,
			status text NOT NULL DEFAULT 'done', handled_at timestamptz NOT NULL);
		CREATE TABLE public.effects (event_id text NOT NULL);
		CREATE TABLE public.states (object text PRIMARY KEY, event_id text NOT NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	return &app{t: t, pool: pool}
}

// handleSQL records an event once and applies its effect with it.
const handleSQL = `
WITH fresh AS (
    INSERT INTO public.processed_events (event_id, event_type, status, handled_at)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (event_id) DO UPDATE SET status = excluded.status
        WHERE processed_events.status <> 'done' AND excluded.status = 'done'
    RETURNING event_id, status
)
INSERT INTO public.effects (event_id)
SELECT event_id FROM fresh WHERE status = 'done'`

// handle is what the live path does too.
func (a *app) handle(e providers.Event, status string, at time.Time) {
	a.t.Helper()
	if _, err := a.pool.Exec(context.Background(), handleSQL, e.ID, e.Type, status, at); err != nil {
		a.t.Errorf("handling %s: %v", e.ID, err)
	}
}

func (a *app) Send(_ context.Context, w replay.Work) replay.Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts = append(a.posts, w.Event.ID)
	if a.urls == nil {
		a.urls = make(map[string]string)
	}
	a.urls[w.Event.ID] = w.Endpoint.URL
	var b behaviour
	if a.behave != nil {
		b = a.behave(w.Event.ID)
	}
	if !b.skip {
		status := "done"
		if b.pending {
			status = "pending"
		}
		a.handle(w.Event, status, time.Now())
	}
	if b.result.Outcome == "" {
		b.result = replay.Result{Outcome: replay.Acknowledged, Status: 200}
	}
	return b.result
}

// effects counts how often the effect of each event was applied.
func (a *app) effects() map[string]int {
	a.t.Helper()
	rows, err := a.pool.Query(context.Background(), `SELECT event_id, count(*) FROM public.effects GROUP BY event_id`)
	if err != nil {
		a.t.Fatal(err)
	}
	defer rows.Close()
	counts := make(map[string]int)
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			a.t.Fatal(err)
		}
		counts[id] = n
	}
	if rows.Err() != nil {
		a.t.Fatal(rows.Err())
	}
	return counts
}

// keysOf are the keys of the findings of a kind, in order.
func keysOf(r *reconcile.Report, kind store.Kind) []string {
	keys := []string{}
	for _, f := range r.Findings {
		if f.Kind == kind {
			keys = append(keys, f.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// books is the only stream's counts, as a line.
func books(r *reconcile.Report) string {
	s := r.Streams[0]
	return fmt.Sprintf("listed %d done %d missing %d stuck %d late %d ignored %d unreadable %d",
		s.Listed, s.Done, s.Missing, s.Stuck, s.Late, s.Ignored, s.Unreadable)
}
