package reconcile_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// A history is a row of nights of one source, in which anything may go wrong.
// It is plain data: a history that showed a fault becomes a test by itself.
type history struct {
	pageSize    int
	concurrency int
	nights      []night
}

// A night is what happened since the night before, and the run that is then made.
type night struct {
	after time.Duration // since the night before

	emitted   []emission
	endpoint  change
	types     []string // with changeTypes
	restored  int      // the application's database loses its last so many rows
	include   []string
	exclude   []string
	since     time.Duration // by hand, so long ago; 0 is by schedule
	until     time.Duration // so long ago; 0 is until now
	dry       bool
	report    bool // mode report: the gate stays shut
	release   bool
	provider  fault
	ledger    fault
	kill      int // the operation at which the process ends; 0: it does not
	how       ending
	lowGate   bool // more than two replays at once are held
	endpoints bool // the endpoints cannot be read
}

// An emission is one event and what becomes of it on its way.
type emission struct {
	eventType string
	object    string        // "": none
	ago       time.Duration // before the night
	late      time.Duration // listable so long after it was created
	live      delivery
	arrives   int      // with delayed and half: so many nights later
	answers   []answer // to the replays of it; then it is handled
	garbled   int      // so many nights it cannot be decoded; 1000 is for ever
}

// A delivery is what the provider's own delivery comes to.
type delivery int

const (
	delivered delivery = iota // recorded and done
	dropped                   // never arrives
	delayed                   // arrives nights later
	half                      // recorded, and done nights later
	halfLost                  // recorded, and never done
)

// An answer is how the application takes a replay.
type answer int

const (
	fine       answer = iota // recorded and done
	serverSays               // 5xx, nothing is recorded
	forgotten                // 2xx, nothing is recorded
	unheard                  // recorded and done, and the answer is lost
	halfDone                 // 2xx, recorded and done by the next night
	refused                  // 4xx
)

// A change is what happens to the endpoint at the provider.
type change int

const (
	unchanged change = iota
	disable
	enable
	remove
	recreate
	changeTypes
)

// A fault is what goes wrong at the n-th request of a night, from 1; 0 is none.
type fault struct {
	at   int
	kind faultKind
}

type faultKind int

const (
	fails      faultKind = iota // an error, once
	failsOn                     // an error, from then on
	contradict                  // a page that promises more and holds nothing
	repeats                     // each page from then on repeats an event
)

var (
	deliveryNames = [...]string{"delivered", "dropped", "delayed", "half", "halfLost"}
	answerNames   = [...]string{"fine", "serverSays", "forgotten", "unheard", "halfDone", "refused"}
	changeNames   = [...]string{"unchanged", "disable", "enable", "remove", "recreate", "changeTypes"}
	faultNames    = [...]string{"fails", "failsOn", "contradict", "repeats"}
)

func (d delivery) String() string  { return deliveryNames[d] }
func (a answer) String() string    { return answerNames[a] }
func (c change) String() string    { return changeNames[c] }
func (k faultKind) String() string { return faultNames[k] }

// step is one word or sentence of a night that differs from a calm one.
func (n night) String() string {
	var b strings.Builder
	say := func(when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&b, "; "+format, args...)
		}
	}
	fmt.Fprintf(&b, "%s later", n.after)
	say(n.endpoint != unchanged, "endpoint: %v %v", n.endpoint, n.types)
	say(n.restored > 0, "the application loses its last %d rows", n.restored)
	say(n.include != nil || n.exclude != nil, "include %v exclude %v", n.include, n.exclude)
	say(n.since > 0, "by hand since %s ago", n.since)
	say(n.until > 0, "until %s ago", n.until)
	say(n.dry, "dry")
	say(n.report, "mode report")
	say(n.release, "release")
	say(n.lowGate, "low gate")
	say(n.endpoints, "endpoints cannot be read")
	say(n.provider.at > 0, "provider %v at request %d", n.provider.kind, n.provider.at)
	say(n.ledger.at > 0, "ledger %v at question %d", n.ledger.kind, n.ledger.at)
	say(n.kill > 0, "ended at operation %d, %v", n.kill, n.how)
	return b.String()
}

func (e emission) String() string {
	s := fmt.Sprintf("%s %s %s before the night, %v", e.eventType, e.object, e.ago, e.live)
	if e.live == delayed || e.live == half {
		s += fmt.Sprintf(" by %d nights", e.arrives)
	}
	if e.late > 0 {
		s += fmt.Sprintf("; listable %s later", e.late)
	}
	if len(e.answers) > 0 {
		s += fmt.Sprintf("; answers %v", e.answers)
	}
	if e.garbled > 0 {
		s += fmt.Sprintf("; garbled for %d nights", e.garbled)
	}
	return s
}

const grain = 5 * time.Minute // events happen at few instants, so that some share one

