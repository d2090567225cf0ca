package stripe

import (
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
// is the id of the last event of the page before. See providers.EventFeed.
func (p *provider) Events(ctx context.Context, s providers.Stream, w providers.Window, c providers.Cursor) (providers.Page[providers.Event], error) {
	r := request{op: "listing events of " + streamName(s), path: eventsPath, account: s.Account, needs: "Events read"}
	query := pageOf(string(c))
	query.Add("created[gte]", firstSecond(w.From))
	query.Add("created[lt]", firstSecond(w.To))
	l, err := p.page(ctx, r, query)
	if err != nil {
		return providers.Page[providers.Event]{}, err
	}
	page := readEvents(l, s.Account)
	if !*l.HasMore {
		return page, nil
	}
	page.Next = providers.Cursor(lastID(l.Data))
	if page.Next == "" || page.Next == c {
		return providers.Page[providers.Event]{}, fmt.Errorf("%s: no event of the page after %q has an id to go on from; list a shorter window around it", r.op, c)
	}
	return page, nil
}

func readEvents(l *list, account string) providers.Page[providers.Event] {
	var page providers.Page[providers.Event]
	for _, raw := range l.Data {
		event, err := decodeEvent(raw, account)
		if err != nil {
			page.Unreadable = append(page.Unreadable, providers.Unreadable{ID: idOf(raw), Bytes: raw, Why: err.Error()})
			continue
		}
		page.Items = append(page.Items, event)
	}
	return page
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
	var answer sdk.APIResource
	err := p.get(ctx, r, nil, &answer)
	if unknown(err) {
		return providers.Event{}, providers.Absent, nil
	}
	if err != nil {
		return providers.Event{}, "", err
	}
	event, err := decodeEvent(answer.LastResponse.RawJSON, s.Account)
	if err != nil {
		return providers.Event{}, "", fmt.Errorf("%s: %w", r.op, err)
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
