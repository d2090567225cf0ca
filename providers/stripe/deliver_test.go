package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/providertest"
)

const factSheetBody = `{"id":"evt_1NightAudit0000001","object":"event","api_version":"2023-10-16","created":1735689600,"data":{"object":{"id":"cs_test_1","object":"checkout.session","payment_status":"paid","note":"a<b & \u00fc"}},"livemode":false,"pending_webhooks":0,"request":{"id":null,"idempotency_key":null},"type":"checkout.session.completed"}`

// vectors are known signatures, each checked with Stripe's own library.
var vectors = []struct {
	name   string
	secret providers.Secret
	at     int64
	body   string
	v1     string
}{
	{"a checkout session", "whsec_nightaudit_test_secret_0001", 1735689660, factSheetBody,
		"50cde52ade212c19e9b6380e8526b6d7af2d051510b5f9aa35a51b344200c741"},
	{"bytes that any encoder would change", "whsec_nightaudit_test", 1767312000,
		"{\"id\":\"evt_na_0007\",\"note\":\"café \\ud83d\\ude9a <b>&amp;\",\"amount\":1.0}\n",
		"1533afcd4eb2e64891f37c289fc5123c06874bc3efe65284701b9b8fee8c2380"},
	{"an event three days old, signed today", "whsec_nightaudit_test", 1767312000,
		`{"id":"evt_na_0001","object":"event","type":"invoice.paid","created":1767225600}`,
		"6cbe01303b917c8d79292a12ca23ea56b2449442b1c3d48260a6375f48861fb4"},
}

func TestSignaturesAreThoseOfStripe(t *testing.T) {
	p := &provider{}
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			at := time.Unix(v.at, 0)
			m, err := p.Sign(providers.Message{Body: []byte(v.body)}, []providers.Secret{v.secret}, at)
			if err != nil {
				t.Fatal(err)
			}
			header := m.Header.Get(signatureHeader)
			if _, got, _ := strings.Cut(header, ",v1="); got != v.v1 {
				t.Errorf("%s\n got v1=%s\nwant v1=%s", v.body, got, v.v1)
			}
			if err := webhook.ValidatePayloadIgnoringTolerance(m.Body, header, v.secret.Reveal()); err != nil {
				t.Errorf("Stripe's library refuses %s: %v", header, err)
			}
			err = verify([]byte(v.body), header, []providers.Secret{"whsec_other", v.secret})
			if err != nil {
				t.Errorf("our own side refuses it: %v", err)
			}
		})
	}
}

