package replay

import (
	"fmt"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// A step is what is to be done with a claimed replay.
type step int

const (
	send  step = iota // it may leave
	judge             // its state changes without a request
	wait              // not in this drain: it may yet be done, or newer events of its subject could not be looked for
)

// evidence is what a drain knows of a claimed replay when it decides.
type evidence struct {
	entry    appdb.Entry     // the ledger's, asked just now
	later    []store.Witness // events of its subject that carry state
	done     map[string]bool // which of them the ledger shows as done, by key
	looked   bool            // the feed was read for them recently
	version  string          // the API version that its endpoint gets; "" if not known
	sendsAny bool            // another version is no reason to hold it

	now        time.Time
	stuckAfter time.Duration
	keeps      time.Duration // 0 is for ever
}

// decide says what becomes of a claimed replay. It does no I/O.
func decide(r store.Replay, ev evidence) (step, store.Verdict) {
	verdict := store.Verdict{Replay: r}
	switch {
	case ev.entry.State == appdb.Done:
		verdict.State, verdict.Reason = store.ReplayRepaired, recordedReason(r)
		return judge, verdict
	case ev.entry.State == appdb.Pending && ev.now.Sub(ev.entry.Since) < ev.stuckAfter:
		return wait, verdict // its handler may be at work just now
	case ev.keeps > 0 && r.Event.Created.Before(ev.now.Add(-ev.keeps)):
		verdict.State = store.ReplayCancelled
		verdict.Reason = fmt.Sprintf("the event is older than the ledger keeps its rows (%s): whether it was handled can no longer be told", ev.keeps)
		return judge, verdict
	case mismatched(r, ev):
		verdict.State, verdict.Hold = store.ReplayHeld, store.HoldVersion
		verdict.Reason = fmt.Sprintf("the event is of API version %s and its endpoint gets %s; "+
			"set replay.version_mismatch to send if the handler takes both", r.Event.APIVersion, ev.version)
		return judge, verdict
	case r.Class != providers.Snapshot:
		return send, verdict
	case !ev.looked:
		return wait, verdict
	}
	return decideSnapshot(r, ev, verdict)
}

// decideSnapshot keeps an old state from overwriting a newer one.
func decideSnapshot(r store.Replay, ev evidence, verdict store.Verdict) (step, store.Verdict) {
	tie := ""
	for _, w := range ev.later {
		switch {
		case w.Event.Key == r.Event.Key || !ev.done[w.Event.Key]:
		case w.Event.Created.After(r.Event.Created):
			verdict.State = store.ReplaySuperseded
			verdict.Reason = fmt.Sprintf("newer state of its subject is done: %s %s of %s",
				w.Event.Type, w.Event.ID, w.Event.Created.Format(time.RFC3339))
			return judge, verdict
		case w.Event.Created.Equal(r.Event.Created):
			tie = w.Event.ID
		}
	}
	if tie == "" {
		return send, verdict
	}
	verdict.State, verdict.Hold = store.ReplayHeld, store.HoldTie
	verdict.Reason = fmt.Sprintf("event %s of the same second and subject is done, and which is newer cannot be told; "+
		"compare the object, and have it delivered again if the application is behind", tie)
	return judge, verdict
}

// The reasons of repaired replays, by how the ledger came to show them.
const (
	verified  = "acknowledged and recorded"
	confirmed = "confirmed by record"       // an attempt got no acknowledgement
	recorded  = "recorded without a replay" // before anything was sent
)

// recordedReason tells how an event came to be recorded before it was sent now.
func recordedReason(r store.Replay) string {
	if r.Attempts > 0 {
		return confirmed
	}
	return recorded
}

func mismatched(r store.Replay, ev evidence) bool {
	return !ev.sendsAny && ev.version != "" && r.Event.APIVersion != "" && r.Event.APIVersion != ev.version
}
