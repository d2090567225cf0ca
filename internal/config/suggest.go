package config

import (
	"fmt"
	"slices"
	"strings"
)

// suggest names the candidate that was probably meant, and all of them:
// `did you mean "settle"? Known here: initial, overlap, settle`.
func suggest(word string, candidates []string) string {
	sorted := slices.Sorted(slices.Values(candidates))
	known := "known here: " + strings.Join(sorted, ", ")
	if len(sorted) == 0 {
		known = "none is known here"
	}
	if len(word) > 64 {
		return known // no typing mistake
	}
	best, distance := "", 1+max(1, len(word)/3)
	for _, c := range sorted {
		if d := editDistance(strings.ToLower(word), c); d < distance {
			best, distance = c, d
		}
	}
	if best == "" {
		return known
	}
	return fmt.Sprintf("did you mean %q? (%s)", best, known)
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (the optimal string alignment distance).
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
