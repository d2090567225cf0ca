package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// traffic is the events of ninety days and what became of them, by numbers from 0
// on. Of the youngest fifth, which is what is listed, some were lost.
type traffic struct {
	column string // the type of the ids: "text" or "uuid"
}

const (
	trafficSpan   = 90 * 24 * time.Hour
	trafficEvents = ledgerRows + lostEvents
	ledgerRows    = 5_000_000
	listedEvents  = 1_000_000
	listedFrom    = trafficEvents - listedEvents // the oldest that is listed
	lostEach      = 1000                         // one of so many that are listed
	lostEvents    = listedEvents / lostEach
	eventType     = "invoice.paid"
)

// trafficBegins is when the first event happened.
var trafficBegins = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// id is an event's id. It looks like one of the provider's, and tells nothing of
// when it was made: its neighbours in an index lie anywhere in the table.
func (t traffic) id(n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", t.column, n))
	if t.column == "uuid" {
		text := hex.EncodeToString(sum[:16])
		return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
	}
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	id := []byte("evt_1")
	for _, b := range sum[:23] {
		id = append(id, letters[int(b)%len(letters)])
	}
	return string(id)
}

// created is when an event happened, in whole seconds as providers tell it.
func (t traffic) created(n int) time.Time {
	return trafficBegins.Add(time.Duration(n) * (trafficSpan / trafficEvents)).Truncate(time.Second)
}

// since is the first event that happened at a time or later.
func (t traffic) since(at time.Time) int {
	return sort.Search(trafficEvents, func(n int) bool { return !t.created(n).Before(at) })
}

// end is a second after the last event.
func (t traffic) end() time.Time { return t.created(trafficEvents - 1).Add(time.Second) }

// lost reports whether an event was never recorded.
func (t traffic) lost(n int) bool { return n >= listedFrom && n%lostEach == 0 }

// takes is how long the application took to record an event: seconds mostly,
// minutes where it was behind, and hours where a delivery had to be repeated.
func takes(r *rand.Rand) time.Duration {
	switch p := r.Float64(); {
	case p < 0.97:
		return time.Duration(r.ExpFloat64() * float64(5*time.Second))
	case p < 0.995:
		return time.Duration(r.Float64() * float64(10*time.Minute))
	default:
		return time.Hour + time.Duration(r.Float64()*float64(8*time.Hour))
	}
}

// A recorded event is a row of the ledger.
type recorded struct {
	event int
	at    time.Time
}

// rows are those of the ledger, in the order in which they were recorded.
func (t traffic) rows() []recorded {
	r := rand.New(rand.NewPCG(5, 1))
	rows := make([]recorded, 0, ledgerRows)
	for n := range trafficEvents {
		if at := t.created(n).Add(takes(r)); !t.lost(n) {
			rows = append(rows, recorded{n, at})
		}
	}
	slices.SortFunc(rows, func(a, b recorded) int { return a.at.Compare(b.at) })
	return rows
}

// record makes the ledger as the application would have left it. It has no index
// on handled_at, which nothing of what is measured needs.
func (t traffic) record(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `
CREATE TABLE public.processed_events (event_id `+t.column+` NOT NULL, event_type text, status text, handled_at timestamptz)`)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for some := range slices.Chunk(t.rows(), 100_000) {
		lines.Reset()
		for _, r := range some {
			fmt.Fprintf(&lines, "%s\t%s\tdone\t%s\n", t.id(r.event), eventType, r.at.Format(time.RFC3339Nano))
		}
		if err := copyIn(ctx, pool, "public.processed_events", lines.Bytes()); err != nil {
			return err
		}
	}
	for _, sql := range []string{`ALTER TABLE public.processed_events ADD PRIMARY KEY (event_id)`, `VACUUM (ANALYZE) public.processed_events`, `CHECKPOINT`} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// copyIn adds lines to a table.
func copyIn(ctx context.Context, pool *pgxpool.Pool, table string, lines []byte) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(lines), "COPY "+table+" FROM STDIN")
	return err
}
