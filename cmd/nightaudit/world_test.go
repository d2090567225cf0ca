package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/internal/simulator"
)

type worldKey struct{}

// A world is what one script runs in.
type world struct {
	t         testing.TB
	own       string           // nightaudit's database; "" until something is simulated
	sides     map[string]*side // by prefix
	took      time.Duration
	signalled *exec.Cmd
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{t: t, sides: make(map[string]*side)}
}

// A side is a fake Stripe account with the application that gets its webhooks.
type side struct {
	stripe       *simulator.Stripe
	stripeServer *httptest.Server
	app          *simulator.App
	appServer    *httptest.Server
	key          string
	endpoint     simulator.Endpoint
	pool         *pgxpool.Pool // of the application, as its owner
	readOnly     string        // URL of a role that may read the ledger

	mu       sync.Mutex
	held     chan struct{} // closed by "go"
	heldPost int           // posts from this one on wait for held; 0 is none
	posted   int
}

type sideOptions struct {
	prefix, types, key, grant string
	events, drop              int
}

func cmdSimulate(ts *testscript.TestScript, w *world, args []string) {
	var o sideOptions
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.prefix, "as", "", "")
	flags.StringVar(&o.types, "types", "invoice.paid,charge.succeeded", "")
	flags.StringVar(&o.key, "key", simulator.DefaultKey, "")
	flags.StringVar(&o.grant, "grant", "", "")
	flags.IntVar(&o.events, "events", 12, "")
	flags.IntVar(&o.drop, "drop", 0, "")
	ts.Check(flags.Parse(args))
	if w.own == "" {
		w.own = pgtest.URL(w.t)
		ts.Setenv("DATABASE_URL", w.own)
	}
	s := newSide(w.t, o)
	w.sides[o.prefix] = s
	prefix := o.prefix
	if prefix != "" {
		prefix += "_"
	}
	for name, value := range map[string]string{
		"SIM": s.stripeServer.URL, "KEY": s.key, "APP": s.endpoint.URL, "SECRET": s.endpoint.Secret,
		"ENDPOINT": s.endpoint.ID, "APP_DATABASE_URL": s.readOnly,
	} {
		ts.Setenv(prefix+name, value)
	}
}

func newSide(t testing.TB, o sideOptions) *side {
	t.Helper()
	database := pgtest.URL(t)
	key := simulator.Key{Secret: o.key}
	if o.grant != "" {
		key.Permissions = strings.Split(o.grant, ",")
	}
	s := &side{key: o.key, pool: pgtest.Connect(t, database), held: make(chan struct{}),
		stripe: simulator.NewStripe(simulator.StripeOptions{Keys: []simulator.Key{key}, Seed: uint64(len(o.prefix))})}
	if err := simulator.CreateTables(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	s.readOnly = pgtest.ReadOnlyURL(t, database, "public.processed_events")
	s.serve(t)
	end := time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second)
	s.endpoint = s.stripe.AddEndpoint(simulator.Endpoint{URL: s.appServer.URL + "/webhooks/stripe", Created: end.AddDate(-1, 0, 0)})
	s.app = simulator.NewApp(simulator.AppOptions{Pool: s.pool, Secrets: []string{s.endpoint.Secret}})
	t.Cleanup(s.app.Close)
	s.stripe.AddHistory(simulator.History{Seed: uint64(len(o.prefix)), N: o.events, From: end.AddDate(0, 0, -2), To: end,
		Types: strings.Split(o.types, ",")})
	s.handleAllBut(t, o.drop)
	return s
}

// serve answers on loopback; requests that are held end with the test.
func (s *side) serve(t testing.TB) {
	t.Helper()
	s.stripeServer = httptest.NewServer(s.stripe)
	s.appServer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.app.ServeHTTP(w, r) }))
	t.Cleanup(func() {
		s.letGo()
		s.stripeServer.CloseClientConnections()
		s.stripeServer.Close()
		s.appServer.CloseClientConnections()
		s.appServer.Close()
	})
}

