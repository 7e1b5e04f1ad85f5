package constraint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kerfdev/kerf/internal/model"
	"pgregory.net/rapid"
)

// The oracle knows requirements only through allows, one value at a time, and
// finds out everything else by trying every state of a small universe. The
// zero-padded numbers are there so that every bound has a value that no
// generated exclusion names.
var universe = func() []state {
	out := []state{{absent: true}, {value: ""}, {value: "a"}, {value: "b"}, {value: "c"}, {value: "other"}, {value: "9223372036854775808"}}
	for n := -2; n <= 7; n++ {
		out = append(out, state{value: strconv.Itoa(n)}, state{value: fmt.Sprintf("%03d", n)})
	}
	return out
}()

type state struct {
	absent bool
	value  string
}

func allows(r model.Requirement, s state) bool {
	listed := false
	for _, v := range r.Values {
		listed = listed || v == s.value
	}
	switch r.Operator {
	case model.In:
		return !s.absent && listed
	case model.NotIn:
		return s.absent || !listed
	case model.Exists:
		return !s.absent
	case model.DoesNotExist:
		return s.absent
	}
	n, err := strconv.Atoi(s.value)
	if s.absent || err != nil {
		return false
	}
	bound, _ := strconv.Atoi(r.Values[0])
	return map[model.Operator]bool{model.Gt: n > bound, model.Gte: n >= bound, model.Lt: n < bound, model.Lte: n <= bound}[r.Operator]
}

func allowsAll(reqs []model.Requirement, key string, s state) bool {
	for _, r := range reqs {
		if r.Key == key && !allows(r, s) {
			return false
		}
	}
	return true
}

var keys = []string{"k1", "k2", "k3"}

func requirement(key string) *rapid.Generator[model.Requirement] {
	word := rapid.SampledFrom([]string{"a", "b", "c", "0", "1", "2", "3", "4", "5"})
	return rapid.Custom(func(t *rapid.T) model.Requirement {
		r := model.Requirement{Key: key, Operator: rapid.SampledFrom([]model.Operator{
			model.In, model.NotIn, model.Exists, model.DoesNotExist, model.Gt, model.Lt, model.Gte, model.Lte,
		}).Draw(t, "operator")}
		switch r.Operator {
		case model.In, model.NotIn:
			r.Values = rapid.SliceOfN(word, 1, 5).Draw(t, "values")
		case model.Gt, model.Lt, model.Gte, model.Lte:
			r.Values = []string{strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "bound"))}
		}
		return r
	})
}

func requirements(t *rapid.T, label string) []model.Requirement {
	var out []model.Requirement
	for _, k := range keys {
		out = append(out, rapid.SliceOfN(requirement(k), 0, 3).Draw(t, label+" "+k)...)
	}
	return out
}

func TestSetAgreesWithEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := requirements(t, "a"), requirements(t, "b")
		both := slices.Concat(a, b)
		set := NewSet(a).Intersect(NewSet(b))
		if got, want := set.String(), NewSet(both).String(); got != want {
			t.Fatalf("intersection and joint set differ:\n%s\n%s", got, want)
		}
		emptyKey := ""
		for _, k := range keys {
			any := false
			for _, s := range universe {
				want := allowsAll(both, k, s)
				any = any || want
				got := set.MayLack(k)
				if !s.absent {
					got = set.Has(k, s.value)
				}
				if got != want {
					t.Fatalf("%s %+v: got %v, want %v\n%s", k, s, got, want, set)
				}
			}
			if !any && emptyKey == "" {
				emptyKey = k
			}
		}
		if got, ok := set.Empty(); got != emptyKey || ok != (emptyKey != "") {
			t.Fatalf("Empty() = %q, %v; want %q\n%s", got, ok, emptyKey, set)
		}
	})
}

func TestConflictAgreesWithEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, pod := requirements(t, "pool"), requirements(t, "pod")
		known := rapid.SampledFrom(keys).Draw(t, "well-known")
		want := ""
		for _, k := range slices.Backward(keys) {
			defined := slices.ContainsFunc(pool, func(r model.Requirement) bool { return r.Key == k })
			asked := slices.ContainsFunc(pod, func(r model.Requirement) bool { return r.Key == k })
			common := slices.ContainsFunc(universe, func(s state) bool {
				return allowsAll(pool, k, s) && allowsAll(pod, k, s) && (defined || k == known || s.absent)
			})
			if asked && !common {
				want = k
			}
		}
		got, ok := NewSet(pool).Conflict(NewSet(pod), func(k string) bool { return k == known })
		if got != want || ok != (want != "") {
			t.Fatalf("Conflict() = %q, %v; want %q\npool %s\npod %s", got, ok, want, NewSet(pool), NewSet(pod))
		}
	})
}

