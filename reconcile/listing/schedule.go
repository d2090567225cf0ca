package listing

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

const (
	// most is how many pages a part should have: so much is listed again after a
	// crash, and its keys are held in memory. A part that turns out to be twice as
	// long is cut.
	most = 50
	// least is how many pages must be left for a split to be worth a request.
	least = 2
	// day is how long the parts of a feed are that cannot be split anywhere.
	day = 24 * time.Hour
)

// A walk is one window being listed by several workers. Each takes a part, lists
// it, and takes the next:
//
//   - The first part is one page, the newest. Its density says how long parts
//     should be, and often it is all that there is.
//   - The rest is taken from its older end, so many pages at a time that every
//     worker has some, and no more than most.
//   - When nothing is left to take, the part with most pages before it gives away
//     the older half of what it has not listed.
//
// Each part costs at most one page that is not full, so their number is bounded
// by what may be wasted.
type walk struct {
	feed    providers.EventFeed
	stream  providers.Stream
	window  providers.Window
	workers int

	mu         sync.Mutex
	changed    *sync.Cond
	parts      []*Part       // those that are not closed, oldest first; they meet
	made       int           // parts beyond the first
	pace       time.Duration // how much time a page spans, by the part listed last; 0 before
	fullest    int           // events on a page
	unreadable seen          // which have no time, and so no part that is sure to be theirs
	seen       Progress
	failed     *Part // the oldest that could not be listed whole
	failure    error
}

func newWalk(feed providers.EventFeed, s providers.Stream, w providers.Window, workers int) *walk {
	k := &walk{feed: feed, stream: s, window: w, workers: max(workers, 1), parts: []*Part{newPart(w)}, unreadable: make(seen)}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// anywhere reports whether the feed can be cut at any second, also in the middle
// of being listed: what is newer than a page's last event is known then.
func (k *walk) anywhere() bool {
	f := k.stream.Feed
	return f.Splittable && f.Filter == providers.FilterSecond && f.Order == providers.NewestFirst
}

// next gives a worker the part to list, or nil when there will be none. It waits
// while others may still leave something.
func (k *walk) next(ctx context.Context) *Part {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ctx.Err() == nil {
		if p := k.take(); p != nil {
			return p
		}
		if p := k.halve(); p != nil {
			return p
		}
		if !slices.ContainsFunc(k.parts, func(p *Part) bool { return p.state == running }) {
			return nil
		}
		k.changed.Wait()
	}
	return nil
}

// take gives the older end of the oldest part that waits.
func (k *walk) take() *Part {
	for i, p := range k.parts {
		if p.state != waiting || k.hopeless(p) {
			continue
		}
		length := k.length()
		if cut := p.Window.From.Add(length); length > 0 && cut.Add(length/2).Before(p.Window.To) {
			p = k.cut(i, cut)
		}
		p.state = running
		return p
	}
	return nil
}

// length is how long the next part should be; 0 is as long as there is.
func (k *walk) length() time.Duration {
	switch {
	case !k.stream.Feed.Splittable:
		return 0
	case !k.anywhere():
		return day
	case k.pace == 0 || !k.affordable():
		return 0
	}
	left := 0.0
	for _, p := range k.parts {
		if p.state == waiting || p.state == running {
			left += p.pagesLeft(k.pace)
		}
	}
	pages := min(max(left/float64(k.workers), least), most)
	return max(time.Duration(pages*float64(k.pace)).Truncate(time.Second), time.Second)
}

// affordable reports whether one more part may be made: together they waste at
// most 3 % of the pages that had to be read, and one a worker.
func (k *walk) affordable() bool { return k.made < k.workers+3*(k.seen.Pages-k.made)/100 }

// halve splits the running part that has most pages before it.
func (k *walk) halve() *Part {
	if !k.anywhere() || !k.affordable() {
		return nil
	}
	longest, pages := -1, float64(least)
	for i, p := range k.parts {
		known := p.pages > 0 || k.pace > 0
		if p.state != running || !known || p.left() < 2*time.Second || k.hopeless(p) {
			continue
		}
		if left := p.pagesLeft(k.pace); left >= pages {
			longest, pages = i, left
		}
	}
	if longest < 0 {
		return nil
	}
	p := k.parts[longest]
	p = k.cut(longest, p.Window.From.Add(p.left()/2).Truncate(time.Second))
	p.state = running
	return p
}

// cut splits the part at place i and gives the older of the two, which is new.
func (k *walk) cut(i int, at time.Time) *Part {
	p := k.parts[i]
	older := newPart(providers.Window{From: p.Window.From, To: at})
	p.Window.From = at
	k.parts = slices.Insert(k.parts, i, older)
	k.made++
	return older
}

// shorten ends a part that is too long at a time, as if that were its beginning.
// The rest is not to be had before it is left.
func (k *walk) shorten(p *Part, at time.Time) (rest *Part) {
	rest = k.cut(slices.Index(k.parts, p), at)
	rest.state = running
	return rest
}

// leave lets any worker take the rest of a part.
func (k *walk) leave(rest *Part) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rest.state = waiting
	k.changed.Broadcast()
}

// end notes that a part is listed whole, and what that says of the density. It
// reports false for one that nobody needs any more.
func (k *walk) end(p *Part) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.changed.Broadcast()
	if k.hopeless(p) {
		p.state = failed
		return false
	}
	k.seen.Covered += p.left()
	k.learn(p)
	p.state, p.seen = ended, nil
	return true
}

// learn takes the pace of a part that is listed whole. One without events says
// that a page spans more time, and not how much.
func (k *walk) learn(p *Part) {
	pages := max(float64(p.events)/float64(max(k.fullest, 1)), 0.25)
	k.pace = max(time.Duration(float64(p.Window.Length())/pages), 1)
}

// fail notes that a part could not be listed. Only what is older is still worth
// listing then.
func (k *walk) fail(p *Part, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.state = failed
	if k.failed == nil || p.Window.From.Before(k.failed.Window.From) {
		k.failed, k.failure = p, err
	}
	k.changed.Broadcast()
}

// hopeless reports whether a part lies behind one that failed: it cannot be
// closed.
func (k *walk) hopeless(p *Part) bool {
	return k.failed != nil && p != k.failed && p.Window.From.After(k.failed.Window.From)
}

// closed notes that all of p was told, and gives the parts that can be closed
// now, oldest first.
func (k *walk) closed(p *Part) []*Part {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.state = passed
	n := 0
	for n < len(k.parts) && k.parts[n].state == passed {
		n++
	}
	due := slices.Clone(k.parts[:n])
	k.parts = slices.Delete(k.parts, 0, n)
	return due
}

// outcome is what was seen in the end, and why it is not all.
func (k *walk) outcome(ctx context.Context) (Progress, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.parts) == 0 {
		return k.seen, nil
	}
	open, why := k.parts[0], context.Cause(ctx)
	if k.failed != nil {
		open, why = k.failed, k.failure
	}
	return k.seen, &Incomplete{Stream: k.stream.Name, Window: open.Window, Seen: k.seen, Err: why}
}
