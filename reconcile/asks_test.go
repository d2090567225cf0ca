package reconcile_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// at is a second of Unix time as the stories of these tests tell it.
func at(second int64) time.Time { return time.Unix(second, 0).UTC() }

// clockTime is a time of the day of epoch.
func clockTime(hour, minute int) time.Time {
	return epoch.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

// exec changes the database by hand.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// count is the number that a query gives.
func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// handled emits an event that the live path has handled.
func (w *world) handled(id, eventType string, created time.Time) {
	w.t.Helper()
	w.app.handle(w.provider.emit(id, eventType, created).Event, "done", created)
}

// window overrides what the feed says of windows; a negative value leaves it.
func (w *world) window(settle, overlap, initial time.Duration) {
	for _, o := range []struct {
		d     time.Duration
		field **time.Duration
	}{{settle, &w.source.Window.Settle}, {overlap, &w.source.Window.Overlap}, {initial, &w.source.Window.Initial}} {
		if o.d >= 0 {
			*o.field = new(time.Duration)
			**o.field = o.d
		}
	}
}

// since makes a run by hand from a time on.
func (w *world) since(from time.Time) *reconcile.Report {
	w.t.Helper()
	return w.run(reconcile.Options{Hand: true, Since: from})
}

// wantOutcome fails the test unless a run ended so.
func wantOutcome(t testing.TB, r *reconcile.Report, want store.Outcome) {
	t.Helper()
	if r.Run.Outcome != want {
		t.Errorf("outcome: got %s, want %s; reasons: %s", r.Run.Outcome, want, allReasons(r))
	}
}

// wantExit fails the test unless nightaudit would exit with a code after a run.
func wantExit(t testing.TB, r *reconcile.Report, want int) {
	t.Helper()
	if got := reconcile.NewDocument([]*reconcile.Report{r}, nil, false).ExitCode; got != want {
		t.Errorf("exit code: got %d, want %d (outcome %s; reasons: %s)", got, want, r.Run.Outcome, allReasons(r))
	}
}

// wantBooks fails the test unless the only stream's counts read so.
func wantBooks(t testing.TB, r *reconcile.Report, want string) {
	t.Helper()
	if got := books(r); got != want {
		t.Errorf("books:\n got %s\nwant %s\nreasons: %s", got, want, allReasons(r))
	}
	if !r.Streams[0].Balanced {
		t.Errorf("the books do not balance: %s, replays %v", books(r), r.Streams[0].Work)
	}
}

// wantKeys fails the test unless the findings of a kind have these keys.
func wantKeys(t testing.TB, r *reconcile.Report, kind store.Kind, want ...string) {
	t.Helper()
	if got := keysOf(r, kind); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q; reasons: %s", kind, got, want, allReasons(r))
	}
}

// wantNew fails the test unless the findings first seen by a run have these keys.
func wantNew(t testing.TB, r *reconcile.Report, want ...string) {
	t.Helper()
	var got []string
	for _, f := range r.Findings {
		if f.New {
			got = append(got, f.Key)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("new findings: got %q, want %q; reasons: %s", got, want, allReasons(r))
	}
}

// wantPosts fails the test unless the application got these events, in whatever
// order: different subjects go side by side.
func (w *world) wantPosts(want ...string) {
	w.t.Helper()
	if got := slices.Sorted(slices.Values(w.app.posts)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		w.t.Errorf("posts: got %q, want %q", w.app.posts, want)
	}
}

// wantOrder fails the test unless the application got these events in this order.
func (w *world) wantOrder(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.app.posts, want) {
		w.t.Errorf("posts: got %q, want %q in this order", w.app.posts, want)
	}
}

// wantWatermark fails the test unless the stored watermark is a time.
func (w *world) wantWatermark(want time.Time) {
	w.t.Helper()
	if got := w.watermark(); !got.Equal(want) {
		w.t.Errorf("watermark: got %s, want %s", got.Format(time.RFC3339), want.Format(time.RFC3339))
	}
}

// wantReason fails the test unless a run says all of the parts, for one reason or
// another.
func wantReason(t testing.TB, r *reconcile.Report, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(allReasons(r), part) {
			t.Errorf("reasons: got %q, want one that says %q", allReasons(r), part)
		}
	}
}

// allReasons is why a run and its streams are not complete.
func allReasons(r *reconcile.Report) string {
	reasons := slices.Clone(r.Reasons)
	for _, s := range r.Streams {
		reasons = append(reasons, s.Reasons...)
	}
	return strings.Join(reasons, " | ")
}

// finding is the finding of a kind and key, which must be there.
func finding(t testing.TB, r *reconcile.Report, kind store.Kind, key string) reconcile.FindingReport {
	t.Helper()
	for _, f := range r.Findings {
		if f.Kind == kind && f.Key == key {
			return f
		}
	}
	t.Fatalf("findings: got none of %s %s, have %s", kind, key, kindsOf(r))
	return reconcile.FindingReport{}
}

// kindsOf is every finding of a run in short.
func kindsOf(r *reconcile.Report) []string {
	out := []string{}
	for _, f := range r.Findings {
		out = append(out, string(f.Kind)+" "+f.Key+" "+f.State)
	}
	return out
}

// wantReplay fails the test unless the newest replay of an event is in a state.
func wantReplay(t testing.TB, r *reconcile.Report, key string, state store.ReplayState) *reconcile.ReplayOfEvent {
	t.Helper()
	for _, f := range r.Findings {
		if f.Scope != store.ScopeEvent || f.Key != key {
			continue
		}
		if f.Replay == nil || f.Replay.State != state {
			t.Errorf("replay of %s: got %+v, want %s", key, f.Replay, state)
			return &reconcile.ReplayOfEvent{}
		}
		return f.Replay
	}
	t.Errorf("replay of %s: no finding, want %s; have %s", key, state, kindsOf(r))
	return &reconcile.ReplayOfEvent{}
}

// earliest is the lower bound of the earliest window asked for in requests.
func earliest(requests []request) time.Time {
	var from time.Time
	for _, r := range requests {
		if from.IsZero() || r.window.From.Before(from) {
			from = r.window.From
		}
	}
	return from
}

// An amended ledger is the application's, with what a test puts before it.
type amended struct {
	reconcile.Ledger
	ask func(ctx context.Context, events []providers.Event) error // before each question, if not nil
	lag time.Duration
}

func (l *amended) Ask(ctx context.Context, events []providers.Event) ([]appdb.Entry, error) {
	if l.ask != nil {
		if err := l.ask(ctx, events); err != nil {
			return nil, err
		}
	}
	return l.Ledger.Ask(ctx, events)
}

func (l *amended) Lag(context.Context) (time.Duration, error) { return l.lag, nil }
