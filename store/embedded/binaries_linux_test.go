package embedded

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestBusyProgramIsRunAgainUntilItIsFree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bin")
	installation(t, dir, "17")
	program := filepath.Join(dir, "postgres")
	writing, err := os.OpenFile(program, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	var refusals int
	err = whileBusy(t.Context(), func() error {
		err := exec.Command(program, "--version").Run()
		if err != nil {
			if refusals++; refusals == 2 {
				_ = writing.Close() // free from here on
			}
		}
		return err
	})
	if err != nil || refusals < 2 {
		t.Errorf("program that is free after two tries: got %v after %d refusals, want it run", err, refusals)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	busy := &os.PathError{Op: "fork/exec", Path: program, Err: syscall.ETXTBSY}
	if err := whileBusy(ended, func() error { return busy }); !errors.Is(err, busy) {
		t.Errorf("program that stays busy, and no time left: got %v, want %v", err, busy)
	}
}
