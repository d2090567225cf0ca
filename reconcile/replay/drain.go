package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

type drain struct {
	store   *store.Store
	lease   *store.Lease
	source  Source
	options Options
	limiter *rate.Limiter
	started time.Time           // by the database's clock: what was attempted since then has had its attempt
	looks   map[string]look     // by stream
	skipped []string            // claimed before and not to be sent in this drain
	answers map[string]*answers // by the target's public URL
	stats   Stats
	told    func(Stats)
}

// Drain sends the due replays of a source, one attempt each, and watches the
// ledger for those that were acknowledged. It ends when each had its first
// verdict, at the deadline, or with ctx: then what is in flight is finished and
// recorded, and the error is ctx's. The lease is one of store.RoleDrain; told,
// if not nil, hears of progress.
func Drain(ctx context.Context, st *store.Store, lease *store.Lease, src Source, o Options, deadline time.Time, told func(Stats)) (Stats, error) {
	o = o.withDefaults()
	d := &drain{
		store: st, lease: lease, source: src, options: o, told: told,
		limiter: rate.NewLimiter(rate.Limit(o.Rate), 1),
		looks:   make(map[string]look),
		answers: make(map[string]*answers),
		stats:   Stats{Homeless: make(map[string]int), Redirected: make(map[string]int), Refusing: make(map[string]int), Mismatched: make(map[string][]string)},
	}
	if err := lease.Recover(ctx); err != nil {
		return d.stats, err
	}
	var err error
	if d.started, err = st.Clock(ctx); err != nil {
		return d.stats, err
	}
	if err := d.run(ctx, deadline); err != nil {
		return d.stats, errors.Join(err, d.count(context.WithoutCancel(ctx)))
	}
	return d.stats, errors.Join(d.count(ctx), lease.ForgetWitnesses(ctx))
}

// run looks for newer events first, then alternates between sending what is due and watching what was acknowledged.
func (d *drain) run(ctx context.Context, deadline time.Time) error {
	if err := d.witness(ctx); err != nil {
		return err
	}
	pause := pauses()
	for time.Now().Before(deadline) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		sent, err := d.round(ctx)
		if err != nil {
			return err
		}
		watched, err := d.watch(ctx)
		if err != nil {
			return err
		}
		if sent > 0 {
			pause = pauses()
			continue
		}
		if watched == 0 {
			return nil
		}
		if err := pause(ctx, deadline); err != nil {
			return err
		}
	}
	return nil
}

// pauses are waits between two looks at the ledger: short at first, at most 5 s.
func pauses() func(ctx context.Context, deadline time.Time) error {
	next := 50 * time.Millisecond
	return func(ctx context.Context, deadline time.Time) error {
		timer := time.NewTimer(min(next, time.Until(deadline)))
		defer timer.Stop()
		next = min(next*3/2, 5*time.Second)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		}
	}
}

// round claims as many due replays as may be under way at once, decides by what
// the ledger says now, and sends what may be sent. It gives the number of replays
// that it did something with.
func (d *drain) round(ctx context.Context) (int, error) {
	if d.stale() {
		if err := d.witness(ctx); err != nil {
			return 0, err
		}
	}
	claimed, err := d.lease.Claim(ctx, d.started, d.skipped, d.options.Concurrency)
	if err != nil {
		return 0, err
	}
	if len(claimed) == 0 {
		final := d.finalRefusals()
		return len(final), d.judge(ctx, final)
	}
	toSend, verdicts, back, err := d.sort(ctx, claimed)
	if err != nil {
		return 0, errors.Join(err, d.lease.Unclaim(context.WithoutCancel(ctx), ids(claimed)))
	}
	if err := d.judge(ctx, verdicts); err != nil {
		return 0, err
	}
	if err := d.giveBack(ctx, back); err != nil || len(toSend) == 0 {
		return len(claimed), err
	}
	return len(claimed), d.sendAll(ctx, toSend)
}

// giveBack leaves claimed replays to a later drain.
func (d *drain) giveBack(ctx context.Context, replays []string) error {
	d.skipped = append(d.skipped, replays...)
	return d.lease.Unclaim(ctx, replays)
}

func ids(replays []store.Replay) []string {
	out := make([]string, len(replays))
	for i, r := range replays {
		out[i] = r.ID
	}
	return out
}

