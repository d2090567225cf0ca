package providertest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

func describes(b bench) error {
	p, _, err := b.source(Plain)
	if err != nil {
		return err
	}
	d := p.Describe()
	if d.Kind == "" || d.Title == "" || len(d.CannotShow) == 0 {
		return fmt.Errorf("Describe gave %+v, want kind, title and what it cannot show", d)
	}
	streams, err := p.Streams(b.Context())
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, s := range streams {
		if s.Name == "" || names[s.Name] {
			return fmt.Errorf("the stream name %q is empty or comes twice", s.Name)
		}
		names[s.Name] = true
		if err := sensible(s.Feed); err != nil {
			return fmt.Errorf("stream %s: %w", s.Name, err)
		}
	}
	return nil
}

func sensible(f providers.Feed) error {
	orders := []providers.Order{providers.NewestFirst, providers.OldestFirst, providers.Unordered}
	filters := []providers.Filter{providers.FilterNone, providers.FilterDay, providers.FilterSecond}
	switch {
	case !slices.Contains(orders, f.Order) || !slices.Contains(filters, f.Filter):
		return fmt.Errorf("order %q or filter %q is unknown", f.Order, f.Filter)
	case f.Splittable && f.Filter == providers.FilterNone:
		return errors.New("it claims disjoint windows without a filter by time")
	case f.Initial <= 0 || f.DefaultRate <= 0:
		return fmt.Errorf("initial %s or rate %v is not positive", f.Initial, f.DefaultRate)
	case f.Settle < 0 || f.Overlap < 0 || f.RetryWindow < 0 || f.Retention < 0:
		return fmt.Errorf("a duration is negative: %+v", f)
	}
	return nil
}

func complete(b bench) error {
	pages, _, err := b.pages(Plain)
	if err != nil || pages == nil {
		return err
	}
	if err := b.wantAll(Plain); err != nil {
		return err
	}
	if !tiedEdge(pages) {
		return fmt.Errorf("the harness shows too little: %d pages, and no events of one second on both sides of an edge", len(pages))
	}
	return nil
}

func tiedEdge(pages []providers.Page[providers.Event]) bool {
	for i := 1; i < len(pages); i++ {
		before, after := pages[i-1].Items, pages[i].Items
		if len(before) > 0 && len(after) > 0 && before[len(before)-1].Created.Equal(after[0].Created) {
			return true
		}
	}
	return false
}

// wantAll compares the keys listed under s with those served.
func (b bench) wantAll(s Script) error {
	events, err := b.listed(s)
	if err != nil {
		return err
	}
	got := map[string]bool{}
	for _, e := range events {
		got[e.Key] = b.Window.Contains(e.Created)
	}
	for _, key := range slices.Sorted(maps.Keys(b.Served)) {
		if !got[key] {
			return fmt.Errorf("%s is left out of the listing, or lies outside of the window by its Created", key)
		}
	}
	for key, inside := range got {
		if inside && b.Served[key] == nil {
			return fmt.Errorf("%s is in the listing and was not served in the window", key)
		}
	}
	return nil
}

func repeats(b bench) error {
	pages, _, err := b.pages(Repeating)
	if err != nil || pages == nil {
		return err
	}
	if err := b.wantAll(Repeating); err != nil {
		return err
	}
	items := 0
	for _, page := range pages {
		items += len(page.Items)
	}
	if items <= len(b.Served) {
		return fmt.Errorf("the harness repeats nothing: %d items of %d events", items, len(b.Served))
	}
	return nil
}

// atOnce lists the window twice from one provider, page by page in turns.
func atOnce(b bench) error {
	p, stream, err := b.source(Plain)
	if err != nil {
		return err
	}
	feed, ok := p.(providers.EventFeed)
	if !ok {
		return nil
	}
	alone, err := b.listed(Plain)
	if err != nil {
		return err
	}
	var cursors [2]providers.Cursor
	var ended [2]bool
	got := [2]map[string]bool{{}, {}}
	for !ended[0] || !ended[1] {
		for i := range cursors {
			if ended[i] {
				continue
			}
			page, err := feed.Events(b.Context(), stream, b.Window, cursors[i])
			if err != nil {
				return err
			}
			for _, e := range page.Items {
				got[i][e.Key] = true
			}
			cursors[i], ended[i] = page.Next, page.Next == ""
		}
	}
	for i := range got {
		if len(got[i]) != len(alone) {
			return fmt.Errorf("listing %d of two has %d events, want the %d that one alone has", i+1, len(got[i]), len(alone))
		}
	}
	return nil
}

