package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

// reconcileOptions are the flags of reconcile.
type reconcileOptions struct {
	sources      []string
	since, until string
	dryRun       bool
	repair       bool
	release      bool
	wait         time.Duration
	output       string
	report       string
	zeroOnDrift  bool
}

func newReconcile(g *globals) *cobra.Command {
	var o reconcileOptions
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Find what was lost, and repair it where the config or --repair says so",
		Long: "Reconcile lists what each source says happened since its watermark, compares that with the ledger, and\n" +
			"reports. Sources in mode auto, and all with --repair, have what is missing replayed and verified.\n\n" +
			"Exit codes: 0 in sync, or all repaired and verified; 1 incomplete, failed, held, or a new gap;\n" +
			"2 drift remains; 3 bad usage or config; 4 another run is going on; 5 interrupted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runReconcile(cmd.Context(), g, o) },
	}
	f := c.Flags()
	f.StringArrayVar(&o.sources, "source", nil, "only this source; may be given several times")
	f.StringVar(&o.since, "since", "", "begin here instead of at the watermark: "+momentForms)
	f.StringVar(&o.until, "until", "", "end here instead of at now less window.settle")
	f.BoolVar(&o.dryRun, "dry-run", false, "compare and report; write nothing but the run itself")
	f.BoolVar(&o.repair, "repair", false, "replay what is missing, also in mode report")
	f.BoolVar(&o.release, "release", false, "replay what the gate held; needs --source")
	f.DurationVar(&o.wait, "wait", 15*time.Minute, "how long to wait for replays and their verification")
	f.StringVar(&o.output, "output", "text", "what stdout gets: text or json")
	f.StringVar(&o.report, "report", "", "write the drift report as JSON to this file too")
	f.BoolVar(&o.zeroOnDrift, "exit-zero-on-drift", false, "exit 0 when nothing is left but drift that a later run may repair")
	return c
}

// check refuses flags that make no sense together.
func (o reconcileOptions) check() error {
	switch {
	case o.release && len(o.sources) == 0:
		return &usageError{errors.New("--release needs --source: look at what is held, then release that source")}
	case o.release && o.dryRun, o.repair && o.dryRun:
		return &usageError{errors.New("--dry-run sends nothing: leave out --repair and --release")}
	case o.wait <= 0:
		return &usageError{errors.New("--wait must be positive, like 15m")}
	}
	return checkOutput(o.output)
}

// runReconcile makes one run of each source, one after the other: a source that
// goes wrong costs nothing but itself.
func runReconcile(ctx context.Context, g *globals, o reconcileOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := reportPlace(o.report); err != nil {
		return err
	}
	progress := newProgress(g.edge, o.output)
	defer progress.stop()
	log, err := g.logger(progress.logLevel())
	if err != nil {
		return err
	}
	c, err := g.load()
	if err != nil {
		return err
	}
	places, err := indexes(c, o.sources)
	if err != nil {
		return err
	}
	options, err := o.options(time.Now(), c.Timezone, g.edge.stderr())
	if err != nil {
		return err
	}
	s, err := newSession(ctx, c, log, true)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	options.Log, options.Progress = log, progress.tell
	night := &night{session: s, options: options}
	night.sources(ctx, places)
	progress.stop()
	return night.end(g.edge, o)
}

// options are those of every source's run. What a relative moment resolved to is
// said on stderr.
func (o reconcileOptions) options(now time.Time, zone *time.Location, stderr io.Writer) (reconcile.Options, error) {
	out := reconcile.Options{
		Hand: true, DryRun: o.dryRun, Repair: o.repair, Release: o.release, Wait: o.wait, Version: versionText(),
	}
	var err error
	for _, m := range []struct {
		flag, value string
		to          *time.Time
	}{{"--since", o.since, &out.Since}, {"--until", o.until, &out.Until}} {
		if m.value == "" {
			continue
		}
		if *m.to, err = parseMoment(m.flag, m.value, now, zone); err != nil {
			return out, err
		}
		fmt.Fprintf(stderr, "%s %s is %s\n", m.flag, m.value, m.to.Format(time.RFC3339))
	}
	if !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until) {
		return out, &usageError{errors.New("--until must lie after --since")}
	}
	return out, nil
}

