package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestDataOutlivesAStopAndIsWrittenSafely(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	server := start(t, Options{Dir: dir})
	for _, c := range []struct{ setting, want string }{
		{"fsync", "on"},
		{"synchronous_commit", "on"},
		{"full_page_writes", "on"},
		{"data_checksums", "on"},
		{"max_connections", "100"},
		{"listen_addresses", ""},
		{"server_encoding", "UTF8"},
		{"TimeZone", "UTC"},
	} {
		if got := ask(t, server, `SELECT current_setting('`+c.setting+`')`); got != c.want {
			t.Errorf("setting %s: got %q, want %q", c.setting, got, c.want)
		}
	}
	if !server.Owned() {
		t.Error("a server that this process started: got not owned, want owned")
	}
	ask(t, server, `CREATE TABLE kept AS SELECT 'yes' AS answer; SELECT ''`)
	stop(t, server)

	again := start(t, Options{Dir: dir})
	if got := ask(t, again, `SELECT answer FROM kept`); got != "yes" {
		t.Errorf("table of the first start after the second: got %q, want yes", got)
	}
	if again.URL("") != server.URL("") {
		t.Errorf("URL after a restart: got %s, want %s", again.URL(""), server.URL(""))
	}
}

func TestEphemeralServerTradesSafetyForSpeed(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: stateDir(t), Ephemeral: true})
	for _, setting := range []string{"fsync", "full_page_writes"} {
		if got := ask(t, server, `SELECT current_setting('`+setting+`')`); got != "off" {
			t.Errorf("setting %s: got %q, want off", setting, got)
		}
	}
}

