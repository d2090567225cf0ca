package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store/appdb"
)

func TestWhatTheFileLeavesOutHasItsDefault(t *testing.T) {
	c := load(t, source)
	if got, want := c.Database, (Database{URL: "postgres://nightaudit:pw-main-na@db/nightaudit", Schema: "nightaudit", Migrate: MigrateAuto}); got != want {
		t.Errorf("database: got %+v, want %+v", got, want)
	}
	if c.Timezone != time.UTC {
		t.Errorf("timezone: got %v, want UTC", c.Timezone)
	}
	s := c.Sources[0]
	want := Replay{
		Mode: "report", Via: "post", Rate: 20, Concurrency: 8, MaxReplays: 5000, MaxMissingRatio: 0.5,
		VerifyWithin: 5 * time.Minute, VersionMismatch: "hold", Timeout: 30 * time.Second,
	}
	if s.Replay != want {
		t.Errorf("replay: got %+v, want %+v", s.Replay, want)
	}
	if s.Window != (Window{}) || s.Schedule != "" || s.Rate != 0 || s.Settings != nil {
		t.Errorf("window, schedule, rate and settings: got %+v, want none", s)
	}
}

func TestAReplaySectionKeepsTheDefaultsOfWhatItDoesNotName(t *testing.T) {
	got := load(t, source+"    replay: { concurrency: 2, timeout: }\n").Sources[0].Replay
	want := Replay{}
	want.setDefaults()
	want.Concurrency = 2
	if got != want {
		t.Errorf("replay: { concurrency: 2, timeout: }\ngot  %+v\nwant %+v", got, want)
	}
}

func TestEachKeyReachesItsField(t *testing.T) {
	c := load(t, `
database: { url: postgres://db/x, schema: audit, migrate: "off" }
databases: { app: { url: "${APP_DATABASE_URL}" } }
timezone: America/New_York
sources:
  - name: one
    provider: stripe
    base_url: http://localhost:12111
    credentials: { api_key: { file: testdata/secrets/stripe } }
    schedule: "@every 6h"
    rate: 600/m
    concurrency: 3
    endpoints:
      - { url: "https://app.example.com/hooks?v=1", public_url: https://example.com/hooks, secrets: ["${STRIPE_WEBHOOK_SECRET}"], match: { account: acct_1 } }
    events: { include: [invoice.*], exclude: [invoice.upcoming] }
    ledger: { database: app, table: t, key: { id: event.id, account: event.account }, done: "status = 'done'", failed: "status = 'failed'", livemode: live, timezone: Europe/Berlin, recheck_database: app, stuck_after: 2h, keeps: 90d }
    replay: { mode: auto, rate: 1/s, max_replays: 10, max_missing_ratio: 1, verify_within: 1h, version_mismatch: send, timeout: 5s }
    window: { settle: 0, overlap: 1h30m, initial: 1w1d }
`)
	if c.Database.Schema != "audit" || c.Database.Migrate != MigrateOff || c.Timezone.String() != "America/New_York" {
		t.Errorf("top: got schema %q, migrate %q, timezone %s; want audit, off, America/New_York", c.Database.Schema, c.Database.Migrate, c.Timezone)
	}
	settle, overlap, initial := time.Duration(0), 90*time.Minute, 8*day
	want := Source{
		Name: "one", Provider: "stripe", BaseURL: "http://localhost:12111",
		Credentials: map[string]providers.Secret{"api_key": "sk_live_na_FROM_FILE"},
		Schedule:    "@every 6h", Rate: 10, Concurrency: 3,
		Endpoints: []Endpoint{{
			URL: "https://app.example.com/hooks?v=1", PublicURL: "https://example.com/hooks",
			Secrets: []providers.Secret{"whsec_nightaudit_test"}, Match: Match{Account: "acct_1"},
		}},
		Events: Events{Include: []string{"invoice.*"}, Exclude: []string{"invoice.upcoming"}},
		Ledger: appdb.Options{
			Database: "app", Table: "t", Key: map[string]string{"id": "event.id", "account": "event.account"},
			Done: "status = 'done'", Failed: "status = 'failed'", Livemode: "live", Timezone: "Europe/Berlin",
			RecheckDatabase: "app", StuckAfter: 2 * time.Hour, Keeps: 90 * day,
		},
		Replay: Replay{
			Mode: ModeAuto, Via: ViaPost, Rate: 1, Concurrency: 8, MaxReplays: 10, MaxMissingRatio: 1,
			VerifyWithin: time.Hour, VersionMismatch: VersionSend, Timeout: 5 * time.Second,
		},
		Window: Window{Settle: &settle, Overlap: &overlap, Initial: &initial},
	}
	if !reflect.DeepEqual(c.Sources[0], want) {
		t.Errorf("source\ngot  %+v\nwant %+v", c.Sources[0], want)
	}
}

