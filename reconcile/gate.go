package reconcile

import (
	"cmp"
	"context"
	"fmt"

	"github.com/nightaudit/nightaudit/store"
)

// GateOptions say what is implausible enough to hold all replays of a source.
// The zero value of each is its default.
type GateOptions struct {
	MaxReplays      int     // at once; 0 is 5000
	MaxMissingRatio float64 // of the compared events; 0 is 0.5
}

func (o GateOptions) withDefaults() GateOptions {
	o.MaxReplays = cmp.Or(o.MaxReplays, 5000)
	o.MaxMissingRatio = cmp.Or(o.MaxMissingRatio, 0.5)
	return o
}

// gate lets the planned replays of the source through, or holds them all, and
// reports whether the queue may be drained. In mode report it stays shut, and
// only says what it would have held; a release lets go what it held before.
func (r *run) gate(ctx context.Context) (open bool, err error) {
	if r.options.Release {
		if err := r.letGo(ctx); err != nil {
			return false, err
		}
	}
	scales, runs, err := r.store.Weigh(ctx, r.source.Name)
	if err != nil {
		return false, err
	}
	r.report.Gate.Compared, r.report.Gate.Planned = scales.Compared(), scales.Planned
	why := weigh(scales, r.source.Gate)
	for i := 0; i < len(runs) && why == ""; i++ {
		why = weigh(runs[i], r.source.Gate)
	}
	if r.row.Mode != modeRepair {
		r.report.Gate.wouldHold(why)
		return r.options.Release, nil
	}
	if why != "" {
		r.log.WarnContext(ctx, "replays held", "planned", scales.Planned, "why", why)
		r.report.Gate.Why = &why
		return true, r.lease.HoldGate(ctx, why)
	}
	queued, err := r.lease.OpenGate(ctx)
	if err != nil {
		return false, err
	}
	r.report.Gate.Open, r.report.Gate.Queued = true, queued
	return true, r.requeue(ctx)
}

// letGo releases what the gate held before.
func (r *run) letGo(ctx context.Context) error {
	freed, err := r.lease.Free(ctx, store.HoldGate, "released by a person")
	r.report.Gate.Released = freed
	return err
}

// requeue brings back what an earlier run left to this one: replays that were
// acknowledged and not recorded, and those held for a version that may now go.
func (r *run) requeue(ctx context.Context) error {
	if _, err := r.lease.RequeueUnrecorded(ctx, r.row.StartedAt); err != nil {
		return err
	}
	if !r.source.Replay.AnyVersion {
		return nil
	}
	_, err := r.lease.Free(ctx, store.HoldVersion, "the config sends other API versions now")
	return err
}

// weighDry says what the gate would hold if a dry run were not dry.
func (r *run) weighDry() {
	var s store.Scales
	for _, sr := range r.report.Streams {
		s.Listed += sr.Listed
		s.Done += sr.Done
		s.Ignored += sr.Ignored
		s.Planned += sr.Missing + sr.Stuck
	}
	r.report.Gate.Compared, r.report.Gate.Planned = s.Compared(), s.Planned
	r.report.Gate.wouldHold(weigh(s, r.source.Gate))
}

// enoughToJudge is how many compared events make a ratio worth looking at.
const enoughToJudge = 20

// weigh says why the planned replays must wait for a person, or "" if they may
// go: no stampede, and no replays on account of a wrong table.
func weigh(s store.Scales, o GateOptions) string {
	o = o.withDefaults()
	compared := s.Compared()
	ratio := float64(s.Planned) / float64(max(compared, 1))
	switch {
	case s.Planned == 0:
		return ""
	case s.Done == 0 && compared >= enoughToJudge:
		return fmt.Sprintf("none of %d compared events is in the ledger: most likely ledger.table, ledger.where or ledger.key "+
			"names the wrong rows, or the credentials are of another account; if it is a real outage, release them", compared)
	case ratio > o.MaxMissingRatio && compared >= enoughToJudge:
		return fmt.Sprintf("%d of %d compared events are missing, more than replay.max_missing_ratio %g allows: "+
			"an outage, or ledger.where or ledger.key leaves rows out; look at the findings, then release them",
			s.Planned, compared, o.MaxMissingRatio)
	case s.Planned > o.MaxReplays:
		return fmt.Sprintf("%d replays are planned, more than replay.max_replays %d allows; "+
			"look at the findings, then release them", s.Planned, o.MaxReplays)
	default:
		return ""
	}
}
