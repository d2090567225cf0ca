package reconcile

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// maxRemembered is how many events a run keeps of what it saw about subjects.
// With more, the drain reads the feed once more instead.
const maxRemembered = 50_000

// A memory is what a listing showed of the subjects that carry state: the newest
// event of each that the ledger shows as done, and those that may yet become so.
// It spares the drain of the same run a second reading of the same window. The
// nil memory, of a run that drains nothing, keeps nothing.
type memory struct {
	stream  string
	window  providers.Window
	newest  map[laneID]sight   // done
	open    map[laneID][]sight // not done, or not asked about
	types   map[string]string  // each type once
	modes   [2]bool            // likewise: false, true
	size    int
	spilled bool // there were too many to keep
}

// A laneID stands for the name of a lane; two lanes never share one in practice.
type laneID [16]byte

func laneOf(lane string) laneID {
	sum := sha256.Sum256([]byte(lane))
	return laneID(sum[:16])
}

// A sight is what a witness needs of an event, in little memory.
type sight struct {
	key, id, account, eventType string
	created                     time.Time
	livemode                    *bool
}

func newMemory(stream string, w providers.Window) *memory {
	return &memory{stream: stream, window: w, modes: [2]bool{false, true},
		newest: make(map[laneID]sight), open: make(map[laneID][]sight), types: make(map[string]string)}
}

// see takes one event that carries state into the memory.
func (m *memory) see(e providers.Event, done bool) {
	if m == nil || m.spilled {
		return
	}
	lane := laneOf(e.Lane())
	old, known := m.newest[lane]
	switch {
	case done && known && !e.Created.After(old.created):
		return
	case done:
		m.newest[lane] = m.sight(e)
	default:
		m.open[lane] = append(m.open[lane], m.sight(e))
	}
	if !done || !known {
		m.size++
	}
	if m.size > maxRemembered {
		m.newest, m.open, m.spilled = nil, nil, true
	}
}

func (m *memory) sight(e providers.Event) sight {
	if _, known := m.types[e.Type]; !known {
		m.types[e.Type] = e.Type
	}
	s := sight{key: e.Key, id: e.ID, account: e.Account, eventType: m.types[e.Type], created: e.Created}
	switch {
	case e.Livemode == nil:
	case *e.Livemode:
		s.livemode = &m.modes[1]
	default:
		s.livemode = &m.modes[0]
	}
	return s
}

// witnesses are what was seen of a lane.
func (m *memory) witnesses(lane string) []store.Witness {
	id := laneOf(lane)
	seen := m.open[id]
	if s, done := m.newest[id]; done {
		seen = append([]sight{s}, seen...)
	}
	witnesses := make([]store.Witness, len(seen))
	for i, s := range seen {
		witnesses[i] = store.Witness{Lane: lane, Event: providers.Event{
			Key: s.key, ID: s.id, Account: s.account, Type: s.eventType, Created: s.created, Livemode: s.livemode,
		}}
	}
	return witnesses
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
			witnesses = append(witnesses, m.witnesses(rp.Lane)...)
		}
		if err := r.lease.AddWitnesses(ctx, m.stream, witnesses); err != nil {
			return nil, err
		}
	}
	return witnessed, nil
}