func TestReferencesAreResolvedInsideTexts(t *testing.T) {
	for name, test := range map[string]struct{ written, want string }{
		"a whole value":             {"${ACCOUNT}", "acct_from_env"},
		"a piece of a value":        {"a-${ACCOUNT}-${DB_USER}", "a-acct_from_env-u"},
		"the escape":                {"$${ACCOUNT}", "${ACCOUNT}"},
		"a lone dollar":             {"costs $5 or $$5", "costs $5 or $$5"},
		"a dollar at the end":       {"$", "$"},
		"an escape, then reference": {"$${x} ${DB_USER}", "${x} u"},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, source+fmt.Sprintf("    endpoints: [{ url: https://a.example, match: { account: %q } }]\n", test.written))
			if got := c.Sources[0].Endpoints[0].Match.Account; got != test.want {
				t.Errorf("%q resolves to %q, want %q", test.written, got, test.want)
			}
		})
	}
}

func TestNumbersMayComeFromVariables(t *testing.T) {
	c := load(t, source+"    replay: { concurrency: \"${TEN}\", rate: \"${TEN}/s\", timeout: \"${TEN}s\" }\n")
	if r := c.Sources[0].Replay; r.Concurrency != 10 || r.Rate != 10 || r.Timeout != 10*time.Second {
		t.Errorf("TEN=10: got %+v, want concurrency 10, rate 10 and timeout 10s", r)
	}
}

func TestAnEmbeddedDatabaseHasAFolderForItsState(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		key  string
		want string
	}{
		"from the service manager": {map[string]string{"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "", "/var/lib/a"},
		"from the state home":      {map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "", "/x/nightaudit"},
		"a relative state home":    {map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "", "/h/.local/state/nightaudit"},
		"from the home":            {map[string]string{"HOME": "/h"}, "", "/h/.local/state/nightaudit"},
		"from the config":          {map[string]string{"STATE_DIRECTORY": "/var/lib/a"}, ", state_dir: /srv/state", "/srv/state"},
		"beside the config":        {nil, ", state_dir: state", "etc/state"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(source, `url: "${DATABASE_URL}"`, "url: embedded"+test.key, 1)
			env := func(name string) (string, bool) {
				if value, ok := test.env[name]; ok || name != "STRIPE_API_KEY" {
					return value, ok
				}
				return "key", true
			}
			c, err := parse("etc/config.yaml", []byte(text), env, nil)
			if err != nil {
				t.Fatalf("environment %v\n%s\ngot %v, want no error", test.env, text, err)
			}
			if !c.Database.IsEmbedded() || c.Database.StateDir != test.want {
				t.Errorf("environment %v%s: embedded %v, state in %q; want true, %q", test.env, test.key, c.Database.IsEmbedded(), c.Database.StateDir, test.want)
			}
		})
	}
	text := strings.Replace(source, `"${DATABASE_URL}"`, "embedded", 1)
	_, err := parse("config.yaml", []byte(text), func(string) (string, bool) { return "", false }, nil)
	if err == nil || !strings.Contains(err.Error(), "database.state_dir: is missing") {
		t.Errorf("without any environment: got %v, want database.state_dir asked for", err)
	}
}

