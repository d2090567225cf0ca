// Command nightaudit reconciles webhooks: it lists what the providers say
// happened, compares that with the application's own record, replays what is
// missing through the application's handler, and reports.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // zones also where the system has none

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the whole program. The first signal lets work in flight end, the
// second ends at once.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	edge := &edge{out: stdout, err: stderr}
	go func() {
		<-ctx.Done()
		stop()
		if context.Cause(ctx) != context.Canceled { //nolint:errorlint // a signal's cause is the same to errors.Is
			fmt.Fprintln(edge.stderr(), "nightaudit: stopping after what is under way; a second signal ends it at once")
		}
	}()
	began := false
	cmd := newRoot(edge)
	cmd.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	cmd.SetArgs(args)
	cmd.SetOut(edge.stdout())
	cmd.SetErr(edge.stderr())
	err := cmd.ExecuteContext(ctx)
	if err != nil && !began { // an unknown command or flag, a wrong number of arguments
		err = &usageError{err}
	}
	code := exitCode(ctx, err)
	if text := errorText(err); text != "" {
		fmt.Fprintln(edge.stderr(), text)
	}
	return code
}

// An exitError ends nightaudit with a code, after everything was said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitCode is the one place that gives an error its exit code.
func exitCode(ctx context.Context, err error) int {
	var code exitError
	var mistakes *config.Error
	var usage *reconcile.UsageError
	var field *appdb.FieldError
	var misuse *usageError
	var held *store.HeldError
	switch {
	case err == nil:
		return reconcile.ExitInSync
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &mistakes), errors.As(err, &usage), errors.As(err, &misuse), errors.As(err, &field):
		return reconcile.ExitUsage
	case ctx.Err() != nil:
		return reconcile.ExitInterrupted
	case errors.As(err, &held):
		return reconcile.ExitSkipped
	default:
		return reconcile.ExitIncomplete
	}
}

// errorText is what an error is told as; "" if all was said.
func errorText(err error) string {
	var code exitError
	if err == nil || errors.As(err, &code) {
		return ""
	}
	return "nightaudit: " + strings.TrimSpace(err.Error())
}

// A usageError is a mistake on the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func newRoot(edge *edge) *cobra.Command {
	g := &globals{edge: edge}
	root := &cobra.Command{
		Use:   "nightaudit",
		Short: "Finds webhooks that were lost and brings them back",
		Long: "nightaudit lists what your providers say happened, compares that with your own record of handled\n" +
			"webhooks, replays what is missing through your handler, and verifies that it was recorded.",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVarP(&g.config, "config", "c", "nightaudit.yaml", "the config file")
	root.PersistentFlags().StringVar(&g.logFormat, "log-format", "text", "of the log on stderr: text or json")
	root.PersistentFlags().BoolVarP(&g.verbose, "verbose", "v", false, "log more")
	root.AddCommand(newReconcile(g), newCheck(g), newMigrate(g), newRuns(g), newFindings(g), newReport(g),
		newAlerts(g), newDemo(g), newVersion(g))
	return root
}
