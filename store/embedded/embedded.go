// Package embedded runs a real Postgres server as a child of this process, for
// those who have none: its binaries are found on the machine or fetched once,
// its data lives under the state directory, and it stops when this process
// stops, also when this process is killed.
//
// Who may connect is decided by the file system: the server listens on no
// network address, only on a Unix socket in a directory that nobody but its own
// user (and root) can enter. So there is no password, and a URL is no secret.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// User is the server's superuser, as which URL connects.
const User = "nightaudit"

// Database is the database that Start creates when it does not exist yet.
const Database = "nightaudit"

// port names the socket file; nothing listens on a network.
const port = 5432

// Options say where and how a server runs. Only Dir is needed.
type Options struct {
	// Dir is the state directory; the server keeps to its folder "postgres". It is
	// created if absent.
	Dir string
	// BinDir holds the Postgres binaries; "" looks on the machine, then fetches.
	BinDir string
	// Repository is the Maven repository that binaries are fetched from, when
	// the machine has none; "" is Maven Central.
	Repository string
	// Ephemeral trades the safety of the data for speed, for tests and demos:
	// when the machine crashes, all may be lost. A crash of the server alone loses
	// nothing committed.
	Ephemeral bool
	// StartTimeout bounds the wait for the server to answer; 0 is one minute. A
	// fetch of binaries is not counted.
	StartTimeout time.Duration
	// Log gets what happens to the server; nil is nowhere. The server's own log
	// is the file postgres/server.log under Dir.
	Log *slog.Logger

	survives bool     // tests: the server outlives this process, as an orphan
	places   []string // tests: where to look for binaries instead of places
}

// A Server is a running server, started or joined by this process. Should it
// end without Stop (it crashed, or the process that owned it stopped it), it is
// started again on the same data and at the same URL.
type Server struct {
	opts   Options
	log    *slog.Logger
	layout layout

	mu      sync.Mutex
	current *instance // never nil between Start and Stop

	cancel  context.CancelFunc // ends watch
	watched chan struct{}      // closed when watch has ended
	stop    sync.Once
	stopErr error
}

// Start gives a server on the data under opts.Dir that answers, creating the
// data on first use. Its end is Stop, not ctx.
//
// A server that already runs there is used as it is. The process that started a
// server owns it, and it ends with its owner; a process that merely uses it
// never stops it, and becomes the owner of a new one should the first end. A
// server without an owner, left over by a killed process, gets this one.
//
// Data of another major version is a *VersionError and stays untouched.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Dir == "" {
		return nil, errors.New("starting the embedded Postgres: no state directory is set; name one that survives restarts")
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Postgres in %s: %w", opts.Dir, err)
	}
	opts.StartTimeout = cmp.Or(opts.StartTimeout, time.Minute)
	s := &Server{opts: opts, log: opts.Log, watched: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.layout, err = newLayout(dir); err != nil {
		return nil, fmt.Errorf("starting the embedded Postgres in %s: %w", dir, err)
	}
	if s.current, err = s.acquire(ctx); err != nil {
		return nil, fmt.Errorf("starting the embedded Postgres in %s: %w", dir, err)
	}
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	go s.watch(watchCtx)
	return s, nil
}

// URL is the address of a database of the server, as its superuser; "" is
// Database. It stays the same when the server is started again.
func (s *Server) URL(database string) string {
	return s.layout.url(cmp.Or(database, Database))
}

// PID is the process id of the server at this moment.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.pid
}

// Owned reports whether this process owns the server, so that Stop ends it.
func (s *Server) Owned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.owner != nil
}

// Stop ends the server if this process owns it, breaking open connections, and
// waits until it is gone. When ctx ends first the server is told to skip its
// last checkpoint, which costs a recovery at the next start and no data.
// Further calls give the outcome of the first.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		s.cancel()
		<-s.watched
		s.stopErr = s.release(ctx)
	})
	return s.stopErr
}

// release gives up the current instance; what this process owns is ended first.
func (s *Server) release(ctx context.Context) error {
	in := s.current
	if in.owner == nil {
		return nil
	}
	defer in.owner.unlock()
	if err := in.shutDown(ctx, s.opts.Ephemeral); err != nil {
		return fmt.Errorf("stopping the embedded Postgres in %s: %w", s.layout.home, err)
	}
	s.layout.removeSocketDir()
	s.log.InfoContext(ctx, "embedded server stopped", "pid", in.pid)
	return nil
}

// watch starts the server again whenever it ends, until ctx does.
func (s *Server) watch(ctx context.Context) {
	defer close(s.watched)
	for {
		s.mu.Lock()
		in := s.current
		s.mu.Unlock()
		if !in.waitGone(ctx) {
			return
		}
		s.log.WarnContext(ctx, "embedded server is gone, starting it again", "pid", in.pid)
		in.owner.unlock()
		next := s.acquireAgain(ctx)
		if next == nil {
			return
		}
		s.mu.Lock()
		s.current = next
		s.mu.Unlock()
	}
}

// acquireAgain tries until a server answers; it gives nil when ctx ends.
func (s *Server) acquireAgain(ctx context.Context) *instance {
	const longestPause = 30 * time.Second
	for pause := time.Second; ; pause = min(2*pause, longestPause) {
		in, err := s.acquire(ctx)
		if err == nil {
			return in
		}
		if ctx.Err() != nil {
			return nil
		}
		s.log.ErrorContext(ctx, "embedded server does not start", "err", err, "retry_in_ms", pause.Milliseconds())
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

// sleep waits for d; it gives false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// url is the address of a database through the server's socket.
func (l layout) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(User), Path: "/" + database}
	// Postgres's clients take a plus for itself, not for a space.
	host := strings.ReplaceAll(url.QueryEscape(l.sockets), "+", "%20")
	u.RawQuery = fmt.Sprintf("host=%s&port=%d&sslmode=disable", host, port)
	return u.String()
}
