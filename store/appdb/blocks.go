package appdb

import (
	"fmt"
	"math"
	"slices"
)

// A span is the blocks [from, to) of a table.
type span struct{ from, to int64 }

// tid is the first ctid of a block, whose number has 32 bits.
func tid(block int64) string { return fmt.Sprintf("(%d,0)", min(block, math.MaxUint32)) }

const (
	// sampleStep is how many keys each sampled one stands for.
	sampleStep = 32
	// maxGap is how many blocks are read for the keys between two sampled ones. A
	// block of a hundred rows costs about as much as looking up two keys, and some
	// of the keys may lie elsewhere.
	maxGap = sampleStep / 2 * 3 / 4
)

// together are the spans in which the rows of the keys lie together, in order
// and apart from each other, by the blocks in which those of the sampled keys
// were found. Rows between two blocks that are far apart are not worth reading
// all that lies between them.
func together(found []int64) []span {
	slices.Sort(found)
	var spans []span
	for i := 0; i < len(found); {
		j := i
		for j+1 < len(found) && found[j+1]-found[j] <= maxGap {
			j++
		}
		if j > i {
			spans = join(spans, around(found[i], found[j], j-i))
		}
		i = j + 1
	}
	return spans
}

// around are the blocks from the first to the last of some samples, with as much
// more at both ends as lies between two of them.
func around(first, last int64, gaps int) span {
	margin := (last-first)/int64(gaps) + 1
	return span{max(0, first-margin), last + margin + 1}
}

// join adds a span that begins after the others do.
func join(spans []span, s span) []span {
	if n := len(spans); n > 0 && s.from <= spans[n-1].to {
		spans[n-1].to = max(s.to, spans[n-1].to)
		return spans
	}
	return append(spans, s)
}
