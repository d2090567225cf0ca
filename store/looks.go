package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nightaudit/nightaudit/providers"
)

// A Look is what the endpoints of a stream looked like, from the first to the
// last of the looks that showed the same.
type Look struct {
	Endpoints       []providers.Endpoint
	FirstAt, LastAt time.Time // UTC, by the provider's clock
}

const looksSQL = `
SELECT endpoints::text, first_at, last_at
FROM nightaudit.endpoint_looks
WHERE source = @source AND stream = @stream
ORDER BY id`

// Looks gives all looks at the endpoints of a stream, oldest first.
func (s *Store) Looks(ctx context.Context, source, stream string) ([]Look, error) {
	rows, err := s.db.Query(ctx, s.sql(looksSQL), pgx.NamedArgs{"source": source, "stream": stream})
	if err != nil {
		return nil, fmt.Errorf("reading the looks at the endpoints of %s: %w", stream, err)
	}
	looks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Look, error) {
		var l Look
		var text string
		if err := row.Scan(&text, &l.FirstAt, &l.LastAt); err != nil {
			return l, err
		}
		l.FirstAt, l.LastAt = l.FirstAt.UTC(), l.LastAt.UTC()
		return l, json.Unmarshal([]byte(text), &l.Endpoints)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the looks at the endpoints of %s: %w", stream, err)
	}
	return looks, nil
}

const extendLookSQL = `
UPDATE nightaudit.endpoint_looks
SET last_at = greatest(last_at, @at)
WHERE id = (
    SELECT max(id) FROM nightaudit.endpoint_looks WHERE source = @source AND stream = @stream
) AND endpoints::text = @endpoints`

const addLookSQL = `
INSERT INTO nightaudit.endpoint_looks (source, stream, endpoints, first_at, last_at)
VALUES (@source, @stream, @endpoints::json, @at, @at)`

// AddLook remembers what the endpoints look like at a time.
func (l *Lease) AddLook(ctx context.Context, stream string, at time.Time, endpoints []providers.Endpoint) error {
	text, err := lookText(endpoints)
	if err != nil {
		return fmt.Errorf("encoding the endpoints of %s: %w", stream, err)
	}
	err = l.Tx(ctx, func(tx pgx.Tx) error {
		args := pgx.NamedArgs{"source": l.source, "stream": stream, "at": at, "endpoints": text}
		tag, err := tx.Exec(ctx, l.store.sql(extendLookSQL), args)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		_, err = tx.Exec(ctx, l.store.sql(addLookSQL), args)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the look at the endpoints of %s: %w", stream, err)
	}
	return nil
}

// lookText is the same for the same endpoints, in whatever order they came.
func lookText(endpoints []providers.Endpoint) (string, error) {
	sorted := slices.Clone(endpoints)
	for i := range sorted {
		sorted[i].Types = slices.Sorted(slices.Values(sorted[i].Types))
	}
	slices.SortFunc(sorted, func(a, b providers.Endpoint) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.URL, b.URL))
	})
	if sorted == nil {
		sorted = []providers.Endpoint{}
	}
	text, err := json.Marshal(sorted)
	return string(text), err
}
