package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/stripe"
	"github.com/nightaudit/nightaudit/reconcile/listing"
)

const (
	// pageDelay is how long the fake Stripe takes for a page.
	pageDelay = 100 * time.Millisecond
	// pageSize is how many events Stripe gives on a page, at most
	// (https://docs.stripe.com/api/pagination).
	pageSize = 100
	// limit is how many requests a second Stripe bears in test mode
	// (https://docs.stripe.com/rate-limits).
	limit = 25
	// unlimitedRate is one that no listing comes near.
	unlimitedRate = 1e6
)

// pagesOf is how many pages hold so many events; an empty listing is a page too.
func pagesOf(events int) int { return max(1, (events+pageSize-1)/pageSize) }

// limited lists accounts of two sizes as fast as a limit lets it. What the limit
// allows is the bar: the pages an account fills, each asked for once.
func limited(ctx context.Context, e *environment) ([]figure, error) {
	var figures []figure
	for _, events := range []int{20_000, 100_000} {
		measured, err := limitedListing(ctx, e, events)
		if err != nil {
			return figures, err
		}
		figures = append(figures, measured...)
	}
	return figures, nil
}

func limitedListing(ctx context.Context, e *environment, events int) ([]figure, error) {
	fake, err := e.simulate(ctx, events, "--page-delay", pageDelay.String())
	if err != nil {
		return nil, err
	}
	defer fake.stop()
	ours, err := repeated(e, "listing.Walk", func() (*listed, error) { return walk(ctx, fake, limit, listing.Options{}) })
	if err != nil {
		return nil, err
	}
	pages := pagesOf(events)
	least := float64(pages) / limit
	name := fmt.Sprintf("listing %d events at %d/s", events, limit)
	return []figure{
		{name: name + ", time to the least", got: ours.took.Seconds() / least, bar: 1.10, unit: "x",
			detail: fmt.Sprintf("%.1f s to %.1f s for %d pages", ours.took.Seconds(), least, pages)},
		{name: name + ", requests", got: float64(ours.requests), unit: "requests",
			bar: float64(pages)*1.03 + listing.DefaultConcurrency, detail: fmt.Sprintf("for %d pages", pages)},
	}, nil
}

// unlimited lists an account without a limit, 32 pages at once, and by the
// iterator of Stripe's own library, which asks for one page after the other.
func unlimited(ctx context.Context, e *environment) ([]figure, error) {
	const events, concurrency = 20_000, 32
	fake, err := e.simulate(ctx, events, "--page-delay", pageDelay.String())
	if err != nil {
		return nil, err
	}
	defer fake.stop()
	ours, err := repeated(e, "listing.Walk", func() (*listed, error) {
		return walk(ctx, fake, unlimitedRate, listing.Options{Concurrency: concurrency})
	})
	if err != nil {
		return nil, err
	}
	theirs, err := repeated(e, "stripe-go's iterator", func() (*listed, error) { return iterate(ctx, fake) })
	if err != nil {
		return nil, err
	}
	if !maps.Equal(ours.ids, theirs.ids) {
		return nil, fmt.Errorf("listing %d events: stripe-go's iterator found others than listing.Walk", events)
	}
	return []figure{{name: fmt.Sprintf("listing %d events, stripe-go's iterator to ours", events),
		got: theirs.took.Seconds() / ours.took.Seconds(), bar: 10, atLeast: true, unit: "x",
		detail: fmt.Sprintf("%.1f s to %.2f s, %d pages at once", theirs.took.Seconds(), ours.took.Seconds(), concurrency)}}, nil
}

// A listed account is what one way to list it took and found.
type listed struct {
	took     time.Duration
	requests int
	ids      map[string]bool
}

// newListed notes the ids that a listing found, each of which must be there once.
func newListed(fake *simulated, took time.Duration, requests int, found []string) (*listed, error) {
	l := &listed{took: took, requests: requests, ids: make(map[string]bool, len(found))}
	for _, id := range found {
		l.ids[id] = true
	}
	if len(found) != fake.Events || len(l.ids) != fake.Events {
		return nil, fmt.Errorf("listing %d events: it found %d, %d of them distinct", fake.Events, len(found), len(l.ids))
	}
	return l, nil
}

// repeated lists an account a few times and gives the listing of the median time.
func repeated(e *environment, what string, once func() (*listed, error)) (*listed, error) {
	all := make([]*listed, 0, repeats)
	for range repeats {
		l, err := once()
		if err != nil {
			return nil, err
		}
		e.say("%s took %.2f s for %d events, %d requests", what, l.took.Seconds(), len(l.ids), l.requests)
		all = append(all, l)
	}
	return median(all, func(l *listed) time.Duration { return l.took }), nil
}

// walk lists an account as nightaudit does: through the adapter and the transport
// of a source, whose rate is in requests a second.
func walk(ctx context.Context, fake *simulated, rate float64, o listing.Options) (*listed, error) {
	transport := providers.NewTransport(providers.TransportOptions{Rate: rate})
	provider, err := stripe.Adapter().Open(providers.Settings{
		Source: "bench", BaseURL: fake.StripeURL, Client: &http.Client{Transport: transport},
		Credentials: map[string]providers.Secret{"api_key": providers.Secret(fake.Key)},
	})
	if err != nil {
		return nil, err
	}
	streams, err := provider.Streams(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	began := time.Now()
	_, err = listing.Walk(ctx, provider.(providers.EventFeed), streams[0], fake.window(), o, listing.Pages(func(p listing.Page) error {
		for _, event := range p.Events {
			found = append(found, event.ID)
		}
		return nil
	}))
	took := time.Since(began)
	if err != nil {
		return nil, err
	}
	return newListed(fake, took, int(transport.Stats().Requests), found)
}
