// Package reconcile is the engine: one run takes one source through the night.
// It looks at the endpoints, lists what the provider says happened since the
// watermark, compares that with the application's ledger, lets the gate judge
// what is missing, has it replayed, and reports.
//
// Each step is a file of its own. Deciding is kept apart from fetching:
// planStream, expect, judge, weigh and audit are pure functions.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// Options say how a run is made. The zero value is a scheduled run of the
// source as it is configured.
type Options struct {
	Since, Until time.Time     // by hand: the window; zero leaves it to the watermark
	Hand         bool          // started by a person: an empty window is refused
	DryRun       bool          // compare and report, write nothing but the run's row
	Repair       bool          // let replays through the gate even in mode report
	Release      bool          // let those go that the gate held
	Wait         time.Duration // for replays and their verification; 0 is 15 min

	Version  string           // of nightaudit, for the run's row
	Now      func() time.Time // nil is time.Now
	Log      *slog.Logger     // nil discards
	Progress func(Progress)   // nil does not tell
}

func (o Options) withDefaults() Options {
	o.Wait = cmp.Or(o.Wait, 15*time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

// run is one pass over one source.
type run struct {
	store   *store.Store
	lease   *store.Lease
	source  Source
	options Options
	log     *slog.Logger
	row     store.Run
	began   time.Time   // by this host's clock, for the length of the run alone
	asked   map[int]int // requests made of the provider before, by status
	report  *Report
	pages   int
	streams map[string]providers.Stream     // by name, with the config's overrides
	looks   map[string][]providers.Endpoint // the newest look, by stream

	memories []*memory // of what was listed in full
}

// Run reconciles one source once and returns its report, which is also stored.
// A *store.HeldError means that another run is going on and nothing was done; a
// *UsageError that the options make no sense. Whatever else went wrong is in the
// report, whose outcome says so; the error then is nil unless not even the
// report could be stored.
func Run(ctx context.Context, st *store.Store, src Source, o Options) (*Report, error) {
	o = o.withDefaults()
	r := &run{
		store: st, source: src, options: o, streams: make(map[string]providers.Stream),
		looks: make(map[string][]providers.Endpoint),
		row: store.Run{
			ID: store.NewID("run", time.Now()), Source: src.Name, Cause: cause(o), Mode: mode(src, o),
			DryRun: o.DryRun, Host: holder(), Version: o.Version,
		},
	}
	r.log = o.Log.With("run_id", r.row.ID, "source", src.Name)
	lease, err := st.Acquire(ctx, src.Name, store.RoleRun, r.row.Host, r.row.ID)
	if err != nil {
		return nil, err
	}
	r.lease = lease
	defer release(ctx, lease, r.log)
	return r.all(ctx)
}

func cause(o Options) string {
	if o.Hand {
		return "hand"
	}
	return "schedule"
}

// The modes of a run: drift is only told, or replays are sent.
const (
	modeReport = "report"
	modeRepair = "repair"
)

// mode is what a run may do. A source without an endpoint to send to can only be
// reported on, whatever was asked for.
func mode(src Source, o Options) string {
	if (o.Repair || src.Repair) && src.Sender != nil {
		return modeRepair
	}
	return modeReport
}

// all makes the run under its lease, and stores how it ended.
func (r *run) all(ctx context.Context) (*Report, error) {
	working, stop := keep(ctx, r.lease)
	defer stop()
	if err := r.lease.StartRun(ctx, &r.row); err != nil {
		return nil, err
	}
	r.began = time.Now()
	if r.source.Requests != nil {
		r.asked = r.source.Requests()
	}
	r.report = newReport(r.row, r.source.Provider.Describe())
	err := r.safely(working)
	r.finish(ctx, working, err)
	if stored := r.save(ctx); stored != nil {
		return r.report, stored
	}
	var usage *UsageError
	if errors.As(err, &usage) {
		return r.report, usage
	}
	return r.report, nil
}

// safely runs the steps; a panic fails this run and no other.
func (r *run) safely(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "run panicked", "panic", r.redact(fmt.Sprint(p)), "stack", r.redact(string(debug.Stack())))
			err = fmt.Errorf("panic: %s", r.redact(fmt.Sprint(p)))
		}
	}()
	return r.steps(ctx)
}

func (r *run) redact(s string) string { return r.source.Redact.String(s) }

// steps take the source through the night:
//
//	open       the streams there are
//	endpoints  what is subscribed, and what is wrong with it
//	recheck    what earlier runs left open
//	stream     plan, list, match and commit, stream by stream
//	gate       may what is missing be sent?
//	drain      send, and verify in the ledger
func (r *run) steps(ctx context.Context) error {
	streams, err := r.open(ctx)
	if err != nil {
		return err
	}
	if err := r.endpoints(ctx, streams); err != nil {
		return err
	}
	if err := r.recheck(ctx); err != nil {
		return err
	}
	for _, s := range streams {
		if err := r.stream(ctx, s); err != nil {
			return err
		}
	}
	if r.options.DryRun {
		r.weighDry()
		return nil
	}
	open, err := r.gate(ctx)
	if err != nil || !open {
		return err
	}
	return r.drain(ctx)
}

// open asks the provider what there is to list. A source that cannot be opened
// is incomplete as a whole.
func (r *run) open(ctx context.Context) ([]providers.Stream, error) {
	streams, err := r.source.Provider.Streams(ctx)
	if err != nil {
		if stopped := context.Cause(ctx); stopped != nil {
			return nil, stopped
		}
		return nil, r.sourceIncomplete(ctx, err)
	}
	for i, s := range streams {
		streams[i].Feed = r.source.Window.over(s.Feed)
		r.streams[s.Name] = streams[i]
	}
	if err := r.vanished(ctx, streams); err != nil {
		return nil, err
	}
	return streams, r.unseen(ctx, "", store.CredentialsRejected)
}

// sourceIncomplete notes that nothing of the source could be listed.
func (r *run) sourceIncomplete(ctx context.Context, err error) error {
	r.report.Reasons = append(r.report.Reasons, r.redact(err.Error()))
	r.report.incomplete = true
	r.log.WarnContext(ctx, "source not opened", "err", r.redact(err.Error()))
	return r.noteRejection(ctx, "", err)
}
