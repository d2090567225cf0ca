package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Stream is what is remembered of a stream.
type Stream struct {
	Watermark time.Time // everything before it has been fully compared; UTC
	Include   []string  // the config's event patterns that were listed back to the beginning
}

const streamSQL = `
SELECT watermark, include
FROM nightaudit.streams
WHERE source = @source AND stream = @stream`

// Stream gives what is remembered of a stream; nil if it is new.
func (s *Store) Stream(ctx context.Context, source, stream string) (*Stream, error) {
	var st Stream
	err := s.db.QueryRow(ctx, s.sql(streamSQL), pgx.NamedArgs{"source": source, "stream": stream}).
		Scan(&st.Watermark, &st.Include)
	if isNoRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the watermark of %s: %w", stream, err)
	}
	st.Watermark = st.Watermark.UTC()
	return &st, nil
}

const createStreamSQL = `
INSERT INTO nightaudit.streams (source, stream, watermark, include)
VALUES (@source, @stream, @watermark, @include::text[])
ON CONFLICT (source, stream) DO NOTHING`

// CreateStream remembers a new stream.
func (l *Lease) CreateStream(ctx context.Context, stream string, st Stream) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(createStreamSQL), pgx.NamedArgs{
			"source": l.source, "stream": stream, "watermark": st.Watermark, "include": list(st.Include),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating stream %s: %w", stream, err)
	}
	return nil
}

// list is never nil, so that it is never NULL.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

const includeSQL = `
UPDATE nightaudit.streams
SET include = @include::text[]
WHERE source = @source AND stream = @stream`

// SetInclude remembers the event patterns that have been listed back to the
// beginning.
func (l *Lease) SetInclude(ctx context.Context, stream string, include []string) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.store.sql(includeSQL), pgx.NamedArgs{
			"source": l.source, "stream": stream, "include": list(include),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the event filter of %s: %w", stream, err)
	}
	return nil
}

const skipGapSQL = `
UPDATE nightaudit.streams
SET watermark = @edge
WHERE source = @source AND stream = @stream AND watermark < @edge`

// CommitGap stores that what lies between the watermark and edge can never be
// compared: the finding and the new watermark together.
func (l *Lease) CommitGap(ctx context.Context, stream string, edge time.Time, gap Finding) error {
	err := l.Tx(ctx, func(tx pgx.Tx) error {
		if err := l.store.see(ctx, tx, gap); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, l.store.sql(skipGapSQL), pgx.NamedArgs{
			"source": l.source, "stream": stream, "edge": edge,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the coverage gap of %s: %w", stream, err)
	}
	return nil
}

const streamNamesSQL = `
SELECT stream
FROM nightaudit.streams
WHERE source = @source
ORDER BY stream`

// StreamNames gives the streams of a source that are remembered.
func (s *Store) StreamNames(ctx context.Context, source string) ([]string, error) {
	rows, err := s.db.Query(ctx, s.sql(streamNamesSQL), pgx.NamedArgs{"source": source})
	if err != nil {
		return nil, fmt.Errorf("reading the streams of %s: %w", source, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the streams of %s: %w", source, err)
	}
	return names, nil
}
