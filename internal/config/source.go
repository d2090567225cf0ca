package config

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// A Source is one provider account to reconcile.
type Source struct {
	Name        string                      `yaml:"name"`        // unique; letters, digits and . _ -
	Provider    string                      `yaml:"provider"`    // the adapter's kind: "stripe"
	BaseURL     string                      `yaml:"base_url"`    // elsewhere than the provider's own address; "" is there
	Credentials map[string]providers.Secret `yaml:"credentials"` // by the adapter's names: "api_key"
	Settings    []byte                      `yaml:"settings"`    // the adapter's own mapping as YAML; nil if there is none
	Schedule    string                      `yaml:"schedule"`    // see CheckSchedule; "" is only by hand
	Endpoints   []Endpoint                  `yaml:"endpoints"`   // where the application receives webhooks
	Events      Events                      `yaml:"events"`
	Ledger      appdb.Options               `yaml:"ledger"`
	Replay      Replay                      `yaml:"replay"`
	Window      Window                      `yaml:"window"`
	Rate        Rate                        `yaml:"rate"`        // requests a second to the provider; 0 is the feed's own
	Concurrency int                         `yaml:"concurrency"` // requests to the provider under way at once, from 1 up
}

// Events narrows which event types are expected. Patterns are those of
// providers.MatchType; exclude wins.
type Events struct {
	Include []string `yaml:"include"` // empty is what the endpoints subscribe to
	Exclude []string `yaml:"exclude"`
}

// A Window overrides how far a run looks. nil is the feed's own value.
type Window struct {
	Settle  *time.Duration `yaml:"settle"`  // younger events are not judged yet
	Overlap *time.Duration `yaml:"overlap"` // how far a window reaches behind the watermark
	Initial *time.Duration `yaml:"initial"` // how far back the first run begins
}

func (s *Source) setDefaults() {
	s.Concurrency = listing.DefaultConcurrency
	s.Replay.setDefaults()
}

// ForAdapter is the source as an adapter opens it.
func (s Source) ForAdapter(client *http.Client) providers.Settings {
	return providers.Settings{
		Source: s.Name, BaseURL: s.BaseURL, Credentials: s.Credentials, YAML: s.Settings, Client: client,
	}
}

var sourceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func (s *Source) validate(d *decoder, path string, databases map[string]AppDatabase) {
	if !d.has(path + ".name") {
		d.bad(path, "has no name; add one, like name: stripe-live")
	} else if d.fine(path+".name") && !sourceName.MatchString(s.Name) {
		d.wrong(path+".name", "is no name for a source; write letters, digits and . _ -, at most 63")
	}
	if d.has(path + ".base_url") {
		checkURL(d, path+".base_url", s.BaseURL, false)
	}
	s.validateSchedule(d, path+".schedule")
	validateEndpoints(d, path+".endpoints", s.Endpoints)
	s.Events.validate(d, path+".events")
	validateLedger(d, path, s.Ledger, databases)
	validateConcurrency(d, path+".concurrency", s.Concurrency)
	s.Replay.validate(d, path+".replay")
	s.Window.validate(d, path+".window")
	s.validateKeeps(d, path)
	s.validateSending(d, path)
}

// validateKeeps reports a ledger that has forgotten an event before it may be
// judged.
func (s *Source) validateKeeps(d *decoder, path string) {
	if s.Ledger.Keeps > 0 && s.Window.Settle != nil && s.Ledger.Keeps <= *s.Window.Settle && d.fine(path+".ledger.keeps") {
		d.wrong(path+".ledger.keeps", "is not longer than window.settle, so no event could ever be judged; write for how long rows are kept, like 90d, or a shorter settle")
	}
}

// validateSending reports what keeps replays from being sent.
func (s *Source) validateSending(d *decoder, path string) {
	auto := s.Replay.Mode == ModeAuto
	if auto && len(s.Endpoints) == 0 && d.fine(path+".endpoints") {
		d.wrong(path+".replay.mode", "has nowhere to send to; add endpoints with the application's webhook URL, or write report")
	}
	for i, e := range s.Endpoints {
		at := fmt.Sprintf("%s.endpoints[%d]", path, i)
		if auto && len(e.Secrets) == 0 && d.fine(at) {
			d.bad(at+".secrets", "is missing, and replay.mode auto signs with it; write secrets: [\"${STRIPE_WEBHOOK_SECRET}\"] with the endpoint's signing secret, or mode: report")
		}
		for j, secret := range e.Secrets {
			if key := s.credential(secret); key != "" {
				d.bad(fmt.Sprintf("%s.secrets[%d]", at, j), "is the same as credentials."+key+"; write the endpoint's own signing secret, which the provider shows beside it")
			}
		}
	}
}

