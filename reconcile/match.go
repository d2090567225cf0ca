package reconcile

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// rules are what a listed event is judged by.
type rules struct {
	expect     expectation
	deliverer  providers.Deliverer // nil: nothing can be sent
	stuckAfter time.Duration
	now        time.Time
}

// judgement is where one expected event belongs.
type judgement struct {
	class store.Class
	drift store.Drift // with any class but store.Done
}

// ignored reports whether an event needs no look at the ledger, and why.
func (x rules) ignored(e providers.Event) (reason, bool) {
	expected, why := x.expect.expected(e.Type, e.Created)
	return why, !expected
}

// judge puts an expected event into exactly one class, by what the ledger says
// of it. It does no I/O and reads no clock, so that a recorded listing and
// ledger repeat a run.
func (x rules) judge(e providers.Event, entry appdb.Entry) judgement {
	switch entry.State {
	case appdb.Done:
		return judgement{class: store.Done}
	case appdb.Pending:
		return x.pending(e, entry)
	case appdb.Failed:
		return x.stuck(e, "its row in the ledger says that the work failed")
	case appdb.Unrepresentable:
		return drift(store.Missing, store.Drift{Event: e, Kind: store.Unreplayable, Cause: store.CauseUnknown,
			Detail: "it can never be recorded: " + entry.Why + "; give the column a type that holds the provider's ids"})
	default:
		return x.missing(e, entry)
	}
}

func drift(class store.Class, d store.Drift) judgement {
	d.Class = class
	return judgement{class: class, drift: d}
}

// pending is late as long as its handler may still be at work.
func (x rules) pending(e providers.Event, entry appdb.Entry) judgement {
	since := entry.Since
	if since.IsZero() {
		since = e.Created
	}
	due := since.Add(x.stuckAfter)
	if x.now.Before(due) {
		return drift(store.Late, store.Drift{Event: e, Kind: store.StuckEvent, Cause: store.RecordedNotDone, DueAt: &due,
			Detail: fmt.Sprintf("recorded and not done yet; stuck from %s on", due.UTC().Format(time.RFC3339))})
	}
	return x.overdue(e)
}

// overdue is stuck: its handler had all the time that it may take.
func (x rules) overdue(e providers.Event) judgement {
	return x.stuck(e, fmt.Sprintf("recorded, and not done for more than %s", span(x.stuckAfter)))
}

func (x rules) stuck(e providers.Event, detail string) judgement {
	return x.replayable(store.Stuck, store.Drift{Event: e, Kind: store.StuckEvent, Cause: store.RecordedNotDone, Detail: detail})
}

func (x rules) missing(e providers.Event, entry appdb.Entry) judgement {
	d := store.Drift{Event: e, Kind: store.MissingEvent}
	d.Cause, d.Detail = x.cause(e)
	if entry.OtherMode {
		d.Detail += "; the ledger has it for the other mode (live or test) only"
	}
	return x.replayable(store.Missing, d)
}

// cause says whose fault a missing event is, as far as the provider lets it be
// known.
func (x rules) cause(e providers.Event) (store.Cause, string) {
	switch {
	case !x.expect.subscribed(e.Type, e.Created):
		return store.NotSubscribed, "no endpoint subscribed to its type when it happened"
	case e.PendingDeliveries == nil:
		return store.CauseUnknown, "not in the ledger"
	case *e.PendingDeliveries > 0:
		return store.DeliveryFailed, fmt.Sprintf("not in the ledger; deliveries to %s are not acknowledged", things(*e.PendingDeliveries, "endpoint"))
	default:
		return store.DeliveredNotRecorded, "not in the ledger, and no delivery of it is pending: acknowledged and then lost"
	}
}

// replayable decides whether what is missing may be sent again.
func (x rules) replayable(class store.Class, d store.Drift) judgement {
	if x.deliverer == nil {
		d.Kind, d.Detail = store.Unreplayable, d.Detail+"; nightaudit cannot send deliveries of this provider"
		return drift(class, d)
	}
	ok, why := x.deliverer.Replayable(d.Event.Type)
	if !ok {
		d.Kind, d.Detail = store.Unreplayable, d.Detail+"; never sent again: "+why
		return drift(class, d)
	}
	d.Replay, d.Carry = true, x.deliverer.Class(d.Event.Type)
	return drift(class, d)
}

// unreadable is the judgement on an element that could not be decoded.
func unreadable(u providers.Unreadable) judgement {
	if !isName(u.ID) {
		u.ID = ""
	}
	return drift(store.Unreadable, store.Drift{
		Event: providers.Event{Key: listing.UnreadableKey(u), ID: u.ID}, Kind: store.UnreadableEvent,
		Cause: store.CauseUnknown, Detail: "listed and not to be decoded: " + u.Why,
	})
}

// unfit gives an event that no database can name as an unreadable one.
func unfit(e providers.Event) (providers.Unreadable, bool) {
	for _, s := range []string{e.Key, e.ID, e.Account, e.Type, e.APIVersion, e.Subject.Kind, e.Subject.ID} {
		if !isName(s) {
			return providers.Unreadable{Bytes: e.Payload, Why: "its id or type is no text that can be stored"}, true
		}
	}
	return providers.Unreadable{}, false
}

// maxName is how many bytes an id or a type may have: far more than any provider
// uses, and few enough for an index.
const maxName = 512

// isName reports whether a database can hold s as an id.
func isName(s string) bool {
	return len(s) <= maxName && !strings.ContainsRune(s, 0) && utf8.ValidString(s)
}
