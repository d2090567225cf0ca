package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
)

// A call is one question to the provider and how it ended. An answer that holds
// nothing is empty.
type call struct {
	name  string
	empty bool
	err   error
}

// ask puts every question that p can be asked. Streams may be answered from the
// settings alone; then there is a stream to ask the others for.
func (b bench) ask(ctx context.Context, p providers.Provider) []call {
	streams, err := p.Streams(ctx)
	calls := []call{{"Streams", len(streams) == 0, err}}
	probes, err := p.Check(ctx)
	calls = append(calls, call{"Check", len(probes) == 0, errors.Join(append(probeErrors(probes), err)...)})
	s := providers.Stream{Name: b.Stream}
	if len(streams) > 0 {
		s = streams[0]
	}
	if feed, ok := p.(providers.EventFeed); ok {
		page, err := feed.Events(ctx, s, b.Window, "")
		calls = append(calls, call{"Events", len(page.Items)+len(page.Unreadable) == 0, err})
	}
	if reader, ok := p.(providers.EventReader); ok {
		_, presence, err := reader.Event(ctx, s, b.Unknown)
		calls = append(calls, call{"Event", presence != providers.Live, err})
	}
	if api, ok := p.(providers.Endpoints); ok {
		endpoints, err := api.Endpoints(ctx, s)
		calls = append(calls, call{"Endpoints", len(endpoints) == 0, err})
	}
	return calls
}

func probeErrors(probes []providers.Probe) []error {
	var errs []error
	for _, p := range probes {
		errs = append(errs, p.Err)
	}
	return errs
}

// allFail demands of every question an error that is right, unless it was
// answered without asking the API.
func (b bench) allFail(ctx context.Context, s Script, right func(error) bool, want string) error {
	for _, c := range b.ask(ctx, b.Open(b, s)) {
		if c.err == nil && (c.empty || c.name != "Streams") {
			return fmt.Errorf("%s gave an answer without error, want %s", c.name, want)
		}
		if c.err != nil && !right(c.err) {
			return fmt.Errorf("%s gave %T %v, want %s", c.name, c.err, c.err, want)
		}
	}
	return nil
}

func rejected(b bench) error {
	return b.allFail(b.Context(), Rejected, func(err error) bool {
		var e *providers.CredentialsError
		return errors.As(err, &e) && e.Op != "" && e.Fix != "" && e.Err != nil
	}, "a *CredentialsError that says what to do")
}

func forbidden(b bench) error {
	return b.allFail(b.Context(), Forbidden, func(err error) bool {
		var e *providers.PermissionError
		return errors.As(err, &e) && e.Op != "" && e.Fix != "" && e.Err != nil &&
			e.Missing != "" && strings.Contains(e.Missing, b.Missing)
	}, fmt.Sprintf("a *PermissionError that names %q", b.Missing))
}

func foreign(b bench) error {
	return b.allFail(b.Context(), NotTheAPI, func(err error) bool { return true }, "an error")
}

func cancelled(b bench) error {
	stop := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(b.Context())
	cancel(stop)
	return b.allFail(ctx, Plain, func(err error) bool {
		return errors.Is(err, stop) || errors.Is(err, context.Canceled)
	}, "the context's end")
}

func silent(b bench) error {
	hidden := []string{string(b.Foreign)}
	for _, s := range append(b.Hidden, b.Secrets...) {
		hidden = append(hidden, s.Reveal())
	}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	var calls []call
	for _, s := range []Script{Rejected, Forbidden, NotTheAPI} {
		calls = append(calls, b.ask(b.Context(), b.Open(b, s))...)
	}
	calls = append(calls, b.ask(ended, b.Open(b, Plain))...)
	for _, c := range calls {
		if err := shows(c.err, hidden); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// shows looks for hidden texts in err and in everything it wraps, as printers of
// any kind would show them.
func shows(err error, hidden []string) error {
	if err == nil {
		return nil
	}
	for _, text := range hidden {
		if text != "" && strings.Contains(fmt.Sprintf("%v %+v %q", err, err, err), text) {
			return fmt.Errorf("a %T shows what must stay hidden (%d bytes)", err, len(text))
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return shows(e.Unwrap(), hidden)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if err := shows(inner, hidden); err != nil {
				return err
			}
		}
	}
	return nil
}
