package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

type checkOptions struct {
	sources []string
	output  string
}

func newCheck(g *globals) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the config, databases, tables, credentials and endpoints",
		Long: "Check tries everything that a run needs and changes nothing: the config, nightaudit's own database, each\n" +
			"ledger's table, each credential and permission, and the endpoints that the provider shows.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), g, o) },
	}
	c.Flags().StringArrayVar(&o.sources, "source", nil, "only this source; may be given several times")
	c.Flags().StringVar(&o.output, "output", "text", "text or json")
	return c
}

func runCheck(ctx context.Context, g *globals, o checkOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	c, err := g.load()
	if err != nil {
		return err
	}
	places, err := indexes(c, o.sources)
	if err != nil {
		return err
	}
	d := &doctor{}
	d.say("", "config", fine, "%s: %s", g.config, things(len(c.Sources), "source"))
	for _, w := range c.Warnings() {
		d.say("", "config", warning, "%s", w)
	}
	s := &session{config: c, log: slog.New(slog.DiscardHandler)}
	defer s.close(ctx)
	d.database(ctx, s)
	for _, i := range places {
		d.source(ctx, s, i)
	}
	return d.end(g.edge, o.output)
}

// database looks at nightaudit's own database.
func (d *doctor) database(ctx context.Context, s *session) {
	err := s.connect(ctx)
	if !d.try("", "database", err, "connected") {
		return
	}
	pending, err := store.Pending(ctx, s.pool, s.config.Database.Schema)
	switch {
	case err != nil:
		d.try("", "schema", err, "")
	case pending && s.config.Database.Migrate == config.MigrateAuto:
		fix, err := store.MayMigrate(ctx, s.pool, s.config.Database.Schema)
		if err != nil {
			d.try("", "schema", err, "")
			return
		}
		if fix != "" {
			d.say("", "schema", bad, "%s is to be made or brought up to date, and this role may not; have an administrator run: %s",
				s.config.Database.Schema, fix)
			return
		}
		d.say("", "schema", fine, "%s: the next run brings it up to date", s.config.Database.Schema)
	case pending:
		d.say("", "schema", bad, "%s is not the one that this version needs; run nightaudit migrate", s.config.Database.Schema)
	default:
		d.say("", "schema", fine, "%s is up to date", s.config.Database.Schema)
	}
}

// checkTries is how often a check asks before it says that there is no answer: a
// person is waiting.
const checkTries = 2

// source looks at everything that a run of one source needs.
func (d *doctor) source(ctx context.Context, s *session, i int) {
	c := s.config.Sources[i]
	if c.Schedule != "" {
		d.say(c.Name, "schedule", warning, "this release does not run by itself: start `nightaudit reconcile` from cron at %q", c.Schedule)
	}
	d.ledger(ctx, s, i)
	for n, t := range targets(c.Endpoints) {
		d.reach(ctx, c, endpointPlace(n), t)
	}
	client, transport := transportFor(c, checkTries)
	provider, err := open(c, client)
	if err != nil {
		d.try(c.Name, "settings", s.located(i, err), "")
		return
	}
	if !d.credentials(ctx, c.Name, provider) {
		return
	}
	d.endpoints(ctx, c, provider)
	d.clock(c.Name, transport)
}

func (d *doctor) ledger(ctx context.Context, s *session, i int) {
	c := s.config.Sources[i]
	if c.Ledger.Database == "" && s.pool == nil {
		d.say(c.Name, "ledger", bad, "not checked: nightaudit's own database, where it lives, is out of reach")
		return
	}
	ledger, err := s.ledger(ctx, c, c.Ledger.Database)
	if err != nil {
		err = s.located(i, err)
	}
	if !d.try(c.Name, "ledger", err, "%s and its columns are there", c.Ledger.Table) {
		return
	}
	indexed, advice, err := ledger.Indexed(ctx)
	switch {
	case err != nil:
		d.try(c.Name, "ledger index", err, "")
	case !indexed:
		d.say(c.Name, "ledger index", warning, "asking by key reads the whole table; run: %s", advice)
	default:
		d.say(c.Name, "ledger index", fine, "asking by key uses an index")
	}
	advice, err = ledger.Writable(ctx)
	switch {
	case err != nil:
		d.try(c.Name, "ledger rights", err, "")
	case advice != "":
		d.say(c.Name, "ledger rights", warning, "%s", advice)
	default:
		d.say(c.Name, "ledger rights", fine, "read only")
	}
	d.oldest(ctx, c, ledger)
}

// oldest compares the ledger's oldest row with what the config says it keeps.
func (d *doctor) oldest(ctx context.Context, c config.Source, ledger *appdb.Ledger) {
	at, err := ledger.Oldest(ctx)
	switch {
	case errors.Is(err, appdb.ErrNotMapped):
		d.say(c.Name, "ledger age", warning, "ledger.handled_at is not mapped: rows that the provider does not know, and when stuck rows began, cannot be told")
	case err != nil:
		d.try(c.Name, "ledger age", err, "")
	case at.IsZero():
		d.say(c.Name, "ledger age", warning, "the ledger has no row at all: every event will seem missing, and the gate will hold them")
	case c.Ledger.Keeps == 0:
		d.say(c.Name, "ledger age", fine, "the oldest row is of %s; set ledger.keeps if older ones are deleted", at.UTC().Format(time.RFC3339))
	default:
		d.say(c.Name, "ledger age", fine, "the oldest row is of %s", at.UTC().Format(time.RFC3339))
	}
}

// credentials tries each permission; false means that nothing else can be asked.
func (d *doctor) credentials(ctx context.Context, source string, provider providers.Provider) bool {
	probes, err := provider.Check(ctx)
	if err != nil {
		return d.try(source, "credentials", err, "")
	}
	d.say(source, "credentials", fine, "accepted")
	for _, p := range probes {
		d.try(source, "permission", p.Err, "%s", p.Name)
	}
	return true
}

// endpoints looks for the config's endpoints among those that the provider shows.
func (d *doctor) endpoints(ctx context.Context, c config.Source, provider providers.Provider) {
	shown, ok := provider.(providers.Endpoints)
	if !ok {
		d.say(c.Name, "endpoints", warning, "this provider's API shows none")
		return
	}
	streams, err := provider.Streams(ctx)
	if err != nil || len(streams) == 0 {
		d.try(c.Name, "streams", err, "none")
		return
	}
	d.say(c.Name, "streams", fine, "%s to list", things(len(streams), "stream"))
	endpoints, err := shown.Endpoints(ctx, streams[0])
	if err != nil {
		d.try(c.Name, "endpoints", err, "")
		return
	}
	for i, t := range targets(c.Endpoints) {
		d.endpoint(c.Name, endpointPlace(i), t, endpoints)
	}
	if len(c.Endpoints) == 0 {
		d.say(c.Name, "endpoints", warning, "the config names none: nothing can be replayed; the provider shows %d", len(endpoints))
	}
}

// clock compares the provider's clock with ours.
func (d *doctor) clock(source string, t *providers.Transport) {
	skew, seen := t.Skew()
	switch {
	case !seen:
	case skew.Abs() > reconcile.SkewLimit:
		d.say(source, "clock", bad, "this host's and the provider's differ by %s; set the clock, or handlers refuse replays as too old", skew.Round(time.Second))
	default:
		d.say(source, "clock", fine, "agrees with the provider's")
	}
}
