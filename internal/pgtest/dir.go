package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A dir is the directory of a throw-away server. It is locked while its process
// lives, so that what a killed test process left can be told and removed.
type dir struct {
	path string
	lock *os.File
}

const (
	dirPattern = "nightaudit-pgtest-*"
	lockName   = "in-use"
)

// makeDir creates a directory that the server's user can pass through, which
// t.TempDir is not when the tests run as root.
func makeDir() (*dir, error) {
	removeLeftovers(os.TempDir())
	path, err := os.MkdirTemp("", dirPattern)
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the server: %w", err)
	}
	d, err := lockDir(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return d, nil
}

func lockDir(path string) (*dir, error) {
	lock, err := os.Create(filepath.Join(path, lockName))
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the server: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	if err := os.Chmod(path, 0o711); err != nil {
		return nil, fmt.Errorf("letting the server into its directory: %w", err)
	}
	return &dir{path: path, lock: lock}, nil
}

// remove deletes the directory and frees its lock.
func (d *dir) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// removeLeftovers deletes directories of dead test processes under parent. Whatever stands
// in the way, such as another user's directory, is left alone.
func removeLeftovers(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, dirPattern)) // fails only on a malformed pattern
	for _, path := range paths {
		if abandoned(path) {
			_ = os.RemoveAll(path)
		}
	}
}

// abandoned reports whether nobody holds the lock of a directory that is old
// enough to have been locked.
func abandoned(path string) bool {
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) < time.Minute {
		return false
	}
	lock, err := os.Open(filepath.Join(path, lockName))
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
