package providers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const slackURL = "https://hooks.slack.example/services/T0AAA/B0BBB/sekret?token=q"

// leaks names the first secret part in a text.
func leaks(text string, secrets ...string) string {
	for _, s := range secrets {
		if strings.Contains(text, s) {
			return s
		}
	}
	return ""
}

func TestRedactedErrorsShowNoPartOfAURLButItsHost(t *testing.T) {
	_, refused := http.Get("http://user:pa55@127.0.0.1:1/services/T0AAA/B0BBB/sekret?token=q")
	_, unparsable := url.Parse("https://user:pa55 word@hooks.example:sekret/T0AAA?token=q")
	_, escape := url.Parse("https://hooks.example/sekret%zz?token=q")
	schemeless := &url.Error{Op: "Get", URL: "/services/sekret?token=q", Err: errors.New("unsupported protocol scheme")}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a refused connection", refused, "http://127.0.0.1:1"},
		{"a wrapped one", fmt.Errorf("sending the alert: %w", refused), "sending the alert: Get http://127.0.0.1:1"},
		{"two joined", errors.Join(errors.New("first"), refused), "first"},
		{"a URL that cannot be parsed", unparsable, "parse [url]: the URL is malformed"},
		{"a bad escape", fmt.Errorf("request: %w", escape), "malformed"},
		{"a URL without a host", schemeless, "Get [url]: unsupported protocol scheme"},
		{"a URL in plain words", errors.New("no answer from " + slackURL + " in time"), "no answer from https://hooks.slack.example in time"},
		{"a URL error inside a URL error", &url.Error{Op: "Post", URL: slackURL, Err: refused}, "https://hooks.slack.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NewRedactor().Error(c.err).Error()
			if leak := leaks(got, "sekret", "token=q", "T0AAA", "pa55", "word"); leak != "" {
				t.Errorf("%q shows %q", got, leak)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%q does not say %q", got, c.want)
			}
		})
	}
}

func TestRedactorHidesKnownSecretsInEveryForm(t *testing.T) {
	r := NewRedactor("sk_live_na_SECRET", "whsec_nightaudit_test", slackURL, "pä ss&\"wörd", "")
	for _, text := range []string{
		"key sk_live_na_SECRET refused",
		"handler said: wrong whsec_nightaudit_test!",
		"POST " + slackURL + " failed",
		"POST /services/T0AAA/B0BBB/sekret?token=q HTTP/1.1",
		"path /services/T0AAA/B0BBB/sekret",
		`{"password":"pä ss&\"wörd"}`,
		"password=" + url.QueryEscape("pä ss&\"wörd"),
		"Authorization: c2tfbGl2ZV9uYV9TRUNSRVQ=",
		"postgres://app:hunter2@db.example/app failed",
		"postgres://app:x@hunter2@db.example/app failed",
	} {
		got := r.String(text)
		if leak := leaks(got, "sk_live_na_SECRET", "whsec_nightaudit_test", "sekret", "token=q", "wörd", "w%C3%B6rd", "c2tfbGl2", "hunter2"); leak != "" {
			t.Errorf("String(%q) = %q, which shows %q", text, got, leak)
		}
	}
	if got, want := r.String("nothing to hide, q and all"), "nothing to hide, q and all"; got != want {
		t.Errorf("a text without secrets became %q, want it as it was", got)
	}
}

func TestOverlappingSecretsLeaveNoRest(t *testing.T) {
	got := NewRedactor("abcdef", "efghij", "abcdefghijkl").String("x abcdefghij y abcdefghijkl z")
	if want := "x [redacted] y [redacted] z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestASecretTooShortToHideBlotsOutNoWords(t *testing.T) {
	const text = "event evt_1 of account acct_x is missing"
	if got := NewRedactor("x", "event", "").String(text); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

func TestRedactedErrorsStillDecide(t *testing.T) {
	original := fmt.Errorf("listing from %s: %w", slackURL, errors.Join(context.Canceled, &ThrottledError{Op: "listing"}))
	got := NewRedactor().Error(original)
	var throttled *ThrottledError
	if !errors.Is(got, context.Canceled) || !errors.As(got, &throttled) {
		t.Errorf("the redacted error is no longer what it was: %v", got)
	}
	if errors.Unwrap(got) != nil {
		t.Errorf("the redacted error unwraps to what it hides")
	}
	if plain := errors.New("plain"); NewRedactor().Error(plain) != plain { //nolint:errorlint // the same error, not one like it
		t.Errorf("an error with nothing to hide was replaced")
	}
	var none *Redactor
	if none.Error(nil) != nil || none.String("a") != "a" {
		t.Errorf("the nil Redactor changes what has nothing to hide")
	}
}

func TestNoTextShowsASecretWhateverSurroundsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9_]{6,20}`).Draw(t, "secret")
		before, after := rapid.String().Draw(t, "before"), rapid.String().Draw(t, "after")
		got := NewRedactor(Secret(secret)).Error(errors.New(before + secret + after)).Error()
		if strings.Contains(got, secret) && !strings.Contains(redacted, secret) {
			t.Fatalf("%q shows %q", got, secret)
		}
	})
}
