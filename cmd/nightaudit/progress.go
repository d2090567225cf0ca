package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/nightaudit/nightaudit/reconcile"
)

// A progress shows how far a run is: on a terminal as a line that moves, piped
// as a log line now and then.
type progress struct {
	edge *edge
	live bool
	now  func() time.Time

	mu      sync.Mutex
	bars    *mpb.Progress
	bar     *mpb.Bar
	of      string // what the bar is about
	began   time.Time
	said    time.Time // when the last plain line was written
	last    reconcile.Progress
	stopped bool
}

func newProgress(edge *edge, output string) *progress {
	return &progress{edge: edge, live: terminal(edge.err) && !plain() && output == "text", now: time.Now}
}

// plain reports whether the environment asks for text without movement or colour.
func plain() bool { return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" }

// logLevel is what the log may say beside the progress.
func (p *progress) logLevel() slog.Level {
	if p.live {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// plainEvery is how often piped output says how far a run is.
const plainEvery = 10 * time.Second

// tell takes what a run says of itself.
func (p *progress) tell(r reconcile.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.last = r
	of := r.Source + " " + r.Step + " " + r.Stream
	if of != p.of {
		p.begin(of)
	}
	if p.live {
		p.bar.SetTotal(total(r), false)
		p.bar.SetCurrent(done(r))
		return
	}
	if p.now().Sub(p.said) >= plainEvery {
		p.said = p.now()
		fmt.Fprintf(p.edge.stderr(), "%s: %s\n", r.Source, p.text())
	}
}

// begin starts the line of another step.
func (p *progress) begin(of string) {
	p.finishBar()
	p.of, p.began = of, p.now()
	p.said = p.began // the first plain line comes when there is something to wait for
	if !p.live {
		return
	}
	if p.bars == nil {
		// straight to the terminal, which mpb must know: the line holds names and counts alone
		p.bars = mpb.New(mpb.WithOutput(p.edge.err), mpb.WithWidth(24), mpb.WithRefreshRate(150*time.Millisecond), mpb.WithAutoRefresh())
		p.edge.bars.Store(p.bars)
	}
	p.bar = p.bars.New(0, mpb.BarStyle().Rbound("]"), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(p.last.Source+" ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.safeText() })))
}

func (p *progress) safeText() string {
	if !p.mu.TryLock() {
		return ""
	}
	defer p.mu.Unlock()
	return p.text()
}

// text is how far it is in words: pages, events, missing, rate, time left.
func (p *progress) text() string {
	r := p.last
	elapsed := p.now().Sub(p.began)
	if r.Step == reconcile.StepReplay {
		return fmt.Sprintf("replaying: %s, %d repaired, %d failed, %d rejected", things(r.Replay.Attempts, "attempt"),
			r.Replay.Repaired, r.Replay.Failed, r.Replay.Rejected)
	}
	text := fmt.Sprintf("listing %s: %s, %s, %d missing", r.Stream, things(r.Pages, "page"), things(r.Events, "event"), r.Missing)
	if seconds := elapsed.Seconds(); seconds >= 1 {
		text += fmt.Sprintf(", %.0f events/s", float64(r.Events)/seconds)
	}
	if left, known := timeLeft(elapsed, done(r), total(r)); known {
		text += fmt.Sprintf(", about %s left", left)
	}
	return text
}

// timeLeft guesses from the part that is done.
func timeLeft(elapsed time.Duration, done, total int64) (time.Duration, bool) {
	if done <= 0 || total <= done || elapsed < time.Second {
		return 0, false
	}
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done))
	return max(left.Round(time.Second), time.Second), true
}

// total and done measure a listing by the seconds of its window.
func total(r reconcile.Progress) int64 { return int64(r.Window.Length() / time.Second) }

func done(r reconcile.Progress) int64 { return int64(r.Covered / time.Second) }

func (p *progress) finishBar() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar.Wait()
		p.bar = nil
	}
}

// stop takes the line away.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	p.finishBar()
	if p.bars != nil {
		p.bars.Wait()
		p.edge.bars.Store(nil)
	}
}
