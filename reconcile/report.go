package reconcile

import (
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// A Report is what one run found in one source.
type Report struct {
	Source     string          `json:"source"`
	Provider   string          `json:"provider"`
	Run        RunReport       `json:"run"`
	Coverage   Coverage        `json:"coverage"`
	Streams    []*StreamReport `json:"streams"`
	Findings   []FindingReport `json:"findings"` // seen or closed by this run, and all that are open, by id
	Gate       GateReport      `json:"gate"`
	Replays    ReplayReport    `json:"replays"`
	Endpoints  []EndpointShown `json:"endpoints"`
	CannotShow []string        `json:"cannot_show"` // what this provider's API leaves unknown
	Reasons    []string        `json:"reasons"`     // why the run is not complete, beyond those of its streams

	incomplete  bool
	interrupted bool
	failed      bool
	newGap      bool
	gateHolds   bool
	dry         []store.Finding
	dryMore     int
	misuse      bool            // the config or the command line is wrong
	healedDry   map[string]bool // open findings that a run that is not dry would close
}

// A RunReport says which run it was.
type RunReport struct {
	ID         string        `json:"id"`
	Cause      string        `json:"cause"` // what started it: hand, schedule
	Mode       string        `json:"mode"`  // report: drift is only told; repair: replays are sent
	DryRun     bool          `json:"dry_run"`
	Host       string        `json:"host"`    // host and process
	Version    string        `json:"version"` // of nightaudit
	StartedAt  time.Time     `json:"started_at"`
	FinishedAt time.Time     `json:"finished_at"`
	Outcome    store.Outcome `json:"outcome"`
}

// Coverage is what the run really saw.
type Coverage struct {
	Complete    bool           `json:"complete"` // every window was listed and compared
	Pages       int            `json:"pages"`
	Requests    []RequestCount `json:"requests"`      // to the provider
	ClockSkewMS int64          `json:"clock_skew_ms"` // how far the provider's clock is ahead of ours
}

// A RequestCount is how many requests the provider answered with a status.
type RequestCount struct {
	Status int `json:"status"` // 0: no answer
	Count  int `json:"count"`
}

// A WindowReport is a half-open window, or nulls if there was none.
type WindowReport struct {
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
}

func (w WindowReport) window() providers.Window {
	if w.From == nil {
		return providers.Window{}
	}
	return providers.Window{From: *w.From, To: *w.To}
}

func (w WindowReport) length() time.Duration { return w.window().Length() }

// A WatermarkReport is how far a stream has been fully compared.
type WatermarkReport struct {
	Before *time.Time `json:"before"` // null: the stream is new
	After  *time.Time `json:"after"`  // as stored when the run ended; null: there is none yet
}

// A StreamReport is what the run saw of one stream. Its counts are the books:
// each listed event is in exactly one class.
type StreamReport struct {
	Stream    string          `json:"stream"`
	Account   string          `json:"account"`
	Complete  bool            `json:"complete"`
	Reasons   []string        `json:"reasons"` // why it is not
	Window    WindowReport    `json:"window"`
	Watermark WatermarkReport `json:"watermark"`
	Gaps      []WindowReport  `json:"gaps"` // what can never be compared, found by this run

	SubWindows int `json:"sub_windows"` // fully compared
	Pages      int `json:"pages"`
	store.Counts
	ProcessedRatio *float64 `json:"processed_ratio"` // done / (listed - ignored)

	// Work is what became of missing + stuck: the states of their replays, and
	// "unreplayable" for those that are never sent again. It is empty in a dry run.
	Work     map[string]int `json:"work"`
	Balanced bool           `json:"balanced"` // both sums hold

	IgnoredTypes  []IgnoredReport `json:"ignored_types"`
	Repeated      int             `json:"repeated"`        // listed more than once
	OutsideWindow int             `json:"outside_window"`  // listed and not asked for
	OtherModeRows int             `json:"other_mode_rows"` // rows of the ledger in the other mode (live or test)
	UnlistedRows  int             `json:"unlisted_rows"`   // rows of the ledger whose event was not in the window
	LookedUp      int             `json:"looked_up"`       // of these: looked up at the provider

	ignored  map[IgnoredReport]int
	unknowns []string
}

// An IgnoredReport counts the events of a type that were listed and not
// compared.
type IgnoredReport struct {
	Type  string `json:"type"`
	Why   string `json:"why"`
	Count int    `json:"count"`
}

// A FindingReport is one piece of drift.
type FindingReport struct {
	ID          string           `json:"id"`
	Stream      string           `json:"stream"`
	Scope       store.Scope      `json:"scope"`
	Kind        store.Kind       `json:"kind"`
	Key         string           `json:"key"`
	State       string           `json:"state"`        // open, closed
	Resolution  store.Resolution `json:"resolution"`   // how it was closed; "" while it is open
	NeedsPerson bool             `json:"needs_person"` // no later run will close it by itself
	Late        bool             `json:"late"`         // open, and still allowed to be
	DueAt       *time.Time       `json:"due_at"`
	Cause       store.Cause      `json:"cause"`
	Detail      string           `json:"detail"` // one sentence for a person
	Event       *EventReport     `json:"event"`  // null if it is about no event
	FirstSeenAt time.Time        `json:"first_seen_at"`
	LastSeenAt  time.Time        `json:"last_seen_at"`
	ClosedAt    *time.Time       `json:"closed_at"`
	New         bool             `json:"new"`    // first seen by this run
	Replay      *ReplayOfEvent   `json:"replay"` // the newest; null if there never was one
}

// The states of a finding.
const (
	stateOpen   = "open"
	stateClosed = "closed"
)

// An EventReport names an event.
type EventReport struct {
	ID         string     `json:"id"`
	Account    string     `json:"account"`
	Type       string     `json:"type"`
	Created    *time.Time `json:"created"`
	Subject    string     `json:"subject"` // account/kind/id of the object it is about; "" if it has none
	APIVersion string     `json:"api_version"`
	Livemode   *bool      `json:"livemode"` // null where the provider has no test mode
}

// A ReplayOfEvent is where the newest replay of a finding stands.
type ReplayOfEvent struct {
	ID          string            `json:"id"`
	State       store.ReplayState `json:"state"`
	Hold        store.Hold        `json:"hold"`   // why it is held; "" if it is not
	Reason      string            `json:"reason"` // one sentence for a person
	Class       providers.Class   `json:"class"`
	PlannedAt   time.Time         `json:"planned_at"`
	Attempts    int               `json:"attempts"`
	Overtaken   bool              `json:"overtaken"` // a younger event of its subject was sent after it failed
	LastAttempt *AttemptReport    `json:"last_attempt"`
}

// An AttemptReport is the newest attempt of a replay. What the application
// answered is left out: it may repeat what it was sent.
type AttemptReport struct {
	Number    int            `json:"number"`
	StartedAt time.Time      `json:"started_at"`
	EndedAt   *time.Time     `json:"ended_at"` // null while it is under way
	Endpoint  string         `json:"endpoint"` // scheme and host
	Outcome   replay.Outcome `json:"outcome"`  // "" while it is under way
	Phase     replay.Phase   `json:"phase"`    // where it failed without an answer, else ""
	Status    int            `json:"status"`   // HTTP status; 0 if there was no answer
	Why       string         `json:"why"`
	BodyBytes int64          `json:"body_bytes"` // of the request
}

// A GateReport is what the gate did in this run.
type GateReport struct {
	Open      bool    `json:"open"`       // it let replays through: not in mode report, not when it holds them
	Compared  int     `json:"compared"`   // events that the planned replays were weighed against
	Planned   int     `json:"planned"`    // replays that waited at the gate
	Queued    int     `json:"queued"`     // of these: let through
	Released  int     `json:"released"`   // held before, and let go by a person's word
	WouldHold *string `json:"would_hold"` // why it would hold what is planned, were it not shut; null if it would not
	Why       *string `json:"why"`        // why it holds them; null if it does not
}

func (g *GateReport) wouldHold(why string) {
	if why != "" {
		g.WouldHold = &why
	}
}

// A ReplayReport counts what the run's drain did.
type ReplayReport struct {
	Attempts   int `json:"attempts"`
	Repaired   int `json:"repaired"`                // the ledger shows them
	Confirmed  int `json:"confirmed_by_record"`     // of repaired: without an acknowledgement
	Recorded   int `json:"recorded_without_replay"` // of repaired: before anything was sent
	Superseded int `json:"superseded"`
	Held       int `json:"held"`   // for a tie or another API version; the gate's are not among them
	Failed     int `json:"failed"` // tried, and to be tried again
	Rejected   int `json:"rejected"`
	Unrecorded int `json:"unrecorded"`
	Parked     int `json:"parked"`
	Pending    int `json:"pending"` // queued or acknowledged when the run ended
}

// An EndpointShown is an endpoint as the provider shows it.
type EndpointShown struct {
	ID         string   `json:"id"`
	Stream     string   `json:"stream"` // the first of those whose events it gets
	Host       string   `json:"host"`   // scheme and host of its URL
	Ours       bool     `json:"ours"`   // its URL is in the config
	Enabled    bool     `json:"enabled"`
	Types      []string `json:"types"`
	APIVersion string   `json:"api_version"` // "" is the account's default
	Livemode   *bool    `json:"livemode"`    // null where the provider has no test mode
}
