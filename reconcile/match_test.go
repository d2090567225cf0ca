package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// A factsOnly deliverer sends everything but logins.
type factsOnly struct{ providers.Deliverer }

func (factsOnly) Class(string) providers.Class { return providers.Fact }

func (factsOnly) Replayable(eventType string) (bool, string) {
	return eventType != "login", "a login belongs to its moment"
}

func TestEachExpectedEventIsInOneClassByWhatTheLedgerSays(t *testing.T) {
	x := rules{deliverer: factsOnly{}, stuckAfter: time.Hour, now: planned,
		expect: expectation{states: []state{{types: []string{"*"}}}}}
	pending := func(d time.Duration) appdb.Entry { return appdb.Entry{State: appdb.Pending, Since: ago(d)} }
	none, some := 0, 2
	for _, c := range []struct {
		name    string
		event   providers.Event
		entry   appdb.Entry
		class   store.Class
		kind    store.Kind
		cause   store.Cause
		replays bool
	}{
		{"done", providers.Event{}, appdb.Entry{State: appdb.Done}, store.Done, "", "", false},
		{"absent", providers.Event{}, appdb.Entry{State: appdb.Absent}, store.Missing, store.MissingEvent, store.CauseUnknown, true},
		{"absent and not acknowledged", providers.Event{PendingDeliveries: &some}, appdb.Entry{State: appdb.Absent}, store.Missing, store.MissingEvent, store.DeliveryFailed, true},
		{"absent and acknowledged", providers.Event{PendingDeliveries: &none}, appdb.Entry{State: appdb.Absent}, store.Missing, store.MissingEvent, store.DeliveredNotRecorded, true},
		{"absent and never to be sent", providers.Event{Type: "login"}, appdb.Entry{State: appdb.Absent}, store.Missing, store.Unreplayable, store.CauseUnknown, false},
		{"failed", providers.Event{}, appdb.Entry{State: appdb.Failed}, store.Stuck, store.StuckEvent, store.RecordedNotDone, true},
		{"pending for 26 hours", providers.Event{}, pending(26 * time.Hour), store.Stuck, store.StuckEvent, store.RecordedNotDone, true},
		{"pending for an hour", providers.Event{}, pending(time.Hour), store.Stuck, store.StuckEvent, store.RecordedNotDone, true},
		{"pending for 30 seconds", providers.Event{}, pending(30 * time.Second), store.Late, store.StuckEvent, store.RecordedNotDone, false},
		{"pending since nobody knows when, of an old event", providers.Event{Created: ago(2 * time.Hour)}, appdb.Entry{State: appdb.Pending}, store.Stuck, store.StuckEvent, store.RecordedNotDone, true},
		{"pending since nobody knows when, of a young event", providers.Event{Created: ago(time.Minute)}, appdb.Entry{State: appdb.Pending}, store.Late, store.StuckEvent, store.RecordedNotDone, false},
		{"not representable", providers.Event{}, appdb.Entry{State: appdb.Unrepresentable, Why: "event_id is uuid"}, store.Missing, store.Unreplayable, store.CauseUnknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := x.judge(c.event, c.entry)
			if j.class != c.class || j.drift.Kind != c.kind || j.drift.Cause != c.cause || j.drift.Replay != c.replays {
				t.Errorf("judge: got %s %s %s replay %v; want %s %s %s %v",
					j.class, j.drift.Kind, j.drift.Cause, j.drift.Replay, c.class, c.kind, c.cause, c.replays)
			}
			if (j.drift.DueAt != nil) != (c.class == store.Late) {
				t.Errorf("due at %v, want a time for what is late alone", j.drift.DueAt)
			}
		})
	}
}

func TestWithoutADelivererNothingIsEverSent(t *testing.T) {
	j := rules{now: planned}.judge(providers.Event{Type: "invoice.paid"}, appdb.Entry{State: appdb.Absent})
	if j.class != store.Missing || j.drift.Kind != store.Unreplayable || j.drift.Replay {
		t.Errorf("judge: got %s %s replay %v, want it missing and unreplayable", j.class, j.drift.Kind, j.drift.Replay)
	}
}

func TestAnUnreadableElementIsNamedByItsIDOrItsBytes(t *testing.T) {
	byID := unreadable(providers.Unreadable{ID: "evt_1", Bytes: []byte("sekret"), Why: "no number"})
	byBytes := unreadable(providers.Unreadable{Bytes: []byte("sekret"), Why: "no number"})
	if byID.drift.Event.Key != "evt_1" || !strings.HasPrefix(byBytes.drift.Event.Key, "sha256:") {
		t.Errorf("keys: got %q and %q", byID.drift.Event.Key, byBytes.drift.Event.Key)
	}
	if strings.Contains(byBytes.drift.Detail, "sekret") {
		t.Errorf("detail: %q shows the content", byBytes.drift.Detail)
	}
}
