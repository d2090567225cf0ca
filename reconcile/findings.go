package reconcile

import (
	"context"
	"errors"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store"
)

// see stores findings about endpoints and sources; a dry run only reports them.
func (r *run) see(ctx context.Context, found ...store.Finding) error {
	if r.options.DryRun {
		r.report.dry = append(r.report.dry, found...)
		return nil
	}
	return r.lease.See(ctx, found...)
}

// unseen closes the findings of the kinds that this run, having looked, did not
// see.
func (r *run) unseen(ctx context.Context, stream string, kinds ...store.Kind) error {
	if r.options.DryRun {
		return nil
	}
	return r.lease.CloseUnseen(ctx, stream, kinds...)
}

// noteRejection makes a finding of credentials that the provider rejects.
func (r *run) noteRejection(ctx context.Context, stream string, err error) error {
	var credentials *providers.CredentialsError
	var permission *providers.PermissionError
	if !errors.As(err, &credentials) && !errors.As(err, &permission) {
		return nil
	}
	f := store.NewFinding(r.source.Name, stream, r.row.ID, store.ScopeSource, store.CredentialsRejected, stream)
	f.Detail = r.redact(err.Error())
	return r.see(ctx, f)
}
