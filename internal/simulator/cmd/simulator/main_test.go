package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// start runs the command until the test ends and gives its line.
func start(t *testing.T, args ...string) ready {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, args, in, io.Discard)
		_ = in.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("simulator %v ended with %v", args, err)
		}
	})
	var line ready
	if err := json.NewDecoder(out).Decode(&line); err != nil {
		t.Fatalf("simulator %v printed no line: %v", args, err)
	}
	return line
}

// listed reads the first page of the events before a time.
func listed(t *testing.T, line ready) (ids []string, more bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, line.StripeURL+"/v1/events?limit=100&delivery_success=false", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+line.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var page struct {
		Data    []struct{ ID string }
		HasMore bool `json:"has_more"`
	}
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	for _, d := range page.Data {
		ids = append(ids, d.ID)
	}
	return ids, page.HasMore
}

func TestDroppedEventsAreTheOnesTheLedgerLacks(t *testing.T) {
	url := pgtest.URL(t)
	line := start(t, "--events", "500", "--drop", "0.1", "--seed", "3", "--database-url", url)
	if line.Dropped == 0 || int(line.Recorded)+line.Dropped != 500 || line.AppURL == "" || line.Secret == "" {
		t.Fatalf("got %+v; want 500 events, most of them recorded", line)
	}
	missing, more := listed(t, line)
	if len(missing) != line.Dropped || more {
		t.Errorf("Stripe lists %d undelivered events, want the %d dropped", len(missing), line.Dropped)
	}
	var recorded int
	if err := pgtest.Connect(t, url).QueryRow(t.Context(),
		`SELECT count(*) FROM public.processed_events WHERE event_id = ANY ($1)`, missing).Scan(&recorded); err != nil || recorded != 0 {
		t.Errorf("%d of the undelivered events are in the ledger (%v), want none", recorded, err)
	}
}

func TestStartingAgainHasTheSameEvents(t *testing.T) {
	url := pgtest.URL(t)
	to := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	args := []string{"--events", "300", "--drop", "0.1", "--to", to, "--database-url", url}
	first := start(t, args...)
	second := start(t, args...)
	if second.Recorded != 0 || second.Dropped != first.Dropped || second.Secret != first.Secret {
		t.Errorf("got %+v and then %+v; want the same events, nothing new to record", first, second)
	}
}

func TestWithoutDatabaseThereIsNoApplication(t *testing.T) {
	if line := start(t, "--events", "10"); line.AppURL != "" || line.Recorded != 0 {
		t.Errorf("got %+v, want no application", line)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--drop", "1.5"}, {"--days", "0"}, {"--events", "-1"}, {"--to", "yesterday"}, {"--listen", "nowhere"}} {
		err := run(t.Context(), args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(args[0], "--")) {
			t.Errorf("%v: got %v, want an error that names the flag", args, err)
		}
	}
}
