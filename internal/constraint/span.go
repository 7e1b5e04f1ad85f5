package constraint

import (
	"math"
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/internal/model"
)

// A span is the set of states that one label may be in: absent, or one of a
// set of values. Values are strings; bounds admit those that read as decimal
// integers of 64 bits, so "7" and "07" are two values with one number and a
// bound with exclusions is never empty for lack of numbers.
type span struct {
	absent bool // the label may be missing
	// values are the admitted values, or with complement the excluded ones.
	// Sorted, without repeats.
	values     []string
	complement bool
	bounded    bool // low and high count
	low, high  int64
	minValues  int
}

var anything = span{absent: true, complement: true}

// spanOf reads one requirement. An operator that is not known and a bound that
// is not an integer admit nothing.
func spanOf(r model.Requirement) span {
	s := span{minValues: r.MinValues}
	switch r.Operator {
	case model.In:
		s.values = sorted(r.Values)
	case model.NotIn:
		s.absent, s.complement, s.values = true, true, sorted(r.Values)
	case model.Exists:
		s.complement = true
	case model.DoesNotExist:
		s.absent = true
	case model.Gt, model.Lt, model.Gte, model.Lte:
		s.complement, s.bounded = true, true
		s.low, s.high = bounds(r)
	}
	return s.tidy()
}

// bounds returns the inclusive bounds of a numeric requirement; low is above
// high when no integer satisfies it.
func bounds(r model.Requirement) (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if len(r.Values) != 1 {
		return 1, 0
	}
	n, err := strconv.ParseInt(r.Values[0], 10, 64)
	switch {
	case err != nil, r.Operator == model.Gt && n == math.MaxInt64, r.Operator == model.Lt && n == math.MinInt64:
		return 1, 0
	case r.Operator == model.Gt:
		return n + 1, high
	case r.Operator == model.Gte:
		return n, high
	case r.Operator == model.Lt:
		return low, n - 1
	default:
		return low, n
	}
}

// tidy brings equal sets of states to equal spans: no values beyond the
// bounds, no bounds on listed values, no list where bounds leave nothing.
func (s span) tidy() span {
	if s.bounded && s.low > s.high {
		s.values, s.complement = nil, false
	}
	if s.bounded && len(s.values) > 0 {
		s.values = slices.DeleteFunc(slices.Clone(s.values), func(v string) bool { return !s.inBounds(v) })
	}
	if !s.complement {
		s.bounded = false
	}
	if !s.bounded {
		s.low, s.high = 0, 0
	}
	if len(s.values) == 0 {
		s.values = nil
	}
	return s
}

func (s span) inBounds(value string) bool {
	if !s.bounded {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && s.low <= n && n <= s.high
}

// has reports whether the label may have the value.
func (s span) has(value string) bool {
	_, listed := slices.BinarySearch(s.values, value)
	return listed != s.complement && s.inBounds(value)
}

// empty reports whether no state is left.
func (s span) empty() bool { return !s.absent && !s.complement && len(s.values) == 0 }

// and returns the states that both allow. Of two demands for flexibility the
// greater stays.
func (s span) and(o span) span {
	out := span{
		absent:     s.absent && o.absent,
		complement: s.complement && o.complement,
		minValues:  max(s.minValues, o.minValues),
	}
	switch {
	case s.complement && o.complement:
		out.values = union(s.values, o.values)
	case s.complement:
		out.values = keep(o.values, s.has)
	default:
		out.values = keep(s.values, o.has)
	}
	out.bounded, out.low, out.high = s.bounded || o.bounded, math.MinInt64, math.MaxInt64
	for _, b := range []span{s, o} {
		if b.bounded {
			out.low, out.high = max(out.low, b.low), min(out.high, b.high)
		}
	}
	return out.tidy()
}

// meets reports whether s and o have a state in common, without building it.
func (s span) meets(o span) bool {
	switch {
	case s.absent && o.absent:
		return true
	case s.complement && o.complement:
		return !s.bounded || !o.bounded || (s.low <= o.high && o.low <= s.high)
	case s.complement:
		return slices.ContainsFunc(o.values, s.has)
	default:
		return slices.ContainsFunc(s.values, o.has)
	}
}

// words lists what is admitted as a person would write it; nil when anything goes.
func (s span) words() []string {
	if !s.complement {
		out := slices.Clone(s.values)
		if s.absent {
			out = append(out, "no label")
		}
		return out
	}
	var out []string
	if s.bounded {
		out = s.boundWords()
	}
	for _, v := range s.values {
		out = append(out, "not "+v)
	}
	if len(out) == 0 && !s.absent {
		return []string{"any value"}
	}
	return out
}

func (s span) boundWords() []string {
	var out []string
	if s.low != math.MinInt64 {
		out = append(out, "at least "+strconv.FormatInt(s.low, 10))
	}
	if s.high != math.MaxInt64 {
		out = append(out, "at most "+strconv.FormatInt(s.high, 10))
	}
	if len(out) == 0 {
		return []string{"any integer"}
	}
	return out
}

func sorted(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

func keep(values []string, ok func(string) bool) []string {
	var out []string
	for _, v := range values {
		if ok(v) {
			out = append(out, v)
		}
	}
	return out
}
