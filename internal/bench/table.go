package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A result is what one benchmark came to: its figures, and the error that kept it
// from the others.
type result struct {
	name    string
	figures []figure
	err     error
}

// writeTable writes a line for each figure and each failure, and gives how many
// are not as they must be.
func writeTable(w io.Writer, results []result) (bad int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tgot\tbar\tverdict\t")
	for _, r := range results {
		for _, f := range r.figures {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.name, f.gotText(), f.barText(), f.verdict(), f.detail)
			if !f.holds() {
				bad++
			}
		}
		if r.err != nil {
			fmt.Fprintf(t, "%s\t\t\tFAILED\t%s\n", r.name, strings.ReplaceAll(r.err.Error(), "\n", "; "))
			bad++
		}
	}
	_ = t.Flush() // as with every text for a person
	return bad
}