func TestEachAttemptIsSignedForItsOwnTime(t *testing.T) {
	p, v := &provider{}, vectors[2]
	first, err := p.Sign(providers.Message{Body: []byte(v.body)}, []providers.Secret{v.secret}, time.Unix(1767312000, 0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Sign(first, []providers.Secret{v.secret}, time.Unix(1767312030, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := first.Header.Get(signatureHeader), "t=1767312000,v1="+v.v1; got != want {
		t.Errorf("first attempt: got %s, want %s", got, want)
	}
	again := second.Header.Get(signatureHeader)
	if !strings.HasPrefix(again, "t=1767312030,v1=") || strings.Contains(again, v.v1) {
		t.Errorf("second attempt: got %s, want its own time and signature", again)
	}
}

func TestStripesLibraryAcceptsAReplayWithinItsTolerance(t *testing.T) {
	p := &provider{}
	m, err := p.Sign(providers.Message{Body: []byte(factSheetBody)}, []providers.Secret{"whsec_new", "whsec_old"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"whsec_new", "whsec_old"} {
		e, err := webhook.ConstructEvent(m.Body, m.Header.Get(signatureHeader), secret)
		if err != nil || e.ID != "evt_1NightAudit0000001" {
			t.Errorf("with %s: event %q, %v", secret, e.ID, err)
		}
	}
}

func TestDeliveriesSignedByStripesLibraryAreOpened(t *testing.T) {
	now := time.Unix(1735689700, 0)
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(factSheetBody), Secret: "whsec_a", Timestamp: now})
	for _, header := range []string{signed.Header, signed.Header + ",v0=00ff", strings.Replace(signed.Header, ",", ",v1=00ff,", 1)} {
		e, err := (&provider{}).Open(delivery(factSheetBody, header), []providers.Secret{"whsec_b", "whsec_a"}, now)
		if err != nil || e.Key != "evt_1NightAudit0000001" || e.Type != "checkout.session.completed" {
			t.Errorf("%s: event %q, %v", header, e.Key, err)
		}
	}
}

func delivery(body, header string) providers.Request {
	return providers.Request{Header: http.Header{signatureHeader: {header}}, Body: []byte(body)}
}

func TestRefusalsNameTheirReason(t *testing.T) {
	now := time.Unix(1735689660, 0)
	good := "t=1735689660,v1=50cde52ade212c19e9b6380e8526b6d7af2d051510b5f9aa35a51b344200c741"
	secrets := []providers.Secret{vectors[0].secret}
	for _, c := range []struct {
		name    string
		header  string
		secrets []providers.Secret
		now     time.Time
		says    string
	}{
		{"no header", "", secrets, now, "no Stripe-Signature header"},
		{"a blank behind the comma", strings.Replace(good, ",", ", ", 1), secrets, now, "no signature"},
		{"no time", good[strings.Index(good, "v1"):], secrets, now, "0 times"},
		{"two times", "t=1735689661," + good, secrets, now, "2 times"},
		{"a time that is no number", strings.Replace(good, "1735689660", "now", 1), secrets, now, "no number of seconds"},
		{"an odd pair", good + ",v1", secrets, now, "malformed"},
		{"the old scheme only", strings.Replace(good, "v1", "v0", 1), secrets, now, "no signature"},
		{"no secret configured", good, nil, now, "no secret is configured"},
		{"an empty secret", good, []providers.Secret{""}, now, "no secret is configured"},
		{"another secret", good, []providers.Secret{"whsec_other"}, now, "no signature in it is by a configured secret"},
		{"another time", strings.Replace(good, "660", "661", 1), secrets, now, "no signature"},
		{"five minutes and a second late", good, secrets, now.Add(301 * time.Second), "signed 5m1s ago"},
		{"five minutes and a second early", good, secrets, now.Add(-301 * time.Second), "signed 5m1s in the future"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := (&provider{}).Open(delivery(factSheetBody, c.header), c.secrets, c.now)
			var refused *providers.SignatureError
			if !errors.As(err, &refused) || !strings.Contains(refused.Why, c.says) {
				t.Errorf("header %q: got %v, want a *SignatureError that says %q", c.header, err, c.says)
			}
		})
	}
	for _, edge := range []time.Duration{-tolerance, tolerance} {
		if _, err := (&provider{}).Open(delivery(factSheetBody, good), secrets, now.Add(edge)); err != nil {
			t.Errorf("%s after its time a delivery is refused: %v", edge, err)
		}
	}
}

func TestAGenuineDeliveryThatIsNoEventIsNoSignatureError(t *testing.T) {
	now := time.Unix(1767312000, 0)
	thin := `{"id":"evt_test_65R","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered","created":"2026-01-02T00:00:00Z"}`
	for _, body := range []string{thin, `{"id":"evt_1"}`, `[]`, `x`} {
		m, _ := (&provider{}).Sign(providers.Message{Body: []byte(body)}, []providers.Secret{"whsec_a"}, now)
		_, err := (&provider{}).Open(providers.Request{Header: m.Header, Body: m.Body}, []providers.Secret{"whsec_a"}, now)
		var refused *providers.SignatureError
		if err == nil || errors.As(err, &refused) {
			t.Errorf("%s: got %v, want an error that is no *SignatureError", body, err)
		}
	}
}

func TestComposedDeliveriesLookLikeStripes(t *testing.T) {
	p := serve(t, newFake(t, providertest.Plain), "")
	ep := providers.Endpoint{URL: "https://app.example.com/hook"}
	for _, e := range listAll(t, p, "") {
		m, err := p.Compose(t.Context(), ep, e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.Body, e.Payload) {
			t.Errorf("%s: the body is not the payload\n got %s\nwant %s", e.ID, m.Body, e.Payload)
		}
		if m.URL != ep.URL || m.Header.Get("Content-Type") != "application/json; charset=utf-8" || m.Header.Get("User-Agent") != "Stripe/1.0 (+https://stripe.com/docs/webhooks)" || m.Header.Get("Accept") == "" {
			t.Errorf("%s goes to %s with %v", e.ID, m.URL, m.Header)
		}
	}
	if _, err := p.Compose(t.Context(), ep, providers.Event{ID: "evt_1"}); err == nil {
		t.Error("an event without payload was composed")
	}
}

func TestADeliveryForAConnectedAccountNamesIt(t *testing.T) {
	p := serve(t, newFake(t, providertest.Plain), "accounts: ["+connected+"]")
	events := listAll(t, p, connected)
	unnamed, named := find(t, events, "evt_na_c"), find(t, events, "evt_na_c2")
	m, err := p.Compose(t.Context(), providers.Endpoint{}, unnamed)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"account":"acct_na_c1",` + string(unnamed.Payload[1:])
	if string(m.Body) != want || !json.Valid(m.Body) {
		t.Errorf("got  %s\nwant %s", m.Body, want)
	}
	m, err = p.Compose(t.Context(), providers.Endpoint{}, named)
	if err != nil || !bytes.Equal(m.Body, named.Payload) {
		t.Errorf("a payload that names its account was changed: %s, %v", m.Body, err)
	}
}

func TestAccountIsInsertedOnlyAtTheTopAndOnlyIfAbsent(t *testing.T) {
	for _, c := range []struct{ name, payload, want string }{
		{"absent", `{"id":"evt_1"}`, `{"account":"acct_1","id":"evt_1"}`},
		{"blanks before and behind", " \n{ \"id\": 1 }\n", " \n{\"account\":\"acct_1\", \"id\": 1 }\n"},
		{"an empty object", `{}`, `{"account":"acct_1"}`},
		{"deeper down only", `{"data":{"account":"x"},"list":[{"account":1}]}`, `{"account":"acct_1","data":{"account":"x"},"list":[{"account":1}]}`},
		{"as a value only", `{"id":"account","note":"\"account\":"}`, `{"account":"acct_1","id":"account","note":"\"account\":"}`},
		{"as part of a name", `{"accounts":1,"Account":2}`, `{"account":"acct_1","accounts":1,"Account":2}`},
		{"present at the end", `{"id":1.0,"account":"acct_2"}`, `{"id":1.0,"account":"acct_2"}`},
		{"present as null", `{"account":null}`, `{"account":null}`},
		{"present with escapes", `{"acc\u006funt":"acct_2"}`, `{"acc\u006funt":"acct_2"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := withAccount([]byte(c.payload), "acct_1")
			if err != nil || string(got) != c.want {
				t.Errorf("%s\n got %s, %v\nwant %s", c.payload, got, err, c.want)
			}
		})
	}
	for _, payload := range []string{``, `x`, `[]`, `"{}"`, `{"id":1`, `{"id"}`, `{"id":1}{}`, `{"id":1} x`} {
		if got, err := withAccount([]byte(payload), "acct_1"); err == nil {
			t.Errorf("%s became %s, want an error", payload, got)
		}
	}
}
