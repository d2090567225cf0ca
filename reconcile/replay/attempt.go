package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// sendAll begins attempts, sends them side by side, ends them, and judges.
func (d *drain) sendAll(ctx context.Context, replays []store.Replay) error {
	attempts := make([]*store.Attempt, len(replays))
	for i, r := range replays {
		target, _ := d.source.target(r)
		attempts[i] = &store.Attempt{ReplayID: r.ID, Endpoint: Origin(target.URL)}
	}
	if err := d.lease.Begin(ctx, attempts); err != nil {
		return err
	}
	results := make([]Result, len(replays))
	var group errgroup.Group
	var mu sync.Mutex
	group.SetLimit(d.options.Concurrency)
	for i, r := range replays {
		if err := d.limiter.Wait(ctx); err != nil {
			results[i] = notSent(stopped)
		}
		group.Go(func() error {
			if results[i].Outcome == "" {
				results[i] = d.attempt(ctx, r, attempts[i].Number)
			}
			err := d.end(ctx, *attempts[i], results[i])
			mu.Lock()
			defer mu.Unlock()
			if results[i].Outcome != NotSent {
				d.stats.Attempts++
			}
			return err
		})
	}
	ended := group.Wait()
	return errors.Join(ended, d.conclude(ctx, replays, results), context.Cause(ctx))
}

// stopped is why an attempt is not made once the drain's context ended.
const stopped = "nightaudit was told to stop"

func notSent(why string) Result { return Result{Outcome: NotSent, Why: why} }

// attempt makes one attempt. What has left is finished even if ctx ends.
func (d *drain) attempt(ctx context.Context, r store.Replay, number int) Result {
	if ctx.Err() != nil {
		return notSent(stopped)
	}
	target, _ := d.source.target(r)
	payload, err := d.store.Payload(ctx, r.FindingID)
	if err != nil {
		return notSent(err.Error())
	}
	work := Work{
		Event: r.Event, Endpoint: d.source.endpoint(r, target), Secrets: target.Secrets,
		ReplayID: r.ID, Attempt: number,
	}
	work.Event.Payload = payload
	if !d.lease.MaySend() {
		return notSent("the lease could not be renewed in time")
	}
	result := d.send(context.WithoutCancel(ctx), work)
	if result.Outcome == Rejected && result.Status != 0 && d.source.Skewed() {
		result.Outcome = ClockSkewed
		result.Why += "; our clock and the provider's differ by minutes, which makes signatures too old: set the clock"
	}
	return result
}

// send makes the request. A panic costs this attempt and no other.
func (d *drain) send(ctx context.Context, w Work) (result Result) {
	defer func() {
		if p := recover(); p != nil {
			result = Result{Outcome: Unknown, Why: fmt.Sprintf("sending panicked: %v", p)}
		}
	}()
	return d.source.Sender.Send(ctx, w)
}

// recordTime bounds the writes that must happen even after ctx ended.
const recordTime = 15 * time.Second

func (d *drain) end(ctx context.Context, a store.Attempt, r Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	a.Outcome, a.Phase, a.Status, a.Why = string(r.Outcome), string(r.Phase), r.Status, r.Why
	a.BodyBytes, a.Snippet = int64(r.BodyBytes), r.Snippet
	return d.store.End(ctx, a)
}

// conclude asks the ledger about everything that was sent, whatever the answer
// was, and stores the verdicts.
func (d *drain) conclude(ctx context.Context, replays []store.Replay, results []Result) error {
	ctx = context.WithoutCancel(ctx)
	entries, askErr := d.askAfter(ctx, replays)
	if askErr != nil {
		entries = make([]appdb.Entry, len(replays)) // nothing is known: acknowledged ones are watched
		askErr = fmt.Errorf("asking the ledger after sending: %w", askErr)
	}
	verdicts := d.noteAnswers(replays, results)
	for i, r := range replays {
		verdicts = append(verdicts, d.provisional(conclusion(r, results[i], entries[i])))
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	return errors.Join(askErr, d.judge(ctx, verdicts))
}

// askAfter asks the ledger about what was sent, in a time that leaves enough to
// store the verdicts.
func (d *drain) askAfter(ctx context.Context, replays []store.Replay) ([]appdb.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	return d.source.Ledger.Ask(ctx, events(replays))
}

// conclusion is the verdict on a replay after an attempt. It does no I/O.
func conclusion(r store.Replay, result Result, entry appdb.Entry) store.Verdict {
	v := store.Verdict{Replay: r}
	switch {
	case entry.State == appdb.Done && result.Outcome == Acknowledged:
		v.State, v.Reason = store.ReplayRepaired, verified
	case entry.State == appdb.Done:
		v.State, v.Reason = store.ReplayRepaired, confirmed
	case result.Outcome == Acknowledged:
		v.State, v.Reason = store.ReplayAcknowledged, "acknowledged, not in the ledger yet"
	case slices.Contains([]Outcome{Failed, ClockSkewed, NotSent, Unknown}, result.Outcome):
		v.State, v.Reason = store.ReplayQueued, result.Why
	default:
		v.State, v.Reason = store.ReplayRejected, result.Why
	}
	return v
}
