package stripe

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/nightaudit/nightaudit/providers"
)

const signatureHeader = "Stripe-Signature"

// Compose builds the delivery of e. The body is the event as Stripe lists it,
// byte for byte, except that the event of a connected account gets its account if
// the listing left that out.
func (p *provider) Compose(_ context.Context, ep providers.Endpoint, e providers.Event) (providers.Message, error) {
	if len(e.Payload) == 0 {
		return providers.Message{}, fmt.Errorf("composing the delivery of %s: its payload is not known; read the event first", e.ID)
	}
	body := e.Payload
	if e.Account != "" {
		var err error
		if body, err = withAccount(e.Payload, e.Account); err != nil {
			return providers.Message{}, fmt.Errorf("composing the delivery of %s: %w", e.ID, err)
		}
	}
	return providers.Message{
		URL:  ep.URL,
		Body: body,
		Header: http.Header{ // as captured from Stripe's own deliveries
			"Content-Type": {"application/json; charset=utf-8"},
			"User-Agent":   {"Stripe/1.0 (+https://stripe.com/docs/webhooks)"},
			"Accept":       {"*/*; q=0.5, application/xml"},
		},
	}, nil
}

// Sign signs m with every secret, as Stripe does while one is rolled: a receiver
// accepts the delivery if it knows any (Stripe docs, Webhooks, Roll endpoint
// signing secrets).
func (p *provider) Sign(m providers.Message, secrets []providers.Secret, at time.Time) (providers.Message, error) {
	if len(secrets) == 0 || slices.Contains(secrets, "") {
		return providers.Message{}, errors.New("signing a delivery: a secret is missing or empty; give the endpoint's whsec_ secret")
	}
	var signature strings.Builder
	fmt.Fprintf(&signature, "t=%d", at.Unix())
	for i, secret := range secrets {
		if slices.Contains(secrets[:i], secret) {
			continue
		}
		mac := webhook.ComputeSignature(at, m.Body, secret.Reveal())
		signature.WriteString(",v1=" + hex.EncodeToString(mac))
	}
	m.Header = m.Header.Clone()
	if m.Header == nil {
		m.Header = http.Header{}
	}
	m.Header.Set(signatureHeader, signature.String())
	return m, nil
}

// tolerance is how far the time of a signature may lie from ours, in either
// direction. Stripe's libraries look back as far and do not look ahead.
const tolerance = webhook.DefaultTolerance

// Open verifies a delivery against any of the secrets and reads its event. The
// SDK verifies; only the time is judged here, against now.
func (p *provider) Open(r providers.Request, secrets []providers.Secret, now time.Time) (providers.Event, error) {
	header := r.Header.Get(signatureHeader)
	if header == "" {
		return providers.Event{}, &providers.SignatureError{Why: "it has no " + signatureHeader + " header"}
	}
	at, err := signedAt(header)
	if err != nil {
		return providers.Event{}, err
	}
	if err := verify(r.Body, header, secrets); err != nil {
		return providers.Event{}, err
	}
	if err := inTime(at, now); err != nil {
		return providers.Event{}, err
	}
	event, err := decodeEvent(r.Body, "")
	if err != nil {
		return providers.Event{}, fmt.Errorf("reading a genuine delivery: %w", err)
	}
	return event, nil
}

// signedAt is the time in a signature header, which must be there exactly once.
func signedAt(header string) (time.Time, error) {
	var times []string
	for _, pair := range strings.Split(header, ",") {
		if value, ok := strings.CutPrefix(pair, "t="); ok {
			times = append(times, value)
		}
	}
	if len(times) != 1 {
		return time.Time{}, &providers.SignatureError{Why: fmt.Sprintf("its %s header has %d times, not one", signatureHeader, len(times))}
	}
	seconds, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil {
		return time.Time{}, &providers.SignatureError{Why: "the time in its " + signatureHeader + " header is no number of seconds"}
	}
	return time.Unix(seconds, 0), nil
}

func verify(body []byte, header string, secrets []providers.Secret) error {
	known := slices.DeleteFunc(slices.Clone(secrets), func(s providers.Secret) bool { return s == "" })
	if len(known) == 0 {
		return &providers.SignatureError{Why: "no secret is configured for the endpoint to verify it with"}
	}
	for _, secret := range known {
		err := webhook.ValidatePayloadIgnoringTolerance(body, header, secret.Reveal())
		if err == nil {
			return nil
		}
		if errors.Is(err, webhook.ErrInvalidHeader) {
			return &providers.SignatureError{Why: "its " + signatureHeader + " header is malformed"}
		}
	}
	return &providers.SignatureError{Why: "no signature in it is by a configured secret over these bytes"}
}

func inTime(at, now time.Time) error {
	switch age := now.Sub(at); {
	case age > tolerance:
		return &providers.SignatureError{Why: fmt.Sprintf("it was signed %s ago, beyond the %s tolerated; it is stale, or our clock is ahead", age.Round(time.Second), tolerance)}
	case age < -tolerance:
		return &providers.SignatureError{Why: fmt.Sprintf("it was signed %s in the future, beyond the %s tolerated; our clock is behind", -age.Round(time.Second), tolerance)}
	}
	return nil
}

// Replayable reports whether an event may be sent again. Everything may, except
// the question whether to approve a card payment: its answer was part of a
// payment that has ended within two seconds (Stripe docs, Issuing, Real-time
// authorizations).
func (p *provider) Replayable(eventType string) (ok bool, why string) {
	if eventType == "issuing_authorization.request" {
		return false, "it asked for an answer within two seconds, in the middle of a card payment that is over"
	}
	return true, ""
}

// Class goes by the last word of the type: an update carries the object's state,
// a deletion ends it, anything else says that something happened.
func (p *provider) Class(eventType string) providers.Class {
	switch {
	case strings.HasSuffix(eventType, ".updated"):
		return providers.Snapshot
	case strings.HasSuffix(eventType, ".deleted"):
		return providers.Ending
	default:
		return providers.Fact
	}
}
