package main

import (
	"errors"
	"strings"
	"testing"
)

func TestTheTableHasALineForEachFigureAndEachFailure(t *testing.T) {
	results := []result{
		{name: "first", figures: []figure{
			{name: "time", got: 1.05, bar: 1.1, unit: "x", detail: "8.4 s to 8.0 s"},
			{name: "speed", got: 7, bar: 10, atLeast: true, unit: "x"},
		}},
		{name: "second", figures: []figure{{name: "requests", got: 5, bar: 6, unit: "requests"}}, err: errors.New("no answer\nat all")},
	}
	const want = `figure    got         bar            verdict
time      1.050 x     <= 1.100 x     ok       8.4 s to 8.0 s
speed     7 x         >= 10 x        MISSED
requests  5 requests  <= 6 requests  ok
second                               FAILED   no answer; at all
`
	var out strings.Builder
	bad := writeTable(&out, results)
	if got := trimmed(out.String()); got != want {
		t.Errorf("table:\ngot\n%s\nwant\n%s", got, want)
	}
	if bad != 2 {
		t.Errorf("missed and failed: got %d, want 2", bad)
	}
}

// trimmed drops the blanks at the ends of lines.
func trimmed(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}
