// Command bench measures what nightaudit promises of its speed and its size:
// each figure stands beside the bar that it must hold, and the program exits with
// 1 if one is missed. A figure is a ratio of two things that were measured in the
// same run, or a count, so that it means the same on every machine; only the peak
// memory is in MiB.
//
//	go run ./internal/bench [-run REGEXP] [-list]
//
// It starts a Postgres, a fake Stripe and nightaudit itself as processes of their
// own. The table goes to stdout, how far it is to stderr.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// A benchmark measures figures that belong together.
type benchmark struct {
	name    string
	measure func(ctx context.Context, e *environment) ([]figure, error)
}

// benchmarks are all there are, in the order in which they run. Memory comes
// first: the peak of a process includes what the process that started it had at
// its own peak, and that is little at the beginning.
var benchmarks = []benchmark{
	{"memory", memory},
	{"matching", matching},
	{"listing/limited", limited},
	{"listing/unlimited", unlimited},
	{"secondnight", secondNight},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// run measures what the flags ask for and writes the table. The error says that
// not every figure holds.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "only the benchmarks whose name matches this regular expression")
	list := flags.Bool("list", false, "only name the benchmarks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(benchmarks, *pattern)
	if err != nil {
		return err
	}
	if *list {
		for _, b := range chosen {
			fmt.Fprintln(stdout, b.name)
		}
		return nil
	}
	return measure(ctx, chosen, stdout, stderr)
}

// choose gives the benchmarks whose name matches the pattern.
func choose(from []benchmark, pattern string) ([]benchmark, error) {
	matcher, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run %q is no regular expression: %w", pattern, err)
	}
	var chosen []benchmark
	for _, b := range from {
		if matcher.MatchString(b.name) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-run %q matches no benchmark; -list names them", pattern)
	}
	return chosen, nil
}

// measure runs benchmarks one after the other: one that fails costs nothing but
// itself.
func measure(ctx context.Context, chosen []benchmark, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	e, err := newEnvironment(ctx, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(context.WithoutCancel(ctx))) }()
	var results []result
	for _, b := range chosen {
		if ctx.Err() != nil {
			break
		}
		e.say("%s", b.name)
		figures, err := b.measure(ctx, e)
		err = errors.Join(err, e.clear(context.WithoutCancel(ctx)))
		results = append(results, result{name: b.name, figures: figures, err: err})
	}
	fmt.Fprintf(stdout, "%d cores, %s, Postgres %s\n\n", runtime.GOMAXPROCS(0), runtime.Version(), e.postgres)
	bad := writeTable(stdout, results)
	fmt.Fprintf(stdout, "\nmeasured in %s\n", time.Since(began).Round(time.Second))
	switch {
	case ctx.Err() != nil:
		return errors.New("it was told to stop")
	case bad > 0:
		return fmt.Errorf("%d of the lines above are MISSED or FAILED", bad)
	default:
		return nil
	}
}
