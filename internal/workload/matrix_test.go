package workload

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kerfdev/kerf/internal/model"
)

// matrix is testdata/matrix.yaml, which says what an API server does.
type matrix struct {
	Pods []struct {
		Name        string
		Spec        json.RawMessage
		Refused     []string
		Requests    model.Resources
		Tolerations []string
	}
	LimitRanges []struct {
		Name        string
		Limits, Ask json.RawMessage
		Refused     []string
		GPUs        []int64
	}
}

func readMatrix(t *testing.T) matrix {
	t.Helper()
	data, err := os.ReadFile("testdata/matrix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m matrix
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAdmissionMatrix(t *testing.T) {
	for _, c := range readMatrix(t).Pods {
		t.Run(c.Name, func(t *testing.T) {
			r, _ := read(t, pod("  "+string(c.Spec)+"\n"))
			spec := only(t, r).Spec
			if diff := cmp.Diff(c.Refused, words(spec)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			want := c.Requests.Plus(model.Resources{model.Pods: 1}, 1)
			if diff := cmp.Diff(want, spec.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			var tolerations []string
			for _, tol := range spec.Tolerations {
				s := tol.Key + " " + tol.Operator
				if tol.Value != "" {
					s += " " + tol.Value
				}
				if tol.Effect != "" {
					s += " " + tol.Effect
				}
				if tol.Assumed {
					s += " added"
				}
				tolerations = append(tolerations, s)
			}
			if diff := cmp.Diff(c.Tolerations, tolerations); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

// In force: what a LimitRange makes of a pod with the containers c and sidecar.
func TestLimitRangeMatrix(t *testing.T) {
	for _, c := range readMatrix(t).LimitRanges {
		t.Run(c.Name, func(t *testing.T) {
			r, _ := read(t, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limits: ["+string(c.Limits)+"]\n---\n"+
				pod("  containers:\n  - {name: c, image: i, resources: "+string(c.Ask)+"}\n  - {name: sidecar, image: i}\n"))
			spec := only(t, r).Spec
			if diff := cmp.Diff(c.Refused, words(spec)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			got := []int64{spec.Containers[0].Requests["nvidia.com/gpu"], spec.Containers[1].Requests["nvidia.com/gpu"]}
			if diff := cmp.Diff(c.GPUs, got); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}
