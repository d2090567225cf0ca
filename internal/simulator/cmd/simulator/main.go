// Command simulator serves a fake Stripe with a history of events and, given a
// database, a fake application that handled most of them. It prints one line of
// JSON with the addresses when both are ready, and serves until it is killed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/nightaudit/nightaudit/internal/simulator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "simulator:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	listen, appListen string
	events, days      int
	seed              uint64
	to                string
	databaseURL       string
	drop              float64
	pageDelay         time.Duration
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("simulator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "address of the fake Stripe")
	flags.StringVar(&o.appListen, "app-listen", "127.0.0.1:0", "address of the fake application")
	flags.IntVar(&o.events, "events", 1000, "how many events Stripe has")
	flags.IntVar(&o.days, "days", 3, "over how many days they spread; Stripe lists 30")
	flags.Uint64Var(&o.seed, "seed", 1, "varies the events and which are dropped")
	flags.StringVar(&o.to, "to", "", "RFC 3339 instant that all events come before; empty is two hours ago, so that all are old enough to be judged")
	flags.StringVar(&o.databaseURL, "database-url", "", "the application's database; empty starts no application")
	flags.Float64Var(&o.drop, "drop", 0, "ratio of the events, 0 to 1, that the application never got")
	flags.DurationVar(&o.pageDelay, "page-delay", 0, "how long Stripe takes for a page")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.events < 0 || o.days < 1 || o.drop < 0 || o.drop > 1 {
		return o, errors.New("--events cannot be negative, --days must be at least 1, and --drop lies between 0 and 1")
	}
	return o, nil
}

// end is the instant that all events come before.
func (o options) end() (time.Time, error) {
	if o.to == "" {
		return time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second), nil
	}
	to, err := time.Parse(time.RFC3339, o.to)
	if err != nil {
		return time.Time{}, fmt.Errorf("--to: %w; write it like 2026-01-31T00:00:00Z", err)
	}
	return to.UTC(), nil
}

// ready is the line that says where everything is.
type ready struct {
	StripeURL string    `json:"stripe_url"`
	Key       string    `json:"key"`
	AppURL    string    `json:"app_url,omitempty"`
	Secret    string    `json:"secret"`
	Endpoint  string    `json:"endpoint"`
	Events    int       `json:"events"`
	Recorded  int64     `json:"recorded"` // in the application's ledger by this start
	Dropped   int       `json:"dropped"`
	From      time.Time `json:"from"` // the events lie in [from, to)
	To        time.Time `json:"to"`
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	to, err := o.end()
	if err != nil {
		return err
	}
	stripeListener, appListener, err := listen(o)
	if err != nil {
		return err
	}
	line := ready{StripeURL: "http://" + stripeListener.Addr().String(), Key: simulator.DefaultKey,
		AppURL: "http://" + appListener.Addr().String() + "/webhooks/stripe",
		Events: o.events, From: to.AddDate(0, 0, -o.days), To: to}
	stripe, endpoint := newStripe(o, line)
	line.Secret, line.Endpoint = endpoint.Secret, endpoint.ID

	var g errgroup.Group
	serve(ctx, &g, stripeListener, stripe)
	if o.databaseURL == "" {
		line.AppURL = ""
		_ = appListener.Close() // nothing was served on it
	} else {
		app, closeApp, err := newApp(ctx, o, stripe, &line)
		if err != nil {
			return err
		}
		defer closeApp()
		serve(ctx, &g, appListener, app)
	}
	if err := json.NewEncoder(stdout).Encode(line); err != nil {
		return fmt.Errorf("printing the addresses: %w", err)
	}
	return g.Wait()
}

func listen(o options) (stripe, app net.Listener, err error) {
	if stripe, err = net.Listen("tcp", o.listen); err != nil {
		return nil, nil, fmt.Errorf("listening for Stripe on %s: %w", o.listen, err)
	}
	if app, err = net.Listen("tcp", o.appListen); err != nil {
		return nil, nil, fmt.Errorf("listening for the application on %s: %w", o.appListen, err)
	}
	return stripe, app, nil
}

// newStripe has the history, and an endpoint that is older than it.
func newStripe(o options, line ready) (*simulator.Stripe, simulator.Endpoint) {
	s := simulator.NewStripe(simulator.StripeOptions{Seed: o.seed})
	endpoint := s.AddEndpoint(simulator.Endpoint{URL: line.AppURL, Created: line.From.AddDate(-1, 0, 0)})
	s.AddHistory(simulator.History{Seed: o.seed, N: o.events, From: line.From, To: line.To})
	s.SetFaults(simulator.Faults{PageDelay: o.pageDelay})
	return s, endpoint
}

// newApp is an application that has handled the events that were not dropped.
func newApp(ctx context.Context, o options, s *simulator.Stripe, line *ready) (*simulator.App, func(), error) {
	pool, err := pgxpool.New(ctx, o.databaseURL)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the application's database: %w", err)
	}
	if err := simulator.CreateTables(ctx, pool); err != nil {
		pool.Close()
		return nil, nil, err
	}
	if line.Recorded, err = s.Backfill(ctx, pool, delivered(s, o, &line.Dropped)); err != nil {
		pool.Close()
		return nil, nil, err
	}
	app := simulator.NewApp(simulator.AppOptions{Pool: pool, Secrets: []string{line.Secret}, KeepRequests: -1})
	return app, func() { app.Close(); pool.Close() }, nil
}

// delivered are the events that were not dropped, acknowledged as they pass;
// dropped counts the others.
func delivered(s *simulator.Stripe, o options, dropped *int) iter.Seq[simulator.Event] {
	drop := simulator.DropRatio(o.seed, o.drop)
	return func(yield func(simulator.Event) bool) {
		for e := range s.All("") {
			if drop(e) {
				*dropped++
				continue
			}
			s.Acknowledge(e)
			if !yield(e) {
				return
			}
		}
	}
}

// serve answers on l until ctx ends.
func serve(ctx context.Context, g *errgroup.Group, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving on %s: %w", l.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}
