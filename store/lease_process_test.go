package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store"
)

const (
	// holderVariable makes the test binary a lease's holder on the database that
	// it names; see holdLease.
	holderVariable = "NIGHTAUDIT_TEST_LEASE_HOLDER"
	holderTTL      = 2 * time.Second
	exitLost       = 7
)

// holdLease takes the lease of the source "shop" and commits one row under it for
// each line that it is told, until it is told no more or the lease is lost.
func holdLease(url string) int {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return holderFailed(err)
	}
	defer pool.Close()
	s, err := store.New(pool, store.Options{LeaseTTL: holderTTL, Heartbeat: 50 * time.Millisecond})
	if err != nil {
		return holderFailed(err)
	}
	lease, err := s.Acquire(ctx, "shop", store.RoleRun, "the stopped one", "run_1")
	if err != nil {
		return holderFailed(err)
	}
	go lease.Keep(ctx, func(err error) { os.Exit(holderFailed(err)) })
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("committed") {
		if err := work(ctx, lease, "the stopped one"); err != nil {
			return holderFailed(err)
		}
	}
	return 0
}

func work(ctx context.Context, lease *store.Lease, who string) error {
	return lease.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO work (holder) VALUES ($1)`, who)
		return err
	})
}

func holderFailed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, store.ErrLeaseLost) {
		return exitLost
	}
	return 1
}

// A holder is another process that holds the lease.
type holder struct {
	t         *testing.T
	process   *exec.Cmd
	tell      io.Writer
	committed *bufio.Reader
}

func startHolder(t *testing.T, url string) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+url)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &holder{t: t, process: cmd, tell: in, committed: bufio.NewReader(out)}
}

func (h *holder) order(n int) {
	h.t.Helper()
	for range n {
		if _, err := io.WriteString(h.tell, "work\n"); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *holder) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.process.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// stop stops the process, and returns when it stands still.
func (h *holder) stop() {
	h.t.Helper()
	h.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(h.process.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		h.t.Fatalf("stopping the holder: got status %v (%v), want it stopped", status, err)
	}
}

func TestAProcessStoppedPastItsLeaseCommitsNothingMore(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	f := &fixture{t: t, pool: pgtest.Connect(t, url)}
	f.store = migrated(t, f.pool, store.Options{})
	f.exec(`CREATE TABLE work (holder text NOT NULL)`)
	stopped := startHolder(t, url)
	stopped.order(3)
	for range 3 {
		if line, err := stopped.committed.ReadString('\n'); err != nil || line != "committed\n" {
			t.Fatalf("the holder at work: got %q, %v", line, err)
		}
	}

	stopped.stop()
	stopped.order(50) // it finds them when it wakes
	var lease *store.Lease
	eventually(t, "the lease of the stopped process expires", func() bool {
		var held *store.HeldError
		var err error
		if lease, err = f.store.Acquire(t.Context(), "shop", store.RoleRun, "the next one", "run_2"); err != nil && !errors.As(err, &held) {
			t.Fatal(err)
		}
		return err == nil
	})
	if err := work(t.Context(), lease, "the next one"); err != nil {
		t.Fatal(err)
	}
	stopped.signal(syscall.SIGCONT)

	err := stopped.process.Wait()
	if code := stopped.process.ProcessState.ExitCode(); code != exitLost {
		t.Errorf("the stopped process after it woke: got exit code %d (%v), want %d: lease lost", code, err, exitLost)
	}
	same(t, "rows of the stopped process", value[int](f, `SELECT count(*) FROM work WHERE holder = 'the stopped one'`), 3)
	if err := work(t.Context(), lease, "the next one"); err != nil {
		t.Errorf("the next holder's lease after the stopped process woke: got %v, want it whole", err)
	}
}
