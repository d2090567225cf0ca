package stripe

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/nightaudit/nightaudit/providers"
)

// A client asks the Stripe API. The official SDK makes the requests and reads the
// refusals. Its way of calling is not used: it decodes a page several times before
// it hands out the bytes, has retries and telemetry of its own, and its streaming
// calls panic when a connection fails.
type client struct {
	backend   *sdk.BackendImplementation
	transport *providers.Transport
	key       providers.Secret
	redactor  *providers.Redactor
}

func newClient(from providers.Settings, s settings) *client {
	tuned, transport := providers.Tune(from.Client, providers.Tuning{
		Rate: s.rate(),
		// The SDK runs uname and tells Stripe what it says, host name included.
		DropHeaders: []string{"X-Stripe-Client-User-Agent"},
		ShouldRetry: "Stripe-Should-Retry",
	})
	config := &sdk.BackendConfig{
		HTTPClient:      tuned,
		EnableTelemetry: sdk.Bool(false),
		LeveledLogger:   &sdk.LeveledLogger{Level: sdk.LevelNull},
	}
	if from.BaseURL != "" {
		config.URL = sdk.String(from.BaseURL)
	}
	return &client{
		backend:   sdk.GetBackendWithConfig(sdk.APIBackend, config).(*sdk.BackendImplementation),
		transport: transport,
		key:       s.key,
		redactor:  providers.NewRedactor(s.key),
	}
}

// Skew is how far Stripe's clock is ahead of ours, by the Transport. It
// implements providers.Clocked.
func (c *client) Skew() (time.Duration, bool) { return c.transport.Skew() }

// A request is one question to the API, and what errors say of it.
type request struct {
	op      string // "listing events"
	path    string
	account string // the connected account it is asked for; "" is the key's own
	needs   string // the permission it takes, in the Dashboard's words
}

// get asks r and lets read read the answer's one value. What read has read counts
// only if get returns no error.
func (c *client) get(ctx context.Context, r request, query *form.Values, read func(*scanner)) error {
	status, body, err := c.answer(ctx, r, query)
	if err != nil {
		return c.explain(r, err)
	}
	s := scan(body)
	object := s.kind() == jsontext.KindBeginObject
	if read(s); s.end() != nil || !object {
		return c.explain(r, &answerError{status: status, message: notJSON})
	}
	return nil
}

// answer asks r and gives the status and body of any answer but a refusal, which
// is an error.
func (c *client) answer(ctx context.Context, r request, query *form.Values) (status int, body []byte, err error) {
	path, params := r.path, &sdk.Params{Context: ctx}
	if query != nil {
		path += "?" + query.Encode()
	}
	if r.account != "" {
		params.StripeAccount = sdk.String(r.account)
	}
	req, err := c.backend.NewRequest(http.MethodGet, path, c.key.Reveal(), "application/x-www-form-urlencoded", params)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.backend.HTTPClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if body, err = providers.ReadBody(resp); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, body, c.refusal(resp, body)
}

// page asks for one page, lets element read each of its elements, and reports
// whether there are more. What is not a list of Stripe's is an error, since it
// would read as an empty page.
func (c *client) page(ctx context.Context, r request, query *form.Values, element func(*scanner)) (more bool, err error) {
	var l list
	if err := c.get(ctx, r, query, func(s *scanner) { l = s.list(element) }); err != nil {
		return false, err
	}
	if l.object != "list" || !l.data || l.hasMore == nil {
		return false, fmt.Errorf("%s: the answer is not a list as Stripe gives it (object, data, has_more); check base_url and what stands between", r.op)
	}
	if *l.hasMore && l.elements == 0 {
		return false, fmt.Errorf("%s: the page is empty and says that there are more; run again later", r.op)
	}
	return *l.hasMore, nil
}

// A list is one page of any listing, but for its elements.
type list struct {
	object   string
	data     bool // whether it has elements, be it none: data comes once, and is an array
	elements int
	hasMore  *bool
}

// list reads a page, and lets element read each of its elements.
func (s *scanner) list(element func(*scanner)) list {
	var l list
	var datas int
	s.members(func(name []byte) {
		switch string(name) {
		case "object":
			l.object = s.string()
		case "has_more":
			l.hasMore = s.boolean()
		case "data":
			l.elements, l.data = s.elements(func() { element(s) })
			datas++
		default:
			s.value()
		}
	})
	l.data = l.data && datas == 1
	return l
}

// all asks for every page of a short listing and gives each element to take.
func (c *client) all(ctx context.Context, r request, take func(raw []byte) error) error {
	for after := ""; ; {
		var data [][]byte
		more, err := c.page(ctx, r, pageOf(after), func(s *scanner) { data = append(data, s.value()) })
		if err != nil {
			return err
		}
		for _, raw := range data {
			if err := take(raw); err != nil {
				return fmt.Errorf("%s: %w", r.op, err)
			}
		}
		if !more {
			return nil
		}
		last := idOf(data[len(data)-1])
		if last == "" || last == after {
			return fmt.Errorf("%s: the listing does not advance beyond %q; run again later", r.op, after)
		}
		after = last
	}
}

// pageSize is the most that Stripe gives in a page (API reference, Pagination).
const pageSize = 100

// pageOf is the query for the full page of elements older than after.
func pageOf(after string) *form.Values {
	query := &form.Values{}
	query.Add("limit", strconv.Itoa(pageSize))
	if after != "" {
		query.Add("starting_after", after)
	}
	return query
}

func one() *form.Values {
	query := &form.Values{}
	query.Add("limit", "1")
	return query
}
