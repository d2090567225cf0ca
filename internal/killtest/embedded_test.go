package killtest

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/store/embedded"
)

// With a database of its own, nightaudit's death takes the server with it; the
// next run finds all that was stored, and at the end no server is left.
func TestKilledWithItsEmbeddedDatabaseNightauditLosesNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, databases{own: "embedded", dir: passableDir(t)})
	w.faults(3 * time.Millisecond)
	w.app.SetIdempotent(false)
	w.stripe.SetFaults(simulator.Faults{PageDelay: 20 * time.Millisecond})
	w.history(400, seed, 0.4)

	w.reconcile("--dry-run").mustExit(2) // makes the cluster and the tables
	began := time.Now()
	w.reconcile("--dry-run").mustExit(2)
	warm := time.Since(began)
	for killed := 0; killed < 5; {
		p := w.reconcile("--repair")
		if p.killAfter(time.Duration(random.Float64() * float64(warm))) {
			killed++
		} else {
			p.mustExit(0, 2)
		}
		w.door.quiet(t)
		w.within(func(server *embedded.Server) { expireLeases(t, pgtest.Connect(t, server.URL(""))) })
	}
	w.reconcile("--repair").mustExit(0)
	w.within(func(server *embedded.Server) { w.settled(pgtest.Connect(t, server.URL(""))) })
	eventually(t, "no server is left", func() bool { return len(servers(t, w.dir)) == 0 })
}

// passableDir is a directory that the server's user can pass through, which that
// of a test is not.
func passableDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nightaudit-killtest-state-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// within looks into the embedded database between two runs.
func (w *world) within(look func(*embedded.Server)) {
	w.t.Helper()
	server, err := embedded.Start(w.t.Context(), embedded.Options{Dir: w.dir})
	if err != nil {
		w.t.Fatal(err)
	}
	look(server)
	if err := server.Stop(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// servers are the command lines of Postgres processes on data under dir.
func servers(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		args := strings.Split(string(line), "\x00")
		if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, dir+"/postgres") }) {
			found = append(found, strings.Join(args, " "))
		}
	}
	return found
}
