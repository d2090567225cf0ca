package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A simulated provider is a fake Stripe in a process of its own, with the fake
// application beside it if it was given a database.
type simulated struct {
	StripeURL string    `json:"stripe_url"`
	Key       string    `json:"key"`
	AppURL    string    `json:"app_url"`
	Secret    string    `json:"secret"`
	Events    int       `json:"events"`
	Recorded  int       `json:"recorded"` // of the events: in the application's ledger
	Dropped   int       `json:"dropped"`  // of the events: not in it
	From      time.Time `json:"from"`     // the events lie in [from, to)
	To        time.Time `json:"to"`

	stop func() // ends the process and waits for that
}

// window is where all events lie.
func (s *simulated) window() providers.Window { return providers.Window{From: s.From, To: s.To} }

// simulate starts a fake Stripe with so many events over three days; args are
// further flags of the simulator. Its end is stop.
func (e *environment) simulate(ctx context.Context, events int, args ...string) (*simulated, error) {
	program, err := e.program(ctx, "internal/simulator/cmd/simulator")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	running, cancel := context.WithCancel(ctx)
	cmd := command(running, program, nil, append([]string{"--events", strconv.Itoa(events), "--days", "3"}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting the simulator: %w", err)
	}
	s := &simulated{stop: func() {
		cancel()
		_, _ = io.Copy(io.Discard, out) // Wait closes it, and must not before its end
		_ = cmd.Wait()                  // that it was told to stop is no news
	}}
	if err := json.NewDecoder(out).Decode(s); err != nil {
		s.stop()
		if stopped := context.Cause(ctx); stopped != nil {
			return nil, stopped
		}
		return nil, fmt.Errorf("starting the simulator: %w: %s", err, said.String())
	}
	e.say("the simulator has %d events, after %.1f s", s.Events, time.Since(began).Seconds())
	return s, nil
}
