package appdb

import (
	"fmt"
	"strings"
)

// nearest is the one of names that was most likely meant by want; "" if none is
// near, which is at most two fifths of its letters wrong. Case does not count.
func nearest(want string, names []string) string {
	best, least := "", len(want)*2/5+1
	for _, name := range names {
		if d := distance(strings.ToLower(want), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or change to make b of a
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// maxListed is how many names an error lists before it only counts them.
const maxListed = 30

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if len(names) > maxListed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return strings.Join(names, ", ")
}
