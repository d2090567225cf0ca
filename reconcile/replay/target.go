package replay

import (
	"net/url"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// A Target is a webhook URL of the application.
type Target struct {
	URL       string             // where deliveries are sent
	PublicURL string             // what the provider knows it as; "" is URL
	Secrets   []providers.Secret // all that are valid now; during a rotation two
	Account   string             // only events of this account; "" is every account
}

// Public is the URL that the provider knows.
func (t Target) Public() string {
	if t.PublicURL != "" {
		return t.PublicURL
	}
	return t.URL
}

// Takes reports whether events of an account go to the target.
func (t Target) Takes(account string) bool { return t.Account == "" || t.Account == account }

// SameURL reports whether two URLs are one to a provider: the case of scheme and
// host and a slash at the end make no difference.
func SameURL(a, b string) bool { return canonicalURL(a) == canonicalURL(b) }

func canonicalURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	return u.String()
}

// Origin is the scheme and host of a URL: its path may be a secret.
func Origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// target gives where the event of a replay goes, and false if no target takes its
// account. A target for just this account goes before one for all; of several, the
// first whose endpoint subscribes to the event's type is taken.
func (s Source) target(r store.Replay) (Target, bool) {
	candidates := s.targetsFor(r.Event.Account)
	for _, t := range candidates {
		for _, pattern := range s.endpoint(r, t).Types {
			if providers.MatchType(pattern, r.Event.Type) {
				return t, true
			}
		}
	}
	if len(candidates) == 0 {
		return Target{}, false
	}
	return candidates[0], true
}

func (s Source) targetsFor(account string) []Target {
	var own, all []Target
	for _, t := range s.Targets {
		switch t.Account {
		case "":
			all = append(all, t)
		case account:
			own = append(own, t)
		}
	}
	if len(own) > 0 {
		return own
	}
	return all
}

// endpoint gives what the provider last said of the endpoint behind a target;
// without an id if it said nothing.
func (s Source) endpoint(r store.Replay, t Target) providers.Endpoint {
	for _, ep := range s.Endpoints[r.Stream] {
		if SameURL(ep.URL, t.Public()) {
			ep.URL = t.URL
			return ep
		}
	}
	return providers.Endpoint{URL: t.URL}
}