func TestServersLogIsAFileWithoutPayloads(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: stateDir(t), Ephemeral: true})
	conn, err := pgx.Connect(t.Context(), server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, sql := range []string{
		`SELECT 'payload-of-a-customer'::int`,
		`CREATE TABLE one (body text PRIMARY KEY); INSERT INTO one VALUES ('payload-of-a-customer'), ('payload-of-a-customer')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Fatalf("%s: got no error, want one", sql)
		}
	}
	ask(t, server, `CHECKPOINT; SELECT ''`)
	stop(t, server)
	log, err := os.ReadFile(filepath.Join(server.opts.Dir, "postgres", "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "database system is shut down") {
		t.Errorf("server's log: want it to tell of start and end, got\n%s", log)
	}
	if strings.Contains(string(log), "payload-of-a-customer") {
		t.Errorf("server's log: want no payload in it, got\n%s", log)
	}
}

func TestStoppedServerIsGoneAndMayBeStoppedAgain(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: stateDir(t), Ephemeral: true})
	pid := server.PID()
	stop(t, server)
	if running(pid) {
		t.Errorf("server with pid %d after Stop: got running, want gone", pid)
	}
	if conn, err := pgx.Connect(t.Context(), server.URL("")); err == nil {
		_ = conn.Close(t.Context())
		t.Error("connecting after Stop: got a connection, want an error")
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: got %v, want nil", err)
	}
}

func TestStopWithoutTimeLosesNothingCommitted(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	server := start(t, Options{Dir: dir})
	ask(t, server, `CREATE TABLE kept AS SELECT 'yes' AS answer; SELECT ''`)
	noTime, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Stop(noTime); err != nil {
		t.Fatalf("Stop with a context that has ended: got %v, want nil", err)
	}
	again := start(t, Options{Dir: dir})
	if got := ask(t, again, `SELECT answer FROM kept`); got != "yes" {
		t.Errorf("committed row after a hasty stop: got %q, want yes", got)
	}
}

func TestServerRunsAsAnUnprivilegedUser(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: stateDir(t), Ephemeral: true})
	info, err := os.Stat(server.layout.data)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := ownerOf(info)
	if uid == 0 {
		t.Error("owner of the data: got root, want an unprivileged user")
	}
	if self := uint32(os.Geteuid()); self != 0 && uid != self {
		t.Errorf("owner of the data of an ordinary user: got uid %d, want %d", uid, self)
	}
	// A group of its own: Ctrl-C on the terminal is for nightaudit, which then stops
	// the server when its own work is done.
	if group, err := syscall.Getpgid(server.PID()); err != nil || group == syscall.Getpgrp() {
		t.Errorf("process group of the server: got %d (%v), want another than ours, %d", group, err, syscall.Getpgrp())
	}
}

func TestOrdinaryUserRunsTheServerInPerson(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	h := startHelper(t, helperOptions{Dir: dir, Ephemeral: true, Unprivileged: true})
	info, err := os.Stat(filepath.Join(dir, "postgres", "data"))
	if err != nil {
		t.Fatal(err)
	}
	if uid, _ := ownerOf(info); uid != h.uid {
		t.Errorf("owner of the data: got uid %d, want that of the process, %d", uid, h.uid)
	}
	h.stop(t)
	if running(h.serverPID) {
		t.Errorf("server with pid %d after its process stopped it: got running, want gone", h.serverPID)
	}
}

func TestDataOfAnotherMajorVersionIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	data := filepath.Join(dir, "postgres", "data")
	writeFile(t, filepath.Join(data, "PG_VERSION"), "9.6\n")
	writeFile(t, filepath.Join(data, "base", "1", "1259"), "precious")
	chownToServer(t, data)
	before := snapshot(t, data)

	server, err := Start(t.Context(), Options{Dir: dir})
	if err == nil {
		stop(t, server)
	}
	var version *VersionError
	if !errors.As(err, &version) || version.Version != "9.6" || version.Binaries == "" {
		t.Fatalf("data of version 9.6: got %v, want a *VersionError with both versions", err)
	}
	for _, want := range []string{"Postgres 9.6", "Postgres " + version.Binaries, "pg_upgrade", data} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q: want it to name %q", err, want)
		}
	}
	if after := snapshot(t, data); after != before {
		t.Errorf("data after the refusal:\ngot  %s\nwant %s", after, before)
	}
}

func TestFolderThatIsNoDataDirectoryIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	data := filepath.Join(dir, "postgres", "data")
	writeFile(t, filepath.Join(data, "thesis.txt"), "precious")
	chownToServer(t, data)
	before := snapshot(t, data)
	server, err := Start(t.Context(), Options{Dir: dir})
	if err == nil {
		stop(t, server)
	}
	if err == nil || !strings.Contains(err.Error(), "not a Postgres data directory") {
		t.Errorf("a folder without PG_VERSION: got %v, want an error that says so", err)
	}
	if after := snapshot(t, data); after != before {
		t.Errorf("folder after the refusal:\ngot  %s\nwant %s", after, before)
	}
}

func TestInterruptedCreationOfTheDataIsDoneAgain(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeFile(t, filepath.Join(dir, "postgres", "data.new", "PG_VERSION"), "15\n")
	server := start(t, Options{Dir: dir, Ephemeral: true})
	if got := ask(t, server, `SELECT 'yes'`); got != "yes" {
		t.Errorf("server after an interrupted initdb: got %q, want yes", got)
	}
}

func TestStartsAtTheSameTimeShareOneServer(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	servers := make([]*Server, 4)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			var err error
			if servers[i], err = Start(t.Context(), Options{Dir: dir, Ephemeral: true}); err != nil {
				t.Errorf("start %d of %d: %v", i+1, len(servers), err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	var owner *Server
	for _, s := range servers {
		if s.PID() != servers[0].PID() {
			t.Errorf("pid: got %d and %d, want one server", s.PID(), servers[0].PID())
		}
		if s.Owned() {
			if owner != nil {
				t.Error("owners: got two, want one")
			}
			owner = s
			continue
		}
		stop(t, s)
	}
	if owner == nil {
		t.Fatal("owners: got none, want one")
	}
	if got := ask(t, owner, `SELECT 'yes'`); got != "yes" {
		t.Errorf("server after its other users stopped: got %q, want yes", got)
	}
	stop(t, owner)
}

func TestServerOfAnotherProcessIsUsedAndTakenOverAtItsEnd(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	h := startHelper(t, helperOptions{Dir: dir, Ephemeral: true})
	server := start(t, Options{Dir: dir, Ephemeral: true})
	if server.PID() != h.serverPID || server.Owned() {
		t.Errorf("second process: got pid %d, owned %t; want the first one's %d, not owned", server.PID(), server.Owned(), h.serverPID)
	}
	ask(t, server, `CREATE TABLE kept AS SELECT 'yes' AS answer; SELECT ''`)

	h.stop(t)
	eventually(t, "the user of a stopped server owns a new one", func() bool {
		return server.Owned() && server.PID() != h.serverPID
	})
	if got := ask(t, server, `SELECT answer FROM kept`); got != "yes" {
		t.Errorf("row at the same URL after the takeover: got %q, want yes", got)
	}
}

func TestCrashedServerIsStartedAgainWithAllThatWasCommitted(t *testing.T) {
	t.Parallel()
	for _, ephemeral := range []bool{false, true} {
		server := start(t, Options{Dir: stateDir(t), Ephemeral: ephemeral})
		ask(t, server, `CREATE TABLE kept AS SELECT 'yes' AS answer; SELECT ''`)
		crashed := server.PID()
		if err := syscall.Kill(crashed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another server runs", func() bool { return server.PID() != crashed })
		if got := ask(t, server, `SELECT answer FROM kept`); got != "yes" {
			t.Errorf("committed row after a crash, ephemeral %t: got %q, want yes", ephemeral, got)
		}
	}
}

func TestOrphanIsAdoptedAndStopped(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	h := startHelper(t, helperOptions{Dir: dir, Survives: true, Ephemeral: true})
	h.kill(t)
	if !running(h.serverPID) {
		t.Fatalf("server with pid %d that shall outlive its process: got gone, want running", h.serverPID)
	}
	server := start(t, Options{Dir: dir, Ephemeral: true})
	if server.PID() != h.serverPID || !server.Owned() {
		t.Errorf("start beside an orphan: got pid %d, owned %t; want the orphan, %d, owned", server.PID(), server.Owned(), h.serverPID)
	}
	stop(t, server)
	eventually(t, "a stopped orphan is gone", func() bool { return !running(h.serverPID) })
}

func TestPidFileOfADeadServerIsNoHindrance(t *testing.T) {
	t.Parallel()
	ended := endedProcess(t)
	for _, c := range []struct {
		name string
		pid  func(t *testing.T, data string) int
	}{
		{"its pid is nobody's", func(*testing.T, string) int { return ended }},
		{"its pid is another program's now", unrelatedProcess},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := stateDir(t)
			first := start(t, Options{Dir: dir, Ephemeral: true})
			stop(t, first)
			pid := c.pid(t, first.layout.data)
			writeFile(t, pidFile(first.layout.data), fmt.Sprintf("%d\n%s\n1700000000\n%d\n%s\n\n  12345 0\nready   \n",
				pid, first.layout.data, port, first.layout.sockets))
			writeFile(t, filepath.Join(first.layout.sockets, ".s.PGSQL.5432.lock"), fmt.Sprintf("%d\n", pid))
			chownToServer(t, pidFile(first.layout.data))
			chownToServer(t, filepath.Join(first.layout.sockets, ".s.PGSQL.5432.lock"))
			again := start(t, Options{Dir: dir, Ephemeral: true})
			if got := ask(t, again, `SELECT 'yes'`); got != "yes" {
				t.Errorf("server beside the pid file of a dead one: got %q, want yes", got)
			}
		})
	}
}

func TestLongStateDirectoryGetsAShortSocketPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(stateDir(t), strings.Repeat("long", 30))
	server := start(t, Options{Dir: dir, Ephemeral: true})
	if got := ask(t, server, `SELECT 'yes'`); got != "yes" {
		t.Errorf("server in %s: got %q, want yes", dir, got)
	}
	stop(t, server)
	if _, err := os.Stat(server.layout.sockets); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket directory %s after Stop: got %v, want it gone", server.layout.sockets, err)
	}
}

func TestSocketDirectoryThatOthersCanEnterIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(stateDir(t), strings.Repeat("long", 30))
	layout, err := newLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(layout.sockets, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(layout.sockets) })
	server, err := Start(t.Context(), Options{Dir: dir, Ephemeral: true})
	if err == nil {
		stop(t, server)
	}
	if err == nil || !strings.Contains(err.Error(), "not private") {
		t.Errorf("socket directory of mode 0755 in /tmp: got %v, want a refusal", err)
	}
}

func TestStateDirectoryMayHaveAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`a b+"c'&ü=%20\`, `a,b`} {
		server := start(t, Options{Dir: filepath.Join(stateDir(t), name), Ephemeral: true})
		if got := ask(t, server, `SELECT 'yes'`); got != "yes" {
			t.Errorf("state directory %s: got %q, want yes", name, got)
		}
	}
}

