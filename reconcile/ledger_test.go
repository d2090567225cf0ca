package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile"
	"github.com/nightaudit/nightaudit/store"
	"github.com/nightaudit/nightaudit/store/appdb"
)

func TestALedgerThatBreaksOffClaimsNothingMissing(t *testing.T) {
	w := newWorld(t)
	w.run(reconcile.Options{})
	before := w.watermark()
	for i := range 1000 {
		w.provider.emit(fmt.Sprintf("evt_%04d", i), "invoice.paid", epoch.Add(time.Duration(i)*time.Second))
	}
	w.now = epoch.Add(24 * time.Hour)
	whole := w.source.Ledger
	w.source.Ledger = &amended{Ledger: whole, ask: func(context.Context, []providers.Event) error {
		return fmt.Errorf("asking the ledger public.processed_events: %w",
			&pgconn.PgError{Severity: "ERROR", Code: "57014", Message: "canceling statement due to statement timeout"})
	}}
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "57014", "0 compared")
	wantBooks(t, r, "listed 0 done 0 missing 0 stuck 0 late 0 ignored 0 unreadable 0")
	wantKeys(t, r, store.MissingEvent)
	w.wantPosts()
	w.wantWatermark(before)
}

func TestALedgerThatBreaksOffLeavesOpenFindingsAsTheyAre(t *testing.T) {
	w := newWorld(t)
	w.source.Repair = false
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	w.run(reconcile.Options{})
	whole := w.source.Ledger
	w.source.Ledger = &amended{Ledger: whole, ask: func(context.Context, []providers.Event) error { return errServer }}
	w.nextNight()
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "open findings of earlier runs were not asked about")
	if f := finding(t, r, store.MissingEvent, "evt_1"); f.State != "open" {
		t.Errorf("finding: got %s, want open", f.State)
	}
}

func TestALedgerThatIsGoneIsIncompleteAndSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		sql  string
		says string
	}{
		"a table that was dropped":   {`DROP TABLE public.processed_events`, "42P01"},
		"a column that was renamed":  {`ALTER TABLE public.processed_events RENAME event_id TO id`, "42703"},
		"a right that was withdrawn": {`REVOKE SELECT ON public.processed_events FROM reader`, "42501"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
			if strings.HasPrefix(c.sql, "REVOKE") {
				url := pgtest.ReadOnlyURL(t, w.pool.Config().ConnString(), "public.processed_events")
				reader := pgtest.Connect(t, url)
				ledger, err := appdb.Open(t.Context(), reader, appdb.Options{Table: "public.processed_events",
					Key: map[string]string{"event_id": "event.id"}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				w.source.Ledger = ledger
				c.sql = strings.ReplaceAll(c.sql, "reader", reader.Config().ConnConfig.User)
			}
			w.exec(c.sql)
			r := w.run(reconcile.Options{})
			wantOutcome(t, r, store.Incomplete)
			wantReason(t, r, "public.processed_events", c.says)
			wantKeys(t, r, store.MissingEvent)
			w.wantPosts()
		})
	}
}

