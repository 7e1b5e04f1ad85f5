package review

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kerfdev/kerf/internal/source"
)

// Whatever is posted gets an answer to itself. Whatever is judged reads the same
// by encoding/json: what the guard looked at is what the review holds.
func FuzzAdmission(f *testing.F) {
	f.Add([]byte(`{` + head + `,"request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"operation":"UPDATE","namespace":"a",` +
		`"object":{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"$(A)"}]}],"ephemeralContainers":[{"name":"b"}]}},"oldObject":{"spec":{}}}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","object":{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{}]}}}}}}`))
	f.Add([]byte(`{` + head + `,"request":{` + asked + `,"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"template":{"metadata":{"annotations":{"a":"b"}},` +
		`"spec":{"hostPID":true,"volumes":[{"name":"d","hostPath":{"path":"/dev"}}],"containers":[{"name":"a","image":"x","securityContext":{"privileged":true},"volumeMounts":[{"name":"d","mountPath":"/d"}]}]}}}}}}`))
	f.Add([]byte(`{` + head + `,"request":{` + asked + `,"object":{"apiVersion":"v1","kind":"Pod","spec":{"nodeSelector":{"karpenter.sh/nodepool":"a"},"tolerations":[{"key":"x"}],` +
		`"containers":[{"name":"a","envFrom":[{"prefix":"N","configMapRef":{"name":"c"}}],"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}}}`))
	f.Add([]byte(`{` + head + `,"request":{"uid":"1","operation":"CREATE","namespace":"a","object":{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"limits.nvidia.com/gpu":"1"}}}}}`))
	f.Add([]byte(`{` + head + `,"request":{` + asked + `,"object":` + good + `,"\u006fbject":` + bad + `}}`))
	for _, object := range corpus(f) {
		f.Add([]byte(`{` + head + `,"request":{` + asked + `,"object":` + object + `}}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g := &Guard{Cluster: cluster{}}
		before := bytes.Clone(body)
		verdict, repair := answerOf(t, g.Validate(t.Context(), body)), answerOf(t, g.Mutate(t.Context(), body))
		if !bytes.Equal(body, before) {
			t.Fatal("the review was written to")
		}
		if verdict.UID != repair.UID {
			t.Fatalf("one review has the UIDs %q and %q", verdict.UID, repair.UID)
		}
		if (len(repair.Patch) > 0) != (repair.PatchType == "JSONPatch") {
			t.Fatalf("patch %q of type %q", repair.Patch, repair.PatchType)
		}
		if len(repair.Patch) > 0 && !json.Valid(repair.Patch) {
			t.Fatalf("patch %q", repair.Patch)
		}
		if r, err := read(body); err == nil {
			agree(t, r, body)
		}
	})
}

// corpus are the objects of guard's corpus, so that every rule is met.
func corpus(f *testing.F) []string {
	f.Helper()
	files, err := filepath.Glob("../guard/testdata/corpus/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d claims, %v", len(files), err)
	}
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		docs, _ := source.Parse(source.File{Name: file, Data: data})
		for _, d := range docs {
			out = append(out, string(d.Root.JSON()))
		}
	}
	return out
}

// agree compares a request with what encoding/json makes of the review, by maps,
// so that names count in their own case.
func agree(t *testing.T, r *request, body []byte) {
	t.Helper()
	var review, asked map[string]json.RawMessage
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatalf("the guard read what is no JSON: %v", err)
	}
	if err := json.Unmarshal(review["request"], &asked); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"uid": r.uid, "operation": r.operation, "namespace": r.namespace, "name": r.name} {
		var want string
		if raw := asked[name]; raw != nil {
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Errorf("%s is %q to the guard, and %q", name, got, want)
		}
	}
	for name, got := range map[string][]byte{"object": r.object.JSON(), "oldObject": r.oldObject.JSON()} {
		var a, b any
		numbers := json.Unmarshal(got, &a)
		if raw := asked[name]; raw != nil && json.Unmarshal(raw, &b) != nil {
			continue // a number out of range, which the guard keeps as text
		}
		if numbers != nil {
			t.Fatal(numbers)
		}
		one, _ := json.Marshal(a)
		other, _ := json.Marshal(b)
		if !bytes.Equal(one, other) {
			t.Errorf("%s is %s to the guard, and %s", name, one, other)
		}
	}
}
