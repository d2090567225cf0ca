package reconcile

import (
	"fmt"

	"github.com/nightaudit/nightaudit/store"
)

// again is how an event comes to the handler once more where nightaudit has
// given up on it.
const again = "let the provider deliver it again (its dashboard can); the finding closes once the ledger shows it"

// advice says what to do about a group of findings, and gives the command for it
// if there is one.
func (r *Report) advice(g group) (text, command string) {
	switch {
	case g.late:
		return "Later runs ask the ledger again.", ""
	case g.state != "":
		return r.replayAdvice(g)
	}
	first := g.findings[0]
	switch g.kind {
	case store.MissingEvent, store.StuckEvent, store.UnrecordedEvent:
		return "A run that is not dry plans their replays, and in mode repair sends them:", r.command("--repair")
	case store.Unreplayable:
		return "Repair what they stand for by hand and record them in the ledger; then the findings close.", ""
	case store.UnreadableEvent:
		return "Look at the provider what it is and whether it was handled; please report its form.", ""
	case store.EndpointDisabled:
		return "What was lost meanwhile is found by the next run.", ""
	case store.APIVersionMismatch:
		return "The next run after that sends them.", ""
	case store.SuspiciousEmpty, store.CoverageGap:
		return "To acknowledge it:", ack(first)
	case store.CredentialsRejected:
		return "To see whether they are accepted:", "nightaudit check"
	case store.UnknownEvent:
		return "Rows of another account, or of tests? Narrow ledger.where. If they are in order, acknowledge each:", ack(first)
	default:
		return "The next run closes this once it is mended.", ""
	}
}

// replayAdvice is the advice where a replay says how things stand.
func (r *Report) replayAdvice(g group) (text, command string) {
	switch g.state {
	case store.ReplayHeld:
		return r.holdAdvice(g.hold)
	case store.ReplayRejected:
		return "Mend what the handler refuses, then " + again + ".", ""
	case store.ReplayParked:
		return "Once that is done, " + again + ".", ""
	case store.ReplayCancelled:
		return "If it is wanted after all: " + again + ".", ""
	}
	if g.person {
		return "Mode report only tells. To replay them now:", r.command("--repair")
	}
	switch g.state {
	case store.ReplayPlanned:
		return "The next run sends them, once their window is fully listed.", ""
	case store.ReplayUnrecorded:
		return "Check that the handler records what it acknowledges: after three runs it is given up.", ""
	case store.ReplayAcknowledged:
		return "The next run asks the ledger again.", ""
	default:
		return "The next run sends it again. If that keeps failing, look at the handler.", ""
	}
}

func (r *Report) holdAdvice(h store.Hold) (text, command string) {
	switch h {
	case store.HoldGate:
		return "Look at what is missing. If it really is, let the replays go:", r.command("--release")
	case store.HoldTie:
		return "Let the provider deliver it again (its dashboard can) or, if nothing is to be done, record it in the ledger; then the finding closes.", ""
	case store.HoldVersion:
		return "The next run after that sends it. Or move the endpoint to the event's version.", ""
	default:
		return "It goes on when the older replay of its object does.", ""
	}
}

func (r *Report) command(flag string) string {
	return fmt.Sprintf("nightaudit reconcile --source %s %s", r.Source, flag)
}

func ack(f FindingReport) string { return "nightaudit alerts ack " + f.ID }