func stableKeys(b bench) error {
	pages, _, err := b.pages(Plain)
	if err != nil {
		return err
	}
	keys := map[string]bool{}
	for _, page := range pages {
		for _, e := range page.Items {
			if e.Key == "" || e.ID == "" || e.Type == "" || e.Created.IsZero() || e.Created.Location() != time.UTC {
				return fmt.Errorf("event %q lacks a key, id, type or UTC time: created %s", e.ID, e.Created)
			}
			if keys[e.Key] {
				return fmt.Errorf("the key %s comes twice in a listing that repeats nothing", e.Key)
			}
			keys[e.Key] = true
		}
	}
	again, err := b.listed(Plain)
	for _, e := range again {
		if !keys[e.Key] {
			return fmt.Errorf("the second listing has %s, the first has not", e.Key)
		}
	}
	return err
}

func withinFilter(b bench) error {
	pages, stream, err := b.pages(Plain)
	var slack time.Duration
	switch stream.Feed.Filter {
	case providers.FilterNone:
		return err
	case providers.FilterDay:
		slack = 24 * time.Hour
	case providers.FilterSecond:
		slack = time.Second
	}
	wide := providers.Window{From: b.Window.From.Add(-slack), To: b.Window.To.Add(slack)}
	for _, page := range pages {
		for _, e := range page.Items {
			if !wide.Contains(e.Created) {
				return fmt.Errorf("%s was created %s, outside of what a filter by %s lets through", e.Key, e.Created, stream.Feed.Filter)
			}
		}
	}
	return err
}

func ordered(b bench) error {
	pages, stream, err := b.pages(Plain)
	var last time.Time
	for _, page := range pages {
		for _, e := range page.Items {
			against := map[providers.Order]bool{
				providers.NewestFirst: e.Created.After(last),
				providers.OldestFirst: e.Created.Before(last),
			}
			if !last.IsZero() && against[stream.Feed.Order] {
				return fmt.Errorf("%s of %s comes behind one of %s in a feed that claims %s first", e.Key, e.Created, last, stream.Feed.Order)
			}
			last = e.Created
		}
	}
	return err
}

func verbatim(b bench) error {
	events, err := b.listed(Plain)
	for _, e := range events {
		if e.Payload != nil && !bytes.Equal(e.Payload, b.Served[e.Key]) {
			return fmt.Errorf("payload of %s\n got %s\nwant %s", e.Key, e.Payload, b.Served[e.Key])
		}
	}
	return err
}

func badElement(b bench) error {
	if len(b.Bad) == 0 {
		return nil
	}
	if err := b.wantAll(BadElement); err != nil {
		return err
	}
	pages, _, err := b.pages(BadElement)
	for _, page := range pages {
		for _, u := range page.Unreadable {
			if bytes.Equal(u.Bytes, b.Bad) && u.Why != "" {
				return nil
			}
		}
	}
	return errors.Join(err, errors.New("the undecodable element is not in Unreadable with its bytes and a reason"))
}

func readByKey(b bench) error {
	p, stream, err := b.source(Plain)
	if err != nil {
		return err
	}
	reader, ok := p.(providers.EventReader)
	if !ok {
		return nil
	}
	events, err := b.listed(Plain)
	if err != nil {
		return err
	}
	for _, want := range events {
		got, presence, err := reader.Event(b.Context(), stream, want.Key)
		if err != nil || presence != providers.Live || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("reading %s gave %s, %v:\n got %+v\nwant %+v", want.Key, presence, err, got, want)
		}
	}
	if _, presence, err := reader.Event(b.Context(), stream, b.Unknown); err != nil || presence != providers.Absent {
		return fmt.Errorf("reading the unknown key %q gave %q, %v; want %s", b.Unknown, presence, err, providers.Absent)
	}
	return nil
}

func stableEndpoints(b bench) error {
	p, stream, err := b.source(Plain)
	if err != nil {
		return err
	}
	api, ok := p.(providers.Endpoints)
	if !ok {
		return nil
	}
	first, err := api.Endpoints(b.Context(), stream)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, ep := range first {
		if ep.ID == "" || ep.URL == "" || ids[ep.ID] {
			return fmt.Errorf("endpoint %+v lacks an id or URL, or comes twice", ep)
		}
		ids[ep.ID] = true
	}
	second, err := api.Endpoints(b.Context(), stream)
	if err == nil && !reflect.DeepEqual(first, second) {
		return fmt.Errorf("two looks differ:\n%+v\n%+v", first, second)
	}
	return err
}
