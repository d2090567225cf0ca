package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// A postmaster is a server process as the pid file of its data directory tells.
type postmaster struct {
	pid     int
	sockets string // the directory of its socket; "" while it is starting
}

// readPostmaster reads postmaster.pid; it gives nil if there is none. The file's
// lines are: pid, data directory, start time, port, socket directory, listen
// address, shared memory key, status (Postgres source, utils/pidfile.h).
func readPostmaster(data string) (*postmaster, error) {
	text, err := os.ReadFile(pidFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the server's pid file: %w", err)
	}
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		return nil, nil //nolint:nilerr // half written by a server that is starting or died so
	}
	pm := &postmaster{pid: max(pid, -pid)} // negative for a single-user server
	if len(lines) > 4 {
		pm.sockets = strings.TrimSpace(lines[4])
	}
	return pm, nil
}

func pidFile(data string) string { return filepath.Join(data, "postmaster.pid") }

// alive reports whether the process exists and is a server on data. One that has
// ended and was not collected by its parent yet does not count, nor does another
// program that was given the pid of a dead server.
func (p *postmaster) alive(data string) bool {
	if !p.exists() {
		return false
	}
	st, known := stateOf(p.pid)
	return !known || !st.zombie && worksIn(p.pid, data)
}

// exists reports whether some process has the pid. One that we may not signal is
// another user's, so not our server.
func (p *postmaster) exists() bool { return syscall.Kill(p.pid, 0) == nil }

// dying reports whether the kernel is about to tell the server that its owner,
// which is dead, has died.
func (p *postmaster) dying(lastOwner int) bool {
	st, known := stateOf(p.pid)
	return known && lastOwner != 0 && lastOwner != os.Getpid() && st.parent == lastOwner
}

// probe connects to the server behind the socket and checks that it serves our
// data directory.
func (l layout) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("no answer within 5s"))
	defer cancel()
	conn, err := pgx.Connect(ctx, l.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // it was only asked
	var data string
	if err := conn.QueryRow(ctx, `SELECT current_setting('data_directory')`).Scan(&data); err != nil {
		return err
	}
	if data != l.data {
		return fmt.Errorf("the server behind %s serves %s instead of %s; stop it", l.sockets, data, l.data)
	}
	return nil
}

// createDatabase creates Database if it does not exist.
func (l layout) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, l.url("postgres"))
	if err != nil {
		return fmt.Errorf("connecting to create the database %s: %w", Database, err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is open on it
	var exists bool
	const existsSQL = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := conn.QueryRow(ctx, existsSQL, Database).Scan(&exists); err != nil {
		return fmt.Errorf("looking for the database %s: %w", Database, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{Database}.Sanitize()); err != nil {
		return fmt.Errorf("creating the database %s: %w", Database, err)
	}
	return nil
}