// credential is the name of the credential with this value; "" if none has it.
func (s *Source) credential(value providers.Secret) string {
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		if value != "" && s.Credentials[name] == value {
			return name
		}
	}
	return ""
}

func (s *Source) validateSchedule(d *decoder, path string) {
	if !d.has(path) || !d.fine(path) {
		return
	}
	switch err := CheckSchedule(s.Schedule); {
	case err == nil:
	case d.refers(path): // the message may repeat words of the value
		d.wrong(path, "resolves to what is no schedule; "+scheduleExample)
	default:
		d.wrong(path, err.Error())
	}
}

// validateProvider checks the provider's name and lets its adapter check what is
// its own, once the rest of that could be read.
func (s *Source) validateProvider(d *decoder, path string, adapters []providers.Adapter) {
	at := path + ".provider"
	if !d.has(at) {
		d.bad(path, "has no provider; add one, like provider: stripe")
		return
	}
	if len(adapters) == 0 || !d.fine(at) {
		return
	}
	kinds := make([]string, len(adapters))
	for i, a := range adapters {
		kinds[i] = a.Kind
	}
	i := slices.Index(kinds, s.Provider)
	if i < 0 {
		d.wrong(at, "is no known provider; "+suggest(s.Provider, kinds))
		return
	}
	if d.fine(path+".credentials") && d.fine(path+".settings") && d.fine(path+".base_url") {
		_, err := adapters[i].Open(s.ForAdapter(http.DefaultClient))
		for _, e := range Flatten(err) {
			d.problems = append(d.problems, d.locate(path, e))
		}
	}
}

func validateLedger(d *decoder, source string, ledger appdb.Options, databases map[string]AppDatabase) {
	path := source + ".ledger"
	if !d.has(path) {
		d.bad(path, "is missing; name the application's table of processed events: ledger: { table: public.processed_events, key: { event_id: event.id } }")
		return
	}
	for _, err := range ledger.Validate() {
		if p := d.locate(source, err); d.fine(p.Path) {
			d.problems = append(d.problems, p)
		}
	}
	d.aboveZero(path+".stuck_after", ledger.StuckAfter, "write how long a row may be neither done nor failed, like 1h, or leave it out for 1h")
	d.aboveZero(path+".keeps", ledger.Keeps, "write how long rows are kept, like 90d, or leave it out if they are kept for ever")
	names := slices.Collect(maps.Keys(databases))
	for key, name := range map[string]string{".database": ledger.Database, ".recheck_database": ledger.RecheckDatabase} {
		if _, ok := databases[name]; name != "" && !ok {
			d.wrong(path+key, "is no database of the databases section; add it there, or leave the key out for nightaudit's own; "+suggest(name, names))
		}
	}
}

func (e Events) validate(d *decoder, path string) {
	for key, patterns := range map[string][]string{".include": e.Include, ".exclude": e.Exclude} {
		for i, p := range patterns {
			at := fmt.Sprintf("%s%s[%d]", path, key, i)
			switch {
			case !d.fine(at):
			case strings.TrimSpace(p) == "" || strings.ContainsAny(p, " \t\n"):
				d.wrong(at, "is no event type; write one like invoice.paid, or a pattern like invoice.*")
			case strings.Contains(strings.TrimSuffix(p, "*"), "*"):
				d.wrong(at, "has a * before its end; write the * only at the end, like invoice.*")
			case key == ".exclude" && slices.Contains(e.Include, p):
				d.wrong(at, "is in include too, and exclude would win; remove one of them")
			}
		}
	}
}

func (w Window) validate(d *decoder, path string) {
	if w.Initial == nil || !d.fine(path) {
		return
	}
	switch {
	case *w.Initial <= 0:
		d.wrong(path+".initial", "leaves nothing to look at; write a duration above 0, like 72h")
	case w.Settle != nil && *w.Initial <= *w.Settle:
		d.wrong(path+".initial", "is not longer than settle, so a first run would have nothing to judge; write a longer one")
	}
}
