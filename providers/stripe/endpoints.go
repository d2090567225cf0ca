package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/nightaudit/nightaudit/providers"
)

const endpointsPath = "/v1/webhook_endpoints"

// Endpoints lists the webhook endpoints of the key's own account, oldest first.
// They are the same for every stream: the events of connected accounts go to
// endpoints of the platform, and the API does not say which endpoints are for
// those (the field connect can only be written).
func (p *provider) Endpoints(ctx context.Context, _ providers.Stream) ([]providers.Endpoint, error) {
	var endpoints []providers.Endpoint
	r := request{op: "listing webhook endpoints", path: endpointsPath, needs: "Webhook Endpoints read"}
	err := p.all(ctx, r, func(raw []byte) error {
		endpoint, err := decodeEndpoint(raw)
		endpoints = append(endpoints, endpoint)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(endpoints, func(a, b providers.Endpoint) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	same := func(a, b providers.Endpoint) bool { return a.ID == b.ID }
	return slices.CompactFunc(endpoints, same), nil
}

func decodeEndpoint(raw []byte) (providers.Endpoint, error) {
	var e sdk.WebhookEndpoint
	if err := json.Unmarshal(raw, &e); err != nil || e.ID == "" || e.URL == "" {
		return providers.Endpoint{}, errors.New("an endpoint in the list has no id or URL, or fields of another shape than Stripe documents")
	}
	return providers.Endpoint{
		ID:         e.ID,
		URL:        e.URL,
		Enabled:    e.Status == "enabled",
		Types:      e.EnabledEvents,
		APIVersion: e.APIVersion,
		Livemode:   sdk.Bool(e.Livemode),
		Created:    time.Unix(e.Created, 0).UTC(),
	}, nil
}
