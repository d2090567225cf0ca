package store_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/store"
)

// see stores findings of the run under way about an endpoint; detail may be "".
func (f *fixture) see(kind store.Kind, key, detail string) string {
	f.t.Helper()
	found := store.NewFinding("shop", stream, f.run.RunID(), store.ScopeEndpoint, kind, key)
	found.Detail = detail
	if err := f.run.See(f.t.Context(), found); err != nil {
		f.t.Fatal(err)
	}
	return found.ID
}

func (f *fixture) closeUnseen(kinds ...store.Kind) {
	f.t.Helper()
	if err := f.run.CloseUnseen(f.t.Context(), stream, kinds...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) acknowledge(id string) {
	f.t.Helper()
	if err := f.store.Acknowledge(f.t.Context(), id); err != nil {
		f.t.Fatal(err)
	}
}

func TestWhatALookNoLongerShowsIsClosed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := f.see(store.EndpointDisabled, "we_gone", "")
	stays := f.see(store.EndpointDisabled, "we_stays", "")
	other := f.see(store.EndpointDuplicate, "we_gone", "")
	f.newRun()
	f.see(store.EndpointDisabled, "we_stays", "")
	f.closeUnseen(store.EndpointDisabled)
	for id, want := range map[string]store.Resolution{gone: store.Gone, stays: "", other: ""} {
		same(t, "resolution", f.findingByID(id).Resolution, want)
	}
	same(t, "history", f.history(gone), []string{"endpoint_disabled open: seen", "endpoint_disabled closed: no longer seen"})
	f.newRun()
	f.see(store.EndpointDisabled, "we_gone", "")
	same(t, "open when it is seen again", f.findingByID(gone).Open, true)
	same(t, "first and last run differ", f.findingByID(gone).FirstRunID != f.findingByID(gone).LastRunID, true)
}

func TestAnAcknowledgementHoldsAsLongAsTheFindingSaysTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.see(store.EndpointDisabled, "we_1", "disabled")
	f.acknowledge(id)
	same(t, "after the acknowledgement", f.findingByID(id).Resolution, store.Acknowledged)
	mentions(t, f.store.Acknowledge(t.Context(), id), "acknowledging "+id, "no open finding")

	f.newRun()
	f.see(store.EndpointDisabled, "we_1", "disabled")
	same(t, "seen again, the same", f.findingByID(id).Resolution, store.Acknowledged)
	f.see(store.EndpointDisabled, "we_1", "disabled, for another reason")
	found := f.findingByID(id)
	same(t, "seen again, another", []any{found.Open, found.AcknowledgedAt == nil}, []any{true, true})

	f.acknowledge(id)
	f.newRun()
	f.closeUnseen(store.EndpointDisabled)
	same(t, "not seen any more", f.findingByID(id).Resolution, store.Gone)
	f.see(store.EndpointDisabled, "we_1", "disabled, for another reason")
	same(t, "seen after it was gone", f.findingByID(id).Open, true)
	if acked, err := f.store.IsAcknowledged(t.Context(), id); err != nil || acked {
		t.Errorf("acknowledged, after it was gone and came back: got %t (%v), want false", acked, err)
	}
}

func TestDriftThatCanBeRepairedIsNotAcknowledgedAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(missing("e", 1, ""), late("g", 2))
	for _, key := range []string{"e", "g"} {
		mentions(t, f.store.Acknowledge(t.Context(), findingOf(key)), "acknowledging "+findingOf(key), "no open finding")
		same(t, "finding", f.finding(key).Open, true)
	}
}

func TestAnAcknowledgedEventThatCanNeverBeSentStaysClosed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(unreplayable("e", 1))
	f.acknowledge(findingOf("e"))
	f.newRun()
	same(t, "work", f.record(unreplayable("e", 1)), store.Work{Known: 1})
	same(t, "seen again", f.finding("e").Resolution, store.Acknowledged)
	f.newRun()
	same(t, "work, when it may be sent after all", f.record(missing("e", 1, "")), store.Work{Planned: 1})
	same(t, "finding", []any{f.finding("e").Open, f.finding("e").AcknowledgedAt == nil}, []any{true, true})
}

func TestFindingsAreFilteredAndReadOnByID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(missing("a", 1, ""), missing("b", 2, ""))
	f.heal("b")
	first := f.run.RunID()
	f.newRun()
	f.see(store.EndpointDisabled, "we_1", "")
	for _, c := range []struct {
		name   string
		filter store.FindingFilter
		want   int
	}{
		{"all open ones", store.FindingFilter{}, 2},
		{"closed ones too", store.FindingFilter{Closed: true}, 3},
		{"of one kind", store.FindingFilter{Kind: store.MissingEvent}, 1},
		{"of a source that has none", store.FindingFilter{Source: "other"}, 0},
		{"what a run saw, and all that are open", store.FindingFilter{RunID: first}, 3},
		{"at most one", store.FindingFilter{Limit: 1}, 1},
	} {
		found, err := f.store.Findings(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		same(t, c.name, len(found), c.want)
	}
	after, read := "", 0
	for {
		page, err := f.store.Findings(t.Context(), store.FindingFilter{Closed: true, After: after, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		after, read = page[0].ID, read+1
	}
	same(t, "read one by one", read, 3)
}

func TestAnEventsFindingIsTheSameWhateverItsKind(t *testing.T) {
	t.Parallel()
	id := func(scope store.Scope, kind store.Kind, parts ...string) string {
		return store.FindingID(parts[0], parts[1], scope, kind, parts[2])
	}
	same(t, "an event whose kind changes",
		id(store.ScopeEvent, store.MissingEvent, "shop", "events", "e"), id(store.ScopeEvent, store.StuckEvent, "shop", "events", "e"))
	ids := map[string]bool{
		id(store.ScopeEvent, store.MissingEvent, "shop", "events", "e"):        true,
		id(store.ScopeEvent, store.MissingEvent, "shop", "events", "f"):        true,
		id(store.ScopeEvent, store.MissingEvent, "shop", "eventse", ""):        true,
		id(store.ScopeEvent, store.MissingEvent, "shops", "events", "e"):       true,
		id(store.ScopeEndpoint, store.EndpointMissing, "shop", "events", "e"):  true,
		id(store.ScopeEndpoint, store.EndpointDisabled, "shop", "events", "e"): true,
	}
	same(t, "others", len(ids), 6)
}

func TestIDsSortByTheTimeTheyWereMadeAndDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.Int64Range(0, 1<<47).Draw(rt, "first, in ms since 1970")
		later := rapid.Int64Range(1, 1<<46).Draw(rt, "later by ms")
		a, b := store.NewID("run", time.UnixMilli(first)), store.NewID("run", time.UnixMilli(first+later))
		if a >= b {
			rt.Fatalf("ids of %d ms and %d ms: got %s and %s, want the first to sort before the second", first, first+later, a, b)
		}
		for _, id := range []string{a, b, store.NewID("run", time.UnixMilli(first))} {
			if seen[id] {
				rt.Fatalf("id %s was given out twice", id)
			}
			seen[id] = true
		}
	})
}
