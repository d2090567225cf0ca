package simulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The permissions of restricted keys, as refusals name them. Stripe documents no
// list of these names; that of the accounts is a guess.
const (
	EventRead   = "rak_event_read"
	WebhookRead = "rak_webhook_read"
	AccountRead = "rak_accounts_kyc_basic_read"
)

// A Key is one API key. Its mode is the one in its name: sk_live_… and rk_live_…
// see live events alone, every other key sees test events alone.
type Key struct {
	Secret      string
	Permissions []string // nil is every permission; an empty list is none
	Accounts    []string // connected accounts it may act for; nil is all
}

func (k Key) live() bool { return strings.Contains(k.Secret, "k_live_") }

// hint is the key as Stripe shows it in messages.
func (k Key) hint() string {
	if len(k.Secret) < 16 {
		return "****"
	}
	return k.Secret[:8] + "*********" + k.Secret[len(k.Secret)-4:]
}

// allows refuses a key without the permission, as Stripe words it.
func (k Key) allows(permission string, a *account, platform string) *apiError {
	if k.Permissions == nil || slices.Contains(k.Permissions, permission) {
		return nil
	}
	id := a.id
	if id == "" {
		id = platform
	}
	return &apiError{Status: http.StatusForbidden, Type: "invalid_request_error", Message: fmt.Sprintf(
		"The provided key '%s' does not have the required permissions for this endpoint on account '%s'. Having the '%s' permission would allow this request to continue.",
		k.hint(), id, permission)}
}

// caller is who asks: a key, and the account that it asks about.
type caller struct {
	key     Key
	account *account
}

// admit finds the caller of a request.
func (s *Stripe) admit(r *http.Request) (caller, *apiError) {
	secret, given := keyOf(r)
	if !given {
		return caller{}, &apiError{Status: http.StatusUnauthorized, Type: "invalid_request_error",
			Message: "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY')."}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	key, known := s.keys[secret]
	if !known {
		return caller{}, &apiError{Status: http.StatusUnauthorized, Type: "invalid_request_error",
			Message: "Invalid API Key provided: " + Key{Secret: secret}.hint()}
	}
	id := r.Header.Get("Stripe-Account")
	if id == s.opts.Platform {
		id = ""
	}
	a := s.accounts[id]
	if a == nil || id != "" && key.Accounts != nil && !slices.Contains(key.Accounts, id) {
		return caller{}, &apiError{Status: http.StatusForbidden, Type: "invalid_request_error", Code: "account_invalid",
			Message: fmt.Sprintf("The provided key '%s' does not have access to account '%s' (or that account does not exist). Application access may have been revoked.", key.hint(), id)}
	}
	return caller{key, a}, nil
}

// keyOf is the key of a request, by Bearer or Basic authorization.
func keyOf(r *http.Request) (string, bool) {
	if user, _, basic := r.BasicAuth(); basic {
		return user, user != ""
	}
	secret, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return secret, bearer && secret != ""
}

// RevokeKey makes a key unknown from now on.
func (s *Stripe) RevokeKey(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, secret)
}

// SetKey adds a key, or replaces the one with the same secret.
func (s *Stripe) SetKey(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[k.Secret] = k
}
