package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// acquire gives a server on our data that answers: the one that another process
// owns, an orphan, or a new one. Only one process at a time looks.
func (s *Server) acquire(ctx context.Context) (*instance, error) {
	start, err := waitLock(ctx, s.layout.startLock)
	if err != nil {
		return nil, err
	}
	defer start.unlock()
	until := time.Now().Add(s.opts.StartTimeout)
	for {
		in, err := s.acquireOnce(ctx)
		if notYet := (*notYetError)(nil); !errors.As(err, &notYet) {
			return in, err
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("%w (waited %s)", err, s.opts.StartTimeout)
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// A notYetError is what may be otherwise a moment later.
type notYetError struct{ error }

func (e *notYetError) Unwrap() error { return e.error }

func notYet(format string, args ...any) error { return &notYetError{fmt.Errorf(format, args...)} }

func (s *Server) acquireOnce(ctx context.Context) (*instance, error) {
	owner, err := tryLock(s.layout.ownerLock)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		return s.join(ctx)
	}
	in, err := s.own(ctx, owner)
	if err != nil {
		owner.unlock()
		return nil, err
	}
	return in, nil
}

// join uses the server of another process.
func (s *Server) join(ctx context.Context) (*instance, error) {
	pm, err := readPostmaster(s.layout.data)
	if err != nil {
		return nil, err
	}
	if pm == nil || !pm.alive(s.layout.data) {
		return nil, notYet("another process holds %s and runs no server", s.layout.ownerLock)
	}
	if err := s.layout.probe(ctx); err != nil {
		return nil, notYet("server with pid %d of another process does not answer: %w", pm.pid, err)
	}
	s.log.InfoContext(ctx, "embedded server of another process is used", "pid", pm.pid)
	return newInstance(pm.pid, s.layout.data, nil), nil
}

// own gives the server that this process, holding the owner's lock, owns.
func (s *Server) own(ctx context.Context, owner *fileLock) (*instance, error) {
	pm, err := readPostmaster(s.layout.data)
	if err != nil {
		return nil, err
	}
	if pm == nil || !pm.alive(s.layout.data) {
		return s.launch(ctx, owner, pm)
	}
	if pm.dying(owner.previous) {
		return nil, notYet("server with pid %d is about to stop", pm.pid)
	}
	if pm.sockets != "" && pm.sockets != s.layout.sockets {
		return nil, fmt.Errorf("a server with pid %d that nightaudit did not start runs on %s; stop it (pg_ctl stop -D %s)",
			pm.pid, s.layout.data, s.layout.data)
	}
	if err := s.layout.probe(ctx); err != nil {
		return nil, notYet("server with pid %d runs on %s and does not answer: %w", pm.pid, s.layout.data, err)
	}
	if err := s.layout.createDatabase(ctx); err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "orphaned embedded server is adopted", "pid", pm.pid)
	return newInstance(pm.pid, s.layout.data, owner), nil
}

// launch starts a new server. stale is what the last one left, nil if nothing.
func (s *Server) launch(ctx context.Context, owner *fileLock, stale *postmaster) (*instance, error) {
	a, bin, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.layout.clearStale(stale); err != nil {
		return nil, err
	}
	in, err := s.run(ctx, bin, a)
	if err != nil {
		return nil, err
	}
	in.owner = owner
	if err := s.layout.createDatabase(ctx); err != nil {
		return nil, errors.Join(err, in.shutDown(context.WithoutCancel(ctx), s.opts.Ephemeral))
	}
	s.log.InfoContext(ctx, "embedded server started", "pid", in.pid, "version", bin.major, "bin_dir", bin.dir, "user", a.name)
	return in, nil
}

// prepare makes everything ready that a server needs: user, binaries, data.
func (s *Server) prepare(ctx context.Context) (account, binaries, error) {
	a, err := serverAccount(s.layout.data)
	if err != nil {
		return a, binaries{}, err
	}
	if err := a.mustReach(s.layout.home); err != nil {
		return a, binaries{}, err
	}
	version, err := s.layout.dataVersion()
	if err != nil {
		return a, binaries{}, err
	}
	bin, err := s.findBinaries(ctx, version)
	if err != nil {
		return a, bin, err
	}
	if err := a.mustReach(bin.dir); err != nil {
		return a, bin, fmt.Errorf("binaries of Postgres: %w", err)
	}
	if err := s.layout.makeSocketDir(a); err != nil {
		return a, bin, err
	}
	if version == "" {
		err = s.layout.initialise(ctx, bin, a, s.opts.Ephemeral)
	}
	return a, bin, err
}

// clearStale removes the pid files of a dead server whose pid another program
// has got, since Postgres itself takes any live process for a server. Its shared
// memory, which it also looks at, still guards the data.
func (l layout) clearStale(stale *postmaster) error {
	leftovers := []string{filepath.Join(l.sockets, fmt.Sprintf(".s.PGSQL.%d.lock", port))}
	if stale != nil && stale.exists() {
		leftovers = append(leftovers, pidFile(l.data))
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the pid file of a dead server: %w", err)
		}
	}
	return nil
}