func TestADatabaseOfTheApplicationOutOfReachIsIncomplete(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	other := pgtest.Connect(t, w.pool.Config().ConnString())
	ledger, err := appdb.Open(t.Context(), other, appdb.Options{Table: "public.processed_events",
		Key: map[string]string{"event_id": "event.id"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	w.source.Ledger = ledger
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "closed pool")
	w.wantPosts()
}

func TestNightauditsOwnDatabaseOutOfReachIsAnError(t *testing.T) {
	w := newWorld(t)
	w.pool.Close()
	if _, err := w.try(t.Context(), reconcile.Options{}); err == nil || !strings.Contains(err.Error(), "taking the run lease of source shop") {
		t.Errorf("run: got %v, want what was being done", err)
	}
	if len(w.provider.requests) > 0 {
		t.Errorf("%d pages were asked for, want none", len(w.provider.requests))
	}
}

func TestAReplicaFartherBehindThanEventsSettleProvesNothing(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	whole := w.source.Ledger
	w.source.Ledger = &amended{Ledger: whole, lag: 11 * time.Minute}
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.Incomplete)
	wantReason(t, r, "replica 11m0s behind", "window.settle", "10m")
	wantKeys(t, r, store.MissingEvent)
	w.wantPosts()

	w.source.Ledger = &amended{Ledger: whole, lag: 9 * time.Minute}
	wantOutcome(t, w.run(reconcile.Options{}), store.AllRepaired)
}

func TestAnIDThatDoesNotFitTheColumnsTypeCostsNothingButItself(t *testing.T) {
	for _, c := range []struct {
		column, recorded, listed, misfit, near string
	}{
		{"uuid", "6f1e2d3c-0000-4000-8000-00000000abcd", "6F1E2D3C-0000-4000-8000-00000000ABCD", "evt_not_uuid", "6f1e2d3c-0000-4000-8000-00000000abce"},
		{"bigint", "9007199254740993", "9007199254740993", "evt_1", "9007199254740992"},
	} {
		t.Run(c.column, func(t *testing.T) {
			w := newWorld(t)
			w.source.Repair = false
			w.exec(`ALTER TABLE public.processed_events ALTER event_id TYPE ` + c.column + ` USING event_id::` + c.column)
			w.exec(`INSERT INTO public.processed_events (event_id, handled_at) VALUES ('`+c.recorded+`', $1)`, epoch.Add(-200*time.Hour))
			w.source.Ledger = w.ledger(appdb.Options{})
			for _, id := range []string{c.listed, c.misfit, c.near} {
				w.provider.emit(id, "invoice.paid", epoch.Add(-2*time.Hour))
			}
			r := w.run(reconcile.Options{})
			wantBooks(t, r, "listed 3 done 1 missing 2 stuck 0 late 0 ignored 0 unreadable 0")
			wantKeys(t, r, store.MissingEvent, c.near)
			f := finding(t, r, store.Unreplayable, c.misfit)
			if !strings.Contains(f.Detail, "event_id") || !strings.Contains(f.Detail, c.column) {
				t.Errorf("detail: got %q, want column and type", f.Detail)
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if want := `"id":"` + c.near + `"`; !strings.Contains(string(text), want) {
				t.Errorf("report: no %s in it, ids are texts with every digit", want)
			}
		})
	}
}

func TestTextIDsAreComparedWithTheirCase(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO public.processed_events (event_id, handled_at) VALUES ('6f1e2d3c-0000-4000-8000-00000000abcd', $1)`, epoch.Add(-200*time.Hour))
	w.provider.emit("6F1E2D3C-0000-4000-8000-00000000ABCD", "invoice.paid", epoch.Add(-2*time.Hour))
	wantBooks(t, w.run(reconcile.Options{DryRun: true}), "listed 1 done 0 missing 1 stuck 0 late 0 ignored 0 unreadable 0")
}

// openWith opens the ledger with a column or condition more.
func (w *world) openWith(o appdb.Options) {
	w.t.Helper()
	w.source.Ledger = w.ledger(o)
}

func TestARowWhoseWorkIsNotDoneIsNoDoneEvent(t *testing.T) {
	w := newWorld(t)
	w.openWith(appdb.Options{Failed: "status = 'failed'"})
	created := epoch.Add(-27 * time.Hour)
	for id, row := range map[string]struct {
		status string
		since  time.Duration
	}{"evt_2": {"failed", 26 * time.Hour}, "evt_3": {"pending", 26 * time.Hour}, "evt_4": {"pending", 30 * time.Second}} {
		e := w.provider.emit(id, "invoice.paid", created)
		w.app.handle(e.Event, row.status, epoch.Add(-row.since))
	}
	r := w.run(reconcile.Options{})
	wantBooks(t, r, "listed 3 done 0 missing 0 stuck 2 late 1 ignored 0 unreadable 0")
	w.wantPosts("evt_2", "evt_3")
	wantOutcome(t, r, store.AllRepaired) // what is late is no drift yet
	late := finding(t, r, store.StuckEvent, "evt_4")
	if !late.Late || late.Replay != nil || late.DueAt == nil || !late.DueAt.Equal(epoch.Add(time.Hour-30*time.Second)) {
		t.Errorf("evt_4: got %+v, want it late, without a replay, due an hour after its row", late)
	}
}

func TestALateEventFallsDueOrHeals(t *testing.T) {
	w := newWorld(t)
	slow := w.provider.emit("evt_slow", "invoice.paid", epoch.Add(-20*time.Minute)).Event
	w.app.handle(slow, "pending", epoch.Add(-19*time.Minute))
	stuck := w.provider.emit("evt_stuck", "invoice.paid", epoch.Add(-20*time.Minute)).Event
	w.app.handle(stuck, "pending", epoch.Add(-19*time.Minute))
	r := w.run(reconcile.Options{})
	wantOutcome(t, r, store.InSync)
	wantBooks(t, r, "listed 2 done 0 missing 0 stuck 0 late 2 ignored 0 unreadable 0")
	w.wantPosts()

	w.app.handle(slow, "done", epoch)
	w.nextNight()
	next := w.run(reconcile.Options{})
	wantOutcome(t, next, store.AllRepaired)
	w.wantPosts("evt_stuck")
	if f := finding(t, next, store.StuckEvent, "evt_slow"); f.State != "closed" || f.Resolution != store.Healed {
		t.Errorf("evt_slow: got %s %s, want healed", f.State, f.Resolution)
	}
}

func TestRowsOfTheOtherModeAreCountedAndProveNothing(t *testing.T) {
	w := newWorld(t)
	live := true
	w.provider.livemode = &live
	w.openWith(appdb.Options{Livemode: "livemode"})
	w.provider.emit("evt_l1", "invoice.paid", epoch.Add(-2*time.Hour)).Livemode = &live
	w.exec(`INSERT INTO public.processed_events (event_id, event_type, livemode, handled_at)
		VALUES ('evt_l1', 'invoice.paid', false, $1), ('evt_t1', 'invoice.paid', false, $1)`, epoch.Add(-time.Hour))

	r := w.run(reconcile.Options{DryRun: true})
	wantBooks(t, r, "listed 1 done 0 missing 1 stuck 0 late 0 ignored 0 unreadable 0")
	wantKeys(t, r, store.UnknownEvent)
	if n := r.Streams[0].OtherModeRows; n != 2 {
		t.Errorf("rows of the other mode: got %d, want 2", n)
	}
	if f := finding(t, r, store.MissingEvent, "evt_l1"); !strings.Contains(f.Detail, "other mode") {
		t.Errorf("detail: got %q, want it to name the other mode's row", f.Detail)
	}
}

func TestWhatOnlyTheLedgerHasIsReportedAndNotTouched(t *testing.T) {
	w := newWorld(t)
	w.handled("evt_known", "invoice.paid", epoch.Add(-200*time.Hour)) // older than the window, recorded in it
	w.exec(`UPDATE public.processed_events SET handled_at = $1`, epoch.Add(-2*time.Hour))
	w.exec(`INSERT INTO public.processed_events (event_id, event_type, handled_at) VALUES ('evt_x', 'invoice.paid', $1)`, epoch.Add(-3*time.Hour))

	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.UnknownEvent, "evt_x")
	wantExit(t, r, reconcile.ExitDrift)
	w.wantPosts()
	if n := w.count(`SELECT count(*) FROM public.processed_events WHERE event_id = 'evt_x'`); n != 1 {
		t.Error("evt_x was removed from the ledger")
	}
	if s := r.Streams[0]; s.UnlistedRows != 2 || s.LookedUp != 2 {
		t.Errorf("unlisted rows %d, looked up %d; want 2 and 2", s.UnlistedRows, s.LookedUp)
	}
}

func TestManyEventsThatOnlyTheLedgerHasAreOneFinding(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO public.processed_events (event_id, event_type, handled_at)
		SELECT 'evt_x' || n, 'invoice.paid', $1 FROM generate_series(1, 400) AS n`, epoch.Add(-3*time.Hour))
	r := w.run(reconcile.Options{})
	wantKeys(t, r, store.UnknownEvent, "in bulk")
	if s := r.Streams[0]; s.UnlistedRows != 400 || s.LookedUp > 50 {
		t.Errorf("unlisted rows %d, looked up %d; want all counted and at most 50 looked up", s.UnlistedRows, s.LookedUp)
	}
	w.wantPosts()
}

func TestACancelledRunIsRecordedAsInterrupted(t *testing.T) {
	w := newWorld(t)
	w.provider.emit("evt_1", "invoice.paid", epoch.Add(-2*time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	w.source.Ledger = &amended{Ledger: w.source.Ledger, ask: func(ctx context.Context, _ []providers.Event) error {
		stop()
		return context.Cause(ctx)
	}}
	r, err := w.try(ctx, reconcile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, r, store.Interrupted)
	w.wantPosts()
	if n := w.count(`SELECT count(*) FROM nightaudit.runs WHERE outcome = 'interrupted' AND finished_at IS NOT NULL AND report IS NOT NULL`); n != 1 {
		t.Error("the run's end was not stored")
	}
	if n := w.count(`SELECT count(*) FROM nightaudit.leases WHERE expires_at > clock_timestamp()`); n != 0 {
		t.Errorf("leases still held: %d", n)
	}
}
