package reconcile

import (
	"strings"
	"testing"

	"github.com/nightaudit/nightaudit/store"
)

func TestTheGateWeighsPlansAgainstWhatWasCompared(t *testing.T) {
	scales := func(listed, done, ignored, known, plan int) store.Scales {
		return store.Scales{Counts: store.Counts{Listed: listed, Done: done, Ignored: ignored}, Known: known, Planned: plan}
	}
	for _, c := range []struct {
		name string
		s    store.Scales
		o    GateOptions
		says string // "" goes
	}{
		{"nothing planned", scales(1000, 0, 0, 0, 0), GateOptions{}, ""},
		{"none of nineteen done", scales(19, 0, 0, 0, 19), GateOptions{}, ""},
		{"none of twenty done", scales(20, 0, 0, 0, 1), GateOptions{}, "none of 20"},
		{"ignored events prove nothing", scales(119, 0, 100, 0, 19), GateOptions{}, ""},
		{"known ones neither", scales(119, 0, 0, 100, 19), GateOptions{}, ""},
		{"half missing", scales(20, 10, 0, 0, 10), GateOptions{}, ""},
		{"more than half missing", scales(20, 9, 0, 0, 11), GateOptions{}, "replay.max_missing_ratio 0.5"},
		{"a stricter ratio", scales(100, 89, 0, 0, 11), GateOptions{MaxMissingRatio: 0.1}, "11 of 100"},
		{"as many as allowed", scales(20000, 15000, 0, 0, 5000), GateOptions{}, ""},
		{"one more than allowed", scales(20000, 14999, 0, 0, 5001), GateOptions{}, "replay.max_replays 5000"},
		{"more than a lower limit, though few were compared", scales(4, 0, 0, 0, 4), GateOptions{MaxReplays: 3}, "replay.max_replays 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := weigh(c.s, c.o)
			if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("weigh: got %q, want %q", got, c.says)
			}
		})
	}
}
