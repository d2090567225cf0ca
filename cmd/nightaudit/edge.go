package main

import (
	"io"
	"os"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"golang.org/x/term"

	"github.com/nightaudit/nightaudit/providers"
)

// An edge is where texts leave nightaudit. Once the config is known, no secret
// of it gets past stderr, whatever an error or a log line holds. What stdout gets
// is made of fields that were redacted one by one: a password that is also a word
// must not blot out the ids and keys of a report.
type edge struct {
	out, err io.Writer
	redactor atomic.Pointer[providers.Redactor]
	bars     atomic.Pointer[mpb.Progress] // while a line moves on stderr, texts go above it
}

func (e *edge) knows(secrets []providers.Secret) { e.redactor.Store(providers.NewRedactor(secrets...)) }

func (e *edge) stdout() io.Writer { return e.out }

// clean takes out what a terminal would obey or be misled by, such as escapes and
// characters that turn the direction of writing: texts come from outside. Line
// ends and tabs stay.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}

// oneLine is clean for a text that must stay in its line, such as an id.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(clean(text))
}

// hide redacts one text.
func (e *edge) hide(text string) string { return e.redactor.Load().String(text) }

func (e *edge) stderr() io.Writer { return &redacting{e, aboveBars{e}} }

// aboveBars is stderr beside a line that moves.
type aboveBars struct{ edge *edge }

func (a aboveBars) Write(p []byte) (int, error) {
	if bars := a.edge.bars.Load(); bars != nil {
		if n, err := bars.Write(p); err == nil {
			return n, nil
		}
	}
	return a.edge.err.Write(p)
}

// terminal reports whether a person reads w right now.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is how many columns w has.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

// redacting hides secrets in what is written through it, and cleans it for a
// terminal. Each call is a whole text: a log line, an error.
type redacting struct {
	edge *edge
	to   io.Writer
}

func (r *redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.to, clean(r.edge.hide(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}
