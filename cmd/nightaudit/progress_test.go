package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/reconcile/replay"
)

// listed is a listing that has come down to 12 hours before the end of its
// day.
func listed(pages, events, missing int) reconcile.Progress {
	end := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	day := providers.Window{From: end.AddDate(0, 0, -1), To: end}
	return reconcile.Progress{Source: "shop", Step: "list", Stream: "events", Window: day,
		Covered: 12 * time.Hour, Pages: pages, Events: events, Missing: missing}
}

func TestPipedProgressIsALineNowAndThen(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	p := &progress{edge: &edge{out: io.Discard, err: &out}, now: func() time.Time { return now }}
	for range 25 {
		p.tell(listed(1, 50, 2))
		now = now.Add(time.Second)
	}
	p.tell(reconcile.Progress{Source: "shop", Step: "replay", Replay: replay.Stats{Attempts: 1}})
	now = now.Add(plainEvery)
	p.tell(reconcile.Progress{Source: "shop", Step: "replay", Replay: replay.Stats{Attempts: 3, Repaired: 2, Failed: 1}})
	p.stop()
	p.tell(listed(9, 9, 9))
	want := "shop: listing events: 1 page, 50 events, 2 missing, 5 events/s, about 10s left\n" +
		"shop: listing events: 1 page, 50 events, 2 missing, 2 events/s, about 20s left\n" +
		"shop: replaying: 3 attempts, 2 repaired, 1 failed, 0 rejected\n"
	if out.String() != want {
		t.Errorf("25 s of listing, 10 s of replaying: got\n%s\nwant\n%s", &out, want)
	}
}

func TestShortWorkSaysNothingWhenPiped(t *testing.T) {
	var out bytes.Buffer
	p := &progress{edge: &edge{out: io.Discard, err: &out}, now: time.Now}
	p.tell(listed(1, 50, 0))
	p.tell(listed(2, 100, 0))
	p.stop()
	if out.Len() > 0 {
		t.Errorf("a listing that took no time: got %q, want nothing", &out)
	}
}

func TestOnATerminalALineMovesAndOtherTextsStayAboveIt(t *testing.T) {
	out := &written{}
	e := &edge{out: io.Discard, err: out}
	p := &progress{edge: e, live: true, now: time.Now}
	p.tell(listed(1, 50, 2))
	out.await(t, "shop listing ") // cut short, since this terminal has no width
	fmt.Fprintln(e.stderr(), "a log line")
	out.await(t, "a log line\n")
	p.tell(reconcile.Progress{Source: "shop", Step: "replay", Replay: replay.Stats{Attempts: 7, Repaired: 7}})
	out.await(t, "shop replaying")
	p.stop()
	p.stop()
	fmt.Fprintln(e.stderr(), "after it")
	if !strings.HasSuffix(out.String(), "after it\n") {
		t.Errorf("after the end: got %q, want the text at its end", out)
	}
}

func TestTimeLeftIsGuessedFromWhatIsDone(t *testing.T) {
	for _, c := range []struct {
		what        string
		elapsed     time.Duration
		done, total int64
		want        time.Duration
		known       bool
	}{
		{"a quarter in 10 s", 10 * time.Second, 25, 100, 30 * time.Second, true},
		{"almost all", 10 * time.Second, 999, 1000, time.Second, true},
		{"nothing yet", 10 * time.Second, 0, 100, 0, false},
		{"too early to say", time.Millisecond, 1, 100, 0, false},
		{"all of it", 10 * time.Second, 100, 100, 0, false},
		{"more than all", 10 * time.Second, 101, 100, 0, false},
	} {
		if got, known := timeLeft(c.elapsed, c.done, c.total); got != c.want || known != c.known {
			t.Errorf("%s: got %s, %t, want %s, %t", c.what, got, known, c.want, c.known)
		}
	}
}

// written is what several goroutines wrote.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await looks until all of the texts are there.
func (w *written) await(t *testing.T, texts ...string) {
	t.Helper()
	for began := time.Now(); ; <-time.After(5 * time.Millisecond) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(w.String(), text)
		}
		if all {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("waited a minute for %q: got %q", texts, w)
		}
	}
}
