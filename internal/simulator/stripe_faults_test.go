package simulator_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/simulator"
)

// walk lists all events from query on, limit at a time.
func walk(t *testing.T, base, query string) (pages [][]string) {
	t.Helper()
	cursor := ""
	for {
		ids, more := get(t, base+"/v1/events?"+query+cursor, simulator.DefaultKey, "").list(t)
		pages = append(pages, ids)
		if !more || len(ids) == 0 {
			return pages
		}
		cursor = "&starting_after=" + ids[len(ids)-1]
	}
}

func emit(s *simulator.Stripe, n int, created time.Time) {
	for i := range n {
		s.Emit(simulator.Emission{ID: fmt.Sprintf("evt_%04d", i+1), Type: "invoice.paid", Created: created})
	}
}

func TestPagesFailAsTold(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	emit(s, 1, noon)
	s.FailPages(2, 1, simulator.RateLimited("7"))
	s.FailPages(3, 1, simulator.ServerError())
	s.FailPages(4, 1, simulator.Garbage())
	remove := s.FailPages(5, -1, simulator.Answer{Status: 403})
	get(t, base+"/v1/webhook_endpoints", simulator.DefaultKey, "") // is no page and counts for nothing

	for n, want := range map[int]int{1: 200} {
		if a := get(t, base+"/v1/events", simulator.DefaultKey, ""); a.status != want {
			t.Errorf("page %d: got %d, want %d", n, a.status, want)
		}
	}
	limited := get(t, base+"/v1/events", simulator.DefaultKey, "")
	if code, _, _ := limited.refusal(t); limited.status != 429 || limited.header.Get("Retry-After") != "7" || code != "rate_limit" {
		t.Errorf("page 2: got %d %v %s, want 429 with Retry-After 7", limited.status, limited.header, limited.body)
	}
	if a := get(t, base+"/v1/events", simulator.DefaultKey, ""); a.status != 500 {
		t.Errorf("page 3: got %d, want 500", a.status)
	}
	if a := get(t, base+"/v1/events", simulator.DefaultKey, ""); a.status != 200 || json.Valid(a.body) {
		t.Errorf("page 4: got %d %s, want 200 and no JSON", a.status, a.body)
	}
	for n := range 3 {
		if a := get(t, base+"/v1/events", simulator.DefaultKey, ""); a.status != 403 {
			t.Errorf("page %d: got %d, want 403", 5+n, a.status)
		}
	}
	remove()
	if a := get(t, base+"/v1/events", simulator.DefaultKey, ""); a.status != 200 {
		t.Errorf("after the fault was removed: got %d, want 200", a.status)
	}
}

func TestConnectionsBreakWithoutAnAnswer(t *testing.T) {
	for _, a := range []simulator.Answer{{Close: true}, {Reset: true}} {
		s, base := serve(t, simulator.StripeOptions{})
		s.FailPages(1, -1, a)
		if got, err := try(t, base+"/v1/events", simulator.DefaultKey, ""); err == nil {
			t.Errorf("%+v: got status %d, want an error", a, got.status)
		}
		for _, r := range s.Requests() {
			if r.Status != 0 {
				t.Errorf("%+v: logged status %d, want 0", a, r.Status)
			}
		}
	}
}

func TestHeldPageIsAnsweredRightlyWhenReleased(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	emit(s, 1, noon)
	hold, arrived := make(chan struct{}), make(chan struct{})
	s.Intercept(func(simulator.Request) *simulator.Answer {
		close(arrived)
		return &simulator.Answer{Hold: hold, Pass: true}
	})
	answered := make(chan answer)
	go func() {
		a, _ := try(t, base+"/v1/events", simulator.DefaultKey, "")
		answered <- a
	}()
	<-arrived
	if n := s.Stats().MaxConcurrent; n != 1 {
		t.Errorf("while held: %d requests open at most, want 1", n)
	}
	close(hold)
	if ids, _ := (<-answered).list(t); len(ids) != 1 {
		t.Errorf("after the release: got %v, want the one event", ids)
	}
}

func TestBusySecondCannotBeDrainedByCursor(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	busy := noon.Add(-time.Hour)
	emit(s, 150, busy)
	s.SetFaults(simulator.Faults{BusySecond: true})
	window := func(from, to int64) string {
		return fmt.Sprintf("limit=100&created[gte]=%d&created[lt]=%d", busy.Unix()+from, busy.Unix()+to)
	}
	wide := walk(t, base, window(-50, 50))
	if len(wide) != 2 || len(wide[0]) != 100 || wide[0][0] != "evt_0150" || wide[0][99] != "evt_0051" || len(wide[1]) != 0 {
		t.Errorf("window of 100 s: got pages %v; want 0150 to 0051 and then nothing", wide)
	}
	if exact := slices.Concat(walk(t, base, window(0, 1))...); len(exact) != 150 {
		t.Errorf("window of exactly that second: got %d events, want 150", len(exact))
	}
	s.ClearFaults()
	if healed := slices.Concat(walk(t, base, window(-50, 50))...); len(healed) != 150 {
		t.Errorf("without the fault: got %d events, want 150", len(healed))
	}
}

