package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	_ "time/tzdata" // the zones of the tests, whatever the machine has

	"github.com/goccy/go-yaml"

	"github.com/nightaudit/nightaudit/providers"
)

// environment is what the tests' configs refer to. NOT_SET and ALSO_NOT_SET are
// not in it.
var environment = map[string]string{
	"DATABASE_URL":           "postgres://nightaudit:pw-main-na@db/nightaudit",
	"STRIPE_API_KEY":         "sk_live_na_SECRET",
	"STRIPE_WEBHOOK_SECRET":  "whsec_nightaudit_test",
	"NIGHTAUDIT_DB_PASSWORD": "pw-main-na",

	"APP_DATABASE_URL":         "postgres://reader:pw%2Fapp-na@replica/app",
	"APP_PRIMARY_DATABASE_URL": "host=primary user=reader password='pw primary na'",

	"DB_USER":          "u",
	"SLASHED_PASSWORD": "pw/sl#ash-na",
	"TEN":              "10",
	"HOME":             "/home/na",
	"ACCOUNT":          "acct_from_env",
	"EMPTY":            "",
	"BLANK":            " \n",
}

// secretTexts are the pieces that no message may hold: of the environment's
// secrets, and what the testdata write where a secret belongs.
var secretTexts = []string{
	"pw-main-na", "sk_live_na", "whsec_nightaudit", "app-na", "pw primary na", "sl#ash", "hunter2",
}

func lookup(name string) (string, bool) {
	value, ok := environment[name]
	return value, ok
}

// adapter stands for a provider's adapter: it needs an api_key and knows the one
// setting accounts.
var adapter = providers.Adapter{
	Kind: "stripe",
	Open: func(s providers.Settings) (providers.Provider, error) {
		var errs []error
		if s.Credentials["api_key"] == "" {
			errs = append(errs, &providers.SettingError{Key: "credentials.api_key", Fix: "is missing; write the secret key"})
		}
		var settings map[string]any
		if err := yaml.Unmarshal(s.YAML, &settings); err != nil {
			return nil, err
		}
		for key, value := range settings {
			if key != "accounts" {
				errs = append(errs, &providers.SettingError{Key: "settings." + key, Value: fmt.Sprint(value), Fix: "is unknown; remove it"})
			}
		}
		return nil, errors.Join(errs...)
	},
}

// load parses a config that the test expects to be valid.
func load(t *testing.T, text string) *Config {
	t.Helper()
	c, err := parse("config.yaml", []byte(text), lookup, []providers.Adapter{adapter})
	if err != nil {
		t.Fatalf("config\n%s\ngot the error:\n%v", text, err)
	}
	return c
}

// problems parses a config that the test expects to have mistakes.
func problems(t *testing.T, text string) []Problem {
	t.Helper()
	_, err := parse("config.yaml", []byte(text), lookup, []providers.Adapter{adapter})
	var all *Error
	if !errors.As(err, &all) {
		t.Fatalf("config\n%s\ngot %v, want an *Error", text, err)
	}
	return all.Problems
}

// refuseSecrets fails if text holds a piece of a secret.
func refuseSecrets(t *testing.T, text string) {
	t.Helper()
	for _, s := range secretTexts {
		if strings.Contains(text, s) {
			t.Errorf("the text shows %q, a piece of a secret:\n%s", s, text)
		}
	}
}

// source is the start of a config with one source, to which a test adds keys.
const source = `
database: { url: "${DATABASE_URL}" }
sources:
  - name: one
    provider: stripe
    credentials: { api_key: "${STRIPE_API_KEY}" }
    ledger: { table: public.processed_events, key: { event_id: event.id } }
`
