package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission/metrics"
	kjson "sigs.k8s.io/json"

	"github.com/kerfdev/kerf/internal/admission"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/review"
)

// envelope is a review of an object, as the API server writes it.
func envelope(object string) string {
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},` +
		`"namespace":"team-a","operation":"CREATE","userInfo":{"username":"u","groups":["g"],"extra":{"k":["v"]}},"object":` + object + `,"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions"}}}`
}

func podOf(container string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"app"},"spec":{"containers":[{"name":"a",` + container + `}]}}`
}

// Answers have the fields of admission.k8s.io/v1, spelled as the API server reads
// them, and no others.
func TestAnswersAreThoseOfTheAPI(t *testing.T) {
	patch := admissionv1.PatchTypeJSONPatch
	answer := func(r admissionv1.AdmissionResponse) admissionv1.AdmissionReview {
		r.UID = "1"
		return admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Response: &r}
	}
	for name, c := range map[string]struct {
		handler http.Handler
		body    string
		want    admissionv1.AdmissionReview
	}{
		"allowed": {
			validator(known{}, nil), envelope(podOf(`"image":"x"`)),
			answer(admissionv1.AdmissionResponse{Allowed: true, Result: &metav1.Status{Code: 200}}),
		},
		"warned of": {
			validator(known{}, nil), envelope(podOf(`"image":"x","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`)),
			answer(admissionv1.AdmissionResponse{Allowed: true, Result: &metav1.Status{Code: 200}}),
		},
		"denied": {
			validator(known{}, nil), envelope(podOf(`"env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]`)),
			answer(admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden}}),
		},
		"repaired": {
			mutator(known{tolerates: true}, nil), envelope(podOf(`"image":"x"`)),
			answer(admissionv1.AdmissionResponse{
				Allowed: true, Result: &metav1.Status{Code: 200}, PatchType: &patch,
				Patch: []byte(`[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]}]`),
			}),
		},
		"unreadable": {
			mutator(known{}, nil), envelope(`[]`),
			answer(admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 400, Message: "read the object: it is a list, not a map"}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, c.handler, "application/json", strings.NewReader(c.body))
			var got admissionv1.AdmissionReview
			if strict, err := kjson.UnmarshalStrict(w.Body.Bytes(), &got); err != nil || len(strict) > 0 {
				t.Fatalf("%v, %v: %s", err, strict, w.Body)
			}
			if name == "warned of" && (len(got.Response.Warnings) != 1 || len(got.Response.AuditAnnotations) != 1) {
				t.Errorf("warnings %q, annotations %q", got.Response.Warnings, got.Response.AuditAnnotations)
			}
			if name == "denied" && (got.Response.Result.Message == "" || len(got.Response.AuditAnnotations) != 1) {
				t.Errorf("message %q, annotations %q", got.Response.Result.Message, got.Response.AuditAnnotations)
			}
			if name == "warned of" || name == "denied" {
				got.Response.Warnings, got.Response.AuditAnnotations, got.Response.Result.Message = nil, nil, ""
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("the answer (-want +got):\n%s", d)
			}
		})
	}
}

func serve(t testing.TB, h http.Handler, contentType string, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "application/json" {
		t.Errorf("status %d, content type %q", w.Code, got)
	}
	return w
}

// broken is a body that ends before its time.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// What could not be read is refused by its UID: to an answer without one the API
// server would apply the failure policy, and let the object in where that is Ignore.
func TestUnreadableReviewsAreRefusedByTheirUID(t *testing.T) {
	whole := envelope(podOf(`"image":"x"`))
	for name, c := range map[string]struct {
		contentType string
		body        io.Reader
		code        int32
	}{
		"too large":       {"application/json", strings.NewReader(envelope(podOf(`"image":"` + strings.Repeat(`\u0001`, 2<<20) + `"`))), http.StatusRequestEntityTooLarge},
		"broken off":      {"application/json", broken{strings.NewReader(whole[:300])}, http.StatusBadRequest},
		"not called JSON": {"application/yaml", strings.NewReader(whole), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, validator(known{}, nil), c.contentType, c.body)
			var out admissionv1.AdmissionReview
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
				t.Fatal(err)
			}
			if r := out.Response; r == nil || r.UID != "1" || r.Allowed || r.Result.Code != c.code {
				t.Errorf("answer %+v, want code %d", r, c.code)
			}
		})
	}
}

// faulty is a cluster that the guard trips over.
type faulty struct{ known }

func (faulty) Facts(context.Context, *guard.Pod) (*guard.Facts, error) { panic("tripped") }

func TestAPanicIsARefusal(t *testing.T) {
	metrics.WebhookPanics.WithLabelValues().Add(0) // so that there is one
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.WebhookPanics)
	count := func() float64 {
		found, err := registry.Gather()
		if err != nil || len(found) != 1 {
			t.Fatalf("%d metrics, %v", len(found), err)
		}
		return found[0].GetMetric()[0].GetCounter().GetValue()
	}
	before := count()
	r := ask(t, validator(faulty{}, nil), []byte(podOf(`"image":"x"`)), nil, "")
	if r.Allowed || r.Result.Code != http.StatusInternalServerError || !strings.Contains(r.Result.Message, "tripped") {
		t.Errorf("answer %+v", r)
	}
	if got := count() - before; got != 1 {
		t.Errorf("%v panics were counted", got)
	}
}

// held is a cluster that answers when it is let go.
type held struct {
	known
	asked, letGo chan struct{}
}

func (h held) Facts(context.Context, *guard.Pod) (*guard.Facts, error) {
	h.asked <- struct{}{}
	<-h.letGo
	return &guard.Facts{}, nil
}

// Large reviews are judged one after the other, as values take much memory; they
// keep nobody else waiting.
func TestOneLargeReviewAtATime(t *testing.T) {
	large := envelope(podOf(`"image":"` + strings.Repeat("x", 600<<10) + `"`))
	first := held{asked: make(chan struct{}), letGo: make(chan struct{})}
	code := func(c review.Cluster, ctx context.Context, body string) int32 {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		admission.Validating(&review.Guard{Cluster: c}).ServeHTTP(w, r)
		var out admissionv1.AdmissionReview
		if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&out); err != nil {
			t.Error(err)
			return 0
		}
		return out.Response.Result.Code
	}
	ended := make(chan int32)
	go func() { ended <- code(first, t.Context(), large) }()
	<-first.asked
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := code(known{}, gone, large); got != http.StatusServiceUnavailable {
		t.Errorf("a second large review, whose caller gave up, has the code %d", got)
	}
	if got := code(known{}, t.Context(), envelope(podOf(`"image":"x"`))); got != http.StatusOK {
		t.Errorf("a small review has the code %d", got)
	}
	close(first.letGo)
	if got := <-ended; got != http.StatusOK {
		t.Errorf("the first large review has the code %d", got)
	}
	if got := code(known{}, t.Context(), large); got != http.StatusOK {
		t.Errorf("the next large review has the code %d", got)
	}
}
