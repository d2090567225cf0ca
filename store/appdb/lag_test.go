package appdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store/embedded"
)

func TestLagOfAPrimaryIsZero(t *testing.T) {
	t.Parallel()
	a := newApp(t, `CREATE TABLE processed_events (event_id text)`, "processed_events")
	for _, mode := range modes {
		if got, err := open(t, a.reader(t, mode), simple).Lag(t.Context()); err != nil || got != 0 {
			t.Errorf("mode %s: got %s, %v, want 0", mode, got, err)
		}
	}
}

func TestLagJudgesByTheLogAndNotByTheLastTransaction(t *testing.T) {
	t.Parallel()
	number := func(n int64) *int64 { return &n }
	hour := number(time.Hour.Microseconds())
	at := func(streaming bool, received, replayed, behind *int64) replay {
		return replay{standby: true, streaming: streaming, received: received, replayed: replayed, behind: behind}
	}
	for _, c := range []struct {
		what  string
		looks []replay // the last one goes on
		want  time.Duration
		err   bool
	}{
		{"a primary", []replay{{}}, 0, false},
		{"an idle primary's standby", []replay{at(true, number(10), number(10), hour)}, 0, false},
		{"one that has replayed nothing since it started", []replay{at(true, number(10), number(10), nil)}, 0, false},
		{"one that is just replaying", []replay{at(true, number(20), number(10), hour), at(true, number(30), number(20), hour)}, 0, false},
		{"one that does not get on", []replay{at(true, number(20), number(10), hour)}, time.Hour, false},
		{"one that was cut off when all was replayed", []replay{at(false, number(10), number(10), hour)}, time.Hour, false},
		{"one that reads an archive", []replay{at(false, nil, number(10), hour)}, time.Hour, false},
		{"one that reads an archive and has replayed nothing", []replay{at(false, nil, number(10), nil)}, 0, true},
		{"one whose clock is behind", []replay{at(false, nil, number(10), number(-5))}, 0, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				got, err := watchReplay(t.Context(), func(context.Context) (replay, error) {
					n++
					return c.looks[min(n, len(c.looks))-1], nil
				})
				if got != c.want || (err != nil) != c.err {
					t.Errorf("got %s, %v, want %s, an error: %v", got, err, c.want, c.err)
				}
			})
		})
	}
	gone := errors.New("gone")
	if _, err := watchReplay(t.Context(), func(context.Context) (replay, error) { return replay{}, gone }); !errors.Is(err, gone) {
		t.Errorf("a server that does not answer: got %v, want its error", err)
	}
}

func TestLagOfAStandby(t *testing.T) {
	t.Parallel()
	primaryDir, standbyDir := serverDir(t), serverDir(t)
	primary := start(t, primaryDir)
	admin := pgtest.Connect(t, primary.URL(""))
	exec(t, admin, `CREATE TABLE processed_events (event_id text); INSERT INTO processed_events VALUES ('evt_1')`)
	admin.Close()
	stop(t, primary)
	cloneAsStandby(t, primaryDir, standbyDir, primary)
	primary = start(t, primaryDir)
	standby := start(t, standbyDir)

	writer, reader := pgtest.Connect(t, primary.URL("")), pgtest.Connect(t, standby.URL(""))
	l := open(t, reader, simple)
	lag := func() time.Duration {
		got, err := l.Lag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	exec(t, writer, `INSERT INTO processed_events VALUES ('evt_2')`)
	eventually(t, "the row arrives", func() bool { return states(t, l, byID("evt_2"))[0] == Done })
	eventually(t, "all that was sent is replayed: lag 0", func() bool { return lag() == 0 })

	exec(t, reader, `SELECT pg_wal_replay_pause()`)
	exec(t, writer, `INSERT INTO processed_events VALUES ('evt_3')`)
	eventually(t, "replay is paused: a lag", func() bool { return lag() > 0 })
	if got := states(t, l, byID("evt_3")); got[0] != Absent {
		t.Errorf("a row that is not replayed: got %v, want absent", got)
	}
	exec(t, reader, `SELECT pg_wal_replay_resume()`)
	eventually(t, "replay goes on: lag 0", func() bool { return lag() == 0 })

	writer.Close()
	stop(t, primary)
	eventually(t, "the primary is gone: a lag", func() bool { return lag() > 0 })
}

// serverDir is a directory that the server's own user can reach.
func serverDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "appdb")
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

func start(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) }) // it may have been stopped by the test
	return server
}

func stop(t *testing.T, server *embedded.Server) {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// cloneAsStandby copies the data of a stopped server and has the copy follow it.
func cloneAsStandby(t *testing.T, from, to string, primary *embedded.Server) {
	t.Helper()
	const data = "postgres/data"
	if err := os.MkdirAll(filepath.Join(to, "postgres"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(to, data), os.DirFS(filepath.Join(from, data))); err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(primary.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	connect := fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=%s'\nwal_retrieve_retry_interval = 100ms\n",
		config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.User)
	for name, text := range map[string]string{"postgresql.auto.conf": connect, "standby.signal": ""} {
		if err := os.WriteFile(filepath.Join(to, data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ownAlike(t, filepath.Join(from, data), filepath.Join(to, data))
}

// ownAlike gives all of a copy to the owner of the original, with the modes that
// the server demands.
func ownAlike(t *testing.T, original, copied string) {
	t.Helper()
	info, err := os.Stat(original)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(copied, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return errors.Join(os.Chmod(path, mode), os.Chown(path, int(owner.Uid), int(owner.Gid)))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// eventually looks until ok, which looks at a real process, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
