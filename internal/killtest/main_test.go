package killtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nightaudit/nightaudit/internal/pgtest"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(shortLeaseVariable); config != "" {
		os.Exit(runWithShortLease(config))
	}
	code := pgtest.Main(m)
	if err := built.remove(); err != nil {
		fmt.Fprintln(os.Stderr, "killtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// built are the programs under test, each built when it is first asked for.
var built programs

type programs struct {
	mu  sync.Mutex
	dir string
}

// path builds one of the module's commands and gives its path.
func (b *programs) path(t testing.TB, command string) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "nightaudit-killtest-*")
		if err != nil {
			t.Fatal(err)
		}
		b.dir = dir
	}
	path := filepath.Join(b.dir, filepath.Base(command))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := exec.Command("go", "build", "-o", path, "github.com/nightaudit/nightaudit/"+command)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", command, err, out)
	}
	return path
}

func (b *programs) remove() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
