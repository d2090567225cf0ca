package killtest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take that takes seconds on an idle machine.
const patience = 90 * time.Second

// A process is one run of a program.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{}
	out   output // stdout and stderr as they came
}

// start runs a program until it ends, or else until the test does.
func start(t testing.TB, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("sending %s to process %d: %v\n%s", s, p.pid(), err, p.out.String())
	}
}

// killAfter kills the process after d, and reports whether it still ran then.
func (p *process) killAfter(d time.Duration) bool {
	p.t.Helper()
	select {
	case <-p.ended:
		return false
	case <-time.After(d):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("killing process %d: %v", p.pid(), err)
	}
	<-p.ended
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// exit waits for the end of the process and gives its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("process %d did not end within %s; it said:\n%s", p.pid(), patience, p.out.String())
		return -1
	}
}

// mustExit waits for the end of the process and fails the test unless its exit
// code is one of want.
func (p *process) mustExit(want ...int) {
	p.t.Helper()
	got := p.exit()
	for _, code := range want {
		if got == code {
			return
		}
	}
	p.t.Fatalf("%v: got exit code %d, want %v; it said:\n%s", p.cmd.Args[1:], got, want, p.out.String())
}

// An output is what a process says. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

var _ io.Writer = (*output)(nil)

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// eventually waits for a condition that another process brings about.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	const pause = 2 * time.Millisecond
	for deadline := time.Now().Add(patience); !holds(); <-time.After(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
