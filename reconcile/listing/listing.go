// Package listing reads a window of a stream page by page: it owns the loop over
// pages, lists parts of the window side by side where the feed lets it, drops
// what pages repeat, and does not believe a listing that contradicts itself.
//
// The window is always covered by parts that meet and never overlap. Workers take
// parts from the older end, so that a backlog shrinks from there; one that finds
// nothing left to take splits the part that has most before it. An event belongs
// to the part that its time lies in, whoever lists it. See schedule.go.
package listing

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// DefaultConcurrency is how many pages are asked for at once unless told
// otherwise: enough to use a rate of 10/s up to answers of 800 ms.
const DefaultConcurrency = 8

// Options say how a window is listed.
type Options struct {
	Concurrency int // pages asked for at once; 0 is DefaultConcurrency
}

// A Page is what one page added to a part: each event once, in the order in which
// the provider gave them.
type Page struct {
	Events     []providers.Event
	Unreadable []providers.Unreadable
	Progress   Progress // of the whole window
}

// Progress counts what a walk has seen.
type Progress struct {
	Pages    int
	Events   int           // distinct, in the window
	Repeated int           // seen before in this window, or left to another part of it
	Outside  int           // created outside of the window, not passed on
	Covered  time.Duration // how much of the window is listed
}

// A Sink takes what is listed. Its methods are called one at a time, on the
// goroutine of Walk; an error of theirs ends the walk.
type Sink interface {
	// Page takes what one page added to a part. Pages of several parts come in
	// any order. An element that could not be decoded has no time: it comes with
	// the part that is being listed when it is first met.
	Page(ctx context.Context, p *Part, page Page) error
	// Close takes the end of a part: its window is final, and all that lies in it
	// was passed to Page. Parts close oldest first, and meet.
	Close(ctx context.Context, p *Part) error
}

// Pages is a Sink for those who need not know of parts.
type Pages func(Page) error

// Page calls f.
func (f Pages) Page(_ context.Context, _ *Part, page Page) error { return f(page) }

// Close does nothing.
func (f Pages) Close(context.Context, *Part) error { return nil }

// An Incomplete error says that a listing did not come to its end.
type Incomplete struct {
	Stream string
	Window providers.Window // what could not be listed whole
	Seen   Progress
	Err    error
}

func (e *Incomplete) Error() string {
	return fmt.Sprintf("listing %s from %s to %s: stopped at page %d after %d events: %v", e.Stream,
		e.Window.From.Format(time.RFC3339), e.Window.To.Format(time.RFC3339), e.Seen.Pages+1, e.Seen.Events, e.Err)
}

func (e *Incomplete) Unwrap() error { return e.Err }

// Walk lists window w of s into sink and returns what it saw. An error,
// *Incomplete, means that the window was not fully listed: the parts before the
// one that failed were still closed. An error of sink is returned as it is.
func Walk(ctx context.Context, feed providers.EventFeed, s providers.Stream, w providers.Window, o Options, sink Sink) (Progress, error) {
	if w.Empty() {
		return Progress{}, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	k := newWalk(feed, s, w, cmp.Or(o.Concurrency, DefaultConcurrency))
	news := make(chan news, k.workers) // pages come in while the sink is at work
	go k.work(ctx, news)
	var refused error
	for n := range news {
		if refused == nil {
			refused = k.pass(ctx, n, sink)
		}
		if refused != nil {
			stop() // and let the workers come to their end
		}
	}
	progress, err := k.outcome(ctx)
	if refused != nil {
		err = refused
	}
	return progress, err
}

// news is what a worker has to tell: a page of a part, or that the part is
// listed.
type news struct {
	part  *Part
	page  Page
	ended bool
}

// pass hands on what a worker tells, and closes the parts that are due.
func (k *walk) pass(ctx context.Context, n news, sink Sink) error {
	if !n.ended {
		return sink.Page(ctx, n.part, n.page)
	}
	for _, p := range k.closed(n.part) {
		if err := sink.Close(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// work has the parts listed and closes news when nobody works any more.
func (k *walk) work(ctx context.Context, news chan<- news) {
	defer close(news)
	var workers sync.WaitGroup
	for range k.workers {
		workers.Go(func() {
			for p := k.next(ctx); p != nil; p = k.next(ctx) {
				k.list(ctx, p, news)
			}
		})
	}
	workers.Wait()
}

// list lists a part.
func (k *walk) list(ctx context.Context, p *Part, out chan<- news) {
	err := k.read(ctx, p, func(p *Part, page Page) { out <- news{part: p, page: page} })
	switch {
	case err != nil:
		k.fail(p, err)
	case k.end(p):
		out <- news{part: p, ended: true}
	}
}
