package store_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// late is the drift of an event that the application is still at work on.
func late(key string, minute int) store.Drift {
	d := missing(key, minute, "")
	due := midnight.Add(2 * time.Hour)
	d.Class, d.Kind, d.Cause, d.DueAt = store.Late, store.StuckEvent, store.RecordedNotDone, &due
	return d
}

func unreplayable(key string, minute int) store.Drift {
	d := missing(key, minute, "")
	d.Kind, d.Replay = store.Unreplayable, false
	return d
}

// settle gives the newest replay of an event a verdict.
func (f *fixture) settle(key string, states ...store.ReplayState) {
	f.t.Helper()
	for _, state := range states {
		v := store.Verdict{Replay: f.replay(key), State: state, Reason: "so it is"}
		if err := f.run.Judge(f.t.Context(), []store.Verdict{v}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) heal(key string) {
	f.t.Helper()
	if err := f.run.Heal(f.t.Context(), []string{findingOf(key)}); err != nil {
		f.t.Fatal(err)
	}
}

// What a sight of an event leads to, by what earlier runs know of it.
func TestASeenEventIsNewWorkOnceAndAfterItWasRepaired(t *testing.T) {
	t.Parallel()
	nothing, planned, known := store.Work{}, store.Work{Planned: 1}, store.Work{Known: 1}
	for _, c := range []struct {
		name    string
		earlier func(f *fixture)
		now     store.Drift
		want    store.Work
		finding string // kind, and open or its resolution
		replays int    // in all
	}{
		{"a new missing event", func(*fixture) {}, missing("e", 1, ""), planned, "missing_event open", 1},
		{"a new late event", func(*fixture) {}, late("e", 1), nothing, "stuck_event open", 0},
		{"a new event that may never be sent", func(*fixture) {}, unreplayable("e", 1), nothing, "unreplayable open", 0},
		{"missing again, planned", func(f *fixture) { f.record(missing("e", 1, "")) }, missing("e", 1, ""), known, "missing_event open", 1},
		{"missing again, queued", func(f *fixture) { f.queue(missing("e", 1, "")) }, missing("e", 1, ""), known, "missing_event open", 1},
		{"missing again, rejected", func(f *fixture) {
			f.queue(missing("e", 1, ""))
			f.settle("e", store.ReplayRejected)
		}, missing("e", 1, ""), known, "missing_event open", 1},
		{"missing again, parked", func(f *fixture) {
			f.queue(missing("e", 1, ""))
			f.settle("e", store.ReplayParked)
		}, missing("e", 1, ""), known, "unrecorded_event open", 1},
		{"missing again, acknowledged and unrecorded", func(f *fixture) {
			f.queue(missing("e", 1, ""))
			f.settle("e", store.ReplayAcknowledged, store.ReplayUnrecorded)
		}, missing("e", 1, ""), known, "unrecorded_event open", 1},
		{"missing again, superseded", func(f *fixture) {
			f.queue(missing("e", 1, ""))
			f.settle("e", store.ReplaySuperseded)
		}, missing("e", 1, ""), known, "missing_event superseded", 1},
		{"missing again, repaired", func(f *fixture) {
			f.queue(missing("e", 1, ""))
			f.settle("e", store.ReplayRepaired)
		}, missing("e", 1, ""), planned, "missing_event open", 2},
		{"missing again, healed without a replay", func(f *fixture) {
			f.record(late("e", 1))
			f.heal("e")
		}, missing("e", 1, ""), planned, "missing_event open", 1},
		{"late, then stuck", func(f *fixture) { f.record(late("e", 1)) }, stuck("e", 1), planned, "stuck_event open", 1},
		{"repaired, then late", func(f *fixture) {
			f.queue(missing("e", 1, ""))
			f.settle("e", store.ReplayRepaired)
		}, late("e", 1), nothing, "stuck_event open", 1},
		{"repaired, then late, then missing", func(f *fixture) {
			f.queue(missing("e", 1, ""))
			f.settle("e", store.ReplayRepaired)
			f.record(late("e", 1))
		}, missing("e", 1, ""), planned, "missing_event open", 2},
		{"queued, then late", func(f *fixture) { f.queue(missing("e", 1, "")) }, late("e", 1), nothing, "stuck_event open", 1},
		{"unreplayable again", func(f *fixture) { f.record(unreplayable("e", 1)) }, unreplayable("e", 1), known, "unreplayable open", 0},
		{"unreplayable, and then it may be sent", func(f *fixture) { f.record(unreplayable("e", 1)) }, missing("e", 1, ""), planned, "missing_event open", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			c.earlier(f)
			f.newRun()
			same(t, "work", f.record(c.now), c.want)
			found := f.finding("e")
			state := string(found.Resolution)
			if found.Open {
				state = "open"
			}
			same(t, "finding", string(found.Kind)+" "+state, c.finding)
			same(t, "last seen by", found.LastRunID, f.run.RunID())
			same(t, "findings", value[int](f, `SELECT count(*) FROM nightaudit.findings`), 1)
			same(t, "replays", value[int](f, `SELECT count(*) FROM nightaudit.replays`), c.replays)
		})
	}
}

func stuck(key string, minute int) store.Drift {
	d := missing(key, minute, "")
	d.Class, d.Kind, d.Cause = store.Stuck, store.StuckEvent, store.RecordedNotDone
	return d
}

func TestANewReplayOfARepairedEventIsLinkedToTheOld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("e", 1, "o1"))
	f.settle("e", store.ReplayRepaired)
	old := f.replay("e")
	f.newRun()
	f.record(missing("e", 1, "o1"))
	again := f.replay("e")
	same(t, "replayed from", again.ReplayedFrom, old.ID)
	same(t, "states of the new and the old", []store.ReplayState{again.State, old.State}, []store.ReplayState{store.ReplayPlanned, store.ReplayRepaired})
	same(t, "history", f.history(findingOf("e")), []string{
		"missing_event open: listed", "missing_event closed: so it is", "missing_event open: listed",
	})
}

