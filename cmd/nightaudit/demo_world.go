package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/simulator"
	"github.com/nightaudit/nightaudit/store/embedded"
)

// A demoWorld is what the demo happens in: a Postgres with the shop's database,
// and two servers on loopback that play Stripe and the shop. Nothing of it lies
// outside its folder.
type demoWorld struct {
	log  *slog.Logger
	keep bool

	dir     string // "" when there is none
	config  string // the config file in it
	server  *embedded.Server
	shop    *pgxpool.Pool // the shop's database, as its owner
	stripe  *simulator.Stripe
	app     *simulator.App
	servers []*http.Server
	plan    demoPlan
}

// build makes the world in its folder, and tells what went wrong in it.
func (w *demoWorld) build(ctx context.Context, events int, tell *story) error {
	if err := w.startPostgres(ctx, tell); err != nil {
		return err
	}
	stripe, shop, err := listenTwice()
	if err != nil {
		return err
	}
	w.stripe = simulator.NewStripe(simulator.StripeOptions{Seed: demoSeed})
	w.plan = plant(w.stripe, origin(shop), events, time.Now())
	w.app = simulator.NewApp(simulator.AppOptions{Pool: w.shop, KeepRequests: -1,
		Secrets: []string{w.plan.webhooks.Secret, w.plan.disputes.Secret}})
	w.serve(stripe, w.stripe)
	w.serve(shop, w.app)
	if err := w.liveThroughIt(ctx); err != nil {
		return err
	}
	tell.planted(w.plan)
	if tell.err != nil {
		return tell.err
	}
	return w.writeConfig(origin(stripe))
}

// makeFolder makes the world's folder, which comes first. As root, others may pass
// through it: the Postgres runs as another user.
func (w *demoWorld) makeFolder() (err error) {
	w.dir, err = os.MkdirTemp("", "nightaudit-demo-*")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w; set TMPDIR to a folder that takes one", err)
	}
	if os.Geteuid() == 0 {
		return os.Chmod(w.dir, 0o711) //nolint:gosec // to pass, not to read
	}
	return nil
}

// patience is how long a Postgres may take to start before the reader is told
// what it may be at.
const patience = 8 * time.Second

// startPostgres starts a server of the demo's own and gives the shop a database
// on it. reconcile keeps its memory on the same server, as the config says.
func (w *demoWorld) startPostgres(ctx context.Context, tell *story) (err error) {
	slow := time.AfterFunc(patience, tell.slowPostgres)
	defer slow.Stop()
	w.server, err = embedded.Start(ctx, embedded.Options{Dir: w.stateDir(), Ephemeral: !w.keep, Log: w.log})
	if err != nil {
		return err
	}
	admin, err := connect(ctx, w.server.URL(""))
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, `CREATE DATABASE shop`); err != nil {
		return fmt.Errorf("creating the shop's database: %w", err)
	}
	if w.shop, err = connect(ctx, w.server.URL("shop")); err != nil {
		return err
	}
	if err := simulator.CreateTables(ctx, w.shop); err != nil {
		return err
	}
	if _, err := w.shop.Exec(ctx, readerSQL); err != nil {
		return fmt.Errorf("creating the role that only reads: %w", err)
	}
	return nil
}

func (w *demoWorld) stateDir() string { return filepath.Join(w.dir, demoStateDir) }

// readerSQL makes the role that reconcile reads the shop's ledger as.
const readerSQL = `
CREATE ROLE ` + demoReader + ` LOGIN;
ALTER ROLE ` + demoReader + ` SET default_transaction_read_only = on;
GRANT USAGE ON SCHEMA public TO ` + demoReader + `;
GRANT SELECT ON public.processed_events TO ` + demoReader

// listenTwice opens the two addresses of the world, which this machine alone can
// reach.
func listenTwice() (stripe, shop net.Listener, err error) {
	if stripe, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, fmt.Errorf("listening on loopback: %w", err)
	}
	if shop, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listening on loopback: %w", err), stripe.Close())
	}
	return stripe, shop, nil
}

func origin(l net.Listener) string { return "http://" + l.Addr().String() }

// serve answers on l until stop.
func (w *demoWorld) serve(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	w.servers = append(w.servers, server)
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("demo's server ended", "addr", l.Addr().String(), "err", err)
		}
	}()
}

// writeConfig writes the config that reconcile is run with, and the secrets that
// it names, which are as fake as all else.
func (w *demoWorld) writeConfig(stripe string) error {
	reader, err := url.Parse(w.server.URL("shop"))
	if err != nil {
		return err
	}
	reader.User = url.User(demoReader)
	w.config = filepath.Join(w.dir, "nightaudit.yaml")
	for path, text := range map[string]string{
		w.config:                         fmt.Sprintf(demoConfig, reader, stripe, w.plan.webhooks.URL, w.plan.disputes.URL),
		filepath.Join(w.dir, "api_key"):  simulator.DefaultKey,
		filepath.Join(w.dir, "webhooks"): w.plan.webhooks.Secret,
		filepath.Join(w.dir, "disputes"): w.plan.disputes.Secret,
	} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			return fmt.Errorf("writing the demo's config: %w", err)
		}
	}
	return nil
}

const (
	demoStateDir = "state"
	demoReader   = "nightaudit_reader"
)

// demoConfig is the config of a source that is read and written on this machine
// alone, so that no rate needs to be kept low.
const demoConfig = `# What nightaudit demo ran with. The fake Stripe and the fake shop ended with it;
# the database is the one of that night.
database: { url: embedded, state_dir: ` + demoStateDir + ` }
databases: { shop: { url: "%s" } }
sources:
  - name: demo-shop
    provider: stripe
    base_url: %s
    credentials: { api_key: { file: api_key } }
    rate: 1000/s
    endpoints:
      - { url: "%s", secrets: [ { file: webhooks } ] }
      - { url: "%s", secrets: [ { file: disputes } ] }
    ledger:
      database: shop
      table: public.processed_events
      key: { event_id: event.id }
      type: event_type
      handled_at: handled_at
      done: "status = 'done'"
    replay: { mode: report, rate: 1000/s }`

// stop ends all that runs. It may be called at any point of build.
func (w *demoWorld) stop() error {
	var errs []error
	for _, s := range w.servers {
		errs = append(errs, s.Close())
	}
	if w.app != nil {
		w.app.Close()
	}
	if w.shop != nil {
		w.shop.Close()
	}
	if w.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		errs = append(errs, w.server.Stop(ctx))
	}
	return errors.Join(errs...)
}

// remove deletes the folder. What a download that was broken off still writes
// can come in between.
func (w *demoWorld) remove() error {
	if w.dir == "" {
		return nil
	}
	var err error
	for range 5 {
		if err = os.RemoveAll(w.dir); err != nil {
			continue
		}
		if _, err := os.Lstat(w.dir); errors.Is(err, fs.ErrNotExist) {
			w.dir = ""
			return nil
		}
	}
	return fmt.Errorf("removing the demo's folder: %w; remove %s by hand", err, w.dir)
}
