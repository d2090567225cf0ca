package reconcile

import (
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/listing"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

func newReport(row store.Run, d providers.Description) *Report {
	return &Report{
		Source: row.Source, Provider: d.Kind,
		Run: RunReport{ID: row.ID, Cause: row.Cause, Mode: row.Mode, DryRun: row.DryRun, Host: row.Host,
			Version: row.Version, StartedAt: row.StartedAt.UTC()},
		Coverage: Coverage{Requests: []RequestCount{}}, Streams: []*StreamReport{}, Findings: []FindingReport{},
		Endpoints: []EndpointShown{}, CannotShow: append([]string{}, d.CannotShow...), Reasons: []string{}, healedDry: make(map[string]bool),
	}
}

// stream gives the report of a stream, which is made when it is first asked for.
func (r *Report) stream(s providers.Stream) *StreamReport {
	for _, sr := range r.Streams {
		if sr.Stream == s.Name {
			return sr
		}
	}
	sr := &StreamReport{Stream: s.Name, Account: s.Account, Complete: true, Reasons: []string{}, Gaps: []WindowReport{},
		Work: map[string]int{}, Balanced: true, IgnoredTypes: []IgnoredReport{}, ignored: map[IgnoredReport]int{}}
	r.Streams = append(r.Streams, sr)
	return sr
}

// note says why a stream is incomplete.
func (sr *StreamReport) note(why string) {
	sr.Complete = false
	sr.Reasons = append(sr.Reasons, why)
}

func (sr *StreamReport) planned(p plan, remembered *store.Stream) {
	if remembered != nil {
		sr.Watermark = WatermarkReport{Before: &remembered.Watermark, After: &remembered.Watermark}
	}
	if p.gap != nil {
		sr.Gaps = append(sr.Gaps, WindowReport{From: &p.gap.From, To: &p.gap.To})
	}
	if !p.window.Empty() {
		sr.Window = WindowReport{From: &p.window.From, To: &p.window.To}
	}
}

func (sr *StreamReport) saw(p listing.Progress) {
	sr.Pages += p.Pages
	sr.Repeated += p.Repeated
	sr.OutsideWindow += p.Outside
}

// endpoints shows a set of endpoints under the first stream that it belongs to.
func (r *Report) endpoints(stream string, seen []providers.Endpoint, targets []replay.Target) {
	for _, ep := range seen {
		r.Endpoints = append(r.Endpoints, EndpointShown{
			ID: ep.ID, Stream: stream, Host: replay.Origin(ep.URL), Ours: len(behind([]providers.Endpoint{ep}, targets)) > 0,
			Enabled: ep.Enabled, Types: append([]string{}, ep.Types...), APIVersion: ep.APIVersion, Livemode: ep.Livemode,
		})
	}
}

func (r *Report) fail(why string) {
	r.failed = true
	r.Reasons = append(r.Reasons, why)
}

func (r *Report) drained(s replay.Stats) {
	r.Replays = ReplayReport{
		Attempts: s.Attempts, Repaired: s.Repaired, Confirmed: s.Confirmed, Recorded: s.Recorded,
		Superseded: s.Superseded, Held: s.Held, Failed: s.Failed, Rejected: s.Rejected, Unrecorded: s.Unrecorded,
		Parked: s.Parked, Pending: s.Unsent + s.Waiting,
	}
}
