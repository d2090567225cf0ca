package reconcile

import (
	"slices"
	"strings"

	"github.com/nightaudit/nightaudit/store"
)

// A kindTitle is what a person hears of the findings of one kind: how many of
// what, and what is the matter with them. Without a thing they are not counted.
type kindTitle struct {
	kind   store.Kind
	thing  string
	matter string
}

// kindTitles stand in the order in which a person wants to hear of the kinds:
// first what keeps nightaudit from seeing, then what keeps events from arriving,
// then the events.
var kindTitles = []kindTitle{
	{store.CredentialsRejected, "", "credentials rejected"},
	{store.SuspiciousEmpty, "", "nothing was listed where there always was traffic"},
	{store.EndpointDisabled, "endpoint", "disabled"},
	{store.EndpointMissing, "endpoint", "not found at the provider"},
	{store.EndpointFailing, "endpoint", "failing"},
	{store.ClockSkew, "", "clocks differ"},
	{store.CoverageGap, "coverage gap", ""},
	{store.MissingEvent, "missing event", ""},
	{store.StuckEvent, "stuck event", ""},
	{store.UnrecordedEvent, "event", "acknowledged and not recorded"},
	{store.Unreplayable, "missing event", "that may never be sent again"},
	{store.UnreadableEvent, "event", "that cannot be read"},
	{store.APIVersionMismatch, "endpoint", "with another API version"},
	{store.EndpointUnsubscribed, "event type", "not subscribed"},
	{store.EndpointDuplicate, "endpoint", "registered twice"},
	{store.UnknownEvent, "ledger row", "that the provider does not know"},
}

// rank is the place of a kind in the order of kindTitles; -1 if it has none.
func rank(k store.Kind) int {
	return slices.IndexFunc(kindTitles, func(t kindTitle) bool { return t.kind == k })
}

// titleOf is what n findings of a kind are, in words. A kind without a title, of
// a report that a newer nightaudit wrote, is told by its name.
func titleOf(k store.Kind, n int) string {
	i := rank(k)
	if i < 0 {
		return things(n, strings.ReplaceAll(string(k), "_", " "))
	}
	t := kindTitles[i]
	if t.thing == "" {
		return t.matter
	}
	return strings.TrimSpace(things(n, t.thing) + " " + t.matter)
}
