package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version string

// versionText is what this binary was built from, as far as it knows.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	module := info.Main.Version
	if module == "(devel)" {
		module = ""
	}
	return cmp.Or(version, module, "development")
}

func newVersion(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(g.edge.stdout(), "nightaudit", versionText())
			return err
		},
	}
}
