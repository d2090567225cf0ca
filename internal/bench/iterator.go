package main

import (
	"context"
	"net/http"
	"time"

	sdk "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/event"
)

// iterate lists an account by the iterator of Stripe's own library, as its
// documentation shows it (https://docs.stripe.com/api/pagination/auto). One page
// is listed before, so that the connection is there.
func iterate(ctx context.Context, fake *simulated) (*listed, error) {
	counting := &counter{next: http.DefaultTransport}
	client := event.Client{Key: fake.Key, B: sdk.GetBackendWithConfig(sdk.APIBackend, &sdk.BackendConfig{
		URL: sdk.String(fake.StripeURL), HTTPClient: &http.Client{Transport: counting},
		LeveledLogger: &sdk.LeveledLogger{Level: sdk.LevelNull},
	})}
	params := func() *sdk.EventListParams {
		p := &sdk.EventListParams{CreatedRange: &sdk.RangeQueryParams{GreaterThanOrEqual: fake.From.Unix(), LesserThan: fake.To.Unix()}}
		p.Limit = sdk.Int64(pageSize)
		p.Context = ctx
		return p
	}
	warm := params()
	warm.Single = true
	if err := client.List(warm).Err(); err != nil {
		return nil, err
	}
	counting.requests = 0
	var found []string
	began := time.Now()
	events := client.List(params())
	for events.Next() {
		found = append(found, events.Event().ID)
	}
	took := time.Since(began)
	if err := events.Err(); err != nil {
		return nil, err
	}
	return newListed(fake, took, counting.requests, found)
}

// A counter counts requests that go one after the other.
type counter struct {
	next     http.RoundTripper
	requests int
}

// RoundTrip counts the request and passes it on.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests++
	return c.next.RoundTrip(r)
}
