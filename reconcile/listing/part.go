package listing

import (
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A Part is a piece of the window that is listed by itself.
type Part struct {
	// Window is what the part covers. While it is listed, its older end may be
	// left to another part; only in Sink.Close it is final and may be read.
	Window providers.Window

	state  state
	pages  int       // that were read for it
	events int       // on them, distinct
	oldest time.Time // down to here it is listed
	seen   seen
}

// state is how far a part is.
type state int

const (
	waiting state = iota // for a worker
	running
	ended  // listed whole
	passed // and all of it is told to the sink
	failed
)

func newPart(w providers.Window) *Part {
	return &Part{Window: w, oldest: w.To, seen: make(seen)}
}

// left is how much of it is not listed yet.
func (p *Part) left() time.Duration { return max(0, p.oldest.Sub(p.Window.From)) }

// pagesLeft guesses how many pages of it are not read yet: by its own density,
// and before its first page by pace, how much time a page spans elsewhere.
func (p *Part) pagesLeft(pace time.Duration) float64 {
	if p.pages > 0 {
		pace = p.Window.To.Sub(p.oldest) / time.Duration(p.pages)
	}
	return float64(p.left()) / float64(max(pace, 1))
}
