// Package listing reads a window of a stream page by page: it owns the loop
// over pages, drops what a page repeats, and does not believe a listing that
// contradicts itself.
package listing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A Page is what one page added: each event of the window once, in the order in
// which the provider gave them.
type Page struct {
	Events     []providers.Event
	Unreadable []providers.Unreadable
}

// Progress counts what a walk has seen.
type Progress struct {
	Pages    int
	Events   int       // distinct, in the window
	Repeated int       // seen before in this window
	Outside  int       // created outside of the window, not passed on
	Oldest   time.Time // created of the oldest event seen; zero if none
}

// An Incomplete error says that a listing did not come to its end.
type Incomplete struct {
	Stream string
	Window providers.Window
	Seen   Progress
	Err    error
}

func (e *Incomplete) Error() string {
	return fmt.Sprintf("listing %s from %s to %s: stopped at page %d after %d events: %v", e.Stream,
		e.Window.From.Format(time.RFC3339), e.Window.To.Format(time.RFC3339), e.Seen.Pages+1, e.Seen.Events, e.Err)
}

func (e *Incomplete) Unwrap() error { return e.Err }

// Walk lists window w of s and calls yield with each page. It returns what it
// saw, never nil; an error, *Incomplete, means that the window was not fully
// listed, and an error of yield is returned as it is.
func Walk(ctx context.Context, feed providers.EventFeed, s providers.Stream, w providers.Window,
	yield func(Page, Progress) error) (*Seen, error) {
	walk := &walk{feed: feed, stream: s, window: w, seen: Seen{keys: make(map[identity]struct{})}, yield: yield}
	err := walk.list(ctx, w)
	if err == nil || walk.yieldErr != nil {
		return &walk.seen, err
	}
	return &walk.seen, &Incomplete{Stream: s.Name, Window: w, Seen: walk.seen.Progress, Err: err}
}

// Seen is what a walk saw.
type Seen struct {
	Progress
	keys map[identity]struct{}
}

// Has reports whether an event was listed. The nil Seen has none.
func (s *Seen) Has(key string) bool {
	if s == nil {
		return false
	}
	_, listed := s.keys[identify(key)]
	return listed
}

// An identity stands for a key: 16 bytes instead of the text, so that a window
// of a million events costs little; two keys never share one in practice.
type identity [16]byte

func identify(key string) identity {
	sum := sha256.Sum256([]byte(key))
	return identity(sum[:16])
}

type walk struct {
	feed     providers.EventFeed
	stream   providers.Stream
	window   providers.Window
	seen     Seen
	yield    func(Page, Progress) error
	yieldErr error
}

// list lists one window. A page that promises more and is followed by nothing
// is a contradiction: the cursor got lost in a busy second. That second is then
// listed by itself, and what is older after it.
func (k *walk) list(ctx context.Context, w providers.Window) error {
	oldest, contradicted, err := k.pages(ctx, w)
	if err != nil || !contradicted {
		return err
	}
	second := oldest.Truncate(time.Second)
	narrow := providers.Window{From: second, To: second.Add(time.Second)}
	if oldest.IsZero() || k.stream.Feed.Filter != providers.FilterSecond ||
		k.stream.Feed.Order != providers.NewestFirst || narrow == w {
		return fmt.Errorf("the provider promised more events and then listed none; it will be tried again by the next run")
	}
	if err := k.list(ctx, narrow); err != nil {
		return err
	}
	older := providers.Window{From: w.From, To: second}
	if older.Empty() {
		return nil
	}
	return k.list(ctx, older)
}

// pages follows the cursor through w. It gives the created time of the oldest
// event and whether the listing contradicted itself.
func (k *walk) pages(ctx context.Context, w providers.Window) (oldest time.Time, contradicted bool, err error) {
	var cursor providers.Cursor
	passed := make(map[providers.Cursor]bool) // a cursor that comes back leads nowhere
	for {
		page, err := k.feed.Events(ctx, k.stream, w, cursor)
		if err != nil {
			return oldest, false, err
		}
		for _, e := range page.Items {
			if oldest.IsZero() || e.Created.Before(oldest) {
				oldest = e.Created
			}
		}
		empty := len(page.Items)+len(page.Unreadable) == 0
		if empty && (cursor != "" || page.Next != "") {
			return oldest, true, nil
		}
		if err := k.pass(page); err != nil {
			return oldest, false, err
		}
		if page.Next == "" {
			return oldest, false, nil
		}
		if page.Next == cursor || passed[page.Next] {
			return oldest, true, nil
		}
		passed[cursor], cursor = true, page.Next
	}
}

// pass hands on what is new on a page and lies in the window.
func (k *walk) pass(page providers.Page[providers.Event]) error {
	var fresh Page
	for _, e := range page.Items {
		switch {
		case !k.window.Contains(e.Created):
			k.seen.Outside++
		case k.isNew(e.Key):
			fresh.Events = append(fresh.Events, e)
			k.look(e.Created)
		}
	}
	for _, u := range page.Unreadable {
		if k.isNew(UnreadableKey(u)) {
			fresh.Unreadable = append(fresh.Unreadable, u)
		}
	}
	k.seen.Pages++
	k.seen.Events += len(fresh.Events)
	k.yieldErr = k.yield(fresh, k.seen.Progress)
	return k.yieldErr
}

func (k *walk) isNew(key string) bool {
	id := identify(key)
	if _, again := k.seen.keys[id]; again {
		k.seen.Repeated++
		return false
	}
	k.seen.keys[id] = struct{}{}
	return true
}

func (k *walk) look(created time.Time) {
	if k.seen.Oldest.IsZero() || created.Before(k.seen.Oldest) {
		k.seen.Oldest = created
	}
}

// UnreadableKey is the key of an element that could not be decoded: the
// provider's id where there is one, else a fingerprint of its bytes.
func UnreadableKey(u providers.Unreadable) string {
	if u.ID != "" {
		return u.ID
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(u.Bytes))
}