func TestSetsThatAdmitTheSameAreWrittenTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(requirement("k"), 1, 4).Draw(t, "a")
		b := rapid.SliceOfN(requirement("k"), 1, 4).Draw(t, "b")
		same := true
		for _, s := range universe {
			same = same && allowsAll(a, "k", s) == allowsAll(b, "k", s)
		}
		if got := NewSet(a).String() == NewSet(b).String(); got != same {
			t.Fatalf("written the same: %v, admit the same: %v\n%s\n%s", got, same, NewSet(a), NewSet(b))
		}
	})
}

func TestRejectsAgreesWithMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reqs := requirements(t, "pool")
		labels := rapid.MapOf(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"a", "b", "1", "3", "05"})).Draw(t, "labels")
		want := ""
		for _, k := range slices.Backward(keys) {
			value, ok := labels[k]
			if !allowsAll(reqs, k, state{absent: !ok, value: value}) {
				want = k
			}
		}
		if got, _ := NewSet(reqs).Rejects(labels, nil); got != want {
			t.Fatalf("Rejects() = %q, want %q", got, want)
		}
		_, all := MatchTerm(append(reqs, model.Requirement{Key: "unused", Operator: model.DoesNotExist}), labels)
		if all != (want == "") {
			t.Fatalf("MatchTerm() = %v, first rejecting key %q", all, want)
		}
	})
}

func TestConflictNamesTheFirstKey(t *testing.T) {
	pool := NewSet([]model.Requirement{
		{Key: model.LabelCapacityType, Operator: model.In, Values: []string{"spot"}},
		{Key: "karpenter.k8s.aws/instance-family", Operator: model.In, Values: []string{"g5", "g4dn"}},
		{Key: "team", Operator: model.NotIn, Values: []string{"a"}},
	})
	wellKnown := func(k string) bool { return k == model.LabelZone || k == model.LabelArch }
	tests := map[string]struct {
		pod             []model.Requirement
		key             string
		wanted, offered []string
	}{
		"a value that the pool does not offer": {
			pod: []model.Requirement{{Key: model.LabelCapacityType, Operator: model.In, Values: []string{"on-demand"}}},
			key: model.LabelCapacityType, wanted: []string{"on-demand"}, offered: []string{"spot"},
		},
		"the first of two clashes, in key order": {
			pod: []model.Requirement{
				{Key: model.LabelCapacityType, Operator: model.In, Values: []string{"on-demand"}},
				{Key: "karpenter.k8s.aws/instance-family", Operator: model.NotIn, Values: []string{"g4dn", "g5"}},
			},
			key: "karpenter.k8s.aws/instance-family", wanted: []string{"not g4dn", "not g5"}, offered: []string{"g4dn", "g5"},
		},
		"a custom key that the pool does not set": {
			pod: []model.Requirement{{Key: "gpu", Operator: model.Exists}},
			key: "gpu", wanted: []string{"any value"},
		},
		"a well-known key that the pool leaves open":  {pod: []model.Requirement{{Key: model.LabelZone, Operator: model.In, Values: []string{"us-east-1a"}}}},
		"an old name of a well-known key":             {pod: []model.Requirement{{Key: "beta.kubernetes.io/arch", Operator: model.In, Values: []string{"arm64"}}}},
		"a custom key that must be absent":            {pod: []model.Requirement{{Key: "gpu", Operator: model.DoesNotExist}}},
		"two exclusions, which an absent label meets": {pod: []model.Requirement{{Key: "team", Operator: model.DoesNotExist}}},
		"an exclusion on a key that the pool lacks":   {pod: []model.Requirement{{Key: "gpu", Operator: model.NotIn, Values: []string{"a"}}}},
		"a pod that contradicts itself on an open key": {
			pod: []model.Requirement{
				{Key: model.LabelZone, Operator: model.In, Values: []string{"a"}},
				{Key: "failure-domain.beta.kubernetes.io/zone", Operator: model.In, Values: []string{"b"}},
			},
			key: model.LabelZone,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := NewSet(tc.pod)
			key, ok := pool.Conflict(pod, wellKnown)
			if key != tc.key || ok != (tc.key != "") {
				t.Fatalf("Conflict() = %q, %v; want %q", key, ok, tc.key)
			}
			if !ok {
				return
			}
			if d := cmp.Diff(tc.wanted, pod.Words(key)); d != "" {
				t.Errorf("wanted (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.offered, pool.Words(key)); d != "" {
				t.Errorf("offered (-want +got):\n%s", d)
			}
		})
	}
}

