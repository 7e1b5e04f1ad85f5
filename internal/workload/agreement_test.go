package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

// testdata/admission.jsonl holds pods made at random and what Kubernetes 1.37.2
// made of them on 2026-11-30: scheme defaulting, the admission plugin
// ExtendedResourceToleration, then PrepareForCreate and Validate of the pod
// strategy. Each line has the pod, the errors sorted, and the tolerations.
func TestTheAPIServerSaysTheSame(t *testing.T) {
	data, err := os.ReadFile("testdata/admission.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var want struct {
			Pod                  json.RawMessage
			Refused, Tolerations []string
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		n++
		r, _ := read(t, string(want.Pod))
		spec := only(t, r).Spec
		got := words(spec)
		slices.Sort(got)
		if diff := cmp.Diff(want.Refused, got); diff != "" {
			t.Errorf("line %d: %s\nrefused (-server +kerf):\n%s", n, want.Pod, diff)
		}
		if diff := cmp.Diff(want.Tolerations, tolerations(spec)); diff != "" {
			t.Errorf("line %d: %s\ntolerations (-server +kerf):\n%s", n, want.Pod, diff)
		}
	}
	if n != 100 {
		t.Errorf("%d lines, want 100", n)
	}
}

func tolerations(spec *model.PodSpec) []string {
	var out []string
	for _, t := range spec.Tolerations {
		out = append(out, strings.Join([]string{t.Key, t.Operator, t.Value, t.Effect}, "|"))
	}
	return out
}