func TestHistoryHasARowForEachChangeAndNoneForARepetition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.record(late("e", 1))
	}
	f.record(stuck("e", 1))
	f.record(missing("e", 1, ""))
	f.record(missing("e", 1, ""))
	same(t, "history", f.history(findingOf("e")), []string{"stuck_event open: listed", "missing_event open: listed"})
}

func TestAnEventTwiceInOneBatchIsOneFindingAndOneReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	same(t, "work", f.record(missing("e", 1, ""), missing("e", 1, ""), missing("g", 2, "")), store.Work{Planned: 2})
	same(t, "replays", value[int](f, `SELECT count(*) FROM nightaudit.replays`), 2)
}

func TestAReplayCarriesItsEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	yes := true
	d := missing("e", 1, "o1")
	d.Event.Account, d.Event.APIVersion, d.Event.Livemode = "acct_1", "2024-06-20", &yes
	d.Event.Subject.Account, d.Carry = "acct_1", providers.Ending
	f.record(d)
	r := f.replay("e")
	same(t, "event", []any{r.Event.Key, r.Event.ID, r.Event.Account, r.Event.Type, r.Event.Created, *r.Event.Livemode, r.Event.APIVersion},
		[]any{"e", "e", "acct_1", "order.updated", d.Event.Created, true, "2024-06-20"})
	same(t, "class, lane, state and run", []any{r.Class, r.Lane, r.State}, []any{providers.Ending, "acct_1/order/o1", store.ReplayPlanned})
	e := f.finding("e").Event()
	same(t, "the finding's event", []any{e.Key, e.ID, e.Account, e.Created.Equal(d.Event.Created)}, []any{"e", "e", "acct_1", true})
}

func TestAnEventWithoutAnObjectIsALaneOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(missing("e", 1, ""), missing("g", 2, ""))
	if a, b := f.replay("e").Lane, f.replay("g").Lane; a == b || a == "" {
		t.Errorf("lanes: got %q and %q, want two", a, b)
	}
}

func TestPayloadsAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, body := range map[string][]byte{
		"empty": {}, "nul": []byte("a\x00b"), "not-utf8": {0xff, 0xfe, 0x80, '{'}, "spaces": []byte("{ \"b\":1,\r\n \"a\": 1.0 }\n"),
		"big": bytes.Repeat([]byte("0123456789abcde\x00"), 5<<20/16),
	} {
		d := missing(name, 1, "")
		d.Event.Payload = body
		f.record(d)
		got, err := f.store.Payload(t.Context(), findingOf(name))
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: got %d bytes (%v), want the %d that were stored", name, len(got), err, len(body))
		}
	}
	if _, err := f.store.Payload(t.Context(), "fnd_none"); err == nil {
		t.Error("payload of an unknown finding: got no error, want one")
	}
}

func TestAnEventListedWithoutItsPayloadIsStillAFinding(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := late("e", 1)
	d.Event.Payload = nil
	f.record(d)
	same(t, "payloads", value[int](f, `SELECT count(*) FROM nightaudit.payloads`), 0)
}

