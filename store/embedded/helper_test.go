package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// helperVariable makes the test binary a process that runs a server instead of
// tests; it holds helperOptions.
const helperVariable = "NIGHTAUDIT_EMBEDDED_HELPER"

func TestMain(m *testing.M) {
	if text := os.Getenv(helperVariable); text != "" {
		os.Exit(helperMain(text))
	}
	os.Exit(m.Run())
}

// helperOptions say what a helper process runs.
type helperOptions struct {
	Dir          string
	Ephemeral    bool
	Survives     bool // its server outlives it
	Unprivileged bool // it runs as nobody if the tests run as root
}

// helperMain starts a server, prints its pid, and stops it when stdin ends.
func helperMain(text string) int {
	var o helperOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	server, err := Start(ctx, Options{Dir: o.Dir, Ephemeral: o.Ephemeral, survives: o.Survives})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(server.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := server.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A helper is a process of its own that runs a server.
type helper struct {
	cmd       *exec.Cmd
	stdin     io.Closer
	uid       uint32
	serverPID int
}

func startHelper(t *testing.T, o helperOptions) *helper {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &helper{uid: uint32(os.Geteuid())}
	h.cmd = exec.Command(testBinary(t))
	h.cmd.Env = append(os.Environ(), helperVariable+"="+string(text))
	h.cmd.Stderr = os.Stderr
	if o.Unprivileged && h.uid == 0 {
		nobody := unprivilegedAccount(t)
		h.uid = nobody.uid
		h.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody.credential()}
		if err := os.Chown(o.Dir, int(nobody.uid), int(nobody.gid)); err != nil {
			t.Fatal(err)
		}
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("reading the pid that the helper prints: %v", err)
	}
	if _, err := fmt.Sscan(line, &h.serverPID); err != nil {
		t.Fatalf("helper printed %q: %v", line, err)
	}
	return h
}

// stop lets the helper stop its server and end.
func (h *helper) stop(t *testing.T) {
	t.Helper()
	if err := h.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Fatalf("helper: %v", err)
	}
}

// kill ends the helper before it can do anything about it.
func (h *helper) kill(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait() // it was killed
}

// testBinary is a copy of this program that every user may run.
func testBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(stateDir(t), "helper")
	writeFile(t, path, string(text))
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func unprivilegedAccount(t *testing.T) account {
	t.Helper()
	a, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// stateDir is a temporary directory that every user can pass through, which
// t.TempDir is not.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nightaudit-embedded-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	server, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, server) })
	return server
}

func stop(t *testing.T, server *Server) {
	t.Helper()
	if err := server.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// ask runs statements, of which the last gives one text.
func ask(t *testing.T, server *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	last := results[len(results)-1]
	if len(last.Rows) != 1 {
		t.Fatalf("%s: got %d rows, want 1", sql, len(last.Rows))
	}
	return string(last.Rows[0][0])
}

// running reports whether the process exists and has not ended.
func running(pid int) bool {
	if !(&postmaster{pid: pid}).exists() {
		return false
	}
	st, known := stateOf(pid)
	return !known || !st.zombie
}

// eventually waits for a condition that other processes bring about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !condition() {
		if !sleep(ctx, 10*time.Millisecond) {
			t.Fatalf("waited 2 minutes: %s", what)
		}
	}
}

// endedProcess is the pid of a process that has ended.
func endedProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// unrelatedProcess is the pid of a program of the data's owner, which Postgres
// takes for a server.
func unrelatedProcess(t *testing.T, data string) int {
	t.Helper()
	a, err := serverAccount(data)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return cmd.Process.Pid
}

// writeFile writes a file that may be a program to be run: no other test's child is
// forked meanwhile, which would hold it open for writing.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// chownToServer gives a directory that a test has made to the server's user.
func chownToServer(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() == 0 {
		if err := unprivilegedAccount(t).own(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot tells all that is under dir: modes, times and contents.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, infoErr := entry.Info()
		if infoErr != nil {
			return infoErr
		}
		var text []byte
		var readErr error
		if !entry.IsDir() {
			text, readErr = os.ReadFile(path)
		}
		fmt.Fprintf(&all, "%s %s %s %q\n", path, info.Mode(), info.ModTime(), text)
		return errors.Join(readErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
