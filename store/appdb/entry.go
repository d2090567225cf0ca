package appdb

import "time"

// A State says what the ledger knows of an event.
type State string

// The states of events in the ledger.
const (
	Absent          State = "absent"          // no row
	Done            State = "done"            // a row whose work is done
	Pending         State = "pending"         // a row, not done, that may still become so
	Failed          State = "failed"          // a row that will not become done by itself
	Unrepresentable State = "unrepresentable" // the key columns' types cannot hold the event's key
)

// An Entry is the ledger's answer about one event.
type Entry struct {
	State State
	// Since is when the row was recorded, in UTC; of several rows in the State,
	// the earliest. It is zero if handled_at is not mapped or NULL.
	Since time.Time
	// OtherMode says that there are rows, all of the provider's other mode. State
	// is Absent then.
	OtherMode bool
	// Why says what does not fit, when State is Unrepresentable.
	Why string
}

// A group is the rows of one key that are in one state and one mode.
type group struct {
	ord   int64 // the key's place in the arrays, from 1
	state State
	other bool
	at    *int64
}

// strength orders the states that rows of one key may be in.
var strength = map[State]int{Absent: 0, Failed: 1, Pending: 2, Done: 3}

// add takes in one group of rows.
func (e *Entry) add(g group) {
	if g.other {
		e.OtherMode = e.State == Absent
		return
	}
	e.OtherMode = false
	if strength[g.state] > strength[e.State] {
		e.State, e.Since = g.state, fromMicros(g.at)
	}
}

// answered reports whether a row of the key was found.
func (e *Entry) answered() bool { return e.State != Absent || e.OtherMode }
