package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/reconcile"
)

// A level says how good a result is.
type level string

const (
	fine    level = "ok"
	warning level = "warning"
	bad     level = "failed"
)

// A checked is one thing that was tried.
type checked struct {
	Source string `json:"source"` // "" is nightaudit itself
	Name   string `json:"name"`
	Level  level  `json:"level"`
	Text   string `json:"text"` // what was seen, and what to do about it
}

// A doctor collects what it sees.
type doctor struct {
	results []checked // in the order in which things were tried
	misuse  bool      // something is wrong with the config itself
}

func (d *doctor) say(source, name string, l level, format string, args ...any) {
	d.results = append(d.results, checked{source, name, l, fmt.Sprintf(format, args...)})
}

// try says how something went.
func (d *doctor) try(source, name string, err error, format string, args ...any) bool {
	if err == nil {
		d.say(source, name, fine, format, args...)
		return true
	}
	for _, one := range config.Flatten(err) {
		for line := range strings.Lines(one.Error()) { // mistakes in the config are one a line
			d.say(source, name, bad, "%s", strings.TrimSpace(line))
		}
	}
	d.misuse = d.misuse || exitCode(context.Background(), err) == reconcile.ExitUsage
	return false
}

// end shows the results and gives the exit code.
func (d *doctor) end(edge *edge, output string) error {
	failed := false
	for i, r := range d.results {
		failed = failed || r.Level == bad
		d.results[i].Text = edge.hide(r.Text)
	}
	if output == "json" {
		if err := writeJSON(edge.stdout(), d.results); err != nil {
			return err
		}
	} else {
		d.write(edge.stdout(), terminal(edge.out) && !plain())
	}
	switch {
	case d.misuse:
		return exitError(reconcile.ExitUsage)
	case failed:
		return exitError(reconcile.ExitIncomplete)
	}
	return nil
}

var marks = map[level]string{fine: "ok     ", warning: "warning", bad: "FAILED "}

var colours = map[level]string{fine: "\x1b[32m", warning: "\x1b[33m", bad: "\x1b[31m"}

// write shows the results for a person, under the source that they are about.
func (d *doctor) write(w io.Writer, colour bool) {
	source := "-"
	for _, r := range d.results {
		if r.Source != source {
			source = r.Source
			title := source
			if title == "" {
				title = "nightaudit"
			}
			fmt.Fprintln(w, title)
		}
		mark := marks[r.Level]
		if colour {
			mark = colours[r.Level] + mark + "\x1b[0m"
		}
		fmt.Fprintf(w, "  %s  %s: %s\n", mark, oneLine(r.Name), oneLine(r.Text))
	}
}
