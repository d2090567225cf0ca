package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one mistake in the config and what to do about it.
type Problem struct {
	File  string // as it was given to Load
	Line  int    // 1 is the first; 0 if the mistake has no line: the file cannot be read
	Path  string // the key, "sources[1].window.settle"; "" is the whole file
	Value string // what was written there; "" if nothing was, or if it may be a secret
	Fix   string // what is wrong and what to write instead
}

// String is the problem as one line: `file:line: path: "value" fix`.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	if p.Value != "" {
		fmt.Fprintf(&b, "%q ", p.Value)
	}
	b.WriteString(p.Fix)
	return b.String()
}

// An Error is everything that is wrong with a config, in the order of its lines.
type Error struct {
	Problems []Problem // never empty
}

// Error lists all problems, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// newError is the error of the problems, sorted by line, then key; nil if there
// are none.
func newError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Value, b.Value))
	})
	return &Error{Problems: problems}
}
