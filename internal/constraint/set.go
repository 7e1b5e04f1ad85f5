package constraint

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A Set says for each label key which states the label may be in: absent, or
// one of a set of values. Keys that it does not hold are unrestricted. The zero
// value restricts nothing. Sets are never changed once built.
//
// The algebra is exact over all eight operators. It differs from Karpenter 1.15
// in two points: Karpenter forgets in `Exists` and `NotIn a` together that the
// label must exist, and takes `In a` and `In b` together for DoesNotExist; here
// the first keeps both demands and the second admits nothing.
type Set struct {
	clauses []clause // sorted by key, one per key
}

type clause struct {
	key string
	span
}

// NewSet joins requirements; several on one key must all hold. Keys are
// normalised with Normalize.
func NewSet(reqs []model.Requirement) Set {
	clauses := make([]clause, 0, len(reqs))
	for _, r := range reqs {
		clauses = append(clauses, clause{key: Normalize(r.Key), span: spanOf(r)})
	}
	return join(clauses)
}

// FromLabels is the Set whose only labelling is labels: each key must have its value.
func FromLabels(labels map[string]string) Set {
	clauses := make([]clause, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		clauses = append(clauses, clause{key: Normalize(key), span: span{values: []string{labels[key]}}})
	}
	return join(clauses)
}

// join sorts clauses and merges those of one key; it owns its argument.
func join(clauses []clause) Set {
	slices.SortStableFunc(clauses, func(a, b clause) int { return strings.Compare(a.key, b.key) })
	out := clauses[:0]
	for _, c := range clauses {
		if n := len(out); n > 0 && out[n-1].key == c.key {
			out[n-1].span = out[n-1].and(c.span)
			continue
		}
		out = append(out, c)
	}
	return Set{clauses: out}
}

// Intersect returns the Set that admits what both admit.
func (s Set) Intersect(o Set) Set {
	switch {
	case len(s.clauses) == 0:
		return o
	case len(o.clauses) == 0:
		return s
	}
	return join(slices.Concat(s.clauses, o.clauses))
}

// find returns what is known of a key, and whether anything is.
func (s Set) find(key string) (span, bool) {
	i, ok := slices.BinarySearchFunc(s.clauses, key, func(c clause, key string) int { return strings.Compare(c.key, key) })
	if !ok {
		return anything, false
	}
	return s.clauses[i].span, true
}

// Defines reports whether the Set says anything about key.
func (s Set) Defines(key string) bool {
	_, ok := s.find(key)
	return ok
}

// Has reports whether the label may have the value. A key that the Set does
// not define may have any.
func (s Set) Has(key, value string) bool {
	sp, _ := s.find(key)
	return sp.has(value)
}

// MayLack reports whether a node without the label is admitted.
func (s Set) MayLack(key string) bool {
	sp, _ := s.find(key)
	return sp.absent
}

// Values lists the values that the label may have, sorted. finite is false,
// and the list nil, when they cannot be listed: the key is not defined, or only
// exclusions or bounds are known.
func (s Set) Values(key string) (values []string, finite bool) {
	sp, _ := s.find(key)
	if sp.complement {
		return nil, false
	}
	return sp.values, true
}

// Keys lists the keys that the Set defines, sorted.
func (s Set) Keys() []string {
	out := make([]string, len(s.clauses))
	for i, c := range s.clauses {
		out[i] = c.key
	}
	return out
}

// Empty returns the first key for which no state is left, in sorted order; ok
// is false when every key has one. Nothing can meet an empty Set.
func (s Set) Empty() (key string, ok bool) {
	for _, c := range s.clauses {
		if c.empty() {
			return c.key, true
		}
	}
	return "", false
}

// Conflict compares what a pod wants with s, what a pool offers. It returns the
// first key, in sorted order, on which no state suits both; ok reports whether
// there is one.
//
// As in Karpenter 1.15 a key that the pool does not define is open when
// wellKnown says so, and otherwise a label that the pool's nodes will not have:
// In, Exists and the bounds conflict there, NotIn and DoesNotExist do not. A nil
// wellKnown knows no key.
func (s Set) Conflict(pod Set, wellKnown func(key string) bool) (key string, ok bool) {
	i := 0
	for _, want := range pod.clauses {
		for i < len(s.clauses) && s.clauses[i].key < want.key {
			i++
		}
		fits := want.absent
		switch {
		case i < len(s.clauses) && s.clauses[i].key == want.key:
			fits = want.meets(s.clauses[i].span)
		case wellKnown != nil && wellKnown(want.key):
			fits = !want.empty()
		}
		if !fits {
			return want.key, true
		}
	}
	return "", false
}

// Rejects looks for a key on which a node with the labels would not be
// admitted, and returns the first in sorted order. Only keys for which over
// says true are looked at, nil meaning all: pass the labels of an instance type
// with over telling which keys an instance type decides.
func (s Set) Rejects(labels map[string]string, over func(key string) bool) (key string, ok bool) {
	for i := range s.clauses {
		c := &s.clauses[i]
		if over != nil && !over(c.key) {
			continue
		}
		value, present := labels[c.key]
		if (present && !c.has(value)) || (!present && !c.absent) {
			return c.key, true
		}
	}
	return "", false
}

// Words lists what the Set admits for a key as a person would write it: its
// values, "not a", "at least 3", "any value", "no label". Nil when anything goes.
func (s Set) Words(key string) []string {
	sp, _ := s.find(key)
	return sp.words()
}

// String writes the Set as text; equal Sets give equal text, whatever they were
// built from.
func (s Set) String() string {
	var b strings.Builder
	for i, c := range s.clauses {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.key)
		b.WriteByte(' ')
		c.write(&b)
	}
	return b.String()
}

func (s span) write(b *strings.Builder) {
	verb := "In"
	if s.complement {
		verb = "NotIn"
	}
	b.WriteString(verb)
	for _, v := range s.values {
		b.WriteByte(' ')
		b.WriteString(strconv.Quote(v))
	}
	if s.bounded {
		b.WriteString(" " + strings.Join(s.boundWords(), " "))
	}
	if s.absent {
		b.WriteString(" or absent")
	}
	if s.minValues > 0 {
		b.WriteString(" minValues " + strconv.Itoa(s.minValues))
	}
}
