package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// An instance is one life of the server.
type instance struct {
	pid   int
	owner *fileLock     // nil when another process owns it
	gone  chan struct{} // closed when it has ended; nil unless it is our child
	data  string
}

// newInstance is a running server that is not our child.
func newInstance(pid int, data string, owner *fileLock) *instance {
	return &instance{pid: pid, data: data, owner: owner}
}

// ended reports whether the server is no more.
func (in *instance) ended() bool {
	if in.gone != nil {
		select {
		case <-in.gone:
			return true
		default:
			return false
		}
	}
	return !(&postmaster{pid: in.pid}).alive(in.data)
}

// waitGone waits for the server's end; it gives false when ctx ends first.
func (in *instance) waitGone(ctx context.Context) bool {
	if in.gone != nil {
		select {
		case <-in.gone:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for !in.ended() {
		if !sleep(ctx, 100*time.Millisecond) {
			return false
		}
	}
	return true
}

// Postgres's ways to shut down (Postgres docs, "Shutting Down the Server").
const (
	fastShutdown      = syscall.SIGINT  // open transactions are rolled back, then a checkpoint
	immediateShutdown = syscall.SIGQUIT // no checkpoint; the next start recovers from the log
)

// immediatePatience covers the 5 s that Postgres gives its children before it
// kills them.
const immediatePatience = 15 * time.Second

// shutDown ends the server: fast, and immediately when ctx ends first or the
// data is not to last.
func (in *instance) shutDown(ctx context.Context, ephemeral bool) error {
	if !ephemeral {
		if err := in.signal(fastShutdown); err != nil {
			return err
		}
		if in.waitGone(ctx) {
			return nil
		}
	}
	if err := in.signal(immediateShutdown); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), immediatePatience)
	defer cancel()
	if !in.waitGone(ctx) {
		return fmt.Errorf("server with pid %d does not end within %s of SIGQUIT; end it by hand", in.pid, immediatePatience)
	}
	return nil
}

func (in *instance) signal(sig syscall.Signal) error {
	if in.ended() {
		return nil
	}
	if err := syscall.Kill(in.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %s to the server with pid %d: %w", sig, in.pid, err)
	}
	return nil
}

// stillInUse is what a server says when children of a killed one have not ended.
const stillInUse = "pre-existing shared memory block"

// run starts the server as our child and waits until it answers.
func (s *Server) run(ctx context.Context, bin binaries, a account) (*instance, error) {
	log, err := openLog(s.layout.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.file.Close() }() // the server has its own copy
	cmd := exec.Command(filepath.Join(bin.dir, "postgres"), s.serverArgs()...)
	cmd.Env = serverEnv()
	cmd.Dir = s.layout.home
	cmd.Stdout, cmd.Stderr = log.file, log.file // a file, so that no pipe ends with this process
	cmd.SysProcAttr = serverAttributes(a, s.onDeath())
	in, err := startChild(cmd)
	if err != nil {
		return nil, fmt.Errorf("running %s as %s: %w", cmd.Path, a, err)
	}
	in.data = s.layout.data
	if err := s.waitReady(ctx, in); err != nil {
		err = errors.Join(err, in.shutDown(context.WithoutCancel(ctx), true))
		lines := log.tail()
		err = fmt.Errorf("%w\nthe last lines of %s:\n%s", err, s.layout.log, lines)
		if strings.Contains(lines, stillInUse) {
			return nil, &notYetError{err}
		}
		return nil, err
	}
	return in, nil
}

// onDeath is the signal that the server gets when this process dies.
func (s *Server) onDeath() syscall.Signal {
	switch {
	case s.opts.survives:
		return 0
	case s.opts.Ephemeral:
		return immediateShutdown
	}
	return fastShutdown
}

// startChild starts cmd. The kernel takes the end of the starting thread for
// the parent's death, so one thread is kept for as long as the child lives.
func startChild(cmd *exec.Cmd) (*instance, error) {
	started := make(chan error)
	in := &instance{gone: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		in.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // how it ended stands in its log
		close(in.gone)
	}()
	return in, <-started
}

// waitReady connects until the server answers.
func (s *Server) waitReady(ctx context.Context, in *instance) error {
	until := time.Now().Add(s.opts.StartTimeout)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := s.layout.probe(ctx)
		switch {
		case in.ended(): // before all: another server may have answered
			return errors.New("the server ended while it was starting")
		case err == nil:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("the server does not answer within %s: %w", s.opts.StartTimeout, err)
		case !sleep(ctx, pause):
			return fmt.Errorf("waiting for the server: %w", context.Cause(ctx))
		}
	}
}

// serverArgs are the server's settings. They win over the files in the data
// directory.
func (s *Server) serverArgs() []string {
	settings := []string{
		"listen_addresses=",
		"unix_socket_directories=" + quoteList(s.layout.sockets),
		"unix_socket_permissions=0700",
		fmt.Sprintf("port=%d", port),
		"max_connections=100",
		"cluster_name=nightaudit",
		"timezone=UTC",
		"log_timezone=UTC",
		"log_destination=stderr",
		"logging_collector=off",
		"log_checkpoints=off",
		// Statements, their errors and the details of both can hold webhook
		// payloads. Whoever sent the statement gets them in any case.
		"log_min_messages=log",
		"log_min_error_statement=panic",
		"log_error_verbosity=terse",
	}
	if s.opts.Ephemeral {
		// Commits still reach the kernel at once (synchronous_commit), which costs
		// next to nothing without fsync, so that a crash of the server loses none.
		settings = append(settings, "fsync=off", "full_page_writes=off",
			"shared_buffers=16MB", "wal_level=minimal", "max_wal_senders=0", "autovacuum=off")
	}
	args := []string{"-D", s.layout.data}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// quoteList quotes a path for a setting that is a list of paths.
func quoteList(path string) string {
	return `"` + strings.ReplaceAll(path, `"`, `""`) + `"`
}

// A serverLog is the server's own log, as one life of it is appended.
type serverLog struct {
	file *os.File
	from int64 // where this life begins
}

// largestLog is what the log may have grown to when a server starts; then it is
// set aside, replacing the one before.
const largestLog = 16 << 20

func openLog(path string) (*serverLog, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > largestLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("setting the server's log aside: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the server's log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the server's log: %w", err), file.Close())
	}
	return &serverLog{file: file, from: info.Size()}, nil
}

// tail is the end of what this life of the server has written.
func (l *serverLog) tail() string {
	text, err := os.ReadFile(l.file.Name())
	if err != nil || int64(len(text)) < l.from {
		return "(unreadable)"
	}
	return tail(text[l.from:])
}
