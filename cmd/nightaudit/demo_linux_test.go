package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A playing demo is a real process with a temporary folder of its own.
type playing struct {
	cmd   *exec.Cmd
	tmp   string
	ended <-chan struct{}

	mu   sync.Mutex
	text bytes.Buffer // stdout and stderr as they came
}

func (p *playing) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *playing) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func playDemo(t *testing.T) *playing {
	t.Helper()
	tmp, err := os.MkdirTemp("", "nightaudit-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o711); err != nil { // as root, the server's user passes through
		t.Fatal(err)
	}
	p := &playing{cmd: exec.Command("nightaudit", "demo", "--events", "30"), tmp: tmp}
	p.cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.ended = ended(p.cmd)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// patient is how long anything may take that takes seconds on an idle machine.
const patient = 90 * time.Second

// until waits for a condition while the demo plays on.
func (p *playing) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !holds(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s; it said:\n%s", what, patient, p.said())
		}
	}
}

func (p *playing) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// processes are those that were started from or for something in the folder.
func (p *playing) processes() []string {
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(p.tmp)) {
			found = append(found, fmt.Sprintf("%s: %q", filepath.Base(filepath.Dir(path)), line))
		}
	}
	return found
}

func (p *playing) files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(p.tmp)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func TestADemoThatIsToldToStopLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at  string // what it has said when the signal comes
		sig syscall.Signal
	}{
		"at its first line":     {"nightaudit demo: ", syscall.SIGINT},
		"with its Postgres up":  {"nobody noticed", syscall.SIGTERM},
		"after the first night": {"  verified ", syscall.SIGINT},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := playDemo(t)
			p.until(t, fmt.Sprintf("it says %q", c.at), func() bool { return strings.Contains(p.said(), c.at) || p.hasEnded() })
			if err := p.cmd.Process.Signal(c.sig); err != nil && !p.hasEnded() {
				t.Fatal(err)
			}
			p.until(t, "it ends", p.hasEnded)
			if p.cmd.ProcessState.ExitCode() == 0 && strings.Contains(p.said(), "IN SYNC   ") {
				t.Log("it was over when the signal came")
				return
			}
			if code := p.cmd.ProcessState.ExitCode(); code != 5 {
				t.Errorf("%s after %q: got exit code %d, want 5; it said:\n%s", c.sig, c.at, code, p.said())
			}
			if end := "nightaudit: the demo was stopped; nothing of it is left\n"; !strings.HasSuffix(p.said(), end) {
				t.Errorf("%s after %q: got\n%s\nwant it to end with %q", c.sig, c.at, p.said(), end)
			}
			if left := p.files(t); len(left) > 0 {
				t.Errorf("%s after %q: got %q left in the temporary folder, want nothing", c.sig, c.at, left)
			}
			if left := p.processes(); len(left) > 0 {
				t.Errorf("%s after %q: got processes left, want none:\n%s", c.sig, c.at, strings.Join(left, "\n"))
			}
		})
	}
}

func TestADemoThatIsKilledLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := playDemo(t)
	p.until(t, "its Postgres is up", func() bool { return strings.Contains(p.said(), "nobody noticed") || p.hasEnded() })
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != -1 {
		t.Fatalf("got exit code %d before it could be killed:\n%s", code, p.said())
	}
	p.until(t, "its Postgres ends too", func() bool { return len(p.processes()) == 0 })
}
