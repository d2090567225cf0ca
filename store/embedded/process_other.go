//go:build unix && !linux

package embedded

import "syscall"

// serverAttributes give the server a session of its own, which keeps the
// terminal's Ctrl-C from it. Only Linux tells a child of its parent's death;
// elsewhere a server whose parent was killed runs on, and the next Start adopts
// it.
func serverAttributes(a account, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential(), Setsid: true}
}

// A procState is what the kernel says of a process.
type procState struct {
	zombie bool
	parent int
}

// stateOf knows nothing where there is no /proc.
func stateOf(int) (st procState, known bool) { return procState{}, false }

// worksIn takes the pid file's word where there is no /proc.
func worksIn(int, string) bool { return true }