// rarely is true in one of n cases; small draws are the calm ones.
func rarely(t *rapid.T, n int, what string) bool {
	return rapid.IntRange(0, n-1).Draw(t, what) == n-1
}

// drawHistory draws a history of a few nights.
func drawHistory(t *rapid.T) history {
	h := history{
		pageSize:    rapid.SampledFrom([]int{100, 3, 1}).Draw(t, "page size"),
		concurrency: rapid.SampledFrom([]int{1, 3}).Draw(t, "concurrency"),
	}
	filters := [][]string{nil, {"order.*"}, {"cart.*", "order.paid"}, {"cart.*"}}
	filter := filters[0]
	h.nights = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) night {
		if rarely(t, 5, "other filter") {
			filter = rapid.SampledFrom(filters).Draw(t, "include")
		}
		n := drawNight(t)
		n.include = filter
		return n
	}), 1, 6).Draw(t, "nights")
	return h
}

func drawNight(t *rapid.T) night {
	n := night{after: time.Duration(rapid.SampledFrom([]int{24, 1, 3, 12, 50}).Draw(t, "hours")) * time.Hour}
	n.emitted = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) emission { return drawEmission(t, n.after) }), 0, 6).Draw(t, "emitted")
	if rarely(t, 4, "endpoint changes") {
		n.endpoint = rapid.SampledFrom([]change{disable, enable, remove, recreate, changeTypes}).Draw(t, "change")
	}
	if n.endpoint == changeTypes || n.endpoint == recreate {
		n.types = rapid.SampledFrom([][]string{{"*"}, {"order.*"}, {"cart.*", "order.paid"}}).Draw(t, "types")
	}
	if rarely(t, 8, "restored") {
		n.restored = rapid.IntRange(1, 5).Draw(t, "rows")
	}
	if rarely(t, 8, "exclude") {
		n.exclude = []string{"cart.deleted"}
	}
	drawRun(t, &n)
	drawFaults(t, &n)
	return n
}

func drawRun(t *rapid.T, n *night) {
	if rarely(t, 4, "by hand") {
		n.since = rapid.SampledFrom([]time.Duration{30 * time.Minute, time.Hour, 70 * time.Minute, 2 * time.Hour,
			12 * time.Hour, 60 * time.Hour}).Draw(t, "since")
	}
	if rarely(t, 6, "bounded") {
		n.until = rapid.SampledFrom([]time.Duration{20 * time.Minute, time.Hour, 2 * time.Hour, 30 * time.Hour}).Draw(t, "until")
	}
	n.dry = rarely(t, 12, "dry")
	n.report = rarely(t, 4, "report")
	n.release = rarely(t, 4, "release")
	n.lowGate = rarely(t, 6, "low gate")
}

func drawFaults(t *rapid.T, n *night) {
	if rarely(t, 4, "provider fails") {
		n.provider = fault{rapid.IntRange(1, 6).Draw(t, "request"),
			rapid.SampledFrom([]faultKind{fails, failsOn, contradict, repeats}).Draw(t, "fault")}
	}
	if rarely(t, 6, "ledger fails") {
		n.ledger = fault{rapid.IntRange(1, 8).Draw(t, "question"), rapid.SampledFrom([]faultKind{fails, failsOn}).Draw(t, "fault")}
	}
	n.endpoints = rarely(t, 12, "endpoints fail")
	if rarely(t, 3, "ends") {
		n.kill = 20*rapid.IntRange(0, 12).Draw(t, "operations") + rapid.IntRange(1, 20).Draw(t, "operation")
		n.how = rapid.SampledFrom([]ending{beforeIt, afterIt, toldTo, stalls}).Draw(t, "how")
	}
}

func drawEmission(t *rapid.T, within time.Duration) emission {
	types := []string{"order.paid", "cart.updated", "order.refunded", "cart.deleted", "login.created"}
	e := emission{
		eventType: rapid.SampledFrom(append(types, "cart.updated", "cart.updated", "order.paid")).Draw(t, "type"),
		object:    rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "object"),
		ago:       time.Duration(rapid.IntRange(1, min(36, int(within/grain)-1)).Draw(t, "ago")) * grain,
		live:      rapid.SampledFrom([]delivery{delivered, dropped, delivered, dropped, delayed, half, halfLost}).Draw(t, "live"),
	}
	if rarely(t, 4, "late") {
		e.late = rapid.SampledFrom([]time.Duration{5 * time.Minute, 20 * time.Minute, 59 * time.Minute}).Draw(t, "late by")
	}
	if e.live == delayed || e.live == half {
		e.arrives = rapid.IntRange(1, 3).Draw(t, "arrives")
	}
	if rarely(t, 3, "misbehaves") {
		e.answers = rapid.SliceOfN(rapid.SampledFrom([]answer{serverSays, forgotten, unheard, halfDone, fine, refused}), 1, 4).Draw(t, "answers")
	}
	if rarely(t, 10, "garbled") {
		e.garbled = rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "for")
	}
	return e
}
