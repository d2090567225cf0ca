package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOnlyDirectoriesOfDeadProcessesAreRemoved(t *testing.T) {
	parent := t.TempDir()
	long := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name        string
		lock, alive bool
		used        time.Time
		wantRemoved bool
	}{
		{"nightaudit-pgtest-dead", true, false, long, true},
		{"nightaudit-pgtest-alive", true, true, long, false},
		{"nightaudit-pgtest-not-locked-yet", true, false, time.Now(), false},
		{"nightaudit-pgtest-without-lock-file", false, false, long, false},
		{"somebody-elses", true, false, long, false},
	} {
		path := filepath.Join(parent, c.name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if c.lock {
			d, err := lockDir(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.lock.Close() })
			if !c.alive {
				if err := d.lock.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Chtimes(path, c.used, c.used); err != nil {
			t.Fatal(err)
		}
		removeLeftovers(parent)
		_, err := os.Stat(path)
		if removed := errors.Is(err, fs.ErrNotExist); removed != c.wantRemoved {
			t.Errorf("%s: got removed %t, want %t", c.name, removed, c.wantRemoved)
		}
	}
}
