package reconcile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/store"
)

func document(source string) *Document {
	return NewDocument([]*Report{unopened(store.Run{Source: source, StartedAt: time.Unix(1767225600, 0)}, "scripted", "it has <gone> & left", false)}, nil, false)
}

func sourceIn(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s holds no report: %v\n%s", path, err, text)
	}
	return d.Sources[0].Source
}

// only fails the test if a folder holds anything but the named files.
func only(t *testing.T, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", folder, got, want)
	}
}

func TestWriteReportReplacesTheOldReport(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "drift.json")
	for _, source := range []string{"first", "second"} {
		if err := WriteReport(path, document(source)); err != nil {
			t.Fatal(err)
		}
		if got := sourceIn(t, path); got != source {
			t.Errorf("source: got %s, want %s", got, source)
		}
	}
	only(t, folder, "drift.json")
	text, _ := os.ReadFile(path)
	if !bytes.Contains(text, []byte("it has <gone> & left")) || !bytes.HasSuffix(text, []byte("}\n")) {
		t.Errorf("want plain characters and a line break at the end, got\n%s", text)
	}
}

func TestWriteReportLetsOwnerAndGroupReadAndKeepsAModeThatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drift.json")
	for _, want := range []fs.FileMode{0o640, 0o600, 0o644} {
		if want != 0o640 {
			if err := os.Chmod(path, want); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteReport(path, document("shop")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode: got %v, %v; want %v", info.Mode().Perm(), err, want)
		}
	}
}

func TestWriteReportFollowsASymbolicLink(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	target, link := filepath.Join(elsewhere, "drift.json"), filepath.Join(folder, "newest.json")
	if err := WriteReport(target, document("first")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteReport(link, document("second")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 || sourceIn(t, target) != "second" {
		t.Errorf("link %v, %v, source %s; want the link left and its target written", info.Mode(), err, sourceIn(t, target))
	}
}

// Between the write and the rename the process may be killed: then the old
// report is whole, and the next one replaces it.
func TestTheOldReportIsWholeUntilTheNewOneIs(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "drift.json")
	if err := WriteReport(path, document("old")); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = writeReport(path, document("new"), func(from, _ string) error {
			if got := sourceIn(t, from); got != "new" {
				t.Errorf("before the rename the new file holds %s, want it whole", got)
			}
			panic("killed")
		})
	}()
	if got := sourceIn(t, path); got != "old" {
		t.Errorf("after the kill: got %s, want old", got)
	}
	if err := WriteReport(path, document("newer")); err != nil || sourceIn(t, path) != "newer" {
		t.Errorf("the next report: %v, source %s", err, sourceIn(t, path))
	}
}

func TestAFailedRenameLeavesTheOldReportAndNothingElse(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "drift.json")
	if err := WriteReport(path, document("old")); err != nil {
		t.Fatal(err)
	}
	err := writeReport(path, document("new"), func(from, to string) error {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.ENOSPC}
	})
	if err == nil || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("got %v, want an error that says to free space", err)
	}
	if got := sourceIn(t, path); got != "old" {
		t.Errorf("got %s, want old", got)
	}
	only(t, folder, "drift.json")
}

func TestWriteReportSaysWhatToDo(t *testing.T) {
	folder := t.TempDir()
	plain := filepath.Join(folder, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"a folder that is missing", filepath.Join(folder, "missing", "drift.json"), "create its folder"},
		{"a folder", folder, "name a file"},
		{"a folder that is a file", filepath.Join(plain, "drift.json"), "name a file"},
		{"a device", "/dev/null", "name a file"},
		{"a file system that takes no files", "/proc/drift.json", "--report"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := WriteReport(c.path, document("shop"))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line that names %s and says %q", err, c.path, c.want)
			}
		})
	}
}

func TestAReportErrorHasAdviceForEachFault(t *testing.T) {
	for fault, want := range map[error]string{
		syscall.EROFS: "read-only", syscall.EACCES: "nightaudit's user", syscall.ENOSPC: "free some space",
		syscall.EDQUOT: "free some space", syscall.EIO: "nightaudit report",
	} {
		err := reportError("/reports/drift.json", &fs.PathError{Op: "open", Path: "/reports/x", Err: fault})
		if !strings.Contains(err.Error(), want) || !errors.Is(err, fault) {
			t.Errorf("%v: got %q, want it to say %q", fault, err, want)
		}
	}
}
