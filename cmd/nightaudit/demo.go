package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/reconcile"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	events         int
	keep           bool
	output, report string
}

func newDemo(g *globals) *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "See lost webhooks found and repaired on this machine; needs no account and no config",
		Long: "Demo plays three days of a shop whose Stripe webhooks got lost in all the usual ways, and lets reconcile\n" +
			"find and repair them. The Postgres is a real one, in a temporary folder; Stripe and the shop are fakes that\n" +
			"answer on this machine alone. What the demo says is checked against the shop's own tables.\n\n" +
			"Exit codes: 0 all went as told; 1 something did not; 3 bad usage; 5 interrupted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), g, o) },
	}
	f := c.Flags()
	f.IntVar(&o.events, "events", 3000, "how many events Stripe has; never fewer than the 8 that the demo needs")
	f.BoolVar(&o.keep, "keep", false, "keep the database, the config and the report, to look further")
	f.StringVar(&o.output, "output", "text", "what stdout gets: text, or json for the drift report alone")
	f.StringVar(&o.report, "report", "", "write the drift report as JSON to this file instead of a temporary one")
	return c
}

// mostEvents is what fits into memory everywhere: the fake Stripe has no disk.
const mostEvents = 1_000_000

func (o demoOptions) check() error {
	switch {
	case o.events < 1:
		return &usageError{fmt.Errorf("--events %d: write a number from 1 up, like 3000", o.events)}
	case o.events > mostEvents:
		return &usageError{fmt.Errorf("--events %d: the fake Stripe keeps them in memory; write at most %d", o.events, mostEvents)}
	}
	if err := checkOutput(o.output); err != nil {
		return err
	}
	return reportPlace(o.report)
}

// runDemo plays the demo, and leaves nothing behind but the report; if it is told
// to stop, not even that.
func runDemo(ctx context.Context, g *globals, o demoOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	log, err := g.logger(slog.LevelWarn)
	if err != nil {
		return err
	}
	// A reader that leaves early, as head does, must not end the demo before it has
	// tidied up: what it writes fails instead.
	signal.Ignore(syscall.SIGPIPE)
	d := &demo{globals: g, options: o, log: log, story: newStory(g.edge, o.output),
		world: &demoWorld{log: log, keep: o.keep}}
	err = d.play(ctx)
	stopped := err != nil && ctx.Err() != nil
	d.kept = o.keep && !stopped && d.world.dir != ""
	err = errors.Join(err, d.tidy(err == nil))
	switch {
	case err == nil:
		d.story.farewell(d)
		return d.story.err
	case stopped && d.world.dir == "":
		return errors.New("the demo was stopped; nothing of it is left")
	case d.kept:
		return fmt.Errorf("%w; what there is of the demo is kept in %s", err, d.world.dir)
	default:
		return err
	}
}

// A demo is one call of the command.
type demo struct {
	globals *globals
	options demoOptions
	log     *slog.Logger
	story   *story
	world   *demoWorld
	report  string // the file of the drift report; "" when there is none
	kept    bool   // the world's folder stays
}

// play is the demo from the first line to the last:
//
//	build   a Postgres, a fake Stripe with a history, a shop that lost some of it
//	night   reconcile --repair, and what it found held against what was planted
//	night   the same days once more, when a person has done what only a person can
func (d *demo) play(ctx context.Context) error {
	if err := d.world.makeFolder(); err != nil {
		return err
	}
	// What a library leaves in the temporary folder goes with the world's.
	if err := os.Setenv("TMPDIR", d.world.dir); err != nil {
		return err
	}
	d.story.title()
	if err := d.world.build(ctx, d.options.events, d.story); err != nil {
		return err
	}
	first, err := d.firstNight(ctx)
	if err != nil {
		return err
	}
	second, err := d.secondNight(ctx, first)
	if err != nil {
		return err
	}
	d.story.secondNight(second)
	return d.story.err
}

// firstNight finds and repairs what is lost.
func (d *demo) firstNight(ctx context.Context) (*reconcile.Document, error) {
	doc, err := d.night(ctx, reconcileOptions{repair: true})
	if err != nil {
		return nil, err
	}
	if err := d.writeReport(doc); err != nil {
		return nil, err
	}
	verified, err := d.world.checkFirstNight(ctx, doc)
	if err != nil {
		return nil, err
	}
	d.story.firstNight(doc, verified, d.report)
	if d.options.output == "text" {
		d.story.say("")
	}
	if d.story.err != nil {
		return nil, d.story.err
	}
	return doc, show(d.globals.edge, doc, d.options.output, time.UTC)
}

// secondNight lists the same three days once more: nothing is left to do.
func (d *demo) secondNight(ctx context.Context, first *reconcile.Document) (*reconcile.Document, error) {
	d.world.stripe.EnableEndpoint(d.world.plan.disputes.ID)
	sent := d.world.app.Received()
	since := first.Sources[0].Streams[0].Window.From.Format(time.RFC3339)
	doc, err := d.night(ctx, reconcileOptions{repair: true, since: since})
	if err != nil {
		return nil, err
	}
	if err := d.world.checkSecondNight(ctx, first, doc, sent); err != nil {
		return nil, err
	}
	return doc, nil
}

// night is `nightaudit reconcile` with the demo's config, from the file to the
// drift report.
func (d *demo) night(ctx context.Context, o reconcileOptions) (*reconcile.Document, error) {
	g := &globals{config: d.world.config, edge: d.globals.edge}
	c, err := g.load()
	if err != nil {
		return nil, err
	}
	places, err := indexes(c, nil)
	if err != nil {
		return nil, err
	}
	options, err := o.options(time.Now(), c.Timezone, io.Discard)
	if err != nil {
		return nil, err
	}
	s, err := newSession(ctx, c, d.log, true)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	progress := newProgress(g.edge, d.options.output)
	defer progress.stop()
	options.Log, options.Progress = d.log, progress.tell
	n := &night{session: s, options: options}
	n.sources(ctx, places)
	return n.document(false), ctx.Err()
}

// writeReport puts the drift report where a person can open it. Where it goes to
// stdout, a file is written only if one is named or all is kept.
func (d *demo) writeReport(doc *reconcile.Document) error {
	path := d.options.report
	switch {
	case path != "":
	case d.options.keep:
		path = filepath.Join(d.world.dir, "report.json")
	case d.options.output == "json":
		return nil
	default:
		f, err := os.CreateTemp(filepath.Dir(d.world.dir), "nightaudit-demo-*.json")
		if err != nil {
			return fmt.Errorf("making a file for the report: %w; name one with --report", err)
		}
		path = f.Name()
		d.report = path
		if err := f.Close(); err != nil {
			return fmt.Errorf("making a file for the report: %w", err)
		}
	}
	d.report = path
	return reconcile.WriteReport(path, doc)
}

// tidy ends all that the demo started, and removes it unless it is to be kept;
// the report stays if all went well. A second signal does not keep it from that.
func (d *demo) tidy(well bool) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	err := d.world.stop()
	if d.kept {
		return err
	}
	if !well && d.report != "" && d.report != d.options.report {
		err = errors.Join(err, os.Remove(d.report))
	}
	return errors.Join(err, d.world.remove())
}
