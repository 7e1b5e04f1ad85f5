package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func TestQuotasAsWritten(t *testing.T) {
	r, notes := read(t, `apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: team-a}
spec:
  hard:
    requests.nvidia.com/gpu: 4
    nvidia.com/gpu: "4"
    limits.memory: 1.5Ti
    requests.gpu: 4
`)
	want := map[string]string{"requests.nvidia.com/gpu": "4", "nvidia.com/gpu": "4", "limits.memory": "1.5Ti", "requests.gpu": "4"}
	if diff := cmp.Diff(want, r.Quotas[0].Hard); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	texts := []string{
		`error invalid in.yaml:9 spec.hard[requests.gpu]: the API server refuses it: Invalid value: "requests.gpu": must be a standard resource type or fully qualified -> write the resource with its vendor's domain, as in nvidia.com/gpu`,
		`error invalid in.yaml:9 spec.hard[requests.gpu]: the API server refuses it: Invalid value: "requests.gpu": must be a standard resource for quota -> write the resource with its vendor's domain, as in nvidia.com/gpu`,
	}
	if diff := cmp.Diff(texts, say(notes)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestLimitRangesAsWritten(t *testing.T) {
	r, notes := read(t, `apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: team-a}
spec:
  limits:
  - type: Container
    max: {nvidia.com/gpu: 2}
    min: {cpu: 100m}
  - type: Pod
    max: {memory: 1Ti}
`)
	want := []model.LimitRange{
		{
			Namespace: "team-a", Name: "l", Type: "Container", Fields: map[string]map[string]string{"max": {"nvidia.com/gpu": "2"}, "min": {"cpu": "100m"}},
			Place: model.Place{File: "in.yaml", Line: 6, Object: "LimitRange team-a/l", Field: "spec.limits[0]"},
		},
		{
			Namespace: "team-a", Name: "l", Type: "Pod", Fields: map[string]map[string]string{"max": {"memory": "1Ti"}},
			Place: model.Place{File: "in.yaml", Line: 9, Object: "LimitRange team-a/l", Field: "spec.limits[1]"},
		},
	}
	if diff := cmp.Diff(want, r.LimitRanges); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(notes) > 0 {
		t.Errorf("notes: %q", say(notes))
	}
}

// A LimitRange that the API server refuses is not in force.
func TestALimitRangeThatIsRefused(t *testing.T) {
	r, notes := read(t, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limits:\n  - type: Container\n    defaultRequest: {nvidia.com/gpu: 1}\n    default: {nvidia.com/gpu: 2}\n---\n"+
		pod("  containers: [{name: c, image: i}]\n"))
	want := []string{`error invalid in.yaml:7 spec.limits[0].defaultRequest[nvidia.com/gpu]: the API server refuses it: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in nvidia.com/gpu`}
	if diff := cmp.Diff(want, say(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := only(t, r).Spec.Requests["nvidia.com/gpu"]; got != 0 {
		t.Errorf("the pod was given %d GPUs", got)
	}
}

func TestALimitRangeThatHandsOutGPUsIsNamed(t *testing.T) {
	_, notes := read(t, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limits:\n  - {type: Container, max: {nvidia.com/gpu: 2}}\n---\n"+
		pod("  containers: [{name: c, image: i}, {name: d, image: i}]\n"))
	want := []string{
		"warning limit-range-injects in.yaml:12 spec.containers[0].resources: container c asks for no nvidia.com/gpu and is given some by LimitRange l at in.yaml:5; so in 1 more place -> cap it with a ResourceQuota on requests.nvidia.com/gpu and remove it from the LimitRange",
	}
	if diff := cmp.Diff(want, say(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBudgetsAndNamespaces(t *testing.T) {
	r, _ := read(t, `apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: team-a}
spec: {minAvailable: 50%, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {tier: gold}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team-b}
spec: {containers: [{name: c, image: i}]}
`)
	want := []model.Budget{{
		Namespace: "team-a", Name: "b", MinAvailable: "50%", Place: model.Place{File: "in.yaml", Line: 4, Object: "PodDisruptionBudget team-a/b", Field: "spec"},
		Selector: model.Selector{All: true, Term: model.Term{{Key: "app", Operator: model.In, Values: []string{"web"}}}},
	}}
	if diff := cmp.Diff(want, r.Budgets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	namespaces := map[string]map[string]string{
		"team-a": {"tier": "gold", "kubernetes.io/metadata.name": "team-a"},
		"team-b": {"kubernetes.io/metadata.name": "team-b"},
	}
	if diff := cmp.Diff(namespaces, r.Namespaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