func TestPagesRepeatTheirEdge(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	emit(s, 5, noon)
	s.SetFaults(simulator.Faults{RepeatEdge: true})
	got := fmt.Sprint(walk(t, base, "limit=3"))
	if want := "[[evt_0005 evt_0004 evt_0003] [evt_0003 evt_0002 evt_0001]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBadElementStandsAmongGoodOnes(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	emit(s, 2, noon)
	s.SetFaults(simulator.Faults{BadElement: []byte(`{"id":7}`)})
	var page struct{ Data []json.RawMessage }
	if err := json.Unmarshal(get(t, base+"/v1/events", simulator.DefaultKey, "").body, &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != 3 || string(page.Data[1]) != `{"id":7}` {
		t.Errorf("got %s; want the bad element between two events", page.Data)
	}
}

func TestEmptyAccountListsNothing(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	emit(s, 2, noon)
	s.SetFaults(simulator.Faults{EmptyAccounts: []string{""}})
	if ids, more := get(t, base+"/v1/events", simulator.DefaultKey, "").list(t); len(ids) != 0 || more {
		t.Errorf("got %v, has_more %v; want an empty page", ids, more)
	}
}

func TestEventBecomesListableLate(t *testing.T) {
	now := noon
	s, base := serve(t, simulator.StripeOptions{Now: func() time.Time { return now }})
	s.Emit(simulator.Emission{ID: "evt_late", Type: "invoice.paid", Created: noon.Add(-time.Second), VisibleAt: noon.Add(time.Minute)})
	s.Emit(simulator.Emission{ID: "evt_prompt", Type: "invoice.paid", Created: noon})
	if got, _ := get(t, base+"/v1/events", simulator.DefaultKey, "").list(t); !slices.Equal(got, []string{"evt_prompt"}) {
		t.Errorf("at noon: got %v, want evt_prompt alone", got)
	}
	if a := get(t, base+"/v1/events/evt_late", simulator.DefaultKey, ""); a.status != 200 {
		t.Errorf("reading evt_late at noon: got %d, want 200, as only listings lag", a.status)
	}
	now = noon.Add(time.Minute)
	if got, _ := get(t, base+"/v1/events", simulator.DefaultKey, "").list(t); !slices.Equal(got, []string{"evt_prompt", "evt_late"}) {
		t.Errorf("a minute later: got %v, want both, newest first", got)
	}
}

func TestDateHeaderIsTheFakesOwnClock(t *testing.T) {
	_, base := serve(t, simulator.StripeOptions{})
	for _, path := range []string{"events", "events/none", "webhook_endpoints"} {
		if got := get(t, base+"/v1/"+path, simulator.DefaultKey, "").header.Get("Date"); got != noon.Format(http.TimeFormat) {
			t.Errorf("%s: got Date %q, want noon", path, got)
		}
	}
}

func TestRequestLogShowsWhatWasAskedAndNoKey(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.AddAccount("acct_c1", noon)
	get(t, base+"/v1/events?limit=5", simulator.DefaultKey, "acct_c1")
	get(t, base+"/v1/none", simulator.DefaultKey, "")
	requests := s.Requests()
	if len(requests) != 2 || requests[0].Page != 1 || requests[0].Account != "acct_c1" || requests[0].Query.Get("limit") != "5" ||
		requests[0].Status != 200 || requests[1].Status != 404 || requests[1].Page != 0 || !requests[0].At.Equal(noon) {
		t.Errorf("got %+v", requests)
	}
	if shown := fmt.Sprintf("%+v", requests); strings.Contains(shown, simulator.DefaultKey) {
		t.Errorf("the log shows the key: %s", shown)
	}
	s.ForgetRequests()
	get(t, base+"/v1/events", simulator.DefaultKey, "")
	if r := s.Requests(); len(r) != 1 || r[0].N != 3 || r[0].Status != 200 || s.Stats().Requests != 3 {
		t.Errorf("after forgetting: got %+v, %+v; want request 3 alone", r, s.Stats())
	}
}

func TestFaultsMayChangeWhileRequestsRun(t *testing.T) {
	s, base := serve(t, simulator.StripeOptions{})
	s.AddHistory(simulator.History{N: 50, From: noon.Add(-time.Hour), To: noon})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			_, _ = try(t, base+"/v1/events?limit=5", simulator.DefaultKey, "")
		}
	}()
	for i := range 50 {
		s.SetFaults(simulator.Faults{RepeatEdge: i%2 == 0, PageDelay: time.Microsecond})
		s.FailPages(1, 1, simulator.ServerError())()
		s.Emit(simulator.Emission{Type: "invoice.paid"})
		endpoint := s.AddEndpoint(simulator.Endpoint{URL: "http://127.0.0.1:1"})
		s.DisableEndpoint(endpoint.ID)
	}
	<-done
	s.ClearFaults()
	if n := len(slices.Concat(walk(t, base, "limit=100")...)); n != 100 {
		t.Errorf("got %d events, want 100", n)
	}
}
