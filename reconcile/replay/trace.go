package replay

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// A tracer notes how far a request came.
type tracer struct {
	step atomic.Int32
}

// steps are the phases that a request has yet to pass when it failed.
var steps = []Phase{PhaseDNS, PhaseConnect, PhaseTLS, PhaseWrite, PhaseResponse}

func (t *tracer) phase() Phase { return steps[t.step.Load()] }

func (t *tracer) reach(step int32) func() {
	return func() { t.step.Store(max(step, t.step.Load())) }
}

func (t *tracer) trace(ctx context.Context) context.Context {
	connecting, handshaking, writing, waiting := t.reach(1), t.reach(2), t.reach(3), t.reach(4)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart:         func(string, string) { connecting() },
		TLSHandshakeStart:    handshaking,
		GotConn:              func(httptrace.GotConnInfo) { writing() },
		WroteRequest:         func(info httptrace.WroteRequestInfo) { wrote(info, waiting) },
		GotFirstResponseByte: waiting,
	})
}

func wrote(info httptrace.WroteRequestInfo, waiting func()) {
	if info.Err == nil {
		waiting()
	}
}
