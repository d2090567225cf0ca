package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/nightaudit/nightaudit/store"
)

func newMigrate(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring nightaudit's own schema up to date", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMigrate(cmd.Context(), g) },
	}
}

func runMigrate(ctx context.Context, g *globals) error {
	log, err := g.logger(slog.LevelInfo)
	if err != nil {
		return err
	}
	c, err := g.load()
	if err != nil {
		return err
	}
	s := &session{config: c, log: log}
	defer func() { s.close(ctx) }()
	if err := s.connect(ctx); err != nil {
		return err
	}
	applied, err := store.Migrate(ctx, s.pool, c.Database.Schema, log)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("schema %s is up to date", c.Database.Schema)
	if len(applied) > 0 {
		text = fmt.Sprintf("schema %s: applied %v", c.Database.Schema, applied)
	}
	_, err = fmt.Fprintln(g.edge.stdout(), text)
	return err
}
