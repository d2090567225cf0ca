package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// drain sends what is queued and watches the ledger. It waits for a drain of
// another process.
func (r *run) drain(ctx context.Context) error {
	deliverer, ok := r.source.Provider.(providers.Deliverer)
	if !ok || r.source.Sender == nil {
		return nil
	}
	deadline := time.Now().Add(r.options.Wait)
	lease, err := r.drainLease(ctx, deadline)
	if err != nil || lease == nil {
		return err
	}
	defer release(ctx, lease, r.log)
	working, stop := keep(ctx, lease)
	defer stop()
	endpoints, err := r.lastSeen(ctx)
	if err != nil {
		return err
	}
	witnessed, err := r.testify(ctx)
	if err != nil {
		return err
	}
	feed, _ := r.source.Provider.(providers.EventFeed)
	stats, err := replay.Drain(working, r.store, lease, replay.Source{
		Name: r.source.Name, Streams: r.streams, Endpoints: endpoints, Feed: feed, Listing: r.source.Listing,
		Witnessed: witnessed, Deliverer: deliverer,
		Ledger: r.source.recheck(), Targets: r.source.Targets, Sender: r.source.Sender,
		StuckAfter: r.source.StuckAfter, Keeps: r.source.Keeps,
		Now: r.now, Skewed: r.skewed, Log: r.log,
	}, r.source.Replay, deadline, r.tellReplay)
	r.report.drained(stats)
	if noted := r.noteTargets(context.WithoutCancel(ctx), stats); noted != nil {
		err = errors.Join(err, noted)
	}
	return err
}

// drainLease takes the drain lease, and waits while another process drains; nil
// when the time was over before.
func (r *run) drainLease(ctx context.Context, deadline time.Time) (*store.Lease, error) {
	for {
		lease, err := r.store.Acquire(ctx, r.source.Name, store.RoleDrain, r.row.Host, r.row.ID)
		var held *store.HeldError
		if !errors.As(err, &held) {
			return lease, err
		}
		if time.Now().After(deadline) {
			r.report.Reasons = append(r.report.Reasons, "another process was still replaying: "+held.Error())
			return nil, nil
		}
		r.log.InfoContext(ctx, "waiting for another drain", "holder", held.Holder)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(2 * time.Second):
		}
	}
}

// noteTargets makes findings of what the drain learned about our endpoints.
func (r *run) noteTargets(ctx context.Context, stats replay.Stats) error {
	var found []store.Finding
	for _, account := range slices.Sorted(maps.Keys(stats.Homeless)) {
		found = append(found, r.targetFinding(store.EndpointMissing, "account "+account, fmt.Sprintf(
			"no endpoint in the config takes the events of account %q, so %d replays cannot be sent; add one with match: {account: ...}, "+
				"or one without match", account, stats.Homeless[account])))
	}
	for _, url := range slices.Sorted(maps.Keys(stats.Redirected)) {
		place := r.place(url)
		found = append(found, r.targetFinding(store.EndpointFailing, place, fmt.Sprintf(
			"%s answers %d, a redirect: the provider counts that as a failure, and replays do not follow it; set the final URL "+
				"at the provider and in the config", place, stats.Redirected[url])))
	}
	for _, url := range slices.Sorted(maps.Keys(stats.Refusing)) {
		if _, said := stats.Redirected[url]; said {
			continue
		}
		place := r.place(url)
		found = append(found, r.targetFinding(store.EndpointFailing, place, fmt.Sprintf(
			"%s refuses whatever is sent to it (%d): most likely the signing secret in the config is not this endpoint's, or the "+
				"URL is not the handler's; the replays wait for the next run", place, stats.Refusing[url])))
	}
	for _, url := range slices.Sorted(maps.Keys(stats.Mismatched)) {
		place := r.place(url)
		found = append(found, r.targetFinding(store.APIVersionMismatch, place, fmt.Sprintf(
			"%s gets another API version than the events have (%s): their replays are held; set replay.version_mismatch to send "+
				"if the handler takes both", place, strings.Join(stats.Mismatched[url], ", "))))
	}
	if err := r.see(ctx, found...); err != nil {
		return err
	}
	holds, err := r.store.Holds(ctx, r.source.Name)
	if err != nil {
		return err
	}
	err = r.unseen(ctx, "", store.EndpointMissing)
	if holds[store.HoldVersion] == 0 {
		err = errors.Join(err, r.unseen(ctx, "", store.APIVersionMismatch))
	}
	if stats.Attempts > 0 {
		err = errors.Join(err, r.unseen(ctx, "", store.EndpointFailing))
	}
	return err
}

// place names one of the config's endpoints by where it stands there: its URL can
// be a secret.
func (r *run) place(url string) string {
	for i, t := range r.source.Targets {
		if t.Public() == url {
			return fmt.Sprintf("endpoints[%d]", i)
		}
	}
	return "endpoints"
}

// targetFinding is about one of the config's endpoints.
func (r *run) targetFinding(kind store.Kind, place, detail string) store.Finding {
	f := store.NewFinding(r.source.Name, "", r.row.ID, store.ScopeEndpoint, kind, place)
	f.Detail = detail
	return f
}
