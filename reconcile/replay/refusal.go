package replay

import "github.com/nightaudit/nightaudit/store"

const (
	// fewRefusals is up to how many refusals tell of the events, though the
	// endpoint accepted nothing: there may have been nothing else to send.
	fewRefusals = 2
	// manyRefusals is how many refusals, with nothing accepted, end the sending to
	// an endpoint: they tell of it and not of the events.
	manyRefusals = 20
	// maxRefused is how many attempts an event has at an endpoint that accepts
	// nothing, one a run.
	maxRefused = 3
)

// What one endpoint answered in this drain.
type answers struct {
	accepted, refused int
	status            int             // of the newest refusal
	provisional       []store.Verdict // refusals that become final once it accepts something
}

func (d *drain) answersOf(r store.Replay) (Target, *answers) {
	target, _ := d.source.target(r)
	a := d.answers[target.Public()]
	if a == nil {
		a = &answers{}
		d.answers[target.Public()] = a
	}
	return target, a
}

// noteAnswers counts what the endpoints answered. An endpoint that accepts
// something is well, so what it refused before is refused for good: those verdicts
// are given.
func (d *drain) noteAnswers(replays []store.Replay, results []Result) []store.Verdict {
	var final []store.Verdict
	for i, r := range replays {
		target, a := d.answersOf(r)
		switch results[i].Outcome {
		case Acknowledged:
			a.accepted++
			final = append(final, a.provisional...)
			a.provisional = nil
			delete(d.stats.Refusing, target.Public())
		case Rejected, Redirected:
			a.refused++
			a.status = results[i].Status
		}
		if results[i].Outcome == Redirected {
			d.stats.Redirected[target.Public()] = results[i].Status
		}
		if a.accepted == 0 && a.refused > fewRefusals {
			d.stats.Refusing[target.Public()] = a.status
		}
	}
	return final
}

// provisional keeps a refusal from being final as long as the endpoint has
// accepted nothing in this drain: a wrong secret or a wrong path must not use up
// what is missing. It is tried again by the next runs, up to maxRefused times.
func (d *drain) provisional(v store.Verdict) store.Verdict {
	_, a := d.answersOf(v.Replay)
	if v.State != store.ReplayRejected || a.accepted > 0 || v.Replay.Attempts+1 >= maxRefused {
		return v
	}
	a.provisional = append(a.provisional, v)
	v.State = store.ReplayQueued
	v.Reason += "; the endpoint accepted nothing else either, so the next run tries again"
	return v
}

// finalRefusals gives the verdicts on the few refusals of endpoints that were sent
// nothing else, once nothing is left to send: what waits behind them may go then.
func (d *drain) finalRefusals() []store.Verdict {
	var final []store.Verdict
	for _, a := range d.answers {
		if a.refused <= fewRefusals {
			final = append(final, a.provisional...)
			a.provisional = nil
		}
	}
	return final
}

// refuses reports whether the endpoint of a replay refuses whatever is sent: then
// nothing more is.
func (d *drain) refuses(r store.Replay) bool {
	_, a := d.answersOf(r)
	return a.accepted == 0 && a.refused >= manyRefusals
}
