package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/embedded"
)

// A session is the config with its databases open.
type session struct {
	config *config.Config
	log    *slog.Logger
	pool   *pgxpool.Pool
	pools  map[string]*pgxpool.Pool // the application's databases, by name
	store  *store.Store
	server *embedded.Server // nil unless the database is embedded
}

// newSession opens nightaudit's own database. With migrate, the schema is
// brought up to date if the config lets it.
func newSession(ctx context.Context, c *config.Config, log *slog.Logger, migrate bool) (*session, error) {
	s := &session{config: c, log: log}
	if err := s.connect(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	if err := s.ready(ctx, migrate); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// connect opens nightaudit's own database, and starts it if it is embedded.
func (s *session) connect(ctx context.Context) (err error) {
	url := s.config.Database.URL.Reveal()
	if s.config.Database.IsEmbedded() {
		s.server, err = embedded.Start(ctx, embedded.Options{Dir: s.config.Database.StateDir, Log: s.log})
		if err != nil {
			return err
		}
		url = s.server.URL(embedded.Database)
	}
	s.pool, err = connect(ctx, url)
	if err != nil {
		return fmt.Errorf("database.url: %w", err)
	}
	s.store, err = store.New(s.pool, store.Options{Schema: s.config.Database.Schema})
	return err
}

// ready makes sure that the schema is the one that this version needs.
func (s *session) ready(ctx context.Context, migrate bool) error {
	schema := s.config.Database.Schema
	if migrate && s.config.Database.Migrate == config.MigrateAuto {
		applied, err := store.Migrate(ctx, s.pool, schema, slog.New(slog.DiscardHandler))
		if len(applied) > 0 {
			s.log.InfoContext(ctx, "schema migrated", "schema", schema, "versions", applied)
		}
		return err
	}
	pending, err := store.Pending(ctx, s.pool, schema)
	if err == nil && pending {
		err = fmt.Errorf("schema %s is not the one that this version needs; run nightaudit migrate", schema)
	}
	return err
}

// close gives everything back; the embedded server stops last.
func (s *session) close(ctx context.Context) {
	for _, pool := range s.pools {
		pool.Close()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.server != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := s.server.Stop(ctx); err != nil {
			s.log.WarnContext(ctx, "embedded database not stopped", "err", err)
		}
	}
}

// app gives one of the application's databases; "" is nightaudit's own.
func (s *session) app(ctx context.Context, name string) (*pgxpool.Pool, error) {
	if name == "" {
		return s.pool, nil
	}
	if s.pools == nil {
		s.pools = make(map[string]*pgxpool.Pool)
	}
	if pool, open := s.pools[name]; open {
		return pool, nil
	}
	pool, err := connect(ctx, s.config.Databases[name].URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("databases.%s.url: %w", name, err)
	}
	s.pools[name] = pool
	return pool, nil
}
