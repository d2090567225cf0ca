package reconcile_test

import (
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/nightaudit/nightaudit/internal/pgtest"
	"github.com/nightaudit/nightaudit/store"
)

// Whatever goes wrong on some nights (lost and late and doubled events, failing
// providers, ledgers and handlers, processes that end at any operation, restored
// databases, changed endpoints and filters), calm nights mend it: see
// play.checkNight and play.checkEnd for what must hold.
func TestWhateverGoesWrongCalmNightsMendIt(t *testing.T) {
	pool := migrated(t)
	fewer(t, 10)
	rapid.Check(t, func(t *rapid.T) { live(t, pool, drawHistory(t)) })
}

// fewer lowers the number of checks for a test whose checks take long, unless the
// command line says how many there shall be: go test -run Calm -rapid.checks=1000.
func fewer(t *testing.T, checks int) {
	t.Helper()
	const name = "rapid.checks"
	usual, given := flag.Lookup(name).Value.String(), false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	set := func(value string) {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(checks))
	t.Cleanup(func() { set(usual) })
}

// Histories that once showed a fault of the engine.
func TestHistoriesThatShowedAFault(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	const hour = time.Hour
	for _, c := range []struct {
		what   string
		nights []night
	}{
		{"a window by hand that begins within the overlap leaves out what became listable late", []night{
			{after: 24 * hour, emitted: []emission{{eventType: "order.paid", ago: 30 * time.Minute, late: 59 * time.Minute, live: dropped}}},
			{after: hour, since: 70 * time.Minute},
		}},
		{"a pattern is added to include, and the first run with it is bounded by hand", []night{
			{after: 24 * hour, include: []string{"order.*"}, emitted: []emission{{eventType: "cart.updated", ago: 2 * hour, live: dropped}}},
			{after: 24 * hour, include: []string{"cart.*"}, until: 30 * hour},
			{after: 24 * hour, include: []string{"cart.*"}},
		}},
		{"the endpoints cannot be read on the night after they subscribed to more", []night{
			{after: 24 * hour, endpoint: changeTypes, types: []string{"order.*"}},
			{after: 24 * hour, endpoint: changeTypes, types: []string{"*"}, endpoints: true,
				emitted: []emission{{eventType: "cart.updated", ago: 2 * hour, live: dropped}}},
			{after: 24 * hour},
		}},
		{"an element that could not be decoded turns out to be pending, and falls due", []night{
			{after: 24 * hour, emitted: []emission{{eventType: "order.paid", ago: 30 * time.Minute, live: halfLost, garbled: 1}}},
			{after: hour},
			{after: hour},
		}},
		{"newer state of the subject is ignored by the filter", []night{
			{after: 24 * hour, exclude: []string{"cart.deleted"}, emitted: []emission{
				{eventType: "cart.updated", object: "a", ago: 3 * hour, live: dropped},
				{eventType: "cart.deleted", object: "a", ago: 2 * hour}}},
		}},
		{"newer state of the subject was missing too, and is repaired first", []night{
			{after: 24 * hour, emitted: []emission{
				{eventType: "cart.updated", object: "a", ago: 3 * hour, live: dropped, answers: []answer{forgotten}},
				{eventType: "cart.updated", object: "a", ago: 2 * hour, live: dropped}}},
		}},
	} {
		t.Run(c.what, func(t *testing.T) { live(t, pool, history{pageSize: 3, concurrency: 1, nights: c.nights}) })
	}
}

func migrated(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Pool(t)
	if _, err := store.Migrate(t.Context(), pool, "", nil); err != nil {
		t.Fatal(err)
	}
	return pool
}
