package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// reportPlace refuses a --report that could not be written, before a night is
// spent on it; "" is none. What becomes wrong later is told at the end.
func reportPlace(path string) error {
	if path == "" {
		return nil
	}
	refuse := func(why string) error {
		return &usageError{fmt.Errorf("--report %s: %s", path, why)}
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refuse("is there and no plain file; name a file")
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".nightaudit-*.tmp")
	switch {
	case err == nil:
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			return refuse(fmt.Sprintf("its folder %s takes no file (%s); name another", folder, reason(err)))
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return refuse(fmt.Sprintf("there is no folder %s; create it, or name another", folder))
	default:
		return refuse(fmt.Sprintf("its folder %s cannot be written to (%s); let nightaudit's user write there, or name another", folder, reason(err)))
	}
}

// reason is an error of the file system without operation and path.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
