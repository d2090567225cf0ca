package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nightaudit/nightaudit/store"
)

// keep renews a lease until stop is called, also when ctx ends before: what is
// in flight then is still finished and recorded. The context that it gives ends
// with ctx, and when the lease is lost.
func keep(ctx context.Context, l *store.Lease) (working context.Context, stop func()) {
	working, end := context.WithCancelCause(ctx)
	renewing, endRenewing := context.WithCancel(context.WithoutCancel(ctx))
	go l.Keep(renewing, end)
	return working, func() {
		endRenewing()
		end(nil)
	}
}

// recordTime bounds the writes that must happen even after ctx ended.
const recordTime = 15 * time.Second

// release gives a lease back with a context that lives.
func release(ctx context.Context, l *store.Lease, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		log.WarnContext(ctx, "lease not released, it expires by itself", "err", err)
	}
}

// holder names this process for a person.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}
