package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/store"
)

// finish decides the outcome of the run.
func (r *run) finish(ctx, working context.Context, err error) {
	r.report.Run.FinishedAt = r.row.StartedAt.Add(time.Since(r.began)).UTC()
	var usage *UsageError
	cause := context.Cause(working)
	switch {
	case err == nil:
	case errors.As(err, &usage):
		r.report.misuse = true
		r.report.fail(usage.Error())
	case errors.Is(err, store.ErrLeaseLost) || errors.Is(cause, store.ErrLeaseLost):
		r.report.fail(store.ErrLeaseLost.Error())
	case ctx.Err() != nil:
		r.report.interrupted = true
		r.report.Reasons = append(r.report.Reasons, "told to stop before it was done; the next run goes on from here")
	default:
		r.report.fail(r.redact(err.Error()))
	}
}

// saveTime bounds reading all findings for a report and storing it.
const saveTime = time.Minute

// save completes the report from what is stored, and stores it.
func (r *run) save(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	if r.source.Requests != nil {
		r.report.Coverage.Requests = requestCounts(r.source.Requests(), r.asked)
	}
	r.report.Coverage.Pages = r.pages
	r.report.Coverage.ClockSkewMS = r.skew().Milliseconds()
	if err := r.complete(ctx); err != nil {
		r.report.fail(r.redact(err.Error()))
	}
	r.report.conclude()
	text, err := r.report.encode()
	if err != nil {
		return err
	}
	return r.lease.FinishRun(ctx, r.row.ID, r.report.Run.Outcome, text)
}

// requestCounts are the requests of a run by status, lowest first: those made by
// now, less those made before it.
func requestCounts(now, before map[int]int) []RequestCount {
	counts := make([]RequestCount, 0, len(now))
	for status, n := range now {
		if n > before[status] {
			counts = append(counts, RequestCount{Status: status, Count: n - before[status]})
		}
	}
	slices.SortFunc(counts, func(a, b RequestCount) int { return a.Status - b.Status })
	return counts
}
