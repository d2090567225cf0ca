package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/providers/all"
)

// globals are the flags of every command.
type globals struct {
	config    string
	logFormat string
	verbose   bool
	edge      *edge
}

// load reads the config; from then on no secret of it gets past the edge.
func (g *globals) load() (*config.Config, error) {
	c, err := config.Load(g.config, os.LookupEnv, all.Adapters()...)
	if err != nil {
		return nil, err
	}
	g.edge.knows(c.Secrets())
	return c, nil
}

// logger writes to stderr, at least what is of a level.
func (g *globals) logger(least slog.Level) (*slog.Logger, error) {
	if g.verbose {
		least = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: least}
	switch g.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(g.edge.stderr(), options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(g.edge.stderr(), options)), nil
	default:
		return nil, &usageError{fmt.Errorf("--log-format %q: write text or json", g.logFormat)}
	}
}

// reader opens a session for a command that only looks. A source that it is to
// look at, "" is all, must be one of the config's: of a misspelt one nothing is
// ever open.
func (g *globals) reader(ctx context.Context, source string) (*session, error) {
	log, err := g.logger(slog.LevelWarn)
	if err != nil {
		return nil, err
	}
	c, err := g.load()
	if err != nil {
		return nil, err
	}
	if source != "" {
		if _, err := indexes(c, []string{source}); err != nil {
			return nil, err
		}
	}
	return newSession(ctx, c, log, false)
}
