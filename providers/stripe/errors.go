package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/stripe/stripe-go/v76"

	"github.com/nightaudit/nightaudit/providers"
)

// An answerError is what the API answered instead of what was asked for: in its
// own words if they are Stripe's, else without them.
type answerError struct {
	status  int    // HTTP status
	code    string // Stripe's code; "" if it gave none
	message string // redacted
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("HTTP %d", e.status)
	if e.code != "" {
		text += " " + e.code
	}
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

const keysPage = "https://dashboard.stripe.com/apikeys"

// explain turns an error of a call into one that says what to do. Nothing of it
// holds the key, a URL beyond its host, or what a page contained: the SDK's own
// texts can hold all three.
func (c *client) explain(r request, err error) error {
	var throttled *providers.ThrottledError
	var refused *sdk.Error
	var answer *answerError
	switch {
	case errors.As(err, &throttled):
		return &providers.ThrottledError{Op: r.op, Wait: throttled.Wait}
	case errors.As(err, &refused):
		return c.explainRefusal(r, refused)
	case errors.As(err, &answer):
		return fmt.Errorf("%s: %w", r.op, answer)
	case isNetwork(err):
		return fmt.Errorf("%s: %w", r.op, c.redactor.Error(err))
	default:
		return fmt.Errorf("%s: the answer has not the shape that Stripe documents; check base_url and what stands between", r.op)
	}
}

// explainRefusal goes by the status, and by the text where permissions come under
// several: a restricted key that lacks one is told its name.
func (c *client) explainRefusal(r request, refused *sdk.Error) error {
	answer := &answerError{status: refused.HTTPStatusCode, code: string(refused.Code), message: c.clean(refused.Msg)}
	switch {
	case refused.HTTPStatusCode == http.StatusForbidden || lacksPermission(refused.Msg):
		return missingPermission(r, answer)
	case refused.HTTPStatusCode == http.StatusUnauthorized:
		return &providers.CredentialsError{Op: r.op, Err: answer,
			Fix: "put a valid key of the right mode into credentials.api_key (" + keysPage + ")"}
	case refused.HTTPStatusCode == http.StatusTooManyRequests:
		return &providers.ThrottledError{Op: r.op}
	}
	return fmt.Errorf("%s: Stripe answered %w", r.op, answer)
}

// rak is the name of a restricted key's permission in Stripe's messages: "Having
// the 'rak_charge_read' permission would allow this request to continue."
var rak = regexp.MustCompile(`rak_[a-z0-9_]+`)

func lacksPermission(message string) bool {
	return rak.MatchString(message) || strings.Contains(message, "required permissions") ||
		strings.Contains(message, "does not have any Connect permissions")
}

func missingPermission(r request, answer *answerError) error {
	e := &providers.PermissionError{Op: r.op, Missing: r.needs, Err: answer,
		Fix: "grant it to the key at " + keysPage + ", then run nightaudit check"}
	names := rak.FindAllString(answer.message, -1)
	switch {
	case len(names) > 0:
		e.Missing = fmt.Sprintf("%s (%s)", strings.Join(names, ", "), r.needs)
	case lacksPermission(answer.message):
	case r.account != "":
		e.Missing = "access to account " + r.account
		e.Fix = "connect the account to this platform again, or take it out of settings.accounts"
	default:
		e.Fix = "look at the key at " + keysPage + "; Stripe says: " + answer.message
	}
	return e
}

// maskedKey is how Stripe quotes keys: masked, with their last characters.
var maskedKey = regexp.MustCompile(`\b[srp]k_(live|test)_[^\s'"]*`)

func (c *client) clean(message string) string {
	return maskedKey.ReplaceAllLiteralString(c.redactor.String(message), "[key]")
}

// isNetwork reports whether err came from the HTTP client and not from the SDK's
// decoding.
func isNetwork(err error) bool {
	var carried interface{ Timeout() bool } // url.Error, net.Error
	return errors.As(err, &carried)
}

// notJSON is what an error says of an answer that no API of Stripe's gives.
const notJSON = "the answer is not a JSON object; check base_url and what stands between"

// refusal is the error in an answer that is not what was asked for, nil for any
// other.
func (c *client) refusal(resp *http.Response, body []byte) error {
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		if why := notStripe(body); why != "" { // the SDK would quote from it
			return &answerError{status: resp.StatusCode, message: why}
		}
		return c.backend.ResponseToError(resp, body)
	case resp.StatusCode >= http.StatusMultipleChoices:
		return errors.New("a redirect to nowhere")
	}
	return nil
}

// notStripe says why a refusal cannot be Stripe's, "" if it can.
func notStripe(body []byte) string {
	s := scan(body)
	object := s.kind() == jsontext.KindBeginObject
	var says int // members of the last member error
	s.members(func(name []byte) {
		if string(name) != "error" {
			s.value()
			return
		}
		says = 0
		s.members(func([]byte) { says++; s.value() })
	})
	switch {
	case s.end() != nil || !object:
		return notJSON
	case says == 0:
		return "the answer names no error of Stripe's; check base_url and what stands between"
	}
	return ""
}
