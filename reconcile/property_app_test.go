package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// memoryApp is the application in memory: an idempotent handler with its ledger,
// which it answers for too. It watches over what may never be sent to it.
type memoryApp struct {
	mu      sync.Mutex
	now     func() time.Time
	rows    []ledgerRow    // in the order in which they were recorded
	effects map[string]int // how often the work of an event was done
	answers map[string][]answer
	calm    bool // every replay is handled at once

	posts    []post
	judge    func(providers.Event) string // what is wrong with sending an event now; "" if nothing
	breaches []string

	*outside
	asked int
	fault fault
}

type ledgerRow struct {
	id, eventType string
	done          bool
	at            time.Time
	finishes      int // so many nights later it is done; 0: never by itself
}

// A post is a replay that reached the application.
type post struct {
	id     string
	answer answer
}

func (a *memoryApp) row(id string) *ledgerRow {
	i := slices.IndexFunc(a.rows, func(r ledgerRow) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return &a.rows[i]
}

func (a *memoryApp) isDone(id string) bool {
	r := a.row(id)
	return r != nil && r.done
}

// handle takes a delivery, whoever brings it: an event that is done already has
// no second effect.
func (a *memoryApp) handle(e providers.Event, done bool, at time.Time, finishes int) {
	r := a.row(e.ID)
	if r == nil {
		a.rows = append(a.rows, ledgerRow{id: e.ID, eventType: e.Type, at: at})
		r = &a.rows[len(a.rows)-1]
	}
	if r.done {
		return
	}
	if r.done, r.finishes = done, finishes; done {
		a.effects[e.ID]++
	}
}

// night lets the application finish what it has begun.
func (a *memoryApp) night() {
	for i := range a.rows {
		r := &a.rows[i]
		if r.done || r.finishes == 0 {
			continue
		}
		if r.finishes--; r.finishes == 0 {
			r.done = true
			a.effects[r.id]++
		}
	}
}

// restore loses the last rows, with their work, and names them.
func (a *memoryApp) restore(n int) (lost []string) {
	keep := max(0, len(a.rows)-n)
	for _, r := range a.rows[keep:] {
		lost = append(lost, r.id)
		delete(a.effects, r.id)
	}
	a.rows = a.rows[:keep]
	return lost
}

// Send is one replay on its way: through the network to the handler.
func (a *memoryApp) Send(_ context.Context, w replay.Work) replay.Result {
	var result replay.Result
	err := a.do(func() error { result = a.receive(w.Event); return nil })
	if err != nil {
		return replay.Result{Outcome: replay.Failed, Phase: replay.PhaseResponse, Why: err.Error()}
	}
	return result
}

func (a *memoryApp) receive(e providers.Event) replay.Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isDone(e.ID) {
		a.breaches = append(a.breaches, fmt.Sprintf("%s was posted again though it is done", e.ID))
	}
	if wrong := a.judge(e); wrong != "" {
		a.breaches = append(a.breaches, wrong)
	}
	how := fine
	if left := a.answers[e.ID]; len(left) > 0 && !a.calm {
		how, a.answers[e.ID] = left[0], left[1:]
	}
	a.posts = append(a.posts, post{e.ID, how})
	switch how {
	case serverSays:
		return replay.Result{Outcome: replay.Failed, Status: 500, Why: "the endpoint answered 500"}
	case refused:
		return replay.Result{Outcome: replay.Rejected, Status: 422, Why: "the endpoint refused it with 422"}
	case fine, unheard:
		a.handle(e, true, a.now(), 0)
	case halfDone:
		a.handle(e, false, a.now(), 1)
	}
	if how == unheard {
		return replay.Result{Outcome: replay.Failed, Phase: replay.PhaseTimeout, Why: "no answer"}
	}
	return replay.Result{Outcome: replay.Acknowledged, Status: 200}
}

// Ask answers from the ledger, unless it is its turn to fail.
func (a *memoryApp) Ask(_ context.Context, events []providers.Event) ([]appdb.Entry, error) {
	entries := make([]appdb.Entry, len(events))
	err := a.question(func() {
		for i, e := range events {
			entries[i].State = appdb.Absent
			if r := a.row(e.ID); r != nil {
				entries[i] = appdb.Entry{State: appdb.Pending, Since: r.at}
				if r.done {
					entries[i].State = appdb.Done
				}
			}
		}
	})
	return entries, err
}

// question is one query to the ledger.
func (a *memoryApp) question(f func()) error {
	return a.call(func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked++
		if a.fault.at > 0 && (a.asked == a.fault.at || a.asked > a.fault.at && a.fault.kind == failsOn) {
			return fmt.Errorf("the ledger does not answer question %d", a.asked)
		}
		f()
		return nil
	})
}

func (a *memoryApp) Recorded(_ context.Context, w providers.Window, yield func(appdb.Recorded) error) error {
	var recorded []appdb.Recorded
	err := a.question(func() {
		for _, r := range a.rows {
			if w.Contains(r.at) {
				recorded = append(recorded, appdb.Recorded{ID: r.id, Type: r.eventType, HandledAt: r.at})
			}
		}
	})
	for _, r := range recorded {
		if err == nil {
			err = yield(r)
		}
	}
	return err
}

func (a *memoryApp) Types(_ context.Context, w providers.Window) ([]string, error) {
	var types []string
	err := a.question(func() {
		for _, r := range a.rows {
			if w.Contains(r.at) && !slices.Contains(types, r.eventType) {
				types = append(types, r.eventType)
			}
		}
	})
	return types, err
}

func (a *memoryApp) OtherMode(context.Context, providers.Window, bool) (int, error) { return 0, nil }

func (a *memoryApp) Lag(context.Context) (time.Duration, error) { return 0, nil }
