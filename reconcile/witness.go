package reconcile

import (
	"context"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// maxRemembered is how many events a run keeps of what it saw about subjects.
// With more, the drain reads the feed once more instead.
const maxRemembered = 50_000

// A memory is what a listing showed of the subjects that carry state: the newest
// event of each that the ledger shows as done, and those that may yet become so.
// It spares the drain of the same run a second reading of the same window.
type memory struct {
	stream  string
	window  providers.Window
	newest  map[string]providers.Event   // by lane, without payload: done
	open    map[string][]providers.Event // likewise: not done, or not asked about
	size    int
	spilled bool // there were too many to keep
}

func newMemory(stream string, w providers.Window) *memory {
	return &memory{stream: stream, window: w,
		newest: make(map[string]providers.Event), open: make(map[string][]providers.Event)}
}

// see takes one event that carries state into the memory.
func (m *memory) see(e providers.Event, done bool) {
	lane := e.Lane()
	old, known := m.newest[lane]
	e = providers.Event{Key: e.Key, ID: e.ID, Account: e.Account, Type: e.Type, Created: e.Created, Livemode: e.Livemode}
	switch {
	case m.spilled:
		return
	case done && known && !e.Created.After(old.Created):
		return
	case done:
		m.newest[lane] = e
	default:
		m.open[lane] = append(m.open[lane], e)
	}
	if !done || !known {
		m.size++
	}
	if m.size > maxRemembered {
		m.newest, m.open, m.spilled = nil, nil, true
	}
}

// testify gives the memories of this run's listings to the replays that wait, and
// up to when each need not be looked for again in this run. Later runs look again:
// an application may lose the newest event that is done.
func (r *run) testify(ctx context.Context) (map[string]time.Time, error) {
	waiting, err := r.store.WaitingSnapshots(ctx, r.source.Name)
	if err != nil {
		return nil, err
	}
	witnessed := make(map[string]time.Time)
	for _, m := range r.memories {
		var witnesses []store.Witness
		for _, rp := range waiting[m.stream] {
			if rp.WitnessedTo != nil || !m.window.Contains(rp.Event.Created) {
				continue
			}
			witnessed[rp.ID] = m.window.To
			if e, seen := m.newest[rp.Lane]; seen {
				witnesses = append(witnesses, store.Witness{Event: e, Lane: rp.Lane})
			}
			for _, e := range m.open[rp.Lane] {
				witnesses = append(witnesses, store.Witness{Event: e, Lane: rp.Lane})
			}
		}
		if err := r.lease.AddWitnesses(ctx, m.stream, witnesses); err != nil {
			return nil, err
		}
	}
	return witnessed, nil
}
