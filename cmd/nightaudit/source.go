package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/all"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// indexes gives the places of the sources with the given names in the config,
// all if none is named.
func indexes(c *config.Config, names []string) ([]int, error) {
	var places []int
	for i, src := range c.Sources {
		if len(names) == 0 || slices.Contains(names, src.Name) {
			places = append(places, i)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(c.Sources, func(s config.Source) bool { return s.Name == name }) {
			return nil, &usageError{fmt.Errorf("--source %q: the config has no such source; it has %s", name, sourceNames(c))}
		}
	}
	return places, nil
}

func sourceNames(c *config.Config) string {
	names := make([]string, len(c.Sources))
	for i, s := range c.Sources {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// source makes one of the config's sources ready to be run. A mistake in its
// settings or tables names its place in the config.
func (s *session) source(ctx context.Context, i int) (reconcile.Source, error) {
	src, err := s.openSource(ctx, s.config.Sources[i])
	if err == nil {
		return src, nil
	}
	return src, s.located(i, err)
}

// located gives the mistakes of a source with file and line.
func (s *session) located(i int, err error) error {
	var mistakes config.Error
	for _, one := range config.Flatten(err) {
		var field *appdb.FieldError
		var setting *providers.SettingError
		if !errors.As(one, &field) && !errors.As(one, &setting) {
			return err
		}
		mistakes.Problems = append(mistakes.Problems, s.config.Locate(i, one))
	}
	return &mistakes
}

func (s *session) openSource(ctx context.Context, c config.Source) (reconcile.Source, error) {
	client, transport := transportFor(c, 0)
	provider, err := open(c, client)
	if err != nil {
		return reconcile.Source{}, err
	}
	ledger, err := s.ledger(ctx, c, c.Ledger.Database)
	if err != nil {
		return reconcile.Source{}, err
	}
	hide := redactor(s.config)
	src := reconcile.Source{
		Name: c.Name, Provider: provider, Redact: hide, Ledger: ledger,
		StuckAfter: c.Ledger.StuckLimit(), Keeps: c.Ledger.Keeps, Targets: targets(c.Endpoints),
		Events:  reconcile.Filter{Include: c.Events.Include, Exclude: c.Events.Exclude},
		Window:  reconcile.WindowOptions{Settle: c.Window.Settle, Overlap: c.Window.Overlap, Initial: c.Window.Initial},
		Listing: listing.Options{Concurrency: c.Concurrency},
		Gate:    reconcile.GateOptions{MaxReplays: c.Replay.MaxReplays, MaxMissingRatio: c.Replay.MaxMissingRatio},
		Repair:  c.Replay.Mode == config.ModeAuto, Requests: requests(transport),
		Replay: replay.Options{Rate: float64(c.Replay.Rate), Concurrency: c.Replay.Concurrency,
			VerifyWithin: c.Replay.VerifyWithin, AnyVersion: c.Replay.VersionMismatch == config.VersionSend},
	}
	if c.Ledger.RecheckDatabase != "" {
		if src.Recheck, err = s.ledger(ctx, c, c.Ledger.RecheckDatabase); err != nil {
			return src, err
		}
	}
	if deliverer, ok := provider.(providers.Deliverer); ok && len(src.Targets) > 0 {
		src.Sender = &replay.Post{Deliverer: deliverer, Client: replay.NewPostClient(c.Replay.Concurrency),
			Redact: hide, Timeout: c.Replay.Timeout, Now: time.Now}
	}
	return src, nil
}

// transportFor gives the client through which a source asks its provider; each
// request is tried so often, 0 is what a run needs.
func transportFor(c config.Source, tries int) (*http.Client, *providers.Transport) {
	transport := providers.NewTransport(providers.TransportOptions{Rate: float64(c.Rate), Tries: tries})
	return &http.Client{Transport: transport}, transport
}

func open(c config.Source, client *http.Client) (providers.Provider, error) {
	for _, adapter := range all.Adapters() {
		if adapter.Kind == c.Provider {
			return adapter.Open(c.ForAdapter(client))
		}
	}
	return nil, fmt.Errorf("source %s: there is no provider %q", c.Name, c.Provider)
}

func (s *session) ledger(ctx context.Context, c config.Source, database string) (*appdb.Ledger, error) {
	pool, err := s.app(ctx, database)
	if err != nil {
		return nil, err
	}
	return appdb.Open(ctx, pool, c.Ledger, s.log)
}

func targets(endpoints []config.Endpoint) []replay.Target {
	var out []replay.Target
	for _, ep := range endpoints {
		out = append(out, replay.Target{URL: ep.URL, PublicURL: ep.PublicURL, Secrets: ep.Secrets, Account: ep.Match.Account})
	}
	return out
}

// requests counts what a source asked of its provider.
func requests(t *providers.Transport) func() map[int]int {
	return func() map[int]int {
		counts := make(map[int]int)
		for status, n := range t.Stats().ByStatus {
			counts[status] = int(n)
		}
		return counts
	}
}

// redactor knows every secret of the config.
func redactor(c *config.Config) *providers.Redactor { return providers.NewRedactor(c.Secrets()...) }
