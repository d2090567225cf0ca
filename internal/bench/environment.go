package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/store/embedded"
)

// An environment is what benchmarks share: a Postgres, the programs, and a place
// to say how far it is. All of it lies in one temporary directory.
type environment struct {
	dir       string
	server    *embedded.Server
	admin     *pgxpool.Pool
	postgres  string   // the server's version
	databases []string // made for the benchmark that runs
	made      int      // databases and files so far, for their names
	began     time.Time
	progress  io.Writer
}

// newEnvironment starts the Postgres. It writes as a real one does, without the
// shortcuts that tests take.
func newEnvironment(ctx context.Context, progress io.Writer) (*environment, error) {
	dir, err := os.MkdirTemp("", "nightaudit-bench-*")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the benchmarks: %w", err)
	}
	e := &environment{dir: dir, began: time.Now(), progress: progress}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, e.close(context.WithoutCancel(ctx)))
	}
	return e, nil
}

func (e *environment) start(ctx context.Context) (err error) {
	// Started as root, the server runs as another user, who must get there.
	if err := os.Chmod(e.dir, 0o711); err != nil { //nolint:gosec // G302: others only pass through
		return fmt.Errorf("letting the server into its directory: %w", err)
	}
	if e.server, err = embedded.Start(ctx, embedded.Options{Dir: e.dir}); err != nil {
		return err
	}
	if e.admin, err = pgxpool.New(ctx, e.server.URL("postgres")); err != nil {
		return fmt.Errorf("connecting to the benchmarks' Postgres: %w", err)
	}
	if err := e.admin.QueryRow(ctx, `SHOW server_version`).Scan(&e.postgres); err != nil {
		return fmt.Errorf("asking the benchmarks' Postgres for its version: %w", err)
	}
	return nil
}

// close stops the Postgres and removes what is left.
func (e *environment) close(ctx context.Context) error {
	var errs []error
	if e.admin != nil {
		e.admin.Close()
	}
	if e.server != nil {
		errs = append(errs, e.server.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// database makes an empty database and gives its URL. It is dropped after the
// benchmark.
func (e *environment) database(ctx context.Context) (string, error) {
	e.made++
	name := fmt.Sprintf("bench_%d", e.made)
	if _, err := e.admin.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()+` TEMPLATE template0`); err != nil {
		return "", fmt.Errorf("making database %s: %w", name, err)
	}
	e.databases = append(e.databases, name)
	return e.server.URL(name), nil
}

// clear drops the databases of a benchmark, so that their upkeep does not run
// beside the next one.
func (e *environment) clear(ctx context.Context) error {
	for _, name := range e.databases {
		if _, err := e.admin.Exec(ctx, `DROP DATABASE `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`); err != nil {
			return fmt.Errorf("dropping database %s: %w", name, err)
		}
	}
	e.databases = nil
	return nil
}

// file gives a path where nothing is yet.
func (e *environment) file(name string) string {
	e.made++
	return filepath.Join(e.dir, fmt.Sprintf("%d-%s", e.made, name))
}

// program builds one of the module's commands, unless it is built already, and
// gives its path.
func (e *environment) program(ctx context.Context, command string) (string, error) {
	built := filepath.Join(e.dir, path.Base(command))
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	e.say("building %s", command)
	build := exec.CommandContext(ctx, "go", "build", "-o", built, "github.com/nightaudit/nightaudit/"+command)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w; run this within the module\n%s", command, err, out)
	}
	return built, nil
}

// say writes a line about how far it is.
func (e *environment) say(format string, args ...any) {
	fmt.Fprintf(e.progress, "%6.1fs  %s\n", time.Since(e.began).Seconds(), fmt.Sprintf(format, args...))
}
