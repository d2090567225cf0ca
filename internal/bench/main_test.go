package main

import (
	"slices"
	"strings"
	"testing"
)

func TestThePatternChoosesBenchmarksByTheirName(t *testing.T) {
	all := []benchmark{{name: "limited"}, {name: "unlimited"}, {name: "memory"}}
	cases := []struct {
		pattern string
		want    []string
	}{
		{"", []string{"limited", "unlimited", "memory"}},
		{"limited", []string{"limited", "unlimited"}},
		{"^limited$", []string{"limited"}},
		{"mem|^un", []string{"unlimited", "memory"}},
	}
	for _, c := range cases {
		chosen, err := choose(all, c.pattern)
		var got []string
		for _, b := range chosen {
			got = append(got, b.name)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("-run %q: got %v, %v, want %v", c.pattern, got, err, c.want)
		}
	}
}

func TestAPatternThatChoosesNothingIsRefused(t *testing.T) {
	for pattern, want := range map[string]string{"nothing": "matches no benchmark", "(": "no regular expression"} {
		_, err := choose(benchmarks, pattern)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-run %q: got error %v, want one with %q", pattern, err, want)
		}
	}
}

func TestPagesOfAnAccount(t *testing.T) {
	for events, want := range map[int]int{0: 1, 1: 1, 100: 1, 101: 2, 20_000: 200} {
		if got := pagesOf(events); got != want {
			t.Errorf("pages of %d events: got %d, want %d", events, got, want)
		}
	}
}
