package reconcile

import (
	"slices"

	"github.com/nightaudit/nightaudit/store"
)

// The exit codes of nightaudit. Where several apply, the first of this order is
// taken: 3, 1, 5, 2, 4, 0.
const (
	ExitInSync      = 0 // in sync, or all repaired and verified
	ExitIncomplete  = 1 // incomplete, failed, held, or a new coverage gap
	ExitDrift       = 2 // drift remains
	ExitUsage       = 3 // bad usage or config
	ExitSkipped     = 4 // another run was going on, and nothing else happened
	ExitInterrupted = 5 // told to stop
)

// conclude decides the outcome of a run from what it found.
func (r *Report) conclude() {
	r.Coverage.Complete = !r.incomplete && !r.interrupted && !r.failed
	judged := false
	for _, sr := range r.Streams {
		r.Coverage.Complete = r.Coverage.Complete && sr.Complete
		judged = judged || sr.Window.From != nil
	}
	r.Run.Outcome = r.outcome(judged)
}

func (r *Report) outcome(judged bool) store.Outcome {
	switch {
	case r.failed:
		return store.Failed
	case r.interrupted:
		return store.Interrupted
	case !r.Coverage.Complete || r.newGap:
		return store.Incomplete
	case r.gateHolds:
		return store.HeldBack
	case r.driftRemains(func(FindingReport) bool { return true }):
		return store.DriftRemains
	case !judged:
		return store.NothingToJudge
	case slices.ContainsFunc(r.Findings, func(f FindingReport) bool { return f.State == stateClosed && f.Resolution == store.Repaired }):
		return store.AllRepaired
	default:
		return store.InSync
	}
}

// driftRemains reports whether a finding that counts is open: any that is not
// merely late.
func (r *Report) driftRemains(counts func(FindingReport) bool) bool {
	return slices.ContainsFunc(r.Findings, func(f FindingReport) bool {
		return f.State == stateOpen && !f.Late && counts(f)
	})
}

// exitCode is what this source alone would exit with.
func (r *Report) exitCode(zeroOnDrift bool) int {
	if r.misuse {
		return ExitUsage
	}
	switch r.Run.Outcome {
	case store.Failed, store.Incomplete, store.HeldBack:
		return ExitIncomplete
	case store.Interrupted:
		return ExitInterrupted
	}
	counts := func(FindingReport) bool { return true }
	if zeroOnDrift {
		counts = givenUp
	}
	if r.driftRemains(counts) {
		return ExitDrift
	}
	return ExitInSync
}

// givenUp reports whether a finding is more than drift of an event that may
// still be repaired.
func givenUp(f FindingReport) bool {
	if f.Scope != store.ScopeEvent {
		return true
	}
	return f.Replay != nil && (f.Replay.State == store.ReplayParked || f.Replay.State == store.ReplayRejected)
}

// needsPerson reports whether no later run in the mode will close a finding by
// itself.
func needsPerson(f FindingReport, mode string) bool {
	switch {
	case f.State != stateOpen || f.Late:
		return false
	case f.Scope != store.ScopeEvent:
		return true
	case f.Replay == nil:
		// a dry run plans nothing: a real one would
		return mode != modeRepair || f.Kind != store.MissingEvent && f.Kind != store.StuckEvent
	}
	switch f.Replay.State {
	case store.ReplayPlanned, store.ReplayQueued, store.ReplayAcknowledged, store.ReplayUnrecorded:
		return mode != modeRepair
	case store.ReplayHeld:
		return f.Replay.Hold != store.HoldLane // which waits for another
	default:
		return true
	}
}
