package manifest

import "strings"

// Nearest returns the candidate that word is most likely a misspelling of, the
// first of equally near ones, or "" when none is near: one edit in words of up
// to five letters, two in longer ones, none in words of one or two. An edit
// adds, drops or changes a letter or swaps two neighbours; case does not count.
// A word that is itself a candidate is no misspelling.
func Nearest(word string, candidates []string) string {
	best, bound := "", 2
	switch {
	case len(word) < 3:
		bound = 0
	case len(word) <= 5:
		bound = 1
	}
	for _, c := range candidates {
		if c == word {
			return ""
		}
		if n := edits(strings.ToLower(word), strings.ToLower(c)); n <= bound {
			best, bound = c, n-1
		}
	}
	return best
}

// edits counts the edits from a to b, where they are of about one length.
func edits(a, b string) int {
	if diff := len(a) - len(b); diff > 2 || diff < -2 {
		return 3 // farther than anyone asks for
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
