package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
)

// Of 30 events two were dropped: they are found, sent, and seen in the ledger.
func TestRunFindsAndRepairsWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	w.source.Replay.Concurrency = 1
	for i := range 30 {
		e := w.provider.emit(fmt.Sprintf("evt_%02d", i), "invoice.paid", epoch.Add(-time.Duration(i+1)*time.Hour))
		if i != 7 && i != 9 {
			w.app.handle(e.Event, "done", e.Created)
		}
	}
	r := w.run(reconcile.Options{})
	if got, want := books(r), "listed 30 done 28 missing 2 stuck 0 late 0 ignored 0 unreadable 0"; got != want {
		t.Errorf("books: got %s, want %s", got, want)
	}
	if want := []string{"evt_09", "evt_07"}; !slices.Equal(w.app.posts, want) {
		t.Errorf("posts: got %v, want %v, oldest first", w.app.posts, want)
	}
	if r.Run.Outcome != store.AllRepaired || !r.Streams[0].Balanced {
		t.Errorf("outcome %s, balanced %v (%v); want repaired and balanced", r.Run.Outcome, r.Streams[0].Balanced, r.Reasons)
	}
	if want := epoch.Add(-10 * time.Minute); !w.watermark().Equal(want) {
		t.Errorf("watermark %s, want now less settle, %s", w.watermark(), want)
	}

	again := w.run(reconcile.Options{})
	if again.Run.Outcome != store.InSync || len(w.app.posts) != 2 {
		t.Errorf("second run: outcome %s after %d posts, want in_sync and no more posts", again.Run.Outcome, len(w.app.posts))
	}
}