func TestAliasesAndMergesAreResolved(t *testing.T) {
	c := load(t, source+`    replay: &usual { mode: report, concurrency: 3, rate: 5/s }
  - name: two
    provider: stripe
    credentials: { api_key: "${STRIPE_API_KEY}" }
    ledger: { table: t, key: { id: event.id } }
    replay: { <<: *usual, rate: 7/s }
  - name: three
    provider: stripe
    credentials: { api_key: "${STRIPE_API_KEY}" }
    ledger: { table: t, key: { id: event.id } }
    replay: *usual
`)
	if r := c.Sources[1].Replay; r.Concurrency != 3 || r.Rate != 7 {
		t.Errorf("merged replay: got concurrency %d, rate %v; want 3 from the merge and its own 7", r.Concurrency, r.Rate)
	}
	if r := c.Sources[2].Replay; r.Concurrency != 3 || r.Rate != 5 {
		t.Errorf("aliased replay: got concurrency %d, rate %v; want 3 and 5", r.Concurrency, r.Rate)
	}
}

// An adapter decodes its settings as they were meant, whatever they hold.
func TestSettingsReachTheAdapterUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([ -~äé\n\t☃😀]|: |# |\\|"|')*`).Filter(func(s string) bool { return !strings.Contains(s, "${") })
		want := map[string]any{"accounts": map[string]any{
			"texts": rapid.SliceOfN(text, 1, 4).Draw(t, "texts"), "number": rapid.IntRange(-1<<40, 1<<40).Draw(t, "number"), "yes": true, "none": nil,
		}}
		written, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		c, err := parse("config.yaml", []byte(source+"    settings: "+string(written)+"\n"), lookup, []providers.Adapter{adapter})
		if err != nil {
			t.Fatalf("settings %s: %v", written, err)
		}
		var got any
		if err := yaml.Unmarshal(c.Sources[0].Settings, &got); err != nil {
			t.Fatalf("settings %s came out as %s: %v", written, c.Sources[0].Settings, err)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != string(written) {
			t.Fatalf("settings %s came out as %s (%v)", written, again, err)
		}
	})
}

func TestSecretsHoldsEverySecretOnce(t *testing.T) {
	c := load(t, source+`    endpoints:
      - { url: "https://a.example/hooks?token=query-token-na&v=1", secrets: ["${STRIPE_WEBHOOK_SECRET}", "${STRIPE_WEBHOOK_SECRET}"] }
databases:
  app: { url: "${APP_DATABASE_URL}" }
  primary: { url: "${APP_PRIMARY_DATABASE_URL}" }
`)
	want := []providers.Secret{
		"pw primary na", "pw%2Fapp-na", "pw-main-na", "pw/app-na", "query-token-na", "sk_live_na_SECRET", "whsec_nightaudit_test",
	}
	if got := c.Secrets(); !slices.Equal(got, want) {
		for _, s := range got {
			t.Logf("got %s", s.Reveal())
		}
		t.Errorf("got %d secrets (above), want %d: each credential, webhook secret and password, as it is and as it is escaped", len(got), len(want))
	}
	refuseSecrets(t, fmt.Sprintf("%v %+v %#v", c.Database, c.Databases, c.Sources))
}

func TestPasswordsInDatabaseURLsMustComeFromVariables(t *testing.T) {
	for written, literal := range map[string]bool{
		"postgres://db/app":                                false,
		"postgres://user@db/app":                           false,
		"postgres://user:@db/app":                          false,
		"postgres://user:${DB_USER}@db:5432/app":           false,
		"${DB_USER}://x":                                   false,
		"postgres://user@db:${TEN}/app?application_name=a": false,
		"host=db user=u password=${DB_USER}":               false,
		"host=db user=u password='${DB_USER} x'":           false,
		"postgres://db/app?sslpassword=${DB_USER}":         false,
		"postgres://db/app?options=a:b@c":                  false,
		"postgres://user:x@db/app":                         true,
		"postgres://user:x/y@db/app":                       true,
		"postgres://user:x@y@db/app":                       true,
		"postgres://${DB_USER}:x@db/app":                   true,
		"postgres://db/app?user=u&password=x":              true,
		"host=db password = 'x y'":                         true,
		"password=x host=db":                               true,
	} {
		if got := holdsPassword(written); got != literal {
			t.Errorf("holdsPassword(%q) = %v, want %v", written, got, literal)
		}
	}
}

