package stripe

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nightaudit/nightaudit/providers"
)

func key(s providers.Secret) map[string]providers.Secret {
	return map[string]providers.Secret{"api_key": s}
}

// mistakes are the keys of all SettingErrors in err.
func mistakes(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, inner := range joined.Unwrap() {
			all = append(all, mistakes(t, inner)...)
		}
		return all
	}
	var setting *providers.SettingError
	if !errors.As(err, &setting) || setting.Fix == "" {
		t.Fatalf("%T %v is no *SettingError with a fix", err, err)
	}
	return []string{setting.Key}
}

func TestSettingsNameEveryMistake(t *testing.T) {
	const secret = "sk_live_sekret"
	for _, c := range []struct {
		name string
		give providers.Settings
		want []string
	}{
		{"a live key", providers.Settings{Credentials: key("sk_live_1")}, nil},
		{"a restricted test key and accounts", providers.Settings{Credentials: key("rk_test_1"), YAML: []byte("accounts: [acct_1, acct_na_c1]")}, nil},
		{"all accounts", providers.Settings{Credentials: key("rk_live_1"), YAML: []byte("accounts: all"), BaseURL: "http://127.0.0.1:12111"}, nil},
		{"an empty mapping", providers.Settings{Credentials: key("rk_live_1"), YAML: []byte("{}")}, nil},
		{"no accounts after all", providers.Settings{Credentials: key("rk_live_1"), YAML: []byte("accounts:\n")}, nil},
		{"no key", providers.Settings{}, []string{"credentials.api_key"}},
		{"a publishable key", providers.Settings{Credentials: key("pk_live_sekret")}, []string{"credentials.api_key"}},
		{"a webhook secret", providers.Settings{Credentials: key("whsec_sekret")}, []string{"credentials.api_key"}},
		{"a prefix alone", providers.Settings{Credentials: key("sk_live_")}, []string{"credentials.api_key"}},
		{"a line break", providers.Settings{Credentials: key(secret + "\n")}, []string{"credentials.api_key"}},
		{"any text", providers.Settings{Credentials: key("sekret")}, []string{"credentials.api_key"}},
		{"everything at once", providers.Settings{
			Credentials: map[string]providers.Secret{"token": secret, "user": "sekret"},
			BaseURL:     "ftp://sekret@host",
			YAML:        []byte("account: acct_1\naccounts: [cus_1, acct_1, acct_1, 7]\nsettle: 1h\n"),
		}, []string{"credentials.token", "credentials.user", "credentials.api_key", "base_url", "settings.account", "settings.accounts[0]", "settings.accounts[2]", "settings.accounts[3]", "settings.settle"}},
		{"one account that is no list", providers.Settings{Credentials: key(secret), YAML: []byte("accounts: acct_1")}, []string{"settings.accounts"}},
		{"accounts of another kind", providers.Settings{Credentials: key(secret), YAML: []byte("accounts: {a: 1}")}, []string{"settings.accounts"}},
		{"a list of settings", providers.Settings{Credentials: key(secret), YAML: []byte("- accounts")}, []string{"settings"}},
		{"a key twice", providers.Settings{Credentials: key(secret), YAML: []byte("accounts: all\naccounts: all")}, []string{"settings"}},
		{"no YAML", providers.Settings{Credentials: key(secret), YAML: []byte("accounts: [")}, []string{"settings"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(c.give)
			if got := mistakes(t, err); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "sekret") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestTheRateGoesByTheModeOfTheKey(t *testing.T) {
	for secret, want := range map[providers.Secret]float64{"sk_live_1": 10, "rk_live_1": 10, "sk_test_1": 5, "rk_test_1": 5} {
		p, err := open(providers.Settings{Credentials: key(secret)})
		if err != nil {
			t.Fatal(err)
		}
		streams, err := p.Streams(t.Context())
		if err != nil || streams[0].Feed.DefaultRate != want {
			t.Errorf("%.8s: rate %v, %v; want %v", secret.Reveal(), streams[0].Feed.DefaultRate, err, want)
		}
	}
}
