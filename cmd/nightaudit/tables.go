package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// writeTable writes rows under a header, as plain as a pipe wants it.
func writeTable(w io.Writer, header table.Row, rows []table.Row) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	t.SetStyle(style)
	t.AppendHeader(header)
	t.AppendRows(rows)
	t.Render()
}

// writeJSON writes v indented; a nil slice must not come here.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// clock writes a time for a person, in the config's zone.
func clock(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// checkLimit refuses what --limit cannot be.
func checkLimit(limit int) error {
	if limit < 0 {
		return &usageError{fmt.Errorf("--limit %d: write a number from 0 up; 0 is all", limit)}
	}
	return nil
}

// checkOutput refuses what --output does not know.
func checkOutput(output string) error {
	if output != "text" && output != "json" {
		return &usageError{fmt.Errorf("--output %q: write text or json", output)}
	}
	return nil
}

// things counts in words: "1 page", "2 pages".
func things(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
