package store_test

import (
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

func (f *fixture) watermark() time.Time {
	f.t.Helper()
	st, err := f.store.Stream(f.t.Context(), "shop", stream)
	if err != nil || st == nil {
		f.t.Fatalf("stream: got %v, %v", st, err)
	}
	return st.Watermark
}

func TestTheWatermarkMovesOverWhatWasCoveredAndNeverBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		name           string
		from, to, want int // minutes after the watermark
	}{
		{"from the watermark on", 0, 60, 60},
		{"from before the watermark", -60, 60, 60},
		{"from after the watermark: something lies between", 1, 60, 0},
		{"ends at the watermark", -60, 0, 0},
		{"ends before the watermark", -120, -60, 0},
	} {
		f.exec(`UPDATE nightaudit.streams SET watermark = $1`, midnight)
		w := providers.Window{From: midnight.Add(time.Duration(c.from) * time.Minute), To: midnight.Add(time.Duration(c.to) * time.Minute)}
		f.closeWindow(w, 0)
		if got, want := f.watermark(), midnight.Add(time.Duration(c.want)*time.Minute); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", c.name, got, want)
		}
	}
	same(t, "windows stored", value[int](f, `SELECT count(*) FROM nightaudit.windows`), 5)
}

func TestBooksThatDoNotBalanceAreRefusedAndMoveNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		name       string
		window     providers.Window
		counts     store.Counts
		work       store.Work
		constraint string
	}{
		{"an event in no class", firstHour, store.Counts{Listed: 2, Done: 1}, store.Work{}, "windows_balance"},
		{"an event in two classes", firstHour, store.Counts{Listed: 1, Done: 1, Late: 1}, store.Work{}, "windows_balance"},
		{"more work than was missing", firstHour, store.Counts{Listed: 1, Missing: 1}, store.Work{Planned: 1, Known: 1}, "windows_work"},
		{"an empty window", providers.Window{From: midnight, To: midnight}, store.Counts{}, store.Work{}, "windows_range"},
	} {
		err := f.run.CommitWindow(t.Context(), stream, c.window, c.counts, c.work)
		mentions(t, err, "closing 2026-01-01T00:00:00Z to", c.constraint)
	}
	same(t, "windows", value[int](f, `SELECT count(*) FROM nightaudit.windows`), 0)
	same(t, "watermark", f.watermark(), midnight)
}

func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	var c store.Counts
	for _, class := range []store.Class{store.Done, store.Missing, store.Stuck, store.Late, store.Ignored, store.Unreadable} {
		c.Add(class)
	}
	same(t, "one of each", c, store.Counts{Listed: 6, Done: 1, Missing: 1, Stuck: 1, Late: 1, Ignored: 1, Unreadable: 1})
	same(t, "balance", []bool{c.Balances(), store.Counts{Listed: 1}.Balances()}, []bool{true, false})
}

func TestAGapAndItsFindingAreStoredTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	edge := midnight.Add(24 * time.Hour)
	gap := store.NewFinding("shop", stream, f.run.RunID(), store.ScopeSource, store.CoverageGap, edge.String())
	bad := gap
	bad.Scope = "nonsense"
	mentions(t, f.run.CommitGap(t.Context(), stream, edge, bad), "storing the coverage gap of events", "findings_scope")
	same(t, "watermark after a finding that cannot be stored", f.watermark(), midnight)
	if err := f.run.CommitGap(t.Context(), stream, edge, gap); err != nil {
		t.Fatal(err)
	}
	same(t, "watermark", f.watermark(), edge)
	same(t, "finding", f.findingByID(gap.ID).Open, true)
	if err := f.run.CommitGap(t.Context(), stream, midnight, gap); err != nil {
		t.Fatal(err)
	}
	same(t, "watermark after a gap behind it", f.watermark(), edge)
}

func TestAStreamIsCreatedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.run.CreateStream(t.Context(), stream, store.Stream{Watermark: midnight.Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	same(t, "watermark", f.watermark(), midnight)
}

func TestTrafficCountsWindowsThatEndedAfterATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.closeWindow(firstHour, 5)
	f.closeWindow(providers.Window{From: firstHour.To, To: firstHour.To.Add(30 * time.Minute)}, 2)
	for _, c := range []struct {
		after  time.Time
		listed int64
		over   time.Duration
	}{{midnight, 7, 90 * time.Minute}, {firstHour.To, 2, 30 * time.Minute}, {midnight.Add(24 * time.Hour), 0, 0}} {
		listed, over, err := f.store.Traffic(t.Context(), "shop", stream, c.after)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "after "+c.after.String(), []any{listed, over}, []any{c.listed, c.over})
	}
}

func TestLooksThatShowTheSameAreOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := providers.Endpoint{ID: "we_a", URL: "https://a.example.com", Enabled: true, Types: []string{"x", "y"}, Created: midnight}
	b := providers.Endpoint{ID: "we_b", URL: "https://b.example.com", Types: []string{"*"}}
	shuffled := a
	shuffled.Types = []string{"y", "x"}
	disabled := a
	disabled.Enabled = false
	anonymous := []providers.Endpoint{{URL: "https://a.example.com"}, {URL: "https://b.example.com"}}
	for hour, endpoints := range [][]providers.Endpoint{
		{a, b}, {b, shuffled}, {disabled, b}, {a, b}, nil, {}, anonymous, {anonymous[1], anonymous[0]},
	} {
		if err := f.run.AddLook(t.Context(), stream, midnight.Add(time.Duration(hour)*time.Hour), endpoints); err != nil {
			t.Fatal(err)
		}
	}
	looks, err := f.store.Looks(t.Context(), "shop", stream)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range looks {
		got = append(got, l.FirstAt.Format("15")+"-"+l.LastAt.Format("15"))
	}
	same(t, "looks by their first and last hour", got, []string{"00-01", "02-02", "03-03", "04-05", "06-07"})
	same(t, "endpoints of the first", []any{looks[0].Endpoints[0].ID, looks[0].Endpoints[0].Types, looks[0].Endpoints[0].Created}, []any{"we_a", []string{"x", "y"}, midnight})
	same(t, "endpoints of the empty one", len(looks[3].Endpoints), 0)
	same(t, "the order in which the caller has them", shuffled.Types, []string{"y", "x"})
}
