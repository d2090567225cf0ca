package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// fetchTimeout bounds a download of about 30 MB.
const fetchTimeout = 10 * time.Minute

// fetch downloads the binaries for data of the given version ("": the newest)
// into the state directory.
func (s *Server) fetch(ctx context.Context, version string) (binaries, error) {
	release, err := releaseFor(version)
	if err != nil {
		return binaries{}, errNoBinaries(err)
	}
	s.log.InfoContext(ctx, "fetching Postgres, once", "version", string(release))
	dest := filepath.Join(s.layout.binaries, string(release))
	if err := s.layout.download(ctx, release, s.opts.Repository, dest); err != nil {
		return binaries{}, errNoBinaries(err)
	}
	bin, err := inspect(ctx, filepath.Join(dest, "bin"))
	if err != nil {
		return binaries{}, errNoBinaries(fmt.Errorf("what was fetched does not run: %w", err))
	}
	return bin, nil
}

// releaseFor is the published release of a major version.
func releaseFor(version string) (embeddedpostgres.PostgresVersion, error) {
	if version == "" {
		return embeddedpostgres.V18, nil
	}
	for _, release := range []embeddedpostgres.PostgresVersion{
		embeddedpostgres.V18, embeddedpostgres.V17, embeddedpostgres.V16, embeddedpostgres.V15, embeddedpostgres.V14,
	} {
		if strings.HasPrefix(string(release), version+".") {
			return release, nil
		}
	}
	return "", fmt.Errorf("no binaries are published for the existing data, which Postgres %s wrote", version)
}

const unfinishedPrefix = ".fetch-"

// removeUnfinished deletes what an interrupted download left.
func (l layout) removeUnfinished() error {
	entries, err := os.ReadDir(l.binaries)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), unfinishedPrefix) {
			if err := os.RemoveAll(filepath.Join(l.binaries, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// download brings a release to dest, which appears only when it is complete.
func (l layout) download(ctx context.Context, release embeddedpostgres.PostgresVersion, repository, dest string) error {
	if err := makeDirs(l.binaries); err != nil {
		return err
	}
	if err := l.removeUnfinished(); err != nil {
		return err
	}
	work, err := os.MkdirTemp(l.binaries, unfinishedPrefix)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("no download within %s", fetchTimeout))
	defer cancel()

	// The library cannot be interrupted, so it is left behind when ctx ends.
	done := make(chan error, 1)
	go func() {
		defer func() { _ = os.RemoveAll(work) }() // a leftover costs only space
		done <- unpack(work, release, repository, dest)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("fetching Postgres %s: %w", release, context.Cause(ctx))
	}
}

// unpack lets the library fetch and extract a release. It has no call for that
// alone, and its Start goes on to run a server; so it is given an empty folder
// that claims to hold data, which no server starts on, and what counts is whether
// the binaries are there afterwards. It never sees the real data, which it would
// delete if it were of another version.
func unpack(work string, release embeddedpostgres.PostgresVersion, repository, dest string) error {
	decoy := filepath.Join(work, "decoy")
	if err := os.Mkdir(decoy, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(release), ".")
	if err := os.WriteFile(filepath.Join(decoy, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return err
	}
	freePort, err := unusedPort()
	if err != nil {
		return err
	}
	extracted := filepath.Join(work, "extracted")
	config := embeddedpostgres.DefaultConfig().
		Version(release).
		Port(freePort).
		CachePath(filepath.Join(work, "cache")).
		RuntimePath(filepath.Join(work, "runtime")).
		BinariesPath(extracted).
		DataPath(decoy).
		Logger(io.Discard)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	server := embeddedpostgres.NewDatabase(config)
	startErr := server.Start()
	if startErr == nil {
		return errors.Join(errors.New("the library started a server on no data"), server.Stop())
	}
	if _, err := os.Stat(filepath.Join(extracted, "bin", "postgres")); err != nil {
		return fmt.Errorf("fetching Postgres %s: %w", release, startErr)
	}
	if err := readable(extracted); err != nil {
		return err
	}
	return os.Rename(extracted, dest)
}

// unusedPort is a port that the library can find free; nothing listens on it.
func unusedPort() (uint32, error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, err
	}
	return uint32(l.Addr().(*net.TCPAddr).Port), l.Close()
}
