// Package store is nightaudit's own memory in Postgres: streams and their
// watermarks, runs, leases, findings, replays, attempts, payloads, witnesses.
//
// Every statement names the schema, none relies on session state, and all
// time-outs are SET LOCAL, so that it works behind a transaction pooler. Writes
// of a run or a drain go through Lease.Tx, which fences them.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultSchema is the schema that the statements are written for.
const DefaultSchema = "nightaudit"

// A DB is what the store needs of a pool: a *pgxpool.Pool is one.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Options are settings of a Store. The zero value is what production uses.
type Options struct {
	Schema    string        // "" is DefaultSchema
	LeaseTTL  time.Duration // how long a lease lives without a heartbeat; 0 is 60 s
	Heartbeat time.Duration // between two renewals; 0 is a quarter of LeaseTTL
}

// A Store reads and writes nightaudit's schema. It is safe for concurrent use.
type Store struct {
	db        DB
	schema    string
	leaseTTL  time.Duration
	heartbeat time.Duration
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// New returns a Store over db. Migrate must have run before it is used.
func New(db DB, o Options) (*Store, error) {
	s := &Store{db: db, schema: cmp.Or(o.Schema, DefaultSchema), leaseTTL: cmp.Or(o.LeaseTTL, time.Minute)}
	s.heartbeat = cmp.Or(o.Heartbeat, s.leaseTTL/4)
	if !schemaName.MatchString(s.schema) {
		return nil, fmt.Errorf("database.schema: %q is not a plain name; use lower-case letters, digits and _", s.schema)
	}
	return s, nil
}

// sql gives a statement that is written for DefaultSchema in the store's schema.
func (s *Store) sql(statement string) string { return inSchema(statement, s.schema) }

func inSchema(statement, schema string) string {
	if schema == DefaultSchema {
		return statement
	}
	return strings.ReplaceAll(statement, DefaultSchema+".", schema+".")
}

// isNoRows reports whether a query found nothing.
func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// Clock is the database's time.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := s.db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, fmt.Errorf("asking the database for the time: %w", err)
	}
	return now, nil
}
