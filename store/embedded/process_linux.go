package embedded

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// serverAttributes let the kernel send onDeath to the server when the thread
// that started it ends, so also when this process is killed. A session of its
// own keeps the terminal's Ctrl-C from it.
func serverAttributes(a account, onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential(), Setsid: true, Pdeathsig: onDeath}
}

// A procState is what the kernel says of a process.
type procState struct {
	zombie bool
	parent int
}

// stateOf reads a process's state; known is false if there is no such process.
func stateOf(pid int) (st procState, known bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procState{}, false
	}
	// "pid (name) state ppid ...", and the name may hold anything (proc(5)).
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return procState{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 2 {
		return procState{}, false
	}
	st.zombie = fields[0][0] == 'Z' || fields[0][0] == 'X'
	st.parent, _ = strconv.Atoi(string(fields[1]))
	return st, true
}

// worksIn reports whether dir is the process's working directory, as the data
// directory is a server's. A process that may not be looked at is not ours.
func worksIn(pid int, dir string) bool {
	works, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	want, err := os.Stat(dir)
	return err == nil && os.SameFile(works, want)
}