func TestOneOpenReplayPerFindingWhateverItsState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(missing("e", 1, ""))
	const copySQL = `
INSERT INTO nightaudit.replays (id, finding_id, source, stream, event_key, event_id, event_account, event_type, event_created,
    api_version, class, lane, state, hold, closed_at, run_id)
SELECT gen_random_uuid()::text, finding_id, source, stream, event_key, event_id, event_account, event_type, event_created,
    api_version, class, lane, $1::text, CASE WHEN $1 = 'held' THEN 'gate' ELSE '' END, CASE WHEN $2 THEN now() END, run_id
FROM nightaudit.replays
LIMIT 1`
	for _, s := range []store.ReplayState{store.ReplayPlanned, store.ReplayQueued, store.ReplayHeld, store.ReplayAcknowledged, store.ReplayUnrecorded} {
		_, err := f.pool.Exec(t.Context(), copySQL, string(s), false)
		mentions(t, err, "replays_one_open")
	}
	for _, s := range []store.ReplayState{store.ReplayRepaired, store.ReplaySuperseded, store.ReplayRejected, store.ReplayParked, store.ReplayCancelled} {
		if _, err := f.pool.Exec(t.Context(), copySQL, string(s), true); err != nil {
			t.Errorf("a second replay that is %s: got %v, want it stored", s, err)
		}
	}
}

// fallDue turns the open late findings of the run into stuck ones.
func (f *fixture) fallDue(keys ...string) {
	f.t.Helper()
	var due []store.Due
	for _, key := range keys {
		due = append(due, store.Due{Finding: f.finding(key), Kind: store.StuckEvent, Cause: store.RecordedNotDone,
			Detail: "stuck", Replay: true, Carry: providers.Fact})
	}
	if err := f.run.FallDue(f.t.Context(), due); err != nil {
		f.t.Fatal(err)
	}
}

func TestALateEventFallsDueOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.record(late("e", 1))
	same(t, "due at", f.finding("e").DueAt.UTC(), midnight.Add(2*time.Hour))
	f.newRun()
	f.fallDue("e")
	f.fallDue("e")
	found, r := f.finding("e"), f.replay("e")
	same(t, "finding", []any{found.Class, found.DueAt == nil, found.Detail}, []any{store.Stuck, true, "stuck"})
	same(t, "replay", []any{r.State, r.Class, value[string](f, `SELECT run_id FROM nightaudit.replays`)}, []any{store.ReplayPlanned, providers.Fact, f.run.RunID()})
}

func TestALateEventThatHasAReplayFallsDueWithoutAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("queued", 1, ""), missing("rejected", 2, ""), missing("repaired", 3, ""))
	f.settle("rejected", store.ReplayRejected)
	f.settle("repaired", store.ReplayRepaired)
	repaired := f.replay("repaired").ID
	f.record(late("queued", 1), late("rejected", 2), late("repaired", 3), late("healed", 4))
	due := []string{"queued", "rejected", "repaired", "healed"}
	f.heal("healed")
	f.fallDue(due...)
	same(t, "replays", column[string](f, `SELECT event_key || ' ' || state FROM nightaudit.replays ORDER BY event_key, planned_at`),
		[]string{"queued queued", "rejected rejected", "repaired repaired", "repaired planned"})
	same(t, "replayed from", f.replay("repaired").ReplayedFrom, repaired)
	same(t, "the healed one", f.finding("healed").Resolution, store.Healed)
}

func TestHealingClosesTheFindingAndItsOpenReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.queue(missing("sent", 1, ""), missing("unsent", 2, ""))
	begin(t, f.run, f.replay("sent"))
	f.heal("sent")
	f.heal("unsent")
	for key, want := range map[string][]any{
		"sent":   {store.Repaired, store.ReplayRepaired, "confirmed by record"},
		"unsent": {store.Healed, store.ReplayRepaired, "recorded without a replay"},
	} {
		same(t, key, []any{f.finding(key).Resolution, f.replay(key).State, f.replay(key).Reason}, want)
	}
}

// begin stores that attempts are about to be made, and gives them.
func begin(t testing.TB, l *store.Lease, replays ...store.Replay) []*store.Attempt {
	t.Helper()
	attempts := make([]*store.Attempt, len(replays))
	for i, r := range replays {
		attempts[i] = &store.Attempt{ReplayID: r.ID, Endpoint: "https://shop.example.com"}
	}
	if err := l.Begin(t.Context(), attempts); err != nil {
		t.Fatal(err)
	}
	return attempts
}

func TestABatchIsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad := missing("bad", 2, "")
	bad.Event.Type = "a\x00b"
	if _, err := f.run.Record(t.Context(), stream, []store.Drift{missing("good", 1, ""), bad}); err == nil {
		t.Fatal("a batch with a text that cannot be stored: got no error, want one")
	}
	same(t, "rows", value[int](f, `SELECT (SELECT count(*) FROM nightaudit.findings) + (SELECT count(*) FROM nightaudit.replays)`), 0)
	if err := f.run.Tx(t.Context(), func(pgx.Tx) error { return nil }); err != nil {
		t.Errorf("the lease after it: got %v, want it whole", err)
	}
}