// handleAllBut lets the application have handled all but the newest events.
func (s *side) handleAllBut(t testing.TB, newest int) {
	t.Helper()
	all := slices.Collect(s.stripe.All(""))
	handled := all[:len(all)-newest]
	for _, e := range handled {
		s.stripe.Acknowledge(e)
	}
	if _, err := s.stripe.Backfill(t.Context(), s.pool, slices.Values(handled)); err != nil {
		t.Fatal(err)
	}
}

func (s *side) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.held)
	s.held, s.heldPost = make(chan struct{}), 0
}

// fault holds posts from a certain one on.
func (s *side) fault(string) simulator.AppFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posted++
	if s.heldPost == 0 || s.posted < s.heldPost {
		return simulator.AppFault{}
	}
	return simulator.AppFault{Hold: s.held}
}

// side takes "-as P" off the arguments.
func (w *world) side(ts *testscript.TestScript, args []string) (*side, []string) {
	prefix := ""
	if len(args) > 2 && args[0] == "-as" {
		prefix, args = args[1], args[2:]
	}
	s := w.sides[prefix]
	if s == nil || len(args) == 0 {
		ts.Fatalf("simulate first, then say what to change")
	}
	return s, args
}

func cmdStripe(ts *testscript.TestScript, w *world, args []string) {
	s, args := w.side(ts, args)
	if !s.changeStripe(args[0], args[1:]) {
		ts.Fatalf("unknown: stripe %s", strings.Join(args, " "))
	}
}

func (s *side) changeStripe(verb string, args []string) bool {
	switch verb {
	case "revoke": // the key
		s.stripe.RevokeKey(s.key)
	case "grant": // the key these permissions and no other
		s.stripe.SetKey(simulator.Key{Secret: s.key, Permissions: args})
	case "echo": // a 401 that repeats the key and a request's header
		s.stripe.Intercept(func(simulator.Request) *simulator.Answer {
			return &simulator.Answer{Status: http.StatusUnauthorized, Header: http.Header{"Content-Type": {"application/json"}},
				Body: fmt.Sprintf(`{"error":{"type":"invalid_request_error","message":"Invalid API Key provided: %s (Bearer %[1]s)"}}`, s.key)}
		})
	case "garbage": // pages that are no JSON
		s.stripe.FailPages(1, -1, simulator.Garbage())
	case "unreadable": // one event that cannot be decoded, beside the others
		s.stripe.SetFaults(simulator.Faults{BadElement: []byte(`{"id":"evt_bad","object":"event","created":"yesterday"}`)})
	case "hostile": // the same, with an id that would clear a terminal and turn the writing
		s.stripe.SetFaults(simulator.Faults{BadElement: []byte(`{"id":"evt_\u001b[2J\u202e\u009b","object":"event","created":"yesterday"}`)})
	case "empty": // nothing is listed
		s.stripe.SetFaults(simulator.Faults{EmptyAccounts: []string{""}})
	case "disable":
		s.stripe.DisableEndpoint(s.endpoint.ID)
	case "elsewhere": // the endpoint's URL
		s.stripe.UpdateURL(s.endpoint.ID, args[0])
	case "hold": // every request, until "go"
		s.mu.Lock()
		held := s.held
		s.mu.Unlock()
		s.stripe.Intercept(func(simulator.Request) *simulator.Answer { return &simulator.Answer{Hold: held, Pass: true} })
	case "go":
		s.letGo()
	case "right": // ends all faults
		s.stripe.ClearFaults()
	case "down": // nothing answers at its address any more
		s.stripeServer.CloseClientConnections()
		s.stripeServer.Close()
	default:
		return false
	}
	return true
}

func cmdApp(ts *testscript.TestScript, w *world, args []string) {
	s, args := w.side(ts, args)
	if !s.changeApp(args[0], args[1:]) {
		ts.Fatalf("unknown: app %s", strings.Join(args, " "))
	}
}

