package reconcile

import (
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/reconcile/replay"
)

// The steps that can take long.
const (
	StepList   = "list"
	StepReplay = "replay"
)

// Progress is how far a run has come.
type Progress struct {
	Source  string
	Step    string // StepList or StepReplay
	Stream  string
	Window  providers.Window // to be listed in all
	Covered time.Duration    // how much of it is listed
	Pages   int              // in this run
	Events  int
	Missing int
	Replay  replay.Stats
}

func (c *comparison) tell(seen listing.Progress) {
	c.run.options.Progress(Progress{
		Source: c.run.source.Name, Step: StepList, Stream: c.stream.Name, Window: c.report.Window.window(), Covered: seen.Covered,
		Pages: c.run.pages + seen.Pages, Events: seen.Events, Missing: c.report.Missing + c.report.Stuck,
	})
}

func (r *run) tellReplay(stats replay.Stats) {
	r.options.Progress(Progress{Source: r.source.Name, Step: StepReplay, Replay: stats, Pages: r.pages})
}
