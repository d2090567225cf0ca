package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A fileLock is held by one process at a time and falls free when it dies.
type fileLock struct {
	file     *os.File
	previous int // the pid of the last holder; 0 if there was none
}

// tryLock takes the lock at path, or gives nil if another holds it.
func tryLock(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w; run as the user that owns the state directory", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, file.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	l := &fileLock{file: file}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("signing the lock %s: %w", path, err), file.Close())
	}
	return l, nil
}

// waitLock takes the lock at path as soon as it is free.
func waitLock(ctx context.Context, path string) (*fileLock, error) {
	for {
		l, err := tryLock(path)
		if l != nil || err != nil {
			return l, err
		}
		if !sleep(ctx, 10*time.Millisecond) {
			return nil, fmt.Errorf("waiting for another process that holds %s: %w", path, context.Cause(ctx))
		}
	}
}

// sign reads who held the lock last and writes this process's pid in its place.
func (l *fileLock) sign() error {
	text := make([]byte, 32)
	n, _ := l.file.ReadAt(text, 0) // an empty file ends in EOF, which is no error here
	l.previous, _ = strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// unlock frees the lock. It is safe on nil and when repeated.
func (l *fileLock) unlock() {
	if l != nil {
		_ = l.file.Close() // nothing was buffered; closing frees the lock in any case
	}
}
