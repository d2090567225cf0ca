package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/nightaudit/nightaudit/store"
)

const (
	// trafficMemory is how far back the usual traffic of a stream is looked at.
	trafficMemory = 14 * 24 * time.Hour
	// surelySome is how many events a window usually has when none is no chance:
	// of independent events, exp(-20).
	surelySome = 20
	// likelySome is from how many on an empty listing does not move the watermark:
	// the silence is looked at again by the next run, when it has become longer.
	likelySome = 3
)

// empty judges a window in which nothing at all was listed.
func (c *comparison) empty(ctx context.Context) error {
	r := c.run
	listed, over, err := r.store.Traffic(ctx, r.source.Name, c.stream.Name, c.report.Window.From.Add(-trafficMemory))
	if err != nil {
		return err
	}
	usual := 0.0
	if over > 0 {
		usual = float64(listed) * c.silence().Seconds() / over.Seconds()
	}
	f := store.NewFinding(r.source.Name, c.stream.Name, r.row.ID, store.ScopeSource, store.SuspiciousEmpty, c.stream.Name)
	acknowledged, err := r.store.IsAcknowledged(ctx, f.ID)
	if err != nil {
		return err
	}
	switch {
	case usual < likelySome || acknowledged:
		return c.commit(ctx)
	case usual < surelySome:
		return nil
	}
	f.Detail = "the provider listed no event at all where there always were some: most likely the credentials are of another account or mode; " +
		"if the account really is quiet, acknowledge this finding"
	if err := r.see(ctx, f); err != nil {
		return err
	}
	return fmt.Errorf("no event was listed where about %.0f are usual; the watermark stays. If the account really is quiet: "+
		"nightaudit alerts ack %s", usual, f.ID)
}

// silence is how long a time an empty window says something new about: what lies
// before the watermark was compared before, unless a person asks for it again.
func (c *comparison) silence() time.Duration {
	w := c.report.Window.window()
	if before := c.report.Watermark.Before; before != nil && c.run.options.Since.IsZero() {
		w.From = later(w.From, *before)
	}
	return w.Length()
}
