package store

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/nightaudit/nightaudit/migrations"
)

// Migrate brings schema ("" is DefaultSchema) to the newest version and returns
// the versions that it applied. Only one process migrates at a time; the others
// wait for it. A nil log discards.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string, log *slog.Logger) ([]int64, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if schema == "" {
		schema = DefaultSchema
	}
	pool, done, err := roomy(ctx, pool)
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := migrator(ctx, pool, schema, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Close() }()
	pending, err := p.HasPending(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the schema's version: %w", err)
	}
	if !pending {
		return nil, nil
	}
	results, err := p.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrating schema %s: %w", schema, err)
	}
	var applied []int64
	for _, r := range results {
		applied = append(applied, r.Source.Version)
	}
	return applied, nil
}

// Pending reports whether Migrate has something to do. A schema that does not
// exist yet has.
func Pending(ctx context.Context, pool *pgxpool.Pool, schema string) (bool, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	const tableSQL = `SELECT to_regclass($1) IS NOT NULL`
	var exists bool
	if err := pool.QueryRow(ctx, tableSQL, schema+".schema_versions").Scan(&exists); err != nil {
		return false, fmt.Errorf("looking for schema %s: %w", schema, err)
	}
	if !exists {
		return true, nil
	}
	p, err := provider(pool, schema, slog.New(slog.DiscardHandler))
	if err != nil {
		return false, err
	}
	defer func() { _ = p.Close() }()
	return p.HasPending(ctx)
}

// migratorConns is how many connections a migration takes at once: its own, one
// for the lock, and one for the lock's heartbeat.
const migratorConns = 3

// roomy gives a pool to migrate with: the one given, or where that is too small,
// as behind pool_max_conns=1, another like it. done ends its use.
func roomy(ctx context.Context, pool *pgxpool.Pool) (larger *pgxpool.Pool, done func(), err error) {
	config := pool.Config()
	if config.MaxConns >= migratorConns {
		return pool, func() {}, nil
	}
	config.MaxConns = migratorConns
	if larger, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, nil, fmt.Errorf("connecting to migrate: %w", err)
	}
	return larger, larger.Close, nil
}

// migrator makes sure of the schema, in which the versions themselves are kept.
func migrator(ctx context.Context, pool *pgxpool.Pool, schema string, log *slog.Logger) (*goose.Provider, error) {
	if !schemaName.MatchString(schema) {
		return nil, fmt.Errorf("database.schema: %q is not a plain name; use lower-case letters, digits and _", schema)
	}
	if err := createSchema(ctx, pool, schema); err != nil {
		return nil, fmt.Errorf("creating schema %s: %w; create it as an administrator, or grant CREATE on the database", schema, err)
	}
	return provider(pool, schema, log)
}

// createSchema asks first, since CREATE SCHEMA needs a right that a role whose
// schema is there already may lack. Two at a time are one: the loser looks again.
func createSchema(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	const existsSQL = `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`
	var exists bool
	if err := pool.QueryRow(ctx, existsSQL, schema).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema)
	if err == nil {
		return nil
	}
	if again := pool.QueryRow(ctx, existsSQL, schema).Scan(&exists); again == nil && exists {
		return nil
	}
	return err
}

// Whoever finds another at work asks again every lockPoll, for five minutes.
const (
	lockPoll  = 250 * time.Millisecond
	lockPolls = 1200
)

func provider(pool *pgxpool.Pool, schema string, log *slog.Logger) (*goose.Provider, error) {
	files, err := migrationFiles(schema)
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableName(schema+".schema_lock"),
		lock.WithTableLockTimeout(lockPoll, lockPolls),
	)
	if err != nil {
		return nil, err
	}
	versions, err := database.NewStore(database.DialectPostgres, schema+".schema_versions")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", stdlib.OpenDBFromPool(pool), files,
		goose.WithStore(versions), goose.WithLocker(locker), goose.WithSlog(log),
		goose.WithDisableGlobalRegistry(true))
}

// migrationFiles are the migrations, written for schema.
func migrationFiles(schema string) (fs.FS, error) {
	files := fstest.MapFS{}
	err := fs.WalkDir(migrations.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations.FS, path)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte(DefaultSchema+"."), []byte(schema+"."))
		files[path] = &fstest.MapFile{Data: text}
		return nil
	})
	return files, err
}
