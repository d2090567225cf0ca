package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	sdk "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/nightaudit/nightaudit/providers"
)

// A client asks the Stripe API by way of the official SDK. Its own retries,
// telemetry and logs are off: the Transport does the first, nobody wants the
// others.
type client struct {
	backend   sdk.Backend
	transport *providers.Transport
	key       providers.Secret
	redactor  *providers.Redactor
}

func newClient(from providers.Settings, s settings) *client {
	tuned, transport := providers.Tune(from.Client, providers.Tuning{
		Rate: s.rate(),
		// The SDK runs uname and tells Stripe what it says, host name included.
		DropHeaders: []string{"X-Stripe-Client-User-Agent", "X-Stripe-Client-Telemetry"},
		ShouldRetry: "Stripe-Should-Retry",
	})
	tuned.Transport = &answerCheck{transport}
	config := &sdk.BackendConfig{
		HTTPClient:        tuned,
		EnableTelemetry:   sdk.Bool(false),
		LeveledLogger:     &sdk.LeveledLogger{Level: sdk.LevelNull},
		MaxNetworkRetries: sdk.Int64(0),
	}
	if from.BaseURL != "" {
		config.URL = sdk.String(from.BaseURL)
	}
	return &client{
		backend:   sdk.GetBackendWithConfig(sdk.APIBackend, config),
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

// get asks r and decodes the answer into v.
func (c *client) get(ctx context.Context, r request, query *form.Values, v sdk.LastResponseSetter) error {
	params := &sdk.Params{Context: ctx}
	if r.account != "" {
		params.StripeAccount = sdk.String(r.account)
	}
	if err := c.backend.CallRaw(http.MethodGet, r.path, c.key.Reveal(), query, params, v); err != nil {
		return c.explain(r, err)
	}
	return nil
}

// A list is one page of any listing, its elements as they came.
type list struct {
	sdk.APIResource
	Object  string            `json:"object"`
	Data    []json.RawMessage `json:"data"`
	HasMore *bool             `json:"has_more"`
}

// page asks for one page. What is not a list of Stripe's is an error, since it
// would read as an empty page.
func (c *client) page(ctx context.Context, r request, query *form.Values) (*list, error) {
	var l list
	if err := c.get(ctx, r, query, &l); err != nil {
		return nil, err
	}
	if l.Object != "list" || l.Data == nil || l.HasMore == nil {
		return nil, fmt.Errorf("%s: the answer is not a list as Stripe gives it (object, data, has_more); check base_url and what stands between", r.op)
	}
	if *l.HasMore && len(l.Data) == 0 {
		return nil, fmt.Errorf("%s: the page is empty and says that there are more; run again later", r.op)
	}
	return &l, nil
}

// all asks for every page of a short listing and gives each element to take.
func (c *client) all(ctx context.Context, r request, take func(raw []byte) error) error {
	for after := ""; ; {
		l, err := c.page(ctx, r, pageOf(after))
		if err != nil {
			return err
		}
		for _, raw := range l.Data {
			if err := take(raw); err != nil {
				return fmt.Errorf("%s: %w", r.op, err)
			}
		}
		if !*l.HasMore {
			return nil
		}
		last := lastID(l.Data)
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

// lastID is the id of the last element that has one. Where elements after it are
// unreadable, the next page gives them again, and nothing is left out.
func lastID(data []json.RawMessage) string {
	for i := len(data) - 1; i >= 0; i-- {
		if id := idOf(data[i]); id != "" {
			return id
		}
	}
	return ""
}
