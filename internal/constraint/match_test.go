package constraint

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kerfdev/kerf/internal/model"
	"pgregory.net/rapid"
)

func TestMatchTermAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		term := model.Term(requirements(t, "term"))
		labels := rapid.MapOf(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"a", "b", "0", "3", "05", "x"})).Draw(t, "labels")
		wantOK, first := len(term) > 0, model.Requirement{}
		for _, r := range term {
			value, ok := labels[r.Key]
			if !allows(r, state{absent: !ok, value: value}) {
				wantOK, first = false, r
				break
			}
		}
		failed, ok := MatchTerm(term, labels)
		if ok != wantOK || cmp.Diff(first, failed) != "" {
			t.Fatalf("MatchTerm() = %+v, %v; want %+v, %v", failed, ok, first, wantOK)
		}
	})
}

func TestMatchNode(t *testing.T) {
	labels := map[string]string{"gpu": "t4", "count": "4", model.LabelZone: "a", model.LabelArch: "amd64", "word": "4x"}
	in := func(key string, values ...string) model.Requirement {
		return model.Requirement{Key: key, Operator: model.In, Values: values}
	}
	tests := map[string]struct {
		spec   model.PodSpec
		failed string // key; "-" for an empty term, "" for a match
	}{
		"nothing asked":                             {},
		"a selector that fits":                      {spec: model.PodSpec{NodeSelector: map[string]string{"gpu": "t4"}}},
		"the smallest failing key of a selector":    {spec: model.PodSpec{NodeSelector: map[string]string{"z": "1", "b": "1", "gpu": "t4"}}, failed: "b"},
		"one of two terms":                          {spec: model.PodSpec{NodeAffinity: []model.Term{{in("gpu", "a10g")}, {in("gpu", "t4")}}}},
		"no term, so the first one's failure":       {spec: model.PodSpec{NodeAffinity: []model.Term{{in("gpu", "t4"), in("x", "1")}, {in("y", "1")}}}, failed: "x"},
		"an empty term matches nothing":             {spec: model.PodSpec{NodeAffinity: []model.Term{{}}}, failed: "-"},
		"NotIn matches an absent key":               {spec: model.PodSpec{NodeAffinity: []model.Term{{{Key: "x", Operator: model.NotIn, Values: []string{"1"}}}}}},
		"Gt compares numbers":                       {spec: model.PodSpec{NodeAffinity: []model.Term{{{Key: "count", Operator: model.Gt, Values: []string{"3"}}}}}},
		"Lt fails on equality":                      {spec: model.PodSpec{NodeAffinity: []model.Term{{{Key: "count", Operator: model.Lt, Values: []string{"4"}}}}}, failed: "count"},
		"Gt on what is not a number":                {spec: model.PodSpec{NodeAffinity: []model.Term{{{Key: "word", Operator: model.Gt, Values: []string{"3"}}}}}, failed: "word"},
		"Gt with a bound that is not a number":      {spec: model.PodSpec{NodeAffinity: []model.Term{{{Key: "count", Operator: model.Gt, Values: []string{"x"}}}}}, failed: "count"},
		"Lt on an absent key":                       {spec: model.PodSpec{NodeAffinity: []model.Term{{{Key: "x", Operator: model.Lt, Values: []string{"3"}}}}}, failed: "x"},
		"a volume of another zone":                  {spec: model.PodSpec{Volumes: []model.Volume{{Claim: "c", Terms: []model.Term{{in(model.LabelZone, "b")}}}}}, failed: model.LabelZone},
		"a volume that goes anywhere":               {spec: model.PodSpec{Volumes: []model.Volume{{Claim: "c"}}}},
		"an old label name on a node that lacks it": {spec: model.PodSpec{NodeSelector: map[string]string{"beta.kubernetes.io/arch": "amd64"}}},
		"the node's own name":                       {spec: model.PodSpec{NodeAffinity: []model.Term{{in(NodeNameField, "n1")}}}},
		"another node's name":                       {spec: model.PodSpec{NodeAffinity: []model.Term{{in(NodeNameField, "n2")}}}, failed: NodeNameField},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			failed, ok := MatchNode(&tc.spec, Named(labels, "n1"))
			want := tc.failed
			if want == "-" {
				want = ""
			}
			if ok != (tc.failed == "") || failed.Key != want {
				t.Errorf("got %+v, %v; want failing key %q", failed, ok, tc.failed)
			}
		})
	}
}

