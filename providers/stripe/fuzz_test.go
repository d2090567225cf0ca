package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/nightaudit/nightaudit/providers"
)

// FuzzOpen: no header and body panics, and what Open lets through Stripe's own
// library lets through.
func FuzzOpen(f *testing.F) {
	for _, v := range vectors {
		f.Add("t=1767312000,v1="+v.v1, []byte(v.body))
		f.Add("t=1735689660,v1="+v.v1+",v0=00", []byte(v.body))
	}
	f.Add("t=,v1=", []byte(`{}`))
	f.Add("t=99999999999999999999,v1=00", []byte(`{"id":null}`))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		const secret = "whsec_nightaudit_test"
		p, now := &provider{}, time.Unix(1767312000, 0)
		oracle := webhook.ValidatePayloadIgnoringTolerance(body, header, secret)
		e, err := p.Open(delivery(string(body), header), []providers.Secret{secret}, now)
		var refused *providers.SignatureError
		if oracle != nil && !errors.As(err, &refused) {
			t.Errorf("header %q: Stripe's library says %v, Open says %v", header, oracle, err)
		}
		if err == nil && (e.Key == "" || e.Type == "" || e.Created.IsZero()) {
			t.Errorf("%s was opened as %+v", body, e)
		}
		signed, err := p.Sign(providers.Message{Body: body}, []providers.Secret{secret}, now)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Open(providers.Request{Header: signed.Header, Body: signed.Body}, []providers.Secret{secret}, now)
		if errors.As(err, &refused) {
			t.Errorf("our own signature over %q is refused: %v", body, err)
		}
	})
}

// FuzzEnvelope: whatever the payload, reading it does not panic, and inserting an
// account changes nothing else.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(factSheetBody))
	for _, s := range []string{`{}`, ` { "a" : 1.0 } `, `{"account":null}`, `{"acc\u006funt":1}`, `{"data":{"object":[]}}`, `{"id":"e","type":"t","created":1e3}`, `{"id":"e","type":"t","created":9007199254740993}`, `[]`, "{\"a\":\"\xff\"}", `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := decodeEvent(payload, "acct_1")
		if err == nil && (e.Key == "" || e.Account == "" || e.Created.Year() > 9999 || !bytes.Equal(e.Payload, payload)) {
			t.Errorf("%s was read as %+v", payload, e)
		}
		before := bytes.Clone(payload)
		got, err := withAccount(payload, "acct_1")
		if !bytes.Equal(before, payload) {
			t.Fatalf("the payload itself was changed from %q to %q", before, payload)
		}
		var members map[string]json.RawMessage
		if valid := json.Unmarshal(payload, &members) == nil && members != nil; valid != (err == nil) {
			t.Fatalf("%q: an object is %v, error is %v", payload, valid, err)
		}
		if err != nil || bytes.Equal(got, payload) {
			return
		}
		var with map[string]json.RawMessage
		if err := json.Unmarshal(got, &with); err != nil || string(with["account"]) != `"acct_1"` {
			t.Fatalf("%q became %q: %v", payload, got, err)
		}
		delete(with, "account")
		if !reflect.DeepEqual(with, members) {
			t.Errorf("%q became %q: another member changed", payload, got)
		}
	})
}
