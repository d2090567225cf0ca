package listing

import (
	"context"
	"errors"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

var errContradiction = errors.New("the provider promised more events and then listed none; it will be tried again by the next run")

// read lists a part and tells each page. A page that promises more and is
// followed by nothing is a contradiction: the cursor got lost in a busy second.
// That second is then listed by itself, and what is older after it.
func (k *walk) read(ctx context.Context, p *Part, tell func(*Part, Page)) error {
	asked := k.asked(p)
	for !asked.Empty() {
		lost, contradicted, err := k.follow(ctx, p, asked, tell)
		if err != nil || !contradicted {
			return err
		}
		second := lost.Truncate(time.Second)
		narrow := providers.Window{From: second, To: second.Add(time.Second)}
		f := k.stream.Feed
		if lost.IsZero() || f.Filter != providers.FilterSecond || f.Order != providers.NewestFirst || narrow == asked {
			return errContradiction
		}
		_, contradicted, err = k.follow(ctx, p, narrow, tell)
		if err != nil {
			return err
		}
		if contradicted {
			return errContradiction
		}
		asked = k.asked(p)
		asked.To = second
	}
	return nil
}

// asked is what is asked for to list a part.
func (k *walk) asked(p *Part) providers.Window {
	k.mu.Lock()
	defer k.mu.Unlock()
	return p.Window
}

// follow goes through the pages of a window by their cursor. It gives the created
// time of the oldest event and whether the listing contradicted itself.
func (k *walk) follow(ctx context.Context, p *Part, asked providers.Window, tell func(*Part, Page)) (oldest time.Time, contradicted bool, err error) {
	var cursor providers.Cursor
	passed := make(map[providers.Cursor]bool) // a cursor that comes back leads nowhere
	for {
		page, err := k.feed.Events(ctx, k.stream, asked, cursor)
		if err != nil {
			return oldest, false, err
		}
		if low := k.lowest(page.Items, asked); oldest.IsZero() || !low.IsZero() && low.Before(oldest) {
			oldest = low
		}
		empty := len(page.Items)+len(page.Unreadable) == 0
		if empty && (cursor != "" || page.Next != "") {
			return oldest, true, nil
		}
		if over := k.add(p, asked, page, tell); over || page.Next == "" {
			return oldest, false, nil
		}
		if page.Next == cursor || passed[page.Next] {
			return oldest, true, nil
		}
		passed[cursor], cursor = true, page.Next
	}
}

// add takes in what is new on a page, and reports whether the part is listed
// before the pages end.
func (k *walk) add(p *Part, asked providers.Window, page providers.Page[providers.Event], tell func(*Part, Page)) (over bool) {
	s := k.sort(p, asked, page)
	if s.rest != nil {
		tell(s.rest, s.older)
		k.leave(s.rest)
	}
	tell(p, s.own)
	return s.over
}

// A sorted is a page by the parts that its events belong to.
type sorted struct {
	own   Page
	rest  *Part // what was cut off a part that is too long; else nil
	older Page  // of the rest
	over  bool
}

// sort puts the events of a page where they belong. What is older than the part
// belongs to one that another worker lists, and is left to it.
func (k *walk) sort(p *Part, asked providers.Window, page providers.Page[providers.Event]) (s sorted) {
	ids := make([]identity, len(page.Items))
	for i, e := range page.Items {
		ids[i] = identify(e.Key)
	}
	low := k.lowest(page.Items, asked)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.changed.Broadcast()
	p.pages++
	k.seen.Pages++
	k.fullest = max(k.fullest, len(page.Items))
	if at, long := k.tooLong(p, low); long && page.Next != "" {
		s.rest = k.shorten(p, at)
	}
	for i, e := range page.Items {
		switch {
		case !k.window.Contains(e.Created):
			k.seen.Outside++
		case p.Window.Contains(e.Created) && p.seen.add(ids[i]):
			s.own.Events = append(s.own.Events, e)
		case s.rest != nil && s.rest.Window.Contains(e.Created) && s.rest.seen.add(ids[i]):
			s.older.Events = append(s.older.Events, e)
		default:
			k.seen.Repeated++
		}
	}
	for _, u := range page.Unreadable {
		if k.unreadable.add(identify(UnreadableKey(u))) {
			s.own.Unreadable = append(s.own.Unreadable, u)
		} else {
			k.seen.Repeated++
		}
	}
	past := !low.IsZero() && low.Before(p.Window.From)
	s.over = s.rest != nil || past || k.hopeless(p)
	k.count(p, &s, low)
	if s.rest != nil {
		k.learn(p)
	}
	return s
}

// count brings what is known of the part and of the walk up to date.
func (k *walk) count(p *Part, s *sorted, low time.Time) {
	p.events += len(s.own.Events) + len(s.older.Events)
	k.seen.Events += len(s.own.Events) + len(s.own.Unreadable) + len(s.older.Events)
	if !low.IsZero() && low.Before(p.oldest) {
		if low.Before(p.Window.From) {
			low = p.Window.From
		}
		k.seen.Covered += p.oldest.Sub(low)
		p.oldest = low
	}
	s.own.Progress, s.older.Progress = k.seen, k.seen
}

// tooLong reports whether a part has had its pages, and where it can end: behind
// the second of its oldest event, of which there may be more. Nothing older than
// that must have been told before.
func (k *walk) tooLong(p *Part, low time.Time) (at time.Time, long bool) {
	quota := 2 * most
	if k.pace == 0 {
		quota = 1
	}
	if !k.anywhere() || p.pages < quota || low.IsZero() || !k.affordable() {
		return time.Time{}, false
	}
	at = low.Truncate(time.Second).Add(time.Second)
	return at, !at.After(p.oldest) && at.Before(p.Window.To) && at.After(p.Window.From)
}

// lowest is the created time down to which a page of a feed that lists newest
// first has come; zero if it does not say. What lies outside of what was asked for
// proves nothing, unless the feed does not filter.
func (k *walk) lowest(events []providers.Event, asked providers.Window) time.Time {
	var low time.Time
	if k.stream.Feed.Order != providers.NewestFirst {
		return low
	}
	for _, e := range events {
		if k.stream.Feed.Filter != providers.FilterNone && !asked.Contains(e.Created) {
			continue
		}
		if low.IsZero() || e.Created.Before(low) {
			low = e.Created
		}
	}
	return low
}