func TestBoundsAtTheEndsOfTheIntegers(t *testing.T) {
	top, bottom := strconv.Itoa(math.MaxInt64), strconv.Itoa(math.MinInt64)
	tests := map[string]struct {
		reqs  []model.Requirement
		value string
		empty bool
		words []string
	}{
		"nothing is greater than the greatest":   {reqs: []model.Requirement{{Operator: model.Gt, Values: []string{top}}}, empty: true},
		"nothing is less than the least":         {reqs: []model.Requirement{{Operator: model.Lt, Values: []string{bottom}}}, empty: true},
		"the greatest is at least itself":        {reqs: []model.Requirement{{Operator: model.Gte, Values: []string{top}}}, value: top, words: []string{"at least " + top}},
		"every integer":                          {reqs: []model.Requirement{{Operator: model.Gte, Values: []string{bottom}}}, value: "0", words: []string{"any integer"}},
		"a bound that is not a number":           {reqs: []model.Requirement{{Operator: model.Gt, Values: []string{"two"}}}, empty: true},
		"a bound without a value":                {reqs: []model.Requirement{{Operator: model.Gt}}, empty: true},
		"an unknown operator":                    {reqs: []model.Requirement{{Operator: "Like", Values: []string{"a"}}}, empty: true},
		"bounds that cross":                      {reqs: []model.Requirement{{Operator: model.Gt, Values: []string{"3"}}, {Operator: model.Lt, Values: []string{"4"}}}, empty: true},
		"bounds that leave one number":           {reqs: []model.Requirement{{Operator: model.Gt, Values: []string{"3"}}, {Operator: model.Lt, Values: []string{"5"}}}, value: "4", words: []string{"at least 4", "at most 4"}},
		"listed values outside the bounds go":    {reqs: []model.Requirement{{Operator: model.In, Values: []string{"1", "5", "x"}}, {Operator: model.Gt, Values: []string{"2"}}}, value: "5", words: []string{"5"}},
		"exclusions outside the bounds go":       {reqs: []model.Requirement{{Operator: model.NotIn, Values: []string{"1", "5"}}, {Operator: model.Lte, Values: []string{"2"}}}, value: "2", words: []string{"at most 2", "not 1"}},
		"a label that must be absent":            {reqs: []model.Requirement{{Operator: model.DoesNotExist}}, words: []string{"no label"}},
		"an exclusion that the label must exist": {reqs: []model.Requirement{{Operator: model.Exists}, {Operator: model.NotIn, Values: []string{"a"}}}, value: "b", words: []string{"not a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSet(tc.reqs)
			if _, empty := s.Empty(); empty != tc.empty {
				t.Errorf("empty: got %v, want %v", empty, tc.empty)
			}
			if tc.value != "" && !s.Has("", tc.value) {
				t.Errorf("%s does not admit %s", s, tc.value)
			}
			if d := cmp.Diff(tc.words, s.Words("")); d != "" {
				t.Errorf("words (-want +got):\n%s", d)
			}
		})
	}
}

func TestValuesAreListedOnlyWhenFinite(t *testing.T) {
	s := NewSet([]model.Requirement{
		{Key: "a", Operator: model.In, Values: []string{"y", "x", "y"}},
		{Key: "b", Operator: model.NotIn, Values: []string{"x"}},
		{Key: "c", Operator: model.DoesNotExist},
	})
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": false} {
		if _, finite := s.Values(key); finite != want {
			t.Errorf("%s: finite %v, want %v", key, finite, want)
		}
	}
	got, _ := s.Values("a")
	if d := cmp.Diff([]string{"x", "y"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, s.Keys()); d != "" {
		t.Error(d)
	}
	if s.Defines("d") || !s.Has("d", "x") || !s.MayLack("d") {
		t.Error("a key that is not defined must be open")
	}
}

func TestFlexible(t *testing.T) {
	pool := NewSet([]model.Requirement{
		{Key: "family", Operator: model.Exists, MinValues: 2},
		{Key: "family", Operator: model.NotIn, Values: []string{"g5"}},
		{Key: "zone", Operator: model.In, Values: []string{"a", "b"}, MinValues: 1},
	})
	tests := map[string]struct {
		families []string
		have     int
		ok       bool
	}{
		"enough values":                          {families: []string{"g4dn", "g6", "g4dn"}, ok: true},
		"repeats count once":                     {families: []string{"g4dn", "g4dn"}, have: 1},
		"values that the pool bars do not count": {families: []string{"g4dn", "g5"}, have: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key, want, have, ok := pool.Flexible(func(key string) []string {
				if key == "family" {
					return tc.families
				}
				return []string{"a"}
			})
			if ok != tc.ok {
				t.Fatalf("ok = %v, want %v", ok, tc.ok)
			}
			if !ok && (key != "family" || want != 2 || have != tc.have) {
				t.Errorf("got %s %d of %d, want family %d of 2", key, have, want, tc.have)
			}
		})
	}
	if d := cmp.Diff([]string{"family", "zone"}, pool.Demanding()); d != "" {
		t.Error(d)
	}
}
