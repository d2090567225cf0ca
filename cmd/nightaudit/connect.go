package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout bounds the first connection to a database.
const connectTimeout = 15 * time.Second

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	options, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL is not one of Postgres; write postgres://user:${DB_PASSWORD}@host:5432/name")
	}
	if options.ConnConfig.RuntimeParams["application_name"] == "" {
		options.ConnConfig.RuntimeParams["application_name"] = "nightaudit"
	}
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no answer within %s", connectTimeout))
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		to := options.ConnConfig
		return nil, fmt.Errorf("connecting to Postgres on %s, port %d, as %s, database %s: %s; check that it runs there, and the user and password",
			to.Host, to.Port, to.User, to.Database, unconnected(ctx, err))
	}
	return pool, nil
}

// unconnected says on one line why there is no connection: pgx tries several
// ways, and names each with its reason.
func unconnected(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	var attempts *pgconn.ConnectError
	if errors.As(err, &attempts) {
		err = attempts.Unwrap()
	}
	var reasons []string
	for line := range strings.Lines(err.Error()) {
		if reason := strings.TrimSpace(line); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, "; ")
}
