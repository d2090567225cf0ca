package embedded

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNewestInstallationIsTriedFirst(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	root := t.TempDir()
	for _, version := range []string{"9.6", "14", "100", "16"} {
		installation(t, filepath.Join(root, version, "bin"), version)
	}
	s := &Server{opts: Options{places: []string{filepath.Join(root, "*", "bin")}}}
	var got []string
	for _, dir := range s.candidates() {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	if want := []string{"100", "16", "14", "9.6"}; !slices.Equal(got, want) {
		t.Errorf("order of installations: got %v, want %v", got, want)
	}
}

func TestBinariesAreChosenForTheData(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	root := t.TempDir()
	for _, version := range []string{"13", "14", "17"} {
		installation(t, filepath.Join(root, version, "bin"), version)
	}
	for _, c := range []struct {
		name, version string
		want          int
		wantErr       string
	}{
		{"no data yet, the newest", "", 17, ""},
		{"data of an older supported version, its binaries", "14", 14, ""},
		{"data of a version that is not installed", "16", 0, "Postgres 16"},
		{"data of an installed version that is too old", "13", 0, "Postgres 13"},
	} {
		s := &Server{layout: layout{data: "/data"}, opts: Options{places: []string{filepath.Join(root, "*", "bin")}}}
		bin, err := s.findBinaries(t.Context(), c.version)
		if bin.major != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s: got version %d, error %v; want version %d, error %q", c.name, bin.major, err, c.want, c.wantErr)
		}
	}
}

func TestNamedDirectoryIsTheOnlyOneLookedAt(t *testing.T) {
	t.Parallel()
	old := filepath.Join(t.TempDir(), "bin")
	installation(t, old, "13")
	for _, c := range []struct{ name, dir, want string }{
		{"without Postgres", t.TempDir(), "name the directory that holds initdb and postgres"},
		{"with an old Postgres", old, "version 13; version 14 or newer is needed"},
	} {
		s := &Server{opts: Options{BinDir: c.dir}}
		if _, err := s.findBinaries(t.Context(), ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("directory %s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestMachineWithoutPostgresFetchesItOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the library leaves a log there
	t.Setenv("PATH", t.TempDir())
	fetches := 0
	jar := releaseJar(t)
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			sum := sha256.Sum256(jar)
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		fetches++
		_, _ = w.Write(jar)
	}))
	defer repository.Close()
	s := fetcher(t, repository.URL)
	writeFile(t, filepath.Join(s.layout.binaries, ".fetch-1", "cache", "half"), "an interrupted download")
	for range 2 {
		bin, err := s.findBinaries(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if bin.major != 18 || !strings.HasPrefix(bin.dir, s.layout.binaries) {
			t.Errorf("fetched binaries: got version %d in %s, want 18 under %s", bin.major, bin.dir, s.layout.binaries)
		}
	}
	if fetches != 1 {
		t.Errorf("fetches for two starts: got %d, want 1", fetches)
	}
	entries, err := os.ReadDir(s.layout.binaries)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("left in %s: got %v, want only the release", s.layout.binaries, entries)
	}
}

func TestFailedFetchNamesTheWaysOut(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the library leaves a log there
	t.Setenv("PATH", t.TempDir())
	repository := httptest.NewServer(http.NotFoundHandler())
	defer repository.Close()
	s := fetcher(t, repository.URL)
	for _, version := range []string{"", "16", "9.6"} {
		_, err := s.findBinaries(t.Context(), version)
		if err == nil || !strings.Contains(err.Error(), "apt install postgresql") || !strings.Contains(err.Error(), "database.url") {
			t.Errorf("no Postgres anywhere for data of version %q: got %v, want an error with both ways out", version, err)
		}
	}
}

// fetcher is a server on a machine without Postgres.
func fetcher(t *testing.T, repository string) *Server {
	t.Helper()
	l, err := newLayout(stateDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return &Server{
		layout: l,
		opts:   Options{Repository: repository, places: []string{}},
		log:    slog.New(slog.DiscardHandler),
	}
}

// installation writes programs that say they are of a version.
func installation(t *testing.T, dir, version string) {
	t.Helper()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + ".1 (Debian)'\n"
	for _, program := range []string{"initdb", "postgres"} {
		path := filepath.Join(dir, program)
		writeFile(t, path, script)
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// releaseJar is a release as the repository holds it: a zip file around the
// archive in testdata, whose bin/postgres says that it is version 18.
func releaseJar(t *testing.T) []byte {
	t.Helper()
	archive, err := os.ReadFile(filepath.Join("testdata", "release.txz"))
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	w := zip.NewWriter(&jar)
	file, err := w.Create("postgres-linux-x86_64.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(archive); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return jar.Bytes()
}
