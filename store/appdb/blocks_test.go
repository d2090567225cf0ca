package appdb

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTogether(t *testing.T) {
	t.Parallel()
	const far = 100 * maxGap
	for _, c := range []struct {
		what  string
		found []int64
		want  []span
	}{
		{"nothing was found", nil, nil},
		{"one key tells nothing of its neighbours", []int64{7}, nil},
		{"a table of one block", []int64{0, 0, 0, 0}, []span{{0, 2}}},
		{"rows side by side, with a block more at both ends", []int64{12, 10, 11, 10}, []span{{9, 14}}},
		{"sparse rows, with as much more as lies between two", []int64{100, 104, 108, 112}, []span{{95, 118}}},
		{"the first block of a table has none before it", []int64{1, 5, 9}, []span{{0, 15}}},
		{"a row that was recorded much later is looked up", []int64{10, 10, 11, 11, far}, []span{{9, 13}}},
		{"two days", []int64{10, 11, far, far + 1}, []span{{8, 14}, {far - 2, far + 4}}},
		{"two that touch are one", []int64{10, 11, 11 + maxGap + 1, 11 + maxGap + 1 + maxGap}, []span{{8, 11 + maxGap + 1 + maxGap + maxGap + 2}}},
		{"rows all over the table", []int64{0, far, 2 * far, 3 * far}, nil},
	} {
		if got := together(slices.Clone(c.found)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: found in %v: got %v, want %v", c.what, c.found, got, c.want)
		}
	}
}

func TestSpansAreApartAndNoLargerThanTheirKeysAreWorth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		found := rapid.SliceOf(rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 5000), rapid.Int64Range(math.MaxUint32-9, math.MaxUint32))).Draw(t, "found")
		spans, blocks, before := together(slices.Clone(found)), int64(0), int64(-1)
		for _, s := range spans {
			if s.from <= before || s.to <= s.from {
				t.Fatalf("found in %v: got %v, want spans in order and apart", found, spans)
			}
			blocks, before = blocks+s.to-s.from, s.to
		}
		if most := int64(len(found)) * 2 * (maxGap + 1); blocks > most {
			t.Fatalf("found in %v: got %d blocks of %v, want at most %d", found, blocks, spans, most)
		}
	})
}

func TestNoBlockIsPastTheLastThatATableCanHave(t *testing.T) {
	t.Parallel()
	if got, want := tid(math.MaxUint32+5), "(4294967295,0)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
