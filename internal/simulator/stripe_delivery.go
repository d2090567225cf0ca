package simulator

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"
	"golang.org/x/sync/errgroup"
)

// A Delivery is one attempt to bring an event to an endpoint.
type Delivery struct {
	Endpoint string // its id
	Status   int    // 0 without an answer
	Err      error  // why there was no answer
}

// OK reports whether the endpoint acknowledged: 2xx and nothing else.
func (d Delivery) OK() bool { return d.Status >= 200 && d.Status < 300 }

// deliveryClient sends as Stripe does: a redirect is an answer, not a way.
func deliveryClient() *http.Client {
	return &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Body gives e exactly as an endpoint of the account's default version gets it
// now.
func (s *Stripe) Body(e Event) []byte { return s.body(e.rec, "") }

// body renders a record for an endpoint that is pinned to version; "" is none.
func (s *Stripe) body(r *record, version string) []byte {
	s.mu.RLock()
	pending := len(r.owed)
	s.mu.RUnlock()
	return rendering{record: r, layout: s.single(), pending: pending, account: r.account, version: version}.appendTo(nil)
}

// Deliver POSTs e, signed, to each endpoint that was enabled for it when it was
// emitted and is enabled now, once each. An endpoint that acknowledges is no
// longer pending; calling again delivers again.
func (s *Stripe) Deliver(ctx context.Context, e Event) []Delivery {
	s.mu.RLock()
	var targets []Endpoint
	for _, t := range e.rec.targets {
		if !t.deleted && !t.Disabled {
			targets = append(targets, t.Endpoint)
		}
	}
	s.mu.RUnlock()
	deliveries := make([]Delivery, 0, len(targets))
	for _, t := range targets {
		d := s.send(ctx, t, s.body(e.rec, t.APIVersion))
		if d.OK() {
			s.acknowledge(e.rec, t.ID)
		}
		deliveries = append(deliveries, d)
	}
	return deliveries
}

// acknowledge strikes an endpoint off those that are owed an event.
func (s *Stripe) acknowledge(r *record, endpointID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var owed []*endpoint // a new slice: records share the old one
	for _, e := range r.owed {
		if e.ID != endpointID {
			owed = append(owed, e)
		}
	}
	r.owed = slices.Clip(owed)
}

// send makes one attempt.
func (s *Stripe) send(ctx context.Context, e Endpoint, body []byte) Delivery {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return Delivery{Endpoint: e.ID, Err: fmt.Errorf("delivering to %s: %w", e.ID, err)}
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
	req.Header.Set("Stripe-Signature", Signature(s.opts.Now(), body, e.Secret))
	res, err := s.opts.Client.Do(req)
	if err != nil {
		return Delivery{Endpoint: e.ID, Err: fmt.Errorf("delivering to %s: %w", e.ID, err)}
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // so that the connection can be used again
	return Delivery{Endpoint: e.ID, Status: res.StatusCode}
}

// Signature is the Stripe-Signature header of a body that is sent at a time.
func Signature(at time.Time, body []byte, secret string) string {
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(webhook.ComputeSignature(at, body, secret)))
}

// Delivered sums up what DeliverAll did.
type Delivered struct {
	Events       int // that were sent
	Dropped      int // that drop held back
	Acknowledged int // deliveries answered by 2xx
	Failed       int // deliveries answered otherwise, or not at all
}

// DeliverAll delivers the events of an account as it has them now, oldest first,
// workers at a time (at least one), leaving out those that drop chooses; nil
// chooses none. The error is the context's.
func (s *Stripe) DeliverAll(ctx context.Context, account string, drop func(Event) bool, workers int) (Delivered, error) {
	var sum Delivered
	var acknowledged, failed atomic.Int64
	var g errgroup.Group
	g.SetLimit(max(workers, 1))
	for e := range s.All(account) {
		if ctx.Err() != nil {
			break
		}
		if drop != nil && drop(e) {
			sum.Dropped++
			continue
		}
		sum.Events++
		g.Go(func() error {
			for _, d := range s.Deliver(ctx, e) {
				if d.OK() {
					acknowledged.Add(1)
				} else {
					failed.Add(1)
				}
			}
			return nil
		})
	}
	_ = g.Wait() // no delivery returns an error
	sum.Acknowledged, sum.Failed = int(acknowledged.Load()), int(failed.Load())
	return sum, context.Cause(ctx)
}

// DropRatio gives a drop function that chooses the ratio (0 to 1) of events,
// always the same ones for a seed.
func DropRatio(seed uint64, ratio float64) func(Event) bool {
	return func(e Event) bool {
		return float64(mixText(seed, e.ID)>>11)/(1<<53) < ratio
	}
}
