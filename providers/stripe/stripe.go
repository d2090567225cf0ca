// Package stripe reads a Stripe account: its events, those of its connected
// accounts, and its webhook endpoints; and it knows how Stripe delivers.
//
// Events are the only change feed that Stripe offers. They are listed for thirty
// days, newest first, filtered by whole seconds (Stripe API reference, Events).
// Requests and refusals are the official SDK's; answers are read here, once, so
// that an event's bytes stay what Stripe sent.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// Kind is the provider's name in the config.
const Kind = "stripe"

// Adapter opens Stripe accounts.
func Adapter() providers.Adapter {
	return providers.Adapter{Kind: Kind, Open: open}
}

// A provider is one Stripe account, seen by one API key.
type provider struct {
	*client
	settings settings
}

var (
	_ providers.Provider    = (*provider)(nil)
	_ providers.EventFeed   = (*provider)(nil)
	_ providers.EventReader = (*provider)(nil)
	_ providers.Endpoints   = (*provider)(nil)
	_ providers.Deliverer   = (*provider)(nil)
	_ providers.Clocked     = (*provider)(nil)
)

func open(s providers.Settings) (providers.Provider, error) {
	settings, err := parse(s)
	if err != nil {
		return nil, err
	}
	return &provider{client: newClient(s, settings), settings: settings}, nil
}

// Describe says what the Stripe API can and cannot tell. It does no I/O.
func (p *provider) Describe() providers.Description {
	return providers.Description{
		Kind:  Kind,
		Title: "Stripe",
		CannotShow: []string{
			"which delivery attempts were made and how they ended: Stripe's API has no delivery log, only a count of endpoints that have not acknowledged an event",
			"events older than 30 days",
			"events that Stripe failed to generate",
			"v2 (thin) events, which are listed elsewhere",
			"why and when an endpoint was disabled",
		},
	}
}

// What the feed of events offers. Stripe documents retention, order, filter and
// retries (API reference, Events; Webhooks, Automatic retries). That an event
// can become listable after later ones is reported by those who read the feed
// continuously and hold back seconds to a minute; ten minutes is generous.
const (
	settle      = 10 * time.Minute
	overlap     = time.Hour
	initial     = 72 * time.Hour
	retention   = 30 * 24 * time.Hour
	retryWindow = 3 * 24 * time.Hour
)

// The requests a second that nightaudit takes of Stripe's limits, which the
// application shares: 100 live and 25 in test mode, 25 on each endpoint (Stripe
// docs, Rate limits).
const (
	liveRate = 10
	testRate = 5
)

func (p *provider) feed() providers.Feed {
	return providers.Feed{
		Order:       providers.NewestFirst,
		Filter:      providers.FilterSecond,
		Splittable:  true,
		Settle:      settle,
		Overlap:     overlap,
		Initial:     initial,
		Retention:   retention,
		RetryWindow: retryWindow,
		DefaultRate: p.settings.rate(),
	}
}

// Streams gives the stream of the key's own account, and one for each connected
// account that the settings name or, for "all", that Stripe lists. The order is
// stable.
func (p *provider) Streams(ctx context.Context) ([]providers.Stream, error) {
	accounts := p.settings.accounts
	if p.settings.allAccounts {
		listed, err := p.connectedAccounts(ctx)
		if err != nil {
			return nil, err
		}
		accounts = listed
	}
	streams := []providers.Stream{p.stream("events", "")}
	for _, account := range accounts {
		streams = append(streams, p.stream("events@"+account, account))
	}
	return streams, nil
}

// stream is one account's events. The endpoints are the platform's own for all
// of them.
func (p *provider) stream(name, account string) providers.Stream {
	live := p.settings.live
	return providers.Stream{Name: name, Account: account, Feed: p.feed(), Hooks: "platform", Livemode: &live}
}

// connectedAccounts lists the ids of all connected accounts, sorted.
func (p *provider) connectedAccounts(ctx context.Context) ([]string, error) {
	var ids []string
	err := p.all(ctx, request{op: "listing connected accounts", path: "/v1/accounts", needs: "Connect read"}, func(raw []byte) error {
		account, err := decodeAccount(raw)
		if err != nil {
			return err
		}
		ids = append(ids, account)
		return nil
	})
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// Check reads one element of everything that a run reads. A rejected key, or a
// provider that cannot be reached, is the error.
func (p *provider) Check(ctx context.Context) ([]providers.Probe, error) {
	var probes []providers.Probe
	for _, r := range p.probes() {
		_, err := p.page(ctx, r, one(), func(s *scanner) { s.value() })
		var missing *providers.PermissionError
		if err != nil && !errors.As(err, &missing) {
			return nil, err
		}
		probes = append(probes, providers.Probe{Name: r.op, Err: err})
	}
	return probes, nil
}

func (p *provider) probes() []request {
	all := []request{
		{op: "reading events", path: eventsPath, needs: "Events read"},
		{op: "reading webhook endpoints", path: endpointsPath, needs: "Webhook Endpoints read"},
	}
	if p.settings.allAccounts {
		all = append(all, request{op: "listing connected accounts", path: "/v1/accounts", needs: "Connect read"})
	}
	for _, account := range p.settings.accounts {
		all = append(all, request{op: fmt.Sprintf("reading events of %s", account), path: eventsPath, account: account, needs: "Events read for connected accounts"})
	}
	return all
}
