package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/internal/simulator"
)

// nightly is a real process that reconciles a side, in a folder of its own.
func nightly(t *testing.T, s *side, own string, args ...string) (cmd *exec.Cmd, folder string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join("testdata", "nightaudit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "nightaudit.yaml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("nightaudit", append([]string{"reconcile"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "DATABASE_URL="+own, "APP_DATABASE_URL="+s.readOnly, "SIM="+s.stripeServer.URL,
		"KEY="+s.key, "APP="+s.endpoint.URL, "SECRET="+s.endpoint.Secret)
	return cmd, folder
}

// ended waits for a process that was started.
func ended(cmd *exec.Cmd) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
	return done
}

func TestASignalAtAnyTimeAfterTheStartEndsIt(t *testing.T) {
	t.Parallel()
	s, own := newSide(t, sideOptions{key: simulator.DefaultKey, types: "invoice.paid", events: 3}), pgtest.URL(t)
	s.changeStripe("hold", nil)
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			cmd, _ := nightly(t, s, own)
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := ended(cmd)
			<-time.After(after)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case <-done:
			case <-time.After(2 * time.Second):
				_ = cmd.Process.Kill()
				<-done
				t.Fatalf("SIGTERM %s after the start: still running 2 s later\n%s", after, &output)
			}
			if code := cmd.ProcessState.ExitCode(); code != 5 && code != -1 {
				t.Errorf("SIGTERM %s after the start: got exit code %d, want 5, or death by the signal\n%s", after, code, &output)
			}
		})
	}
}

func TestAReportIsWholeWheneverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	s, own := newSide(t, sideOptions{key: simulator.DefaultKey, types: "invoice.paid", events: 400, drop: 400}), pgtest.URL(t)
	cmd, folder := nightly(t, s, own, "--report", "report.json")
	report := filepath.Join(folder, "report.json")
	const old = `{"schema": "an old report"}`
	if err := os.WriteFile(report, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := ended(cmd)
	killAtHalfAReport(folder, cmd, done)
	<-done
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != old && !json.Valid(text) {
		t.Errorf("killed while it wrote: the report is neither the old one nor a new one:\n%s", text)
	}
	t.Logf("%s, with %d bytes of a report", cmd.ProcessState, len(text))
}

// killAtHalfAReport kills the process as soon as it has begun to write.
func killAtHalfAReport(folder string, cmd *exec.Cmd, done <-chan struct{}) {
	for {
		half, _ := filepath.Glob(filepath.Join(folder, ".report.json.*")) // the pattern is right
		if len(half) > 0 {
			_ = cmd.Process.Kill()
			return
		}
		select {
		case <-done:
			return
		case <-time.After(50 * time.Microsecond):
		}
	}
}