func (s *side) changeApp(verb string, args []string) bool {
	switch verb {
	case "redirect":
		s.app.SetFault(simulator.Redirect(http.StatusFound, "/login?token="+s.endpoint.Secret))
	case "refuse": // for good
		s.app.SetFault(simulator.Refuse(http.StatusUnprocessableEntity))
	case "fail": // for now
		s.app.SetFault(simulator.Refuse(http.StatusInternalServerError))
	case "forget": // answers 200 and records nothing
		s.app.SetFault(simulator.AppFault{Record: simulator.RecordNothing})
	case "hold": // the posts from number N on
		s.mu.Lock()
		_, _ = fmt.Sscan(args[0], &s.heldPost) // nonsense holds none, and the script fails
		s.mu.Unlock()
		s.app.SetFaults(s.fault)
	case "go":
		s.letGo()
	case "down":
		s.appServer.CloseClientConnections()
		s.appServer.Close()
	case "right":
		s.app.SetFault(simulator.AppFault{})
	default:
		return false
	}
	return true
}

// cmdSQL runs SQL; a query's rows are written to stdout.
func cmdSQL(ts *testscript.TestScript, w *world, args []string) {
	database := w.own
	if args[0] == "app" {
		s, _ := w.side(ts, args)
		database = s.pool.Config().ConnString()
	}
	conn, err := pgx.Connect(w.t.Context(), database)
	ts.Check(err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(w.t.Context(), args[1])
	ts.Check(err)
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return strings.Trim(fmt.Sprint(values), "[]"), err
	})
	ts.Check(err)
	for _, line := range lines {
		fmt.Fprintln(ts.Stdout(), line)
	}
}

// asked is how much Stripe or the application was asked.
func (w *world) asked(ts *testscript.TestScript, what string) int {
	s, _ := w.side(ts, []string{what})
	switch what {
	case "requests":
		return s.stripe.Stats().Requests
	case "posts":
		return s.app.Received()
	}
	ts.Fatalf("unknown count %s", what)
	return 0
}

func cmdUntil(ts *testscript.TestScript, w *world, args []string) {
	what, want := args[0], number(ts, args[1])
	eventually(ts, func() bool { return w.asked(ts, what) >= want },
		func() string { return fmt.Sprintf("%s: got %d, want %d", what, w.asked(ts, what), want) })
}

func cmdRequests(ts *testscript.TestScript, w *world, args []string) {
	same(ts, w, "requests", args[0])
}

func cmdPosts(ts *testscript.TestScript, w *world, args []string) { same(ts, w, "posts", args[0]) }

func same(ts *testscript.TestScript, w *world, what, want string) {
	if got := w.asked(ts, what); got != number(ts, want) {
		ts.Fatalf("%s: got %d, want %s", what, got, want)
	}
}

// storedSQL is all that nightaudit's database holds, but for what the provider
// shows of its endpoints: their URLs are how they are known again.
const storedSQL = `
SELECT coalesce(string_agg(query_to_xml(format('SELECT * FROM %I.%I', schemaname, tablename), true, false, '')::text, ''), '')
FROM pg_tables
WHERE schemaname = 'nightaudit' AND tablename <> 'endpoint_looks'`

func cmdSecretless(ts *testscript.TestScript, w *world, args []string) {
	texts := make(map[string]string)
	for _, file := range args {
		texts[file] = ts.ReadFile(file)
	}
	if w.own != "" {
		conn, err := pgx.Connect(w.t.Context(), w.own)
		ts.Check(err)
		defer func() { _ = conn.Close(context.Background()) }()
		var stored string
		ts.Check(conn.QueryRow(w.t.Context(), storedSQL).Scan(&stored))
		texts["the database"] = stored
	}
	for place, text := range texts {
		for _, secret := range w.secrets(ts) {
			if strings.Contains(text, secret) {
				ts.Fatalf("%s holds the secret %q:\n%s", place, secret, text)
			}
		}
	}
}

// secrets are those of all sides, and SECRETS, separated by blanks.
func (w *world) secrets(ts *testscript.TestScript) []string {
	all := strings.Fields(ts.Getenv("SECRETS"))
	for _, s := range w.sides {
		all = append(all, s.key, s.endpoint.Secret)
		if u, err := url.Parse(s.readOnly); err == nil {
			password, _ := u.User.Password()
			all = append(all, password)
		}
	}
	return all
}
