package stripe

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/nightaudit/nightaudit/providers"
)

// settings is what the config says of a Stripe source.
type settings struct {
	key         providers.Secret
	live        bool     // by the key's prefix
	accounts    []string // connected accounts, as configured
	allAccounts bool     // list every connected account
}

func (s settings) rate() float64 {
	if s.live {
		return liveRate
	}
	return testRate
}

// parse reads settings and returns every mistake, each a *providers.SettingError.
func parse(from providers.Settings) (settings, error) {
	var s settings
	errs := []error{
		s.parseCredentials(from.Credentials),
		parseBaseURL(from.BaseURL),
		s.parseYAML(from.YAML),
	}
	return s, errors.Join(errs...)
}

// keyPrefixes are those of keys that may read the API, with what they say of the
// mode (Stripe docs, API keys).
var keyPrefixes = map[string]bool{"sk_live_": true, "rk_live_": true, "sk_test_": false, "rk_test_": false}

func (s *settings) parseCredentials(credentials map[string]providers.Secret) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(credentials)) {
		if name != "api_key" {
			errs = append(errs, &providers.SettingError{Key: "credentials." + name, Fix: "is unknown; a Stripe source has api_key only"})
		}
	}
	s.key = credentials["api_key"]
	return errors.Join(append(errs, s.parseKey())...)
}

func (s *settings) parseKey() error {
	mistake := func(fix string) error { return &providers.SettingError{Key: "credentials.api_key", Fix: fix} }
	const want = "a key that begins with rk_live_, sk_live_, rk_test_ or sk_test_"
	key := s.key.Reveal()
	switch {
	case key == "":
		return mistake("is missing; give " + want + ", best a restricted one that reads Events and Webhook Endpoints")
	case strings.HasPrefix(key, "pk_"):
		return mistake("is a publishable key, which reads nothing; give " + want)
	case strings.HasPrefix(key, "whsec_"):
		return mistake("is a webhook secret, which belongs to an endpoint; give " + want)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return mistake("holds a blank, a line break or another character that no key has; give " + want)
	}
	for prefix, live := range keyPrefixes {
		if strings.HasPrefix(key, prefix) && len(key) > len(prefix) {
			s.live = live
			return nil
		}
	}
	return mistake("is no API key of Stripe; give " + want)
}

func parseBaseURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && (u.Scheme == "https" || u.Scheme == "http") {
		return nil
	}
	return &providers.SettingError{Key: "base_url", Fix: "is not the address of an API; write it like https://api.stripe.com, or leave it out"}
}

func (s *settings) parseYAML(text []byte) error {
	var keys yaml.MapSlice
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return &providers.SettingError{Key: "settings", Fix: "is not a mapping of names to values: " + firstLine(err)}
	}
	var errs []error
	for _, item := range keys {
		if item.Key != "accounts" {
			errs = append(errs, &providers.SettingError{Key: fmt.Sprintf("settings.%v", item.Key), Fix: "is unknown; a Stripe source has accounts only"})
			continue
		}
		errs = append(errs, s.parseAccounts(item.Value))
	}
	return errors.Join(errs...)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// accountID is the form of an account's id. Its length is no contract.
var accountID = regexp.MustCompile(`^acct_[A-Za-z0-9_]+$`)

const accountsFix = "write accounts: [acct_123, acct_456], or accounts: all for every connected account"

func (s *settings) parseAccounts(value any) error {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		if v != "all" {
			return &providers.SettingError{Key: "settings.accounts", Value: v, Fix: "is not a list; " + accountsFix}
		}
		s.allAccounts = true
		return nil
	case []any:
		return s.parseAccountList(v)
	default:
		return &providers.SettingError{Key: "settings.accounts", Value: fmt.Sprint(v), Fix: "is not a list; " + accountsFix}
	}
}

func (s *settings) parseAccountList(list []any) error {
	var errs []error
	for i, value := range list {
		at := fmt.Sprintf("settings.accounts[%d]", i)
		id, ok := value.(string)
		switch {
		case !ok || !accountID.MatchString(id):
			errs = append(errs, &providers.SettingError{Key: at, Value: fmt.Sprint(value), Fix: "is no account id; they look like acct_123"})
		case slices.Contains(s.accounts, id):
			errs = append(errs, &providers.SettingError{Key: at, Value: id, Fix: "is named twice; name it once"})
		default:
			s.accounts = append(s.accounts, id)
		}
	}
	return errors.Join(errs...)
}
