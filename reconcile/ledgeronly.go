package reconcile

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// ledgerOnly knows which events were listed lately, so that rows of the ledger
// which nobody listed stand out. An event can be handled long after it happened,
// so it remembers more than it looks at; and the window's first rows, as long as
// the overlap is, are of events that an earlier run listed.
type ledgerOnly struct {
	from  time.Time  // rows handled before are not looked at, or were
	spans []keysSpan // oldest first
	keys  int        // in all spans
}

// A keysSpan is the keys of a sub-window, as hashes, sorted: eight bytes an event.
// That two keys share one hides a row at worst.
type keysSpan struct {
	window providers.Window
	keys   []uint64
}

const (
	// stretch is how much is looked at in one reading of the ledger, whose table
	// may have no index of the time, and how much is remembered beyond.
	stretch = 24 * time.Hour
	// mostKeys is how many keys make a stretch, if they come sooner.
	mostKeys = 200_000
)

// seed differs in every process, and so do the hashes.
var seed = maphash.MakeSeed()

func hash(key string) uint64 { return maphash.String(seed, key) }

// note notes that an event of a sub-window was listed.
func (l *ledgerOnly) note(sub *subWindow, key string) {
	if l != nil {
		sub.keys = append(sub.keys, hash(key))
	}
}

// add takes in the sub-window that follows the last one.
func (l *ledgerOnly) add(sub *subWindow) {
	if l == nil {
		return
	}
	slices.Sort(sub.keys)
	l.spans = append(l.spans, keysSpan{window: sub.window, keys: slices.Clone(sub.keys)})
	l.keys += len(sub.keys)
	sub.keys = nil
}

// full reports whether it is time to look at the rows.
func (l *ledgerOnly) full() bool {
	return l != nil && (l.due().Length() >= stretch || l.keys >= 2*mostKeys)
}

// due is the window of rows that were not looked at yet.
func (l *ledgerOnly) due() providers.Window {
	if len(l.spans) == 0 {
		return providers.Window{}
	}
	return providers.Window{From: l.from, To: l.spans[len(l.spans)-1].window.To}
}

// checked notes that the rows of a window were looked at, and forgets what is too
// old to matter, or too much.
func (l *ledgerOnly) checked(w providers.Window) {
	l.from = later(l.from, w.To)
	edge := w.To.Add(-stretch)
	n := 0
	for ; n < len(l.spans)-1 && (l.spans[n].window.To.Before(edge) || l.keys > mostKeys); n++ {
		l.keys -= len(l.spans[n].keys)
	}
	l.spans = slices.Delete(l.spans, 0, n)
}

// listed reports whether an event handled at a time was listed. It looks from
// then back, since most are handled at once.
func (l *ledgerOnly) listed(key string, handled time.Time) bool {
	id := hash(key)
	has := func(s keysSpan) bool { _, found := slices.BinarySearch(s.keys, id); return found }
	after, _ := slices.BinarySearchFunc(l.spans, handled, func(s keysSpan, at time.Time) int { return s.window.From.Compare(at) })
	for i := after - 1; i >= 0; i-- {
		if has(l.spans[i]) {
			return true
		}
	}
	return slices.ContainsFunc(l.spans[after:], has)
}
