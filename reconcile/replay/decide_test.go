package replay

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func replayOf(class providers.Class, version string) store.Replay {
	return store.Replay{ID: "rpl_1", Stream: "events", Class: class, Lane: "cus_1",
		Event: providers.Event{Key: "evt_1", ID: "evt_1", Created: noon, APIVersion: version}}
}

func witness(key string, created time.Time) store.Witness {
	return store.Witness{Lane: "cus_1", Event: providers.Event{Key: key, ID: key, Type: "customer.updated", Created: created}}
}

func TestWhatBecomesOfAClaimedReplay(t *testing.T) {
	newer, same, older := witness("evt_newer", noon.Add(time.Second)), witness("evt_same", noon), witness("evt_older", noon.Add(-time.Second))
	all := []store.Witness{older, witness("evt_1", noon), same, newer}
	for _, c := range []struct {
		name    string
		class   providers.Class
		version string
		ev      evidence
		want    step
		state   store.ReplayState
		hold    store.Hold
	}{
		{"what the ledger shows is not sent", providers.Fact, "", evidence{entry: appdb.Entry{State: appdb.Done}}, judge, store.ReplayRepaired, ""},
		{"a fact is sent whatever is newer", providers.Fact, "", evidence{later: all, done: map[string]bool{"evt_newer": true}}, send, "", ""},
		{"an ending is sent whatever is newer", providers.Ending, "", evidence{later: all, done: map[string]bool{"evt_newer": true}}, send, "", ""},
		{"a state without a fresh look waits", providers.Snapshot, "", evidence{later: all}, wait, "", ""},
		{"a state whose newer ones are missing too is sent", providers.Snapshot, "", evidence{looked: true, later: all}, send, "", ""},
		{"an older state that is done proves nothing", providers.Snapshot, "", evidence{looked: true, later: all, done: map[string]bool{"evt_older": true}}, send, "", ""},
		{"a newer state that is done supersedes", providers.Snapshot, "", evidence{looked: true, later: all, done: map[string]bool{"evt_newer": true}}, judge, store.ReplaySuperseded, ""},
		{"one of the same second is a tie", providers.Snapshot, "", evidence{looked: true, later: all, done: map[string]bool{"evt_same": true}}, judge, store.ReplayHeld, store.HoldTie},
		{"a newer one ends a tie", providers.Snapshot, "", evidence{looked: true, later: all, done: map[string]bool{"evt_same": true, "evt_newer": true}}, judge, store.ReplaySuperseded, ""},
		{"it is no witness against itself", providers.Snapshot, "", evidence{looked: true, later: all, done: map[string]bool{"evt_1": true}}, send, "", ""},
		{"another version is held", providers.Fact, "2015-02-16", evidence{version: "2023-10-16"}, judge, store.ReplayHeld, store.HoldVersion},
		{"another version goes where the config sends it", providers.Fact, "2015-02-16", evidence{version: "2023-10-16", sendsAny: true}, send, "", ""},
		{"an unknown version is no other version", providers.Fact, "2015-02-16", evidence{}, send, "", ""},
		{"what is recorded is repaired in any version", providers.Fact, "2015-02-16", evidence{version: "2023-10-16", entry: appdb.Entry{State: appdb.Done}}, judge, store.ReplayRepaired, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, v := decide(replayOf(c.class, c.version), c.ev)
			if got != c.want || v.State != c.state || v.Hold != c.hold {
				t.Errorf("decide: got step %d, state %q, hold %q; want %d, %q, %q", got, v.State, v.Hold, c.want, c.state, c.hold)
			}
			if got == judge && v.Reason == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func TestTheLedgerDecidesAfterAnAttempt(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		state   appdb.State
		want    store.ReplayState
		reason  string
	}{
		{Acknowledged, appdb.Done, store.ReplayRepaired, "acknowledged and recorded"},
		{Acknowledged, appdb.Absent, store.ReplayAcknowledged, "not in the ledger yet"},
		{Acknowledged, appdb.Pending, store.ReplayAcknowledged, "not in the ledger yet"},
		{Failed, appdb.Done, store.ReplayRepaired, "confirmed by record"},
		{Rejected, appdb.Done, store.ReplayRepaired, "confirmed by record"},
		{Failed, appdb.Absent, store.ReplayQueued, "told"},
		{Unknown, appdb.Absent, store.ReplayQueued, "told"},
		{NotSent, appdb.Absent, store.ReplayQueued, "told"},
		{ClockSkewed, appdb.Absent, store.ReplayQueued, "told"},
		{Rejected, appdb.Absent, store.ReplayRejected, "told"},
		{Redirected, appdb.Absent, store.ReplayRejected, "told"},
	} {
		v := conclusion(replayOf(providers.Fact, ""), Result{Outcome: c.outcome, Why: "told"}, appdb.Entry{State: c.state})
		if v.State != c.want || !strings.Contains(v.Reason, c.reason) {
			t.Errorf("%s, then the ledger says %s: got %s (%s), want %s (%s)", c.outcome, c.state, v.State, v.Reason, c.want, c.reason)
		}
	}
}

func TestALookOlderThanAQuarterOfAnHourProvesNothing(t *testing.T) {
	r := replayOf(providers.Snapshot, "")
	for _, c := range []struct {
		name          string
		at            time.Time
		of            string
		looked, stale bool
	}{
		{"just now", time.Now(), "rpl_1", true, false},
		{"eleven minutes ago", time.Now().Add(-11 * time.Minute), "rpl_1", true, true},
		{"sixteen minutes ago", time.Now().Add(-16 * time.Minute), "rpl_1", false, true},
		{"just now, for another replay", time.Now(), "rpl_2", false, false},
	} {
		d := &drain{looks: map[string]look{"events": {at: c.at, replays: map[string]bool{c.of: true}}}}
		if d.looked(r) != c.looked || d.stale() != c.stale {
			t.Errorf("looked %s: got looked %v, stale %v; want %v, %v", c.name, d.looked(r), d.stale(), c.looked, c.stale)
		}
	}
}

func TestStatusesMeanWhatTheyMeanToARetry(t *testing.T) {
	for status, want := range map[int]Outcome{
		http.StatusOK: Acknowledged, http.StatusNoContent: Acknowledged,
		http.StatusMovedPermanently: Redirected, http.StatusTemporaryRedirect: Redirected, http.StatusNotModified: Redirected,
		http.StatusRequestTimeout: Failed, http.StatusTooEarly: Failed, http.StatusTooManyRequests: Failed,
		http.StatusInternalServerError: Failed, http.StatusServiceUnavailable: Failed,
		http.StatusBadRequest: Rejected, http.StatusUnauthorized: Rejected, http.StatusGone: Rejected, http.StatusRequestEntityTooLarge: Rejected,
	} {
		if got := classify(status); got != want {
			t.Errorf("status %d: got %s, want %s", status, got, want)
		}
	}
}

func TestURLsThatAreOneToAProvider(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://App.example/hook", "https://app.example/hook/", true},
		{"HTTPS://app.example", "https://app.example/", true},
		{"https://app.example/hook", "https://app.example/Hook", false},
		{"https://app.example/hook?a=1", "https://app.example/hook?a=2", false},
		{"https://app.example/hook", "http://app.example/hook", false},
	} {
		if got := SameURL(c.a, c.b); got != c.same {
			t.Errorf("SameURL(%q, %q): got %v, want %v", c.a, c.b, got, c.same)
		}
	}
}
