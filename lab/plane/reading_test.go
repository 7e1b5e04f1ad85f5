package plane

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
	"github.com/kerfdev/kerf/internal/workload"
)

// A plan of files and a plan of the cluster that they were applied to must not
// differ: Kerf assumes of a manifest what the server then writes into it.
func TestKerfReadsAPodOfTheServerAsItReadsItsManifest(t *testing.T) {
	c, ns := client(t), namespace(t)
	sameButForTheServersMarks := cmp.Options{
		cmpopts.IgnoreFields(model.PodSpec{}, "Place"),
		cmpopts.IgnoreFields(model.Toleration{}, "Assumed"),
		cmpopts.IgnoreFields(model.Env{}, "Line"),
		cmpopts.EquateEmpty(),
	}
	read := 0
	for _, row := range readMatrix(t).Pods {
		if len(row.Refused) > 0 {
			continue
		}
		read++
		t.Run(row.Name, func(t *testing.T) {
			manifest := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":%q},"spec":%s}`, ns, row.Spec)
			pod, err := submit(t, c, ns, manifest)
			if err != nil {
				t.Fatal(err)
			}
			pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			stored, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(readPod(t, manifest), readPod(t, stored), sameButForTheServersMarks); diff != "" {
				t.Errorf("pod (-manifest +server):\n%s", diff)
			}
		})
	}
	if read == 0 {
		t.Error("no pod of the matrix is accepted")
	}
}

// readPod reads one pod as kerf plan does, without the tolerations that every
// pod is given.
func readPod(t *testing.T, data []byte) *model.PodSpec {
	t.Helper()
	docs, notes := source.Parse(source.File{Name: "pod.json", Data: data})
	for _, n := range notes {
		if n.Severity == model.Error {
			t.Fatal(n.Text)
		}
	}
	result, _ := workload.Read(docs, workload.Options{})
	if len(result.Pods) != 1 {
		t.Fatalf("%d pods read", len(result.Pods))
	}
	spec := *result.Pods[0].Spec
	spec.Tolerations = slices.DeleteFunc(slices.Clone(spec.Tolerations), func(tol model.Toleration) bool {
		return strings.HasPrefix(tol.Key, "node.kubernetes.io/")
	})
	return &spec
}
