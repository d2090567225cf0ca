package main

import (
	"math"
	"slices"
	"testing"
)

func TestAFigureHoldsItsBarUpToTheBarItself(t *testing.T) {
	cases := []struct {
		what     string
		got, bar float64
		atLeast  bool
		want     string
	}{
		{"below the most", 1.0, 1.1, false, "ok"},
		{"the most", 1.1, 1.1, false, "ok"},
		{"above the most", 1.2, 1.1, false, "MISSED"},
		{"below the least", 9.9, 10, true, "MISSED"},
		{"the least", 10, 10, true, "ok"},
		{"above the least", 11, 10, true, "ok"},
		{"no number, at most", math.NaN(), 10, false, "MISSED"},
		{"no number, at least", math.NaN(), 10, true, "MISSED"},
	}
	for _, c := range cases {
		f := figure{got: c.got, bar: c.bar, atLeast: c.atLeast}
		if got := f.verdict(); got != c.want {
			t.Errorf("%s: got %v, bar %v: got verdict %s, want %s", c.what, c.got, c.bar, got, c.want)
		}
	}
}

func TestAmountsHaveTheDecimalsThatTellSomething(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 214: "214", 1.1: "1.100", 1.0004: "1.000", 61.27: "61.3", 0.05: "0.050"} {
		if got := amount(v); got != want {
			t.Errorf("amount of %v: got %s, want %s", v, got, want)
		}
	}
}

func TestTheMedianIsTheValueInTheMiddle(t *testing.T) {
	cases := []struct {
		values []int
		want   int
	}{
		{[]int{7}, 7},
		{[]int{9, 2}, 2},
		{[]int{9, 2, 5}, 5},
		{[]int{4, 4, 1}, 4},
	}
	for _, c := range cases {
		before := slices.Clone(c.values)
		if got := median(c.values, func(v int) int { return v }); got != c.want {
			t.Errorf("median of %v: got %d, want %d", before, got, c.want)
		}
		if !slices.Equal(c.values, before) {
			t.Errorf("median of %v left them as %v, want them as they were", before, c.values)
		}
	}
}
