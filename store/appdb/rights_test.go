package appdb

import (
	"strings"
	"testing"
)

func TestWritableTellsOfARoleThatMayChangeTheTable(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		grant string // to the reader; "" is none
		owner bool   // asked as the owner, a superuser
		want  bool
	}{
		"a role that can only read":         {"", false, false},
		"a role that may insert":            {"INSERT ON processed_events", false, true},
		"a role that may update one column": {"UPDATE (event_id) ON processed_events", false, true},
		"a role that may delete":            {"DELETE ON processed_events", false, true},
		"a superuser":                       {"", true, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := newApp(t, `CREATE TABLE processed_events (event_id text PRIMARY KEY)`, "processed_events")
			pool := a.reader(t, "cache_statement")
			if c.grant != "" {
				a.exec(t, `GRANT `+c.grant+` TO `+quote(pool.Config().ConnConfig.User))
			}
			if c.owner {
				pool = a.owner
			}
			advice, err := open(t, pool, simple).Writable(t.Context())
			if err != nil || (advice != "") != c.want || c.want && !strings.Contains(advice, `GRANT SELECT ON "public"."processed_events" alone`) {
				t.Errorf("%s: Writable() = %q, %v; want advice: %v", what, advice, err, c.want)
			}
		})
	}
}
