package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/reconcile"
)

// configText is nightaudit's config for a shop. The provider is asked as fast as
// it answers.
const configText = simulator.Config + `
    rate: 10000/s
`

// A shop is a provider, an application that handled its events, and what
// nightaudit needs to reconcile the two.
type shop struct {
	*simulated
	env    *environment
	ledger string // URL of the application's database
	config string // path
}

// shop opens one with so many events; args are further flags of the simulator.
// Its end is stop.
func (e *environment) shop(ctx context.Context, events int, args ...string) (*shop, error) {
	ledger, err := e.database(ctx)
	if err != nil {
		return nil, err
	}
	s := &shop{env: e, ledger: ledger, config: e.file("nightaudit.yaml")}
	if err := os.WriteFile(s.config, []byte(configText), 0o600); err != nil {
		return nil, fmt.Errorf("writing the config: %w", err)
	}
	if s.simulated, err = e.simulate(ctx, events, append([]string{"--database-url", ledger}, args...)...); err != nil {
		return nil, err
	}
	if err := s.settle(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// settle leaves the application's tables as their own upkeep does in the course
// of time, so that it does not run beside what is measured.
func (s *shop) settle(ctx context.Context) error {
	if err := s.inLedger(ctx, `VACUUM (ANALYZE)`); err != nil {
		return fmt.Errorf("vacuuming the application's database: %w", err)
	}
	return nil
}

// inLedger executes a statement in the application's database.
func (s *shop) inLedger(ctx context.Context, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, s.ledger)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

// An ownDatabase is the URL of nightaudit's own database.
type ownDatabase string

// migrated makes one with its tables, so that no run has to.
func (s *shop) migrated(ctx context.Context) (ownDatabase, error) {
	url, err := s.env.database(ctx)
	if err != nil {
		return "", err
	}
	done, err := s.nightaudit(ctx, ownDatabase(url), "migrate")
	if err != nil {
		return "", err
	}
	if done.code != 0 {
		return "", fmt.Errorf("nightaudit migrate: exit code %d: %s", done.code, done.said)
	}
	return ownDatabase(url), nil
}

// A night is one run of nightaudit reconcile.
type night struct {
	*ended
	requests int                     // to the provider
	stream   *reconcile.StreamReport // the only one
}

// reconcile runs nightaudit on the shop. It must end with the exit code want.
func (s *shop) reconcile(ctx context.Context, own ownDatabase, want int, args ...string) (*night, error) {
	report := s.env.file("report.json")
	done, err := s.nightaudit(ctx, own, append([]string{"reconcile", "--report", report}, args...)...)
	if err != nil {
		return nil, err
	}
	if done.code != want {
		return nil, fmt.Errorf("nightaudit reconcile: got exit code %d, want %d: %s", done.code, want, done.said)
	}
	return read(report, done)
}

// read takes from a report what benchmarks need.
func read(report string, done *ended) (*night, error) {
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	var document reconcile.Document
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	if len(document.Sources) != 1 || len(document.Sources[0].Streams) != 1 {
		return nil, fmt.Errorf("reading the report: it is not of one source with one stream: %s", text)
	}
	n := &night{ended: done, stream: document.Sources[0].Streams[0]}
	for _, counted := range document.Sources[0].Coverage.Requests {
		n.requests += counted.Count
	}
	return n, nil
}

// nightaudit runs a command of the program to its end.
func (s *shop) nightaudit(ctx context.Context, own ownDatabase, args ...string) (*ended, error) {
	program, err := s.env.program(ctx, "cmd/nightaudit")
	if err != nil {
		return nil, err
	}
	return finish(ctx, program, []string{"OWN_DATABASE=" + string(own), "STATE_DIR=" + s.env.dir, "APP_DATABASE=" + s.ledger,
		"STRIPE=" + s.StripeURL, "STRIPE_KEY=" + s.Key, "STRIPE_SECRET=" + s.Secret, "APP=" + s.AppURL},
		append([]string{"-c", s.config}, args...)...)
}