func events(replays []store.Replay) []providers.Event {
	out := make([]providers.Event, len(replays))
	for i, r := range replays {
		out[i] = r.Event
	}
	return out
}

// sort asks the ledger about claimed replays and their witnesses, and decides.
func (d *drain) sort(ctx context.Context, claimed []store.Replay) (toSend []store.Replay, verdicts []store.Verdict, back []string, err error) {
	entries, err := d.source.Ledger.Ask(ctx, events(claimed))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("asking the ledger before sending: %w", err)
	}
	witnesses, done, err := d.testimony(ctx, claimed)
	if err != nil {
		return nil, nil, nil, err
	}
	for i, r := range claimed {
		target, ok := d.source.target(r)
		if !ok {
			d.stats.Homeless[r.Event.Account]++
			back = append(back, r.ID)
			continue
		}
		ev := evidence{
			entry: entries[i], later: witnesses[r.Lane], done: done, looked: d.looked(r),
			version: d.source.endpoint(r, target).APIVersion, sendsAny: d.options.AnyVersion,
			now: d.source.Now(), stuckAfter: d.source.StuckAfter, keeps: d.source.Keeps,
		}
		switch what, verdict := decide(r, ev); what {
		case send:
			if d.refuses(r) {
				back = append(back, r.ID)
			} else {
				toSend = append(toSend, r)
			}
		case judge:
			verdicts = append(verdicts, verdict)
			d.noteVersion(verdict, target)
		case wait:
			back = append(back, r.ID)
		}
	}
	return toSend, verdicts, back, nil
}

func (d *drain) noteVersion(v store.Verdict, t Target) {
	if v.Hold == store.HoldVersion {
		seen := d.stats.Mismatched[t.Public()]
		if !slices.Contains(seen, v.Replay.Event.APIVersion) {
			d.stats.Mismatched[t.Public()] = append(seen, v.Replay.Event.APIVersion)
		}
	}
}

// testimony gives the witnesses of the claimed replays' lanes, by lane, and which
// of them are done, by key.
func (d *drain) testimony(ctx context.Context, claimed []store.Replay) (map[string][]store.Witness, map[string]bool, error) {
	lanes := make([]string, len(claimed))
	for i, r := range claimed {
		lanes[i] = r.Lane
	}
	witnesses, err := d.store.Witnesses(ctx, d.source.Name, lanes)
	if err != nil {
		return nil, nil, err
	}
	var seen []providers.Event
	for _, ws := range witnesses {
		for _, w := range ws {
			seen = append(seen, w.Event)
		}
	}
	entries, err := d.source.Ledger.Ask(ctx, seen)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the ledger about newer events: %w", err)
	}
	done := make(map[string]bool)
	for i, e := range seen {
		done[e.Key] = entries[i].State == appdb.Done
	}
	return witnesses, done, nil
}

// judge stores verdicts and counts them.
func (d *drain) judge(ctx context.Context, verdicts []store.Verdict) error {
	if err := d.lease.Judge(ctx, verdicts); err != nil {
		return err
	}
	for _, v := range verdicts {
		d.tally(v)
	}
	if d.told != nil {
		d.told(d.stats)
	}
	return nil
}

func (d *drain) tally(v store.Verdict) {
	switch v.State {
	case store.ReplayRepaired:
		d.stats.Repaired++
		switch v.Reason {
		case confirmed:
			d.stats.Confirmed++
		case recorded:
			d.stats.Recorded++
		}
	case store.ReplaySuperseded:
		d.stats.Superseded++
	case store.ReplayHeld:
		d.stats.Held++
	case store.ReplayQueued:
		d.stats.Failed++
	case store.ReplayRejected:
		d.stats.Rejected++
	case store.ReplayUnrecorded:
		d.stats.Unrecorded++
	case store.ReplayParked:
		d.stats.Parked++
	}
}

// count fills in what is left over.
func (d *drain) count(ctx context.Context) error {
	left, err := d.store.CountReplays(ctx, d.source.Name)
	if err != nil {
		return err
	}
	d.stats.Unsent = left[store.ReplayQueued]
	d.stats.Waiting = left[store.ReplayAcknowledged]
	return nil
}
