package solve

import "math/bits"

// A set is a set of small numbers.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) drop(i int)     { s[i>>6] &^= 1 << (i & 63) }
func (s set) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

// covers reports whether every number of o is in s; both have one length.
func (s set) covers(o set) bool {
	for i := range o {
		if o[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}

// meets reports whether s and o have a number in common.
func (s set) meets(o set) bool {
	for i := range o {
		if o[i]&s[i] != 0 {
			return true
		}
	}
	return false
}

func (s set) empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// each calls f with every number, rising.
func (s set) each(f func(i int)) {
	for w, word := range s {
		for word != 0 {
			f(w<<6 + bits.TrailingZeros64(word))
			word &= word - 1
		}
	}
}
