package deviceconfig

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// nearest returns the known word that word is most likely a misspelling of, or
// "" when none is near: one edit in words of up to four letters, two in longer
// ones. The first of equally near words wins.
func nearest(word string, known []string) string {
	best, bound := "", 1
	if len(word) > 4 {
		bound = 2
	}
	for _, k := range known {
		if n := distance(strings.ToLower(word), strings.ToLower(k)); n <= bound {
			best, bound = k, n-1
		}
	}
	return best
}

// distance counts the letters to add, drop, change or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	if abs(len(a)-len(b)) > 2 {
		return 3 // farther than anyone asks for
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}

func abs(n int) int { return max(n, -n) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// index appends a list index to a field path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
