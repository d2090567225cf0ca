package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// A figure is one measurement with the bar that it must hold.
type figure struct {
	name     string
	got, bar float64
	atLeast  bool   // got must be at least bar, else at most
	unit     string // of got and bar: "x" for a ratio, "MiB"
	detail   string // what it was made from, for a person
}

// holds reports whether the figure holds its bar. What is no number holds none.
func (f figure) holds() bool {
	if f.atLeast {
		return f.got >= f.bar
	}
	return f.got <= f.bar
}

// verdict is whether it holds, in a word.
func (f figure) verdict() string {
	if f.holds() {
		return "ok"
	}
	return "MISSED"
}

func (f figure) gotText() string { return amount(f.got) + " " + f.unit }

func (f figure) barText() string {
	sign := "<="
	if f.atLeast {
		sign = ">="
	}
	return fmt.Sprintf("%s %s %s", sign, amount(f.bar), f.unit)
}

// amount writes a number with as many decimals as tell something.
func amount(v float64) string {
	decimals := 3
	switch {
	case v == float64(int64(v)):
		decimals = 0
	case v >= 10:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// repeats is how often what varies is measured; its median counts.
const repeats = 3

// median gives the value in the middle of those in the order of by, of an even
// number the lower of the two. There must be one.
func median[T any, K cmp.Ordered](values []T, by func(T) K) T {
	sorted := slices.SortedFunc(slices.Values(values), func(a, b T) int { return cmp.Compare(by(a), by(b)) })
	return sorted[(len(sorted)-1)/2]
}