func TestAnAdaptersErrorIsLocatedInTheFile(t *testing.T) {
	c := load(t, source+"    settings:\n      accounts:\n        - acct_1\n        - ${ACCOUNT}\n")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a credential":          {&providers.SettingError{Key: "credentials.api_key", Fix: "is a test key; write a live one"}, "config.yaml:6: sources[0].credentials.api_key: is a test key; write a live one"},
		"a setting":             {&providers.SettingError{Key: "settings.accounts[0]", Value: "acct_1", Fix: "is unknown"}, `config.yaml:10: sources[0].settings.accounts[0]: "acct_1" is unknown`},
		"a setting's reference": {&providers.SettingError{Key: "settings.accounts[1]", Value: "acct_from_env", Fix: "is unknown"}, `config.yaml:11: sources[0].settings.accounts[1]: "${ACCOUNT}" is unknown`},
		"references below it":   {&providers.SettingError{Key: "settings.accounts", Value: "[acct_1 acct_from_env]", Fix: "is too long"}, `config.yaml:9: sources[0].settings.accounts: is too long`},
		"a key that is missing": {&providers.SettingError{Key: "settings.hooks", Fix: "is missing; list them"}, "config.yaml:8: sources[0].settings.hooks: is missing; list them"},
		"a field of the ledger": {&appdb.FieldError{Key: "table", Value: "public.processed_events", Fix: "does not exist"}, `config.yaml:7: sources[0].ledger.table: "public.processed_events" does not exist`},
		"a wrapped error":       {fmt.Errorf("opening: %w", &appdb.FieldError{Key: "key.event_id", Fix: "is no column"}), "config.yaml:7: sources[0].ledger.key.event_id: is no column"},
		"any other error":       {errors.New("sk_live_na_SECRET was refused"), "config.yaml:4: sources[0]: [redacted] was refused"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.Locate(0, test.err).String(); got != test.want {
				t.Errorf("Locate(0, %v)\ngot  %s\nwant %s", test.err, got, test.want)
			}
		})
	}
}

func TestJoinedErrorsAreFlattened(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	if got, want := Flatten(errors.Join(a, errors.Join(b, c))), []error{a, b, c}; !slices.Equal(got, want) {
		t.Errorf("Flatten: got %v, want %v", got, want)
	}
	if got := Flatten(nil); got != nil {
		t.Errorf("Flatten(nil) = %v, want nil", got)
	}
}

func TestRestrictingBothDayFieldsIsWarnedAbout(t *testing.T) {
	c := load(t, source+"    schedule: 0 3 1-7 * 1\n")
	want := `config.yaml:8: sources[0].schedule: "0 3 1-7 * 1" runs on days that match the day of month OR the day of week, not both; write * in one of the two fields unless that is meant`
	if got := c.Warnings(); len(got) != 1 || got[0].String() != want {
		t.Errorf("warnings: got %v, want [%s]", got, want)
	}
}

func TestProblemsAreReportedTogetherAndInOrder(t *testing.T) {
	var paths []string
	for _, p := range problems(t, strings.Replace(source, "name: one", "name: ''", 1)+"    rate: 1\n    window: { settle: 5 }\nzone: x\n") {
		paths = append(paths, p.Path)
	}
	if want := []string{"sources[0].name", "sources[0].rate", "sources[0].window.settle", "zone"}; !slices.Equal(paths, want) {
		t.Errorf("paths of the problems: got %q, want %q", paths, want)
	}
}