func TestFailedStartShowsTheServersOwnWords(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	first := start(t, Options{Dir: dir, Ephemeral: true})
	stop(t, first)
	conf, err := os.OpenFile(filepath.Join(first.layout.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conf.WriteString("\nwork_men = '4MB'\n"); err != nil {
		t.Fatal(err)
	}
	if err := conf.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Start(t.Context(), Options{Dir: dir, Ephemeral: true})
	if err == nil {
		stop(t, again)
	}
	if err == nil || !strings.Contains(err.Error(), `unrecognized configuration parameter "work_men"`) {
		t.Errorf("start on a broken postgresql.conf: got %v, want the server's log in it", err)
	}
}

func TestStartNeedsAStateDirectory(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "no state directory") {
		t.Errorf("Start without a directory: got %v, want an error that asks for one", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	layout, err := newLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := tryLock(layout.startLock)
	if err != nil || other == nil {
		t.Fatalf("lock: got %v, %v", other, err)
	}
	defer other.unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{Dir: dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start behind another that never ends: got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestURLIsReadByWhatReadsURLs(t *testing.T) {
	t.Parallel()
	l := layout{sockets: `/var/lib/a b+"c&d=e%20`}
	u, err := url.Parse(l.url("app db"))
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Query().Get("host"); got != l.sockets {
		t.Errorf("host of %s: got %q, want %q", u, got, l.sockets)
	}
	if u.Path != "/app db" || u.User.Username() != User {
		t.Errorf("%s: got path %q, user %q; want /app db, %s", u, u.Path, u.User.Username(), User)
	}
}

func TestRootsServerMustReachItsDirectory(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(t.TempDir(), "closed")
	inside := filepath.Join(closed, "state")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	stranger := account{name: "stranger", uid: 123456, gid: 123456, switched: true}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	err := stranger.mustReach(inside)
	if err == nil || !strings.Contains(err.Error(), "stranger") || !strings.Contains(err.Error(), "cannot pass through") {
		t.Errorf("a directory below one of mode 0700: got %v, want an error with user and directory", err)
	}
	self := account{name: "self", uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if err := self.mustReach(inside); err != nil {
		t.Errorf("the same for its owner: got %v, want nil", err)
	}
}