// A night is one call of reconcile over its sources.
type night struct {
	session *session
	options reconcile.Options
	reports []*reconcile.Report
	skipped []reconcile.SkippedSource
	misuse  error // the first mistake in usage or config, for stderr
	stopped bool  // a source had no turn, since nightaudit was told to stop
}

// sources runs those at the places, one after the other. Once nightaudit is told
// to stop, the rest are skipped by name: a source that was not looked at must not
// look as if all were well.
func (n *night) sources(ctx context.Context, places []int) {
	for _, i := range places {
		if ctx.Err() != nil {
			n.stop(n.session.config.Sources[i].Name)
			continue
		}
		n.source(ctx, i)
	}
}

// stop notes a source that has no turn any more.
func (n *night) stop(name string) {
	n.stopped = true
	n.skipped = append(n.skipped, reconcile.SkippedSource{Source: name, Why: "nightaudit was told to stop before its turn"})
}

func (n *night) source(ctx context.Context, i int) {
	c := n.session.config.Sources[i]
	src, err := n.session.source(ctx, i)
	if err != nil {
		n.failed(ctx, c.Name, c.Provider, err)
		return
	}
	report, err := reconcile.Run(ctx, n.session.store, src, n.options)
	var held *store.HeldError
	switch {
	case errors.As(err, &held):
		n.skipped = append(n.skipped, reconcile.SkippedSource{Source: c.Name, Why: "another run of it is going on: " + held.Error()})
		return
	case err != nil && report == nil:
		n.failed(ctx, c.Name, c.Provider, err)
		return
	case err != nil && exitCode(ctx, err) == reconcile.ExitUsage:
		n.misuse = cmp.Or(n.misuse, err)
	case err != nil:
		n.session.log.ErrorContext(ctx, "report not stored", "source", c.Name, "err", err)
	}
	n.reports = append(n.reports, report)
}

// failed reports a source whose run could not begin. One that only a signal kept
// from it had no turn.
func (n *night) failed(ctx context.Context, name, kind string, err error) {
	misuse := exitCode(context.Background(), err) == reconcile.ExitUsage
	if ctx.Err() != nil && !misuse {
		n.stop(name)
		return
	}
	if misuse {
		n.misuse = cmp.Or(n.misuse, err)
	}
	why := redactor(n.session.config).String(err.Error())
	n.reports = append(n.reports, reconcile.Unopened(ctx, n.session.store, name, kind, why, misuse, n.options))
}

// document joins what the sources reported. A source without its turn interrupts
// the night, unless something worse is wrong with another.
func (n *night) document(zeroOnDrift bool) *reconcile.Document {
	doc := reconcile.NewDocument(n.reports, n.skipped, zeroOnDrift)
	if n.stopped && doc.ExitCode != reconcile.ExitUsage && doc.ExitCode != reconcile.ExitIncomplete {
		doc.Outcome, doc.ExitCode = store.Interrupted, reconcile.ExitInterrupted
	}
	return doc
}

// end writes the report and gives the exit code.
func (n *night) end(edge *edge, o reconcileOptions) error {
	doc := n.document(o.zeroOnDrift)
	var notWritten error
	if o.report != "" {
		if notWritten = reconcile.WriteReport(o.report, doc); notWritten != nil && doc.ExitCode != reconcile.ExitUsage {
			doc.ExitCode = reconcile.ExitIncomplete
		}
	}
	if err := show(edge, doc, o.output, n.session.config.Timezone); err != nil {
		return err
	}
	if notWritten != nil && doc.ExitCode == reconcile.ExitIncomplete {
		return notWritten
	}
	if n.misuse != nil && doc.ExitCode == reconcile.ExitUsage {
		return n.misuse
	}
	if doc.ExitCode != reconcile.ExitInSync {
		return exitError(doc.ExitCode)
	}
	return nil
}

// show writes a report to stdout.
func show(edge *edge, doc *reconcile.Document, output string, zone *time.Location) error {
	if output == "json" {
		return doc.WriteJSON(edge.stdout())
	}
	return doc.WriteText(edge.stdout(), reconcile.TextOptions{
		Width: width(edge.out), Color: terminal(edge.out) && !plain(), Zone: zone,
	})
}
