package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/admission"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/review"
	"github.com/kerfdev/kerf/internal/source"
)

// known is a cluster whose facts stand in documents.
type known struct {
	inventory guard.Inventory
	pools     map[string][]model.Taint
	tolerates bool
	err       error
}

func (k known) Facts(_ context.Context, p *guard.Pod) (*guard.Facts, error) {
	return k.inventory.Facts(p.Namespace), k.err
}

func (k known) Taints(_ context.Context, pool string) ([]model.Taint, error) {
	return k.pools[pool], k.err
}
func (k known) AddsTolerations() bool { return k.tolerates }

// ask posts an object to a webhook as the API server does. The old object is
// given for updates.
func ask(t testing.TB, h http.Handler, object, old []byte, subresource string) *admissionv1.AdmissionResponse {
	t.Helper()
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &head); err != nil {
		t.Fatal(err)
	}
	request := &admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind(head.GroupVersionKind()), SubResource: subresource,
		Namespace: head.Namespace, Name: head.Name, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
	}
	if old != nil {
		request.Operation, request.OldObject.Raw = admissionv1.Update, old
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	out := post(t, h, body)
	if out.Response == nil || out.Response.UID != "1" {
		t.Fatalf("the answer is to no review: %+v", out)
	}
	return out.Response
}

func post(t testing.TB, h http.Handler, body []byte) admissionv1.AdmissionReview {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("the answer is no review: %v: %.200s", err, w.Body.String())
	}
	return out
}

func validator(c review.Cluster, ex guard.Exemptions) http.Handler {
	return admission.Validating(&review.Guard{Cluster: c, Exemptions: ex})
}

func mutator(c review.Cluster, ex guard.Exemptions) http.Handler {
	return admission.Mutating(&review.Guard{Cluster: c, Exemptions: ex})
}

// A claim of guard's corpus, whose head says what is to be found.
type claim struct {
	docs       []manifest.Document
	want       []string
	exemptions guard.Exemptions
	inventory  guard.Inventory
}

func readClaim(t testing.TB, file string) claim {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs, _ := source.Parse(source.File{Name: filepath.Base(file), Data: data})
	c := claim{docs: docs, exemptions: guard.DefaultExemptions(), inventory: guard.Read(docs)}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if !strings.HasPrefix(line, "# ") || !ok {
			break
		}
		switch key {
		case "want":
			c.want = strings.Fields(strings.TrimPrefix(value, "none"))
		case "exempt":
			e, err := guard.ParseExemption(value)
			if err != nil {
				t.Fatal(err)
			}
			c.exemptions = append(c.exemptions, e)
		case "max-request":
			name, _, _ := strings.Cut(value, " ")
			c.inventory.MaxRequest = map[string]int64{name: 1}
		}
	}
	// No webhook is asked about namespaces.
	c.want = slices.DeleteFunc(c.want, func(name string) bool { return name == "admin-access-namespace" })
	slices.Sort(c.want)
	return c
}

// The webhook finds in every claim of guard's corpus what a scan finds, and lets
// in exactly what breaks no rule of severity error.
func TestTheCorpusIsJudgedAsByAScan(t *testing.T) {
	files, err := filepath.Glob("../guard/testdata/corpus/*.yaml")
	if err != nil || len(files) < 150 {
		t.Fatalf("%d claims, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c := readClaim(t, file)
			h := validator(known{inventory: c.inventory}, c.exemptions)
			var got []string
			for _, d := range c.docs {
				if d.Kind == "Namespace" || d.Root.At("status", "phase").Str() == "Succeeded" {
					continue
				}
				object := withNamespace(t, d)
				var old []byte
				if d.Root.At("metadata", "uid") != nil || d.Root.Get("status") != nil {
					old = []byte(`{}`) // stored, and judged anew
				}
				got = append(got, rules(t, ask(t, h, object, old, ""))...)
			}
			slices.Sort(got)
			got = slices.Compact(got)
			if d := cmp.Diff(c.want, got); d != "" && len(c.want)+len(got) > 0 {
				t.Errorf("rules (-want +got):\n%s", d)
			}
		})
	}
}

func withNamespace(t testing.TB, d manifest.Document) []byte {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(d.Root.JSON(), &object); err != nil {
		t.Fatal(err)
	}
	meta, _ := object["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		object["metadata"] = meta
	}
	if meta["namespace"] == nil {
		meta["namespace"] = "default"
	}
	out, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rules reads what a response says: its audit annotations name every rule.
func rules(t testing.TB, r *admissionv1.AdmissionResponse) []string {
	t.Helper()
	var out []string
	deny := false
	for name, text := range r.AuditAnnotations {
		out = append(out, name)
		if strings.HasPrefix(text, "error: ") {
			deny = true
			if !strings.Contains(r.Result.Message, name) {
				t.Errorf("the refusal does not say %s:\n%s", name, r.Result.Message)
			}
		}
		if strings.HasPrefix(text, "warning: ") && !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, name+": ") }) {
			t.Errorf("no warning of %s: %q", name, r.Warnings)
		}
	}
	if r.Allowed == deny {
		t.Errorf("allowed = %v with findings %v", r.Allowed, r.AuditAnnotations)
	}
	if !r.Allowed && r.Result.Code != http.StatusForbidden {
		t.Errorf("a refusal has code %d, want 403", r.Result.Code)
	}
	return out
}

func readClaimText(t testing.TB, text string) guard.Inventory {
	t.Helper()
	docs, notes := source.Parse(source.File{Name: "facts.yaml", Data: []byte(text)})
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	return guard.Read(docs)
}
