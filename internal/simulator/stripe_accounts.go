package simulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
)

// listAccounts is GET /v1/accounts: the connected accounts, newest first.
func (s *Stripe) listAccounts(w http.ResponseWriter, q url.Values, c caller, _ string) *apiError {
	var newestFirst []*account
	if c.account.id == "" {
		newestFirst = s.connected()
	}
	page, more, refusal := pageOf(newestFirst, func(a *account) string { return a.id }, "account", q)
	if refusal != nil {
		return refusal
	}
	out := make([]json.RawMessage, len(page))
	for i, a := range page {
		out[i] = s.accountJSON(a)
	}
	writeList(w, "/v1/accounts", out, more)
	return nil
}

// connected are the connected accounts, newest first.
func (s *Stripe) connected() []*account {
	s.mu.RLock()
	defer s.mu.RUnlock()
	accounts := slices.Clone(s.order)
	slices.Reverse(accounts)
	slices.SortStableFunc(accounts, func(a, b *account) int { return b.created.Compare(a.created) })
	return accounts
}

// readOwnAccount is GET /v1/account.
func (s *Stripe) readOwnAccount(w http.ResponseWriter, _ url.Values, c caller, _ string) *apiError {
	writeJSON(w, http.StatusOK, s.accountJSON(c.account))
	return nil
}

// readAccount is GET /v1/accounts/{id}.
func (s *Stripe) readAccount(w http.ResponseWriter, _ url.Values, c caller, id string) *apiError {
	s.mu.RLock()
	a := s.accounts[s.internal(id)]
	s.mu.RUnlock()
	if a == nil || a.id == "" && id != s.opts.Platform || c.account.id != "" && c.account != a {
		return missing("account", id, "id")
	}
	writeJSON(w, http.StatusOK, s.accountJSON(a))
	return nil
}

// accountJSON is an account, after Stripe's fixture.
func (s *Stripe) accountJSON(a *account) json.RawMessage {
	jw := jsonWriter{}
	jw.open()
	for _, f := range templateOf("account").fields {
		switch f.name {
		case "id":
			jw.text("id", cmp.Or(a.id, s.opts.Platform))
		case "created":
			jw.integer("created", a.created.Unix())
		default:
			jw.key(f.name)
			jw.b = append(jw.b, f.raw[compact]...)
		}
	}
	jw.close()
	return jw.b
}
