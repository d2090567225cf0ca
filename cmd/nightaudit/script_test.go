package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nightaudit/nightaudit/internal/pgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(withPostgres{m}, map[string]func(){"nightaudit": main})
}

// withPostgres runs the tests with a server that they get databases of.
type withPostgres struct{ m *testing.M }

func (w withPostgres) Run() int { return pgtest.Main(w.m) }

// TestScripts runs testdata/script: each is a night or a mistake. A script that
// brings no nightaudit.yaml finds that of testdata in its folder. It has these commands beside
// testscript's own:
//
//	simulate [-as P] [-events N] [-drop N] [-types T,...] [-key K] [-grant P,...]
//	                    starts a fake Stripe with N events of the last three days,
//	                    and an application that handled all but the newest it
//	                    dropped; sets SIM, KEY, APP, SECRET, ENDPOINT, DATABASE_URL,
//	                    APP_DATABASE_URL (of a role that may only read), or P_SIM, ...
//	stripe [-as P] VERB changes the fake Stripe; see (*side).changeStripe
//	app [-as P] VERB    changes the application; see (*side).changeApp
//	sql own|app SQL     runs SQL in a database as its owner
//	edit FILE OLD NEW   replaces OLD, which must be there
//	exits CODE CMD...   runs a command that exits with CODE
//	took MAX            the last of these took no longer
//	signal SIG          to the newest command in the background
//	exited CODE         how it exited, after wait
//	appears FILE TEXT   waits until a file holds a text
//	until requests|posts N, requests N, posts N
//	                    waits for, or checks, how much Stripe or the application
//	                    was asked
//	valid FILE          the drift report is of the form that the schema describes
//	json FILE PATH WANT the value at a path like sources.0.run.outcome
//	secretless FILE...  no secret is in the files, nor in nightaudit's database
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		Setup:               setup,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"simulate": command(-1, cmdSimulate), "stripe": command(-1, cmdStripe), "app": command(-1, cmdApp),
			"sql": command(2, cmdSQL), "edit": command(3, cmdEdit),
			"exits": command(-1, cmdExits), "took": command(1, cmdTook),
			"signal": command(1, cmdSignal), "exited": command(1, cmdExited),
			"appears": command(2, cmdAppears), "until": command(2, cmdUntil), "requests": command(1, cmdRequests), "posts": command(1, cmdPosts),
			"valid": command(1, cmdValid), "json": command(3, cmdJSON), "secretless": command(-1, cmdSecretless),
		},
	})
}

func setup(env *testscript.Env) error {
	env.Values[worldKey{}] = newWorld(env.T().(testing.TB))
	path := filepath.Join(env.WorkDir, "nightaudit.yaml")
	if _, err := os.Stat(path); err == nil {
		return nil // the script brings its own
	}
	text, err := os.ReadFile(filepath.Join("testdata", "nightaudit.yaml"))
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// command checks the number of arguments (-1 is at least one, but for simulate)
// and forbids the "!" before it.
func command(n int, run func(*testscript.TestScript, *world, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || n >= 0 && len(args) != n {
			ts.Fatalf("wrong use; see TestScripts")
		}
		run(ts, ts.Value(worldKey{}).(*world), args)
	}
}

func cmdEdit(ts *testscript.TestScript, _ *world, args []string) {
	path, text := ts.MkAbs(args[0]), ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s holds no %q:\n%s", args[0], args[1], text)
	}
	ts.Check(os.WriteFile(path, []byte(strings.Replace(text, args[1], args[2], 1)), 0o600))
}

func cmdExits(ts *testscript.TestScript, w *world, args []string) {
	began := time.Now()
	err := ts.Exec(args[1], args[2:]...)
	w.took = time.Since(began)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != number(ts, args[0]) {
		ts.Fatalf("exit code: got %d, want %s", code, args[0])
	}
}

func cmdTook(ts *testscript.TestScript, w *world, args []string) {
	most, err := time.ParseDuration(args[0])
	ts.Check(err)
	if w.took > most {
		ts.Fatalf("took %s, want at most %s", w.took, most)
	}
}

func cmdSignal(ts *testscript.TestScript, w *world, args []string) {
	running := ts.BackgroundCmds()
	if len(running) == 0 {
		ts.Fatalf("nothing runs in the background")
	}
	w.signalled = running[len(running)-1]
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	sig, known := signals[args[0]]
	if !known {
		ts.Fatalf("unknown signal %s", args[0])
	}
	ts.Check(w.signalled.Process.Signal(sig))
}

func cmdExited(ts *testscript.TestScript, w *world, args []string) {
	if w.signalled == nil || w.signalled.ProcessState == nil {
		ts.Fatalf("use signal and wait first")
	}
	if code := w.signalled.ProcessState.ExitCode(); code != number(ts, args[0]) {
		ts.Fatalf("exit code after the signal: got %d (%s), want %s", code, w.signalled.ProcessState, args[0])
	}
}

func cmdAppears(ts *testscript.TestScript, _ *world, args []string) {
	path, text := ts.MkAbs(args[0]), ""
	eventually(ts, func() bool {
		read, err := os.ReadFile(path)
		text = string(read)
		return err == nil && strings.Contains(text, args[1])
	}, func() string { return fmt.Sprintf("%s holds %q; want %q", args[0], text, args[1]) })
}

// eventually looks again and again for a minute.
func eventually(ts *testscript.TestScript, ok func() bool, otherwise func() string) {
	for began := time.Now(); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			ts.Fatalf("waited a minute: %s", otherwise())
		}
	}
}

// driftSchema is the schema of the drift report.
var driftSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return c.Compile(filepath.Join("..", "..", "docs", "drift-report.schema.json"))
})

func cmdValid(ts *testscript.TestScript, _ *world, args []string) {
	schema, err := driftSchema()
	ts.Check(err)
	text := ts.ReadFile(args[0])
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		ts.Fatalf("%s is no JSON: %v\n%s", args[0], err, text)
	}
	if err := schema.Validate(value); err != nil {
		ts.Fatalf("%s is no drift report: %v\n%s", args[0], err, text)
	}
}

// cmdJSON compares the JSON of the value at a path with what is wanted.
func cmdJSON(ts *testscript.TestScript, _ *world, args []string) {
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		ts.Fatalf("%s is no JSON: %v", args[0], err)
	}
	for step := range strings.SplitSeq(args[1], ".") {
		var found bool
		if value, found = member(value, step); !found {
			ts.Fatalf("%s has no %s (at %s)", args[0], args[1], step)
		}
	}
	var got bytes.Buffer
	encoder := json.NewEncoder(&got)
	encoder.SetEscapeHTML(false)
	ts.Check(encoder.Encode(value))
	if text := strings.TrimSpace(got.String()); text != args[2] {
		ts.Fatalf("%s, %s: got %s, want %s", args[0], args[1], text, args[2])
	}
}

// member is a step into a JSON value: a key, an index, or "len".
func member(value any, step string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		inner, found := v[step]
		return inner, found
	case []any:
		if step == "len" {
			return len(v), true
		}
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	default:
		return nil, false
	}
}

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}
