package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A VersionError says that the data was written by another major version of
// Postgres than the one at hand. Postgres cannot read it, and nothing has
// touched it.
type VersionError struct {
	Data     string // the data directory
	Version  string // the major version that wrote it: "14", "9.6"
	BinDir   string // where the binaries at hand are
	Binaries string // their major version
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("data directory %s was written by Postgres %s, and the binaries in %s are Postgres %s; "+
		"install Postgres %s again, or convert the data with pg_upgrade (Postgres docs, \"pg_upgrade\"); nothing was changed",
		e.Data, e.Version, e.BinDir, e.Binaries, e.Version)
}

// dataVersion is the major version that wrote the data; "" where there is none.
func (l layout) dataVersion() (string, error) {
	entries, err := os.ReadDir(l.data)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the data directory: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(l.data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is not empty and not a Postgres data directory (it has no PG_VERSION); move it away", l.data)
	}
	if err != nil {
		return "", fmt.Errorf("reading the version of the data: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// initialise creates the data directory. It appears under its name only when it
// is complete, so that a crash leaves nothing that looks like data.
func (l layout) initialise(ctx context.Context, bin binaries, a account, ephemeral bool) error {
	unfinished := l.data + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("removing what an interrupted start left: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return fmt.Errorf("creating the data directory: %w", err)
	}
	if err := a.own(unfinished); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin.dir, "initdb"), initdbArgs(unfinished, ephemeral)...)
	cmd.Env = serverEnv()
	cmd.Dir = l.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("creating the data with %s: %w\n%s", cmd.Path, err, tail(out))
	}
	if err := os.Rename(unfinished, l.data); err != nil {
		return fmt.Errorf("putting the new data directory in place: %w", err)
	}
	return nil
}

func initdbArgs(data string, ephemeral bool) []string {
	args := []string{
		"--pgdata", data, "--username", User, "--encoding", "UTF8", "--locale", "C",
		"--auth-local", "trust", "--auth-host", "reject", "--no-instructions",
	}
	if ephemeral {
		return append(args, "--no-sync")
	}
	return append(args, "--data-checksums")
}

// serverEnv is the whole environment of the server: no PG* variable of this
// process may change where or how it runs, and no secret of ours gets there.
func serverEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}
