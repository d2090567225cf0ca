package providertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A shop is an adapter without a network, which keeps the contract except for its
// flaw.
type shop struct {
	script Script
	flaw   string
	looks  *int
	at     int // where the listing was that was asked for last
}

const (
	shopToken  = "token_sekret"
	shopSecret = "signing_sekret"
	shopPage   = "<html>page_sekret</html>"
	shopBad    = `{"bad"}`
)

var shopStart = time.Unix(1767225600, 0).UTC()

// shopEvents are newest first; the second and third share a second.
func shopEvents() []providers.Event {
	var events []providers.Event
	for i, second := range []int{40, 30, 30, 10} {
		id := fmt.Sprintf("e%d", 4-i)
		events = append(events, providers.Event{
			Key: id, ID: id, Type: "order.updated", Created: shopStart.Add(time.Duration(second) * time.Second),
			Payload: []byte(fmt.Sprintf(`{"id":%q, "n":1.0}`, id)),
		})
	}
	return events
}

func (s *shop) Describe() providers.Description {
	return providers.Description{Kind: "shop", Title: "Shop", CannotShow: []string{"returns"}}
}

// fail is how every call ends, if it does.
func (s *shop) fail(ctx context.Context) error {
	inner := errors.New("refused")
	if s.flaw == "shows the token" {
		inner = errors.New("refused " + shopToken)
	}
	switch {
	case s.flaw == "ignores the context":
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	switch s.script {
	case Rejected:
		if s.flaw == "calls a rejection a permission" {
			return &providers.PermissionError{Op: "asking", Missing: "read", Fix: "grant it", Err: inner}
		}
		return &providers.CredentialsError{Op: "asking", Fix: "renew it", Err: inner}
	case Forbidden:
		missing := "orders_read"
		if s.flaw == "does not name the permission" {
			missing = "something"
		}
		return &providers.PermissionError{Op: "asking", Missing: missing, Fix: "grant it", Err: inner}
	case NotTheAPI:
		if s.flaw == "quotes the page" {
			return errors.New("not JSON: " + shopPage)
		}
		return errors.New("not JSON")
	}
	return nil
}

func (s *shop) Check(ctx context.Context) ([]providers.Probe, error) {
	if err := s.fail(ctx); err != nil {
		return nil, err
	}
	return []providers.Probe{{Name: "orders"}}, nil
}

func (s *shop) Streams(context.Context) ([]providers.Stream, error) {
	feed := providers.Feed{Order: providers.NewestFirst, Filter: providers.FilterSecond, Splittable: true, Initial: time.Hour, DefaultRate: 1}
	switch s.flaw {
	case "has no rate":
		feed.DefaultRate = 0
	case "names a stream twice":
		return []providers.Stream{{Name: "events", Feed: feed}, {Name: "events", Feed: feed}}, nil
	}
	return []providers.Stream{{Name: "events", Feed: feed}}, nil
}

func (s *shop) Events(ctx context.Context, _ providers.Stream, w providers.Window, c providers.Cursor) (providers.Page[providers.Event], error) {
	if err := s.fail(ctx); err != nil {
		if s.flaw == "answers a rejection with an empty page" || s.flaw == "answers a foreign page with an empty one" && s.script == NotTheAPI {
			return providers.Page[providers.Event]{}, nil
		}
		return providers.Page[providers.Event]{}, err
	}
	all := shopEvents()
	at, _ := strconv.Atoi(string(c))
	if s.flaw == "goes on where anybody was" && c != "" {
		at = s.at
	}
	s.at = at + 2
	from := at
	if s.script == Repeating && at > 0 {
		from--
	}
	to := min(at+2, len(all))
	if s.flaw == "loses the tie" && at > 0 {
		from++
	}
	if s.flaw == "loses what follows a repetition" && s.script == Repeating {
		to = min(to, 3)
	}
	page := providers.Page[providers.Event]{Items: all[from:to]}
	if to == at+2 && to < len(all) {
		page.Next = providers.Cursor(strconv.Itoa(to))
	}
	s.spoil(&page)
	return page, nil
}

func (s *shop) spoil(page *providers.Page[providers.Event]) {
	switch s.flaw {
	case "re-encodes payloads":
		page.Items[0].Payload = bytes.ReplaceAll(page.Items[0].Payload, []byte("1.0"), []byte("1"))
	case "lists beyond the filter":
		page.Items[0].Created = page.Items[0].Created.Add(-time.Hour)
	case "lists in another order":
		slices.SortFunc(page.Items, func(a, b providers.Event) int { return a.Created.Compare(b.Created) })
	case "makes up keys":
		*s.looks++
		page.Items[0].Key += strconv.Itoa(*s.looks)
	}
	if s.script != BadElement {
		return
	}
	switch s.flaw {
	case "drops a bad element":
	case "drops the neighbours of a bad element":
		page.Items = nil
		fallthrough
	default:
		page.Unreadable = append(page.Unreadable, providers.Unreadable{Bytes: []byte(shopBad), Why: "malformed"})
	}
}

func (s *shop) Event(ctx context.Context, _ providers.Stream, key string) (providers.Event, providers.Presence, error) {
	if err := s.fail(ctx); err != nil {
		return providers.Event{}, "", err
	}
	for _, e := range shopEvents() {
		if e.Key == key {
			return e, providers.Live, nil
		}
	}
	if s.flaw == "calls the unknown forbidden" {
		return providers.Event{}, providers.Forbidden, nil
	}
	return providers.Event{}, providers.Absent, nil
}

func (s *shop) Endpoints(ctx context.Context, _ providers.Stream) ([]providers.Endpoint, error) {
	if err := s.fail(ctx); err != nil {
		return nil, err
	}
	endpoints := []providers.Endpoint{{ID: "a", URL: "https://a.example"}, {ID: "b", URL: "https://b.example"}}
	if *s.looks++; s.flaw == "shuffles endpoints" && *s.looks%2 == 0 {
		slices.Reverse(endpoints)
	}
	return endpoints, nil
}

func (s *shop) Compose(_ context.Context, ep providers.Endpoint, e providers.Event) (providers.Message, error) {
	return providers.Message{URL: ep.URL, Header: http.Header{}, Body: e.Payload}, nil
}

func mac(secret providers.Secret, at int64, body []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s.%d.%s", secret.Reveal(), at, body)))
}

func (s *shop) Sign(m providers.Message, secrets []providers.Secret, at time.Time) (providers.Message, error) {
	if len(secrets) == 0 {
		return m, errors.New("no secret")
	}
	if s.flaw != "signs in place" {
		m.Header = m.Header.Clone()
	}
	m.Header.Set("At", strconv.FormatInt(at.Unix(), 10))
	m.Header.Set("Mac", mac(secrets[0], at.Unix(), m.Body))
	return m, nil
}

func (s *shop) Open(r providers.Request, secrets []providers.Secret, now time.Time) (providers.Event, error) {
	at, _ := strconv.ParseInt(r.Header.Get("At"), 10, 64)
	refuse := func(why string) (providers.Event, error) {
		return providers.Event{}, &providers.SignatureError{Why: why}
	}
	if len(secrets) == 0 || r.Header.Get("Mac") != mac(secrets[0], at, r.Body) && s.flaw != "opens anything" {
		return refuse("forged")
	}
	age := now.Sub(time.Unix(at, 0))
	if age > time.Minute && s.flaw != "opens the stale" || age < -time.Minute && s.flaw != "opens the future" {
		return refuse("stale")
	}
	for _, e := range shopEvents() {
		if bytes.Contains(r.Body, []byte(e.ID)) {
			if s.flaw == "opens to another key" {
				e.Key = "delivery/" + e.Key
			}
			return e, nil
		}
	}
	return providers.Event{}, errors.New("unknown event")
}

func (s *shop) Replayable(string) (bool, string) {
	if s.flaw == "gives no reason" {
		return false, ""
	}
	return true, ""
}

func (s *shop) Class(string) providers.Class {
	if s.flaw == "has no class" {
		return ""
	}
	return providers.Fact
}

func shopHarness(flaw string) Harness {
	looks := 0
	served := map[string][]byte{}
	for _, e := range shopEvents() {
		served[e.Key] = e.Payload
	}
	return Harness{
		Open:    func(_ testing.TB, s Script) providers.Provider { return &shop{script: s, flaw: flaw, looks: &looks} },
		Window:  providers.Window{From: shopStart, To: shopStart.Add(time.Minute)},
		Served:  served,
		Unknown: "e0", Bad: []byte(shopBad), Foreign: []byte(shopPage), Missing: "orders_read",
		Hidden: []providers.Secret{shopToken}, Endpoint: providers.Endpoint{URL: "https://a.example"},
		Secrets: []providers.Secret{shopSecret}, Tolerance: time.Minute,
	}
}

func TestAnAdapterThatKeepsTheContractPasses(t *testing.T) {
	Run(t, shopHarness(""))
}

func TestEachFlawBreaksItsLaw(t *testing.T) {
	for flaw, says := range map[string]string{
		"has no rate":                              "a source describes itself and names its streams",
		"names a stream twice":                     "a source describes itself and names its streams",
		"loses the tie":                            "a listing leaves no event out, ties at a page's edge included",
		"loses what follows a repetition":          "a page that repeats an event leaves no other out",
		"goes on where anybody was":                "two listings at the same time do not disturb each other",
		"makes up keys":                            "keys are unique, and the same in a second listing",
		"lists beyond the filter":                  "events lie within what the filter promises",
		"lists in another order":                   "events come in the order that the feed claims",
		"re-encodes payloads":                      "a payload is what was served, byte for byte",
		"drops a bad element":                      "an undecodable element costs nothing but itself",
		"drops the neighbours of a bad element":    "an undecodable element costs nothing but itself",
		"answers a rejection with an empty page":   "a rejected credential is a CredentialsError, never an empty answer",
		"calls a rejection a permission":           "a rejected credential is a CredentialsError, never an empty answer",
		"does not name the permission":             "a missing permission is a PermissionError that names it",
		"answers a foreign page with an empty one": "what is not the API is an error, never an empty answer",
		"ignores the context":                      "a call ends with its context",
		"shows the token":                          "no error shows a secret or quotes an answer",
		"quotes the page":                          "no error shows a secret or quotes an answer",
		"calls the unknown forbidden":              "an event read by its key is the one listed, and an unknown key is absent",
		"shuffles endpoints":                       "endpoints come in a stable order, each once",
		"opens to another key":                     "a delivery composed, signed and opened has the key of its event",
		"signs in place":                           "signing is repeatable and leaves the message as it was",
		"opens anything":                           "a forged, foreign or stale delivery is a SignatureError",
		"opens the stale":                          "a forged, foreign or stale delivery is a SignatureError",
		"opens the future":                         "a forged, foreign or stale delivery is a SignatureError",
		"has no class":                             "every event type has a class, and a reason if it may not be replayed",
		"gives no reason":                          "every event type has a class, and a reason if it may not be replayed",
	} {
		t.Run(flaw, func(t *testing.T) {
			i := slices.IndexFunc(laws, func(l law) bool { return l.says == says })
			if i < 0 {
				t.Fatalf("there is no law %q", says)
			}
			if laws[i].check(bench{t, shopHarness(flaw)}) == nil {
				t.Errorf("an adapter that %s passes the law that %s", flaw, says)
			}
		})
	}
}
