package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// patience is how long a program may take to end once it was told to.
const patience = 20 * time.Second

// command is a program that is told to stop when ctx ends, and is killed should
// it not. vars are added to the environment, like "NAME=value".
func command(ctx context.Context, program string, vars []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), vars...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	return cmd
}

// An ended process is what a program used, and how it ended.
type ended struct {
	code int           // its exit code
	took time.Duration // by the wall clock
	cpu  time.Duration // of its own
	peak float64       // of its resident memory, in MiB
	said string        // on stdout and stderr
}

// finish runs a program to its end. An exit code is no error.
func finish(ctx context.Context, program string, vars []string, args ...string) (*ended, error) {
	cmd := command(ctx, program, vars, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if stopped := context.Cause(ctx); stopped != nil {
		return nil, stopped
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("running %s: %w", program, err)
	}
	state := cmd.ProcessState
	return &ended{code: state.ExitCode(), took: took, cpu: state.UserTime() + state.SystemTime(),
		peak: peakOf(state.SysUsage()), said: out.String()}, nil
}

// peakOf is the peak of resident memory in a process's usage, in MiB. It is never
// below the peak that the process had which started it (on Linux, the new one
// begins in the memory of the old).
func peakOf(usage any) float64 {
	rusage, ok := usage.(*syscall.Rusage)
	if !ok {
		return 0
	}
	unit := 1024.0 // getrusage(2) of Linux and the BSDs
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(rusage.Maxrss) * unit / (1 << 20)
}

// ownPeak is the peak of this process's resident memory so far, in MiB.
func ownPeak() (float64, error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, fmt.Errorf("asking for this process's peak memory: %w", err)
	}
	return peakOf(&own), nil
}
