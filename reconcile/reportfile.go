package reconcile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteJSON writes the document as indented JSON with a line break at its end;
// docs/drift-report.schema.json describes the form.
func (d *Document) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return fmt.Errorf("writing the drift report: %w", err)
	}
	return nil
}

// reportMode lets the owner and the group read a report: it names business
// objects, which are not everybody's to know.
const reportMode = 0o640

// WriteReport writes the document to a file as WriteJSON does, so that a reader
// sees the old report or the new one and never half of one, whenever this
// process ends: a new file in the same folder takes the old one's place once it
// is whole and on disk. It keeps the mode of a file that is there; a new one may
// be read by its owner and group. A path that is a symbolic link is followed.
// Errors name the path and say what to do.
func WriteReport(path string, d *Document) error {
	return writeReport(path, d, os.Rename)
}

func writeReport(path string, d *Document, rename func(from, to string) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode, err := modeOf(path)
	if err != nil {
		return reportError(path, err)
	}
	whole, err := writeWhole(path, mode, d)
	if err != nil {
		return reportError(path, err)
	}
	if err := rename(whole, path); err != nil {
		return reportError(path, errors.Join(err, os.Remove(whole)))
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return reportError(path, err)
	}
	return nil
}

// modeOf is the mode that the report gets. Only a plain file may be replaced.
func modeOf(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return reportMode, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, errNotAFile
	}
	return info.Mode().Perm(), nil
}

var errNotAFile = errors.New("it is there and no plain file")

// writeWhole writes the document to a new file beside path and gives its name
// once it is on disk; if that fails, there is no such file.
func writeWhole(path string, mode fs.FileMode, d *Document) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	return f.Name(), cmp.Or(d.WriteJSON(f), f.Chmod(mode), f.Sync(), f.Close())
}

// syncFolder makes a renaming in a folder last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil // a file system that cannot, as some over a network
	}
	return errors.Join(err, folder.Close())
}

// reportError says what to do about a report that could not be written.
func reportError(path string, err error) error {
	advice := "the report is stored all the same; see nightaudit report"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		advice = "create its folder, or name another with --report"
	case errors.Is(err, syscall.EROFS):
		advice = "its folder is on a read-only file system; name another with --report"
	case errors.Is(err, fs.ErrPermission):
		advice = "let nightaudit's user write into its folder, or name another with --report"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "free some space, or name another folder with --report; a report that was there is still whole"
	case errors.Is(err, errNotAFile), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		advice = "name a file with --report"
	}
	return fmt.Errorf("writing the report to %s: %w; %s", path, err, advice)
}
