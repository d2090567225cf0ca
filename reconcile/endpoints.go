package reconcile

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// endpoints looks at what is subscribed, remembers it, and says what is wrong.
// Streams that share their endpoints are looked at once.
func (r *run) endpoints(ctx context.Context, streams []providers.Stream) error {
	shown, ok := r.source.Provider.(providers.Endpoints)
	if !ok {
		return nil
	}
	type look struct {
		seen   []providers.Endpoint
		failed error
	}
	looks := make(map[string]look) // by what the streams share
	for _, s := range streams {
		set := cmp.Or(s.Hooks, "stream "+s.Name)
		l, looked := looks[set]
		if !looked {
			l.seen, l.failed = shown.Endpoints(ctx, s)
			looks[set] = l
			if l.failed == nil {
				if err := r.auditEndpoints(ctx, s, l.seen); err != nil {
					return err
				}
			}
		}
		if err := r.lookedAt(ctx, s, l.seen, l.failed); err != nil {
			return err
		}
	}
	return r.noteSkew(ctx)
}

// lookedAt remembers one look; one that failed leaves what is remembered.
func (r *run) lookedAt(ctx context.Context, s providers.Stream, seen []providers.Endpoint, failed error) error {
	if failed != nil {
		if stopped := context.Cause(ctx); stopped != nil {
			return stopped
		}
		r.report.stream(s).note("endpoints not read: " + r.redact(failed.Error()))
		return r.noteRejection(ctx, s.Name, failed)
	}
	r.looks[s.Name] = seen
	if r.options.DryRun {
		return nil
	}
	return r.lease.AddLook(ctx, s.Name, r.now(), seen)
}

// auditEndpoints stores what is wrong with a set of endpoints, under the first
// stream that it belongs to.
func (r *run) auditEndpoints(ctx context.Context, s providers.Stream, seen []providers.Endpoint) error {
	r.report.endpoints(s.Name, seen, r.source.Targets)
	var found []store.Finding
	for _, f := range audit(seen, r.source.Targets, r.source.Events) {
		finding := store.NewFinding(r.source.Name, s.Name, r.row.ID, store.ScopeEndpoint, f.kind, f.key)
		finding.Detail = f.detail
		found = append(found, finding)
	}
	if err := r.see(ctx, found...); err != nil {
		return err
	}
	return r.unseen(ctx, s.Name, store.EndpointDisabled, store.EndpointMissing, store.EndpointDuplicate)
}

// lastSeen gives the endpoints as they were last seen, by this run or an earlier
// one.
func (r *run) lastSeen(ctx context.Context) (map[string][]providers.Endpoint, error) {
	seen := maps.Clone(r.looks)
	for name := range r.streams {
		if len(behind(seen[name], r.source.Targets)) > 0 {
			continue
		}
		looks, err := r.store.Looks(ctx, r.source.Name, name)
		if err != nil {
			return nil, err
		}
		for _, look := range slices.Backward(looks) {
			if len(behind(look.Endpoints, r.source.Targets)) > 0 {
				seen[name] = look.Endpoints
				break
			}
		}
	}
	return seen, nil
}
