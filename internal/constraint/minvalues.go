package constraint

// Demanding lists the keys with a minValues, sorted; nil when there are none.
func (s Set) Demanding() []string {
	var out []string
	for _, c := range s.clauses {
		if c.minValues > 0 {
			out = append(out, c.key)
		}
	}
	return out
}

// Flexible checks every minValues of the Set against what is left to launch:
// values lists, repeats allowed, the values of a key over the instance types
// and offerings that remain, of which only those that the Set admits count
// (Karpenter 1.15). It returns the first key with too few, how many are
// demanded and how many there are; ok is true when every demand is met.
func (s Set) Flexible(values func(key string) []string) (key string, want, have int, ok bool) {
	for _, c := range s.clauses {
		if c.minValues == 0 {
			continue
		}
		if n := len(sorted(keep(values(c.key), c.has))); n < c.minValues {
			return c.key, c.minValues, n, false
		}
	}
	return "", 0, 0, true
}
