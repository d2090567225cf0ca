package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// complete fills in what is stored: findings, their replays, and the second sum
// of the books.
func (r *run) complete(ctx context.Context) error {
	r.report.finishStreams()
	if err := r.watermarks(ctx); err != nil {
		return err
	}
	if r.options.DryRun {
		return r.completeDry(ctx)
	}
	found, err := r.store.Findings(ctx, store.FindingFilter{Source: r.source.Name, RunID: r.row.ID})
	if err != nil {
		return err
	}
	if err := r.addFindings(ctx, found); err != nil {
		return err
	}
	states, err := r.store.ListedStates(ctx, r.row.ID)
	if err != nil {
		return err
	}
	r.report.balance(states)
	holds, err := r.store.Holds(ctx, r.source.Name)
	r.report.gateHolds = holds[store.HoldGate] > 0
	return err
}

// watermarks reads how far each stream has come, also where its listing was cut
// short: what was committed before counts.
func (r *run) watermarks(ctx context.Context) error {
	for _, sr := range r.report.Streams {
		stored, err := r.store.Stream(ctx, r.source.Name, sr.Stream)
		if err != nil {
			return err
		}
		if stored != nil {
			sr.Watermark.After = &stored.Watermark
		}
	}
	return nil
}

// addFindings adds findings to the report, each with its newest replay and that
// one's newest attempt.
func (r *run) addFindings(ctx context.Context, found []store.Finding) error {
	replays, err := r.store.NewestReplays(ctx, findingIDs(found))
	if err != nil {
		return err
	}
	ids := make([]string, 0, len(replays))
	for _, rp := range replays {
		ids = append(ids, rp.ID)
	}
	attempts, err := r.store.LastAttempts(ctx, ids)
	if err != nil {
		return err
	}
	for _, f := range found {
		r.report.add(f, replays, attempts)
	}
	return nil
}

func findingIDs(found []store.Finding) []string {
	ids := make([]string, len(found))
	for i, f := range found {
		ids[i] = f.ID
	}
	return ids
}

// finishStreams closes the books of the streams.
func (r *Report) finishStreams() {
	for _, sr := range r.Streams {
		if compared := sr.Listed - sr.Ignored; compared > 0 {
			ratio := float64(sr.Done) / float64(compared)
			sr.ProcessedRatio = &ratio
		}
		for key, n := range sr.ignored {
			key.Count = n
			sr.IgnoredTypes = append(sr.IgnoredTypes, key)
		}
		slices.SortFunc(sr.IgnoredTypes, func(a, b IgnoredReport) int {
			return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Why, b.Why))
		})
	}
}

// balance checks both sums of each stream.
func (r *Report) balance(states map[string]map[string]int) {
	for _, sr := range r.Streams {
		work := 0
		for state, n := range states[sr.Stream] {
			sr.Work[state] = n
			work += n
		}
		sr.Balanced = sr.Counts.Balances() && work == sr.Missing+sr.Stuck && sr.Work["none"] == 0
		if !sr.Balanced {
			r.fail(fmt.Sprintf("the books of %s do not balance; please report this with the report attached", sr.Stream))
		}
	}
}

func (r *Report) add(f store.Finding, replays map[string]store.Replay, attempts map[string]store.Attempt) {
	out := FindingReport{
		ID: f.ID, Stream: f.Stream, Scope: f.Scope, Kind: f.Kind, Key: f.Key, State: stateOpen,
		Resolution: f.Resolution, Late: f.Open && f.DueAt != nil, DueAt: utc(f.DueAt), Cause: f.Cause, Detail: f.Detail,
		FirstSeenAt: f.FirstSeenAt.UTC(), LastSeenAt: f.LastSeenAt.UTC(), ClosedAt: utc(f.ClosedAt), New: f.FirstRunID == r.Run.ID,
	}
	if !f.Open {
		out.State = stateClosed
	}
	if f.Scope == store.ScopeEvent {
		out.Event = &EventReport{ID: f.EventID, Account: f.EventAccount, Type: f.EventType, Created: utc(f.EventCreated), Subject: f.Subject,
			APIVersion: f.APIVersion, Livemode: f.EventLivemode}
	}
	if rp, ok := replays[f.ID]; ok {
		out.Replay = replayOf(rp, attempts)
	}
	out.NeedsPerson = needsPerson(out, r.Run.Mode)
	if f.Kind == store.CoverageGap && out.New {
		r.newGap = true
	}
	r.Findings = append(r.Findings, out)
}

func replayOf(rp store.Replay, attempts map[string]store.Attempt) *ReplayOfEvent {
	out := &ReplayOfEvent{ID: rp.ID, State: rp.State, Hold: rp.Hold, Reason: rp.Reason, Class: rp.Class,
		PlannedAt: rp.PlannedAt.UTC(), Attempts: rp.Attempts, Overtaken: rp.Overtaken}
	if a, ok := attempts[rp.ID]; ok {
		out.LastAttempt = &AttemptReport{Number: a.Number, StartedAt: a.StartedAt.UTC(), EndedAt: utc(a.EndedAt),
			Endpoint: a.Endpoint, Outcome: replay.Outcome(a.Outcome), Phase: replay.Phase(a.Phase), Status: a.Status,
			Why: a.Why, BodyBytes: a.BodyBytes}
	}
	return out
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func (r *Report) encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the report of %s: %w", r.Source, err)
	}
	return text, nil
}
