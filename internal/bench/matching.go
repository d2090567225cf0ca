package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// matching compares a window with a ledger: by a whole run of the engine over a
// listing in memory, and by the plain SQL that a person would write who may load
// the listed ids into the ledger's database.
func matching(ctx context.Context, e *environment) ([]figure, error) {
	var figures []figure
	for _, column := range []string{"text", "uuid"} {
		f, err := e.match(ctx, traffic{column})
		if err != nil {
			return figures, fmt.Errorf("matching a %s column: %w", column, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

func (e *environment) match(ctx context.Context, t traffic) (figure, error) {
	e.say("a ledger of %d rows, ids of type %s", ledgerRows, t.column)
	m, err := e.newMatch(ctx, t)
	if err != nil {
		return figure{}, err
	}
	defer m.close()
	var plain, ours []time.Duration
	for i := range repeats + 1 {
		p, err := m.plain(ctx)
		if err != nil {
			return figure{}, err
		}
		o, err := m.engine(ctx)
		if err != nil {
			return figure{}, err
		}
		e.say("%d ids: plain SQL %.2f s, the engine %.2f s", listedEvents, p.Seconds(), o.Seconds())
		if i > 0 { // the first warms what there is to warm
			plain, ours = append(plain, p), append(ours, o)
		}
	}
	p, o := median(plain, time.Duration.Nanoseconds), median(ours, time.Duration.Nanoseconds)
	return figure{name: fmt.Sprintf("matching %d %s ids with %d rows, to plain SQL", listedEvents, t.column, ledgerRows),
		got: o.Seconds() / p.Seconds(), bar: 2, unit: "x",
		detail: fmt.Sprintf("%.2f s to %.2f s", o.Seconds(), p.Seconds())}, nil
}

// A match is a ledger, and what is needed to compare the traffic with it.
type match struct {
	traffic traffic
	feed    *memoryFeed
	ledger  *pgxpool.Pool
	own     *pgxpool.Pool
	store   *store.Store
	source  reconcile.Source
}

func (e *environment) newMatch(ctx context.Context, t traffic) (_ *match, err error) {
	m := &match{traffic: t, feed: newMemoryFeed(t)}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.ledger, err = e.pool(ctx); err != nil {
		return nil, err
	}
	if m.own, err = e.pool(ctx); err != nil {
		return nil, err
	}
	if err := t.record(ctx, m.ledger); err != nil {
		return nil, fmt.Errorf("filling the ledger: %w", err)
	}
	if _, err := store.Migrate(ctx, m.own, "", nil); err != nil {
		return nil, err
	}
	if m.store, err = store.New(m.own, store.Options{}); err != nil {
		return nil, err
	}
	ledger, err := appdb.Open(ctx, m.ledger, appdb.Options{Table: "public.processed_events", Key: map[string]string{"event_id": "event.id"},
		Type: "event_type", HandledAt: "handled_at", Done: "status = 'done'"}, nil)
	if err != nil {
		return nil, err
	}
	m.source = reconcile.Source{Name: "bench", Provider: m.feed, Ledger: ledger, StuckAfter: time.Hour,
		Events: reconcile.Filter{Include: []string{"*"}}}
	return m, nil
}

// pool connects to a new database.
func (e *environment) pool(ctx context.Context) (*pgxpool.Pool, error) {
	url, err := e.database(ctx)
	if err != nil {
		return nil, err
	}
	return pgxpool.New(ctx, url)
}

func (m *match) close() {
	for _, pool := range []*pgxpool.Pool{m.ledger, m.own} {
		if pool != nil {
			pool.Close()
		}
	}
}

const missingSQL = `
SELECT id FROM ids
WHERE NOT EXISTS (SELECT FROM public.processed_events WHERE event_id = ids.id)`

// plain loads the ids beside the ledger and has the server compare them.
func (m *match) plain(ctx context.Context) (time.Duration, error) {
	conn, err := m.ledger.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	began := time.Now()
	if _, err := conn.Exec(ctx, "CREATE TEMP TABLE ids (id "+m.traffic.column+")"); err != nil {
		return 0, err
	}
	if _, err := conn.Conn().PgConn().CopyFrom(ctx, strings.NewReader(m.feed.lines), "COPY ids FROM STDIN"); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, "ANALYZE ids"); err != nil {
		return 0, err
	}
	rows, err := conn.Query(ctx, missingSQL)
	if err != nil {
		return 0, err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	if _, err := conn.Exec(ctx, "DROP TABLE ids"); err != nil {
		return 0, err
	}
	if len(missing) != lostEvents {
		return 0, fmt.Errorf("plain SQL found %d missing, want %d", len(missing), lostEvents)
	}
	return took, nil
}

// engine makes a dry run by hand over the window.
func (m *match) engine(ctx context.Context) (time.Duration, error) {
	t := m.traffic
	began := time.Now()
	report, err := reconcile.Run(ctx, m.store, m.source, reconcile.Options{
		DryRun: true, Hand: true, Since: t.created(listedFrom), Until: t.end(), Now: t.end})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	if len(report.Streams) != 1 {
		return 0, fmt.Errorf("the run compared %d streams, want 1: %q", len(report.Streams), report.Reasons)
	}
	if s := report.Streams[0]; s.Listed != listedEvents || s.Done != listedEvents-lostEvents || s.Missing != lostEvents {
		return 0, fmt.Errorf("the run listed %d, done %d, missing %d, want %d with %d missing: %q %q", s.Listed, s.Done, s.Missing,
			listedEvents, lostEvents, report.Reasons, s.Reasons)
	}
	return took, nil
}
