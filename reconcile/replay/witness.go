package replay

import (
	"context"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/store"
)

const (
	lookAgain = 10 * time.Minute // a drain that lasts longer looks again
	lookLasts = 15 * time.Minute // an older look proves nothing
)

// A look is one reading of a stream's feed for newer events of the subjects
// that wait.
type look struct {
	at      time.Time // monotonic
	replays map[string]bool
}

// witness reads the feeds for newer events of the subjects whose snapshots wait.
// What could not be read is left out: those snapshots wait, all else goes on.
func (d *drain) witness(ctx context.Context) error {
	waiting, err := d.store.WaitingSnapshots(ctx, d.source.Name)
	if err != nil {
		return err
	}
	for name, replays := range waiting {
		stream, known := d.source.Streams[name]
		if !known || d.source.Feed == nil {
			continue
		}
		if err := d.lookAt(ctx, stream, replays); err != nil {
			if ctx.Err() != nil {
				return err
			}
			d.source.Log.WarnContext(ctx, "newer events could not be looked for, snapshots wait",
				"stream", name, "err", err)
		}
	}
	return nil
}

func (d *drain) lookAt(ctx context.Context, stream providers.Stream, replays []store.Replay) error {
	began := time.Now()
	to := d.source.Now().Truncate(time.Second).Add(time.Second)
	window := providers.Window{From: lookFrom(stream, replays, d.source.Witnessed), To: to}
	lanes, ids := make(map[string]bool), make([]string, 0, len(replays))
	lk := look{at: began, replays: make(map[string]bool)}
	for _, r := range replays {
		lanes[r.Lane], lk.replays[r.ID] = true, true
		if _, told := d.source.Witnessed[r.ID]; !told {
			ids = append(ids, r.ID)
		}
	}
	take := listing.Pages(func(p listing.Page) error {
		return d.lease.AddWitnesses(ctx, stream.Name, witnessesAmong(p.Events, lanes, d.source.Deliverer))
	})
	_, err := listing.Walk(ctx, d.source.Feed, stream, window, d.source.Listing, take)
	if err != nil {
		return err
	}
	if err := d.lease.Witnessed(ctx, ids, to); err != nil {
		return err
	}
	d.looks[stream.Name] = lk
	return nil
}

// lookFrom is where a look has to begin: where the last one ended, less the
// overlap in which events become listable late, or at the event itself.
func lookFrom(stream providers.Stream, replays []store.Replay, witnessed map[string]time.Time) time.Time {
	var from time.Time
	for _, r := range replays {
		start, seenTo := r.Event.Created, witnessed[r.ID]
		if r.WitnessedTo != nil {
			seenTo = *r.WitnessedTo
		}
		if last := seenTo.Add(-stream.Feed.Overlap); last.After(start) {
			start = last
		}
		if from.IsZero() || start.Before(from) {
			from = start
		}
	}
	return from.UTC().Truncate(time.Second)
}

// witnessesAmong are the events that carry the state of a lane's subject.
func witnessesAmong(events []providers.Event, lanes map[string]bool, d providers.Deliverer) []store.Witness {
	var found []store.Witness
	for _, e := range events {
		if lanes[e.Lane()] && d.Class(e.Type).CarriesState() {
			found = append(found, store.Witness{Event: e, Lane: e.Lane()})
		}
	}
	return found
}

// looked reports whether the feed was read for a replay recently enough.
func (d *drain) looked(r store.Replay) bool {
	lk, ok := d.looks[r.Stream]
	return ok && lk.replays[r.ID] && time.Since(lk.at) < lookLasts
}

// stale reports whether it is time to look again.
func (d *drain) stale() bool {
	for _, lk := range d.looks {
		if time.Since(lk.at) > lookAgain {
			return true
		}
	}
	return false
}
