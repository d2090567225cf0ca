package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// An account is the operating system's user that the server runs as.
type account struct {
	name     string
	uid, gid uint32
	switched bool // another one than this process's
}

func (a account) String() string { return "user " + a.name }

// own gives path to the account. It is only called for what this package has
// created itself.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	if err := os.Lchown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("giving %s to %s: %w", path, a, err)
	}
	return nil
}

// credential is what a child runs with; nil leaves it this process's.
func (a account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// serverAccount decides who runs the server: Postgres refuses root, so root
// hands it to the owner of the data or, before there is any, to an unprivileged
// user. Anybody else runs it in person.
func serverAccount(data string) (account, error) {
	self := uint32(os.Geteuid())
	info, err := os.Stat(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if self == 0 {
			return unprivileged()
		}
	case err != nil:
		return account{}, fmt.Errorf("looking at the data directory: %w", err)
	default:
		uid, gid := ownerOf(info)
		if self == 0 && uid == 0 {
			return account{}, fmt.Errorf("data directory %s belongs to root, and Postgres refuses to run as root; "+
				"give it to the user that the server shall run as (chown -R postgres %s)", data, data)
		}
		if self == 0 {
			return account{name: userName(uid), uid: uid, gid: gid, switched: true}, nil
		}
		if uid != self {
			return account{}, fmt.Errorf("data directory %s belongs to %s, and this process runs as %s; run as that user or as root",
				data, userName(uid), userName(self))
		}
	}
	return account{name: userName(self), uid: self, gid: uint32(os.Getegid())}, nil
}

// unprivileged is the user postgres if there is one, else nobody.
func unprivileged() (account, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr != nil || gidErr != nil || uid == 0 {
			continue
		}
		return account{name: name, uid: uint32(uid), gid: uint32(gid), switched: true}, nil
	}
	return account{}, errors.New("Postgres refuses to run as root, and the machine has neither a user postgres nor nobody; " +
		"create one (useradd --system postgres) or run nightaudit as an ordinary user")
}

// mustReach checks that the account can pass through path and all its parents.
func (a account) mustReach(path string) error {
	if !a.switched {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := a.mustReach(parent); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !a.passes(info) {
		return fmt.Errorf("the server runs as %s, since Postgres refuses root, and that user cannot pass through %s (mode %04o); "+
			"use a directory elsewhere, such as /var/lib/nightaudit, or let others pass (chmod o+x %s)",
			a, path, info.Mode().Perm(), path)
	}
	return nil
}

func (a account) passes(dir fs.FileInfo) bool {
	uid, gid := ownerOf(dir)
	mode := dir.Mode().Perm()
	switch {
	case uid == a.uid:
		return mode&0o100 != 0
	case gid == a.gid:
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}

func ownerOf(info fs.FileInfo) (uid, gid uint32) {
	st := info.Sys().(*syscall.Stat_t) // what os.Stat gives on every Unix
	return st.Uid, st.Gid
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
