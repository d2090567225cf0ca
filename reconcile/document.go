package reconcile

import (
	"slices"

	"github.com/nightaudit/nightaudit/store"
)

// Schema names the form of the drift report; docs/drift-report.schema.json
// describes it.
const Schema = "nightaudit.drift/v1"

// A Document is a drift report as it is written: what one call of nightaudit
// found in each source. Times are RFC 3339 in UTC, ids are strings, counts are
// integers; lists are never null, a time or a ratio that does not exist is null,
// a word that does not apply is "". Findings are in the order of their ids, which
// two nights share. It holds no payload, no answer of the application and no
// secret.
type Document struct {
	Schema   string          `json:"schema"`
	Outcome  store.Outcome   `json:"outcome"`   // the worst of the sources
	ExitCode int             `json:"exit_code"` // what nightaudit exits with
	Sources  []*Report       `json:"sources"`
	Skipped  []SkippedSource `json:"skipped"` // those that were not run
	Alerts   []Alert         `json:"alerts"`  // always empty: this release raises no alerts

	zeroOnDrift bool
}

// A SkippedSource was not run: another run of it was going on, or nightaudit was
// told to stop before its turn.
type SkippedSource struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// An Alert is a message to a person. There is none in this release: the list is
// there so that consumers can rely on it.
type Alert struct{}

// Skipped is the outcome of a Document of which no source was run, since other
// runs of them were going on.
const Skipped store.Outcome = "skipped"

// NewDocument joins the reports of one call of nightaudit. With zeroOnDrift,
// drift of events that may still be repaired exits with 0.
func NewDocument(reports []*Report, skipped []SkippedSource, zeroOnDrift bool) *Document {
	d := &Document{Schema: Schema, Outcome: store.NothingToJudge, ExitCode: ExitInSync, Sources: reports, Skipped: skipped,
		Alerts: []Alert{}, zeroOnDrift: zeroOnDrift}
	if d.Sources == nil {
		d.Sources = []*Report{}
	}
	if d.Skipped == nil {
		d.Skipped = []SkippedSource{}
	}
	if len(reports) == 0 && len(skipped) > 0 {
		d.Outcome, d.ExitCode = Skipped, ExitSkipped
	}
	for _, r := range reports {
		d.Outcome = worse(severity, d.Outcome, r.Run.Outcome)
		d.ExitCode = worse(precedence, d.ExitCode, r.exitCode(zeroOnDrift))
	}
	return d
}

// severity orders the outcomes of sources from the worst to the best.
var severity = []store.Outcome{store.Failed, store.Incomplete, store.HeldBack, store.Interrupted, store.DriftRemains,
	store.AllRepaired, store.InSync, store.NothingToJudge}

// precedence orders exit codes from the one that wins to the one that loses.
var precedence = []int{ExitUsage, ExitIncomplete, ExitInterrupted, ExitDrift, ExitSkipped, ExitInSync}

// worse is whichever of two comes first in an order.
func worse[T comparable](order []T, a, b T) T {
	if slices.Index(order, b) < slices.Index(order, a) {
		return b
	}
	return a
}
