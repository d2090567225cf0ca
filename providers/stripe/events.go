package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/nightaudit/nightaudit/providers"
)

const eventsPath = "/v1/events"

// Events lists one page of the events of s created in w, newest first. The cursor
// is the id of the last event of the page before. The payloads of a page share
// its memory. See providers.EventFeed.
func (p *provider) Events(ctx context.Context, s providers.Stream, w providers.Window, c providers.Cursor) (providers.Page[providers.Event], error) {
	r := request{op: "listing events of " + streamName(s), path: eventsPath, account: s.Account, needs: "Events read"}
	query := pageOf(string(c))
	query.Add("created[gte]", firstSecond(w.From))
	query.Add("created[lt]", firstSecond(w.To))
	var page providers.Page[providers.Event]
	var last string // the id of the last event that has one; see below
	more, err := p.page(ctx, r, query, func(answer *scanner) {
		event, err := answer.event(s.Account)
		last = cmp.Or(event.ID, last)
		if err != nil {
			page.Unreadable = append(page.Unreadable, providers.Unreadable{ID: event.ID, Bytes: event.Payload, Why: err.Error()})
			return
		}
		if page.Items == nil {
			page.Items = make([]providers.Event, 0, pageSize)
		}
		page.Items = append(page.Items, event)
	})
	if err != nil {
		return providers.Page[providers.Event]{}, err
	}
	if !more {
		return page, nil
	}
	// Where the elements behind it are unreadable, the next page gives them again,
	// and nothing is left out.
	page.Next = providers.Cursor(last)
	if page.Next == "" || page.Next == c {
		return providers.Page[providers.Event]{}, fmt.Errorf("%s: no event of the page after %q has an id to go on from; list a shorter window around it", r.op, c)
	}
	return page, nil
}

// firstSecond is the first whole second that is not before t. Events are created
// at whole seconds, so for both ends of a window it loses and adds none.
func firstSecond(t time.Time) string {
	return strconv.FormatInt(t.Add(time.Second-1).Unix(), 10)
}

func streamName(s providers.Stream) string {
	if s.Account == "" {
		return "the account"
	}
	return s.Account
}

// Event reads one event by its id, as the account of s: an event of a connected
// account does not exist for the platform. See providers.EventReader.
func (p *provider) Event(ctx context.Context, s providers.Stream, key string) (providers.Event, providers.Presence, error) {
	r := request{op: "reading event " + key, path: eventsPath + "/" + url.PathEscape(key), account: s.Account, needs: "Events read"}
	if key == "" {
		return providers.Event{}, "", errors.New("reading an event: its id is empty")
	}
	var event providers.Event
	var unreadable error
	err := p.get(ctx, r, nil, func(answer *scanner) {
		event, unreadable = answer.event(s.Account)
		event.Payload = answer.text
	})
	if unknown(err) {
		return providers.Event{}, providers.Absent, nil
	}
	if err != nil {
		return providers.Event{}, "", err
	}
	if unreadable != nil {
		return providers.Event{}, "", fmt.Errorf("%s: %w", r.op, unreadable)
	}
	if event.ID != key {
		return providers.Event{}, "", fmt.Errorf("%s: the answer is another event", r.op)
	}
	return event, providers.Live, nil
}

// unknown reports whether Stripe says that it does not know the object, or no
// longer.
func unknown(err error) bool {
	var answer *answerError
	if !errors.As(err, &answer) {
		return false
	}
	return answer.status == http.StatusNotFound && answer.code == string(sdk.ErrorCodeResourceMissing) ||
		strings.Contains(answer.message, "retention policy")
}