func TestMatchSelector(t *testing.T) {
	labels := map[string]string{"app": "web"}
	tests := map[string]struct {
		sel  model.Selector
		want bool
	}{
		"no selector picks nobody":    {sel: model.Selector{}},
		"an empty one picks everyone": {sel: model.Selector{All: true}, want: true},
		"a matching label":            {sel: model.Selector{All: true, Term: model.Term{{Key: "app", Operator: model.In, Values: []string{"web"}}}}, want: true},
		"NotIn on an absent key":      {sel: model.Selector{All: true, Term: model.Term{{Key: "x", Operator: model.NotIn, Values: []string{"web"}}}}, want: true},
		"one of two requirements": {sel: model.Selector{All: true, Term: model.Term{
			{Key: "app", Operator: model.Exists}, {Key: "app", Operator: model.DoesNotExist},
		}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := MatchSelector(tc.sel, labels); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAlternativesAdmitWhatMatchNodeMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) model.Term { return requirements(t, "term") }), 0, 2)
		spec := model.PodSpec{
			NodeSelector: rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"a", "1"}), 0, 1).Draw(t, "selector"),
			NodeAffinity: terms.Draw(t, "affinity"),
			Volumes:      []model.Volume{{Terms: terms.Draw(t, "volume 1")}, {Terms: terms.Draw(t, "volume 2")}},
		}
		labels := rapid.MapOf(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"a", "b", "1", "3"})).Draw(t, "labels")
		_, want := MatchNode(&spec, labels)
		got := false
		for _, s := range Alternatives(&spec) {
			_, rejects := s.Rejects(labels, nil)
			got = got || !rejects
		}
		if got != want {
			t.Fatalf("an alternative admits the node: %v, MatchNode: %v", got, want)
		}
	})
}

func TestForPool(t *testing.T) {
	labels := map[string]string{"gpu": "shared"}
	s := ForPool(model.Pool{
		Name: "p", Labels: labels, NodeClass: "EC2NodeClass/default",
		Requirements: []model.Requirement{{Key: model.LabelArch, Operator: model.In, Values: []string{"amd64"}}},
	})
	for key, value := range map[string]string{
		"gpu": "shared", model.LabelNodePool: "p", "karpenter.k8s.aws/ec2nodeclass": "default", model.LabelArch: "amd64",
	} {
		if !s.Has(key, value) || s.Has(key, "other") {
			t.Errorf("%s must be %s and nothing else: %s", key, value, s)
		}
	}
	if len(labels) != 1 {
		t.Error("the pool's labels were written to")
	}
}

func BenchmarkMatchTerm(b *testing.B) {
	labels, term := map[string]string{}, model.Term{}
	for i := range 8 {
		key := "label-" + strconv.Itoa(i)
		labels[key] = "4"
		term = append(term, model.Requirement{Key: key, Operator: model.In, Values: []string{"1", "2", "4"}})
	}
	term[3].Operator, term[3].Values = model.Gt, []string{"3"}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := MatchTerm(term, labels); !ok {
			b.Fatal("no match")
		}
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	labels := map[string]string{"a": "4", "b": "x"}
	spec := model.PodSpec{NodeSelector: map[string]string{"b": "x"}, NodeAffinity: []model.Term{{{Key: "a", Operator: model.Gt, Values: []string{"3"}}}}}
	taints := []model.Taint{{Key: "nvidia.com/gpu", Effect: model.NoSchedule}}
	tolerations := []model.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists"}}
	pool := NewSet(spec.NodeAffinity[0])
	pod := FromLabels(map[string]string{"a": "4"})
	n := testing.AllocsPerRun(100, func() {
		MatchNode(&spec, labels)
		Tolerates(tolerations, taints)
		pool.Conflict(pod, nil)
		pool.Rejects(labels, nil)
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
