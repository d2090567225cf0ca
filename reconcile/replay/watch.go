package replay

import (
	"context"
	"fmt"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// watchPage is how many acknowledged replays are asked about at once.
const watchPage = 500

// watch asks the ledger about every acknowledged replay, settles those that it
// shows and those whose time is over, and gives the number that still wait.
func (d *drain) watch(ctx context.Context) (int, error) {
	left, after := 0, ""
	for {
		page, err := d.store.Watched(ctx, d.source.Name, after, watchPage)
		if err != nil || len(page) == 0 {
			return left, err
		}
		events := make([]providers.Event, len(page))
		for i, w := range page {
			events[i] = w.Event
		}
		entries, err := d.source.Ledger.Ask(ctx, events)
		if err != nil {
			return left, fmt.Errorf("asking the ledger after an acknowledgement: %w", err)
		}
		var verdicts []store.Verdict
		for i, w := range page {
			if v, over := d.watched(w, entries[i]); over {
				verdicts = append(verdicts, v)
			} else {
				left++
			}
		}
		if err := d.judge(ctx, verdicts); err != nil {
			return left, err
		}
		after = page[len(page)-1].ID
	}
}

// watched is the verdict on an acknowledged replay, if it can be given yet.
func (d *drain) watched(w store.Watched, entry appdb.Entry) (store.Verdict, bool) {
	v := store.Verdict{Replay: w.Replay}
	switch {
	case entry.State == appdb.Done:
		v.State, v.Reason = store.ReplayRepaired, verified
	case w.For < d.options.VerifyWithin:
		return v, false
	case w.Unrecorded+1 >= d.options.MaxUnrecorded:
		v.State = store.ReplayParked
		v.Reason = fmt.Sprintf("acknowledged by %d runs and never done in the ledger; the handler answers 2xx "+
			"and loses it: mend it, then have it delivered again", w.Unrecorded+1)
	default:
		v.State = store.ReplayUnrecorded
		v.Reason = fmt.Sprintf("acknowledged, and not done in the ledger within %s; %s", d.options.VerifyWithin, hint(entry))
	}
	return v, true
}

// hint says what an acknowledged event that is not done most likely means.
func hint(entry appdb.Entry) string {
	if entry.State == appdb.Pending || entry.State == appdb.Failed {
		return "its row is there: the handler seems to skip recorded keys, so that their work is never done"
	}
	return "the handler answers 2xx before or without recording; the next run tries again"
}
