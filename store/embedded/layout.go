package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A layout names the files of one server.
type layout struct {
	home      string // everything of the server, in the state directory
	data      string // the data directory
	sockets   string // the directory of its Unix socket
	binaries  string // what was fetched, a folder a version
	log       string // the server's own log
	startLock string // held while a server is being looked for or started
	ownerLock string // held by the process that owns the running server
}

// longestSocketPath is what a Unix socket's address can hold, less its final
// zero byte: 104 bytes on macOS and the BSDs, 108 on Linux (unix(7), unix(4)).
const longestSocketPath = 103

// newLayout creates the state directory dir where it is absent.
func newLayout(dir string) (layout, error) {
	if err := makeDirs(dir); err != nil {
		return layout{}, fmt.Errorf("creating the state directory: %w", err)
	}
	// Two paths to one directory must come to one lock, one socket and one
	// data_directory.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return layout{}, fmt.Errorf("resolving the state directory: %w", err)
	}
	home := filepath.Join(dir, "postgres")
	if err := makeDirs(home); err != nil {
		return layout{}, fmt.Errorf("creating %s: %w", home, err)
	}
	return layout{
		home:      home,
		data:      filepath.Join(home, "data"),
		sockets:   socketDir(home),
		binaries:  filepath.Join(home, "binaries"),
		log:       filepath.Join(home, "server.log"),
		startLock: filepath.Join(home, "start.lock"),
		ownerLock: filepath.Join(home, "owner.lock"),
	}, nil
}

// makeDirs creates dir and the parents that it lacks. As root others may pass
// through them (and not list them), since the server does not run as root.
func makeDirs(dir string) error {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	err := os.Mkdir(dir, mode)
	switch {
	case err == nil:
		return os.Chmod(dir, mode) // whatever the umask
	case errors.Is(err, fs.ErrExist):
		return mustBeDir(dir)
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDirs(filepath.Dir(dir)); err != nil {
			return err
		}
		return makeDirs(dir)
	}
	return err
}

func mustBeDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a file; move it away or name another directory", dir)
	}
	return nil
}

// socketDir is in home where its path is short enough and has no comma, which
// would make it a list of hosts; else it is in /tmp under a name that each
// process derives alike.
func socketDir(home string) string {
	dir := filepath.Join(home, "run")
	if len(dir)+len("/.s.PGSQL.5432") <= longestSocketPath && !strings.Contains(dir, ",") {
		return dir
	}
	sum := sha256.Sum256([]byte(home))
	return "/tmp/nightaudit-" + hex.EncodeToString(sum[:8])
}

// removeSocketDir leaves nothing in /tmp. A directory that is not empty stays.
func (l layout) removeSocketDir() {
	if !l.socketsAtHome() {
		_ = os.Remove(l.sockets) // costs nothing if it stays
	}
}

func (l layout) socketsAtHome() bool { return filepath.Dir(l.sockets) == l.home }

// makeSocketDir creates the directory of the socket for a. One that is there
// must belong to a alone: /tmp is everyone's, and whoever owned it could pose as
// the server.
func (l layout) makeSocketDir(a account) error {
	if err := os.Mkdir(l.sockets, 0o700); err == nil {
		if err := os.Chmod(l.sockets, 0o700); err != nil {
			return err
		}
		return a.own(l.sockets)
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating the socket directory: %w", err)
	}
	info, err := os.Lstat(l.sockets)
	if err != nil {
		return fmt.Errorf("looking at the socket directory: %w", err)
	}
	if l.socketsAtHome() && info.IsDir() {
		if err := a.own(l.sockets); err != nil { // home is ours alone
			return err
		}
		return os.Chmod(l.sockets, 0o700)
	}
	if uid, _ := ownerOf(info); !info.IsDir() || uid != a.uid || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("socket directory %s is not private to %s; remove it, or name a state directory with a shorter path",
			l.sockets, a)
	}
	return nil
}
