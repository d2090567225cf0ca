package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// oldest is the first major version that nightaudit's schema works on.
const oldest = 14

// binaries are one installation of Postgres's server programs.
type binaries struct {
	dir   string
	major int
}

// versionPattern matches what "postgres --version" prints, e.g. "postgres
// (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)" or "... 19beta1".
var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect gives the binaries in dir; an error says why there are none.
func inspect(ctx context.Context, dir string) (binaries, error) {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return binaries{}, err
		}
	}
	postgres := filepath.Join(dir, "postgres")
	var out []byte
	err := whileBusy(ctx, func() (err error) {
		cmd := exec.CommandContext(ctx, postgres, "--version")
		cmd.Env = serverEnv()
		out, err = cmd.Output()
		return err
	})
	if err != nil {
		return binaries{}, fmt.Errorf("running %s --version: %w", postgres, err)
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return binaries{}, fmt.Errorf("%s --version printed %q, which names no version", postgres, out)
	}
	major, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return binaries{}, fmt.Errorf("%s --version printed %q: %w", postgres, out, err)
	}
	return binaries{dir: dir, major: major}, nil
}

// whileBusy tries so often, and waits so long between two tries: 10 s in all.
const (
	busyTries = 1000
	busyWait  = 10 * time.Millisecond
)

// whileBusy runs start again as long as the program that it starts is open for
// writing. A program that this process has just fetched can be: a child that was
// forked in the meantime holds every open file until it runs its own program
// (golang.org/issue/22315).
func whileBusy(ctx context.Context, start func() error) (err error) {
	for range busyTries {
		if err = start(); !errors.Is(err, syscall.ETXTBSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(busyWait):
		}
	}
	return err
}

// places are where packages put the server's programs. Debian; Red Hat's PGDG;
// Alpine; SUSE; Homebrew on both architectures; Postgres.app.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/usr/lib/postgresql*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// candidates are the directories to look in, best first: what PATH says, then
// the newest of each kind of package, then what was fetched before.
func (s *Server) candidates() []string {
	patterns := slices.Clone(places)
	if s.opts.places != nil {
		patterns = slices.Clone(s.opts.places)
	}
	var dirs []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(initdb))
	}
	for _, pattern := range append(patterns, filepath.Join(s.layout.binaries, "*", "bin")) {
		found, _ := filepath.Glob(pattern) // fails only on a malformed pattern
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

// versionIn is the major version in the last part of a path that has one.
func versionIn(path string) int {
	for path != filepath.Dir(path) {
		if n, err := strconv.Atoi(digits.FindString(filepath.Base(path))); err == nil {
			return n
		}
		path = filepath.Dir(path)
	}
	return 0
}

// findBinaries gives the binaries to run on data of the given version; "" is
// none yet, for which any supported version will do.
func (s *Server) findBinaries(ctx context.Context, version string) (binaries, error) {
	if s.opts.BinDir != "" {
		dir, err := filepath.Abs(s.opts.BinDir)
		if err != nil {
			return binaries{}, fmt.Errorf("looking for Postgres in %s: %w", s.opts.BinDir, err)
		}
		return s.binariesIn(ctx, dir, version)
	}
	var other *VersionError
	for _, dir := range s.candidates() {
		bin, err := inspect(ctx, dir)
		if ctx.Err() != nil {
			return binaries{}, context.Cause(ctx)
		}
		if err != nil || bin.major < oldest {
			continue
		}
		if mismatch := s.layout.mismatch(bin, version); mismatch == nil {
			return bin, nil
		} else if other == nil {
			other = mismatch
		}
	}
	if other != nil {
		return binaries{}, other
	}
	return s.fetch(ctx, version)
}

// binariesIn gives the binaries that the operator named.
func (s *Server) binariesIn(ctx context.Context, dir, version string) (binaries, error) {
	bin, err := inspect(ctx, dir)
	if err != nil {
		return binaries{}, fmt.Errorf("looking for Postgres in %s: %w; name the directory that holds initdb and postgres", dir, err)
	}
	if bin.major < oldest {
		return binaries{}, fmt.Errorf("Postgres in %s is version %d; version %d or newer is needed", dir, bin.major, oldest)
	}
	if mismatch := s.layout.mismatch(bin, version); mismatch != nil {
		return binaries{}, mismatch
	}
	return bin, nil
}

func (l layout) mismatch(bin binaries, version string) *VersionError {
	if major := strconv.Itoa(bin.major); version != "" && version != major {
		return &VersionError{Data: l.data, Version: version, BinDir: bin.dir, Binaries: major}
	}
	return nil
}

// errNoBinaries tells what to do where Postgres is neither installed nor to be
// fetched.
func errNoBinaries(cause error) error {
	return fmt.Errorf("no Postgres %d or newer is installed, and fetching it failed: %w; "+
		"install it (Debian: apt install postgresql), or set database.url to a server of your own", oldest, cause)
}

// readable lets everybody read and run what is under dir, whatever the umask
// was: as root the server's user is another one.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Type()&os.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}

// tail is the end of a program's output, for an error.
func tail(out []byte) string {
	const lines, bytes = 20, 4096
	text := strings.TrimSpace(string(out[max(0, len(out)-bytes):]))
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
