package admission

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/review"
)

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionregv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func keeperOver(c client.Client, clock *clocktesting.FakeClock) *keeper {
	h := &hooks{client: c, exemptions: guard.Exemptions{{Namespace: "kerf-system"}}, url: "https://127.0.0.1:1"}
	return &keeper{
		client: c, clock: clock, secret: client.ObjectKey{Namespace: "kerf-system", Name: "kerf-guard-tls"},
		hosts: []string{"127.0.0.1"}, settle: 10 * time.Minute, every: time.Minute, published: h.publish,
	}
}

// Two replicas serve while certificates and authorities change over two years;
// an API server that trusts what the webhook configuration says loses no review.
func TestNoReviewFailsWhileCertificatesChange(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	c := fake.NewClientBuilder().WithScheme(scheme(t)).Build()
	var replicas []*keeper
	var addresses []string
	for range 2 {
		k := keeperOver(c, clock)
		if err := k.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: k.certificate, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
		s.Listener = l
		s.Start()
		defer s.Close()
		replicas, addresses = append(replicas, k), append(addresses, "https://"+l.Addr().String())
	}
	call := func(address string) error {
		var hook admissionregv1.ValidatingWebhookConfiguration
		if err := c.Get(t.Context(), client.ObjectKey{Name: Name}, &hook); err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(hook.Webhooks[0].ClientConfig.CABundle)
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Time: clock.Now}, DisableKeepAlives: true}}
		r, err := caller.Get(address)
		if err != nil {
			return err
		}
		return r.Body.Close()
	}
	first := replicas[0].serving.Load()
	for step := range 200 {
		clock.Step(4*24*time.Hour - time.Duration(step%2)*(4*24*time.Hour-6*time.Minute))
		for i, k := range replicas {
			if err := k.keep(t.Context()); err != nil {
				t.Fatal(err)
			}
			// The other replica has not looked yet.
			for _, address := range addresses {
				if err := call(address); err != nil {
					t.Fatalf("step %d, replica %d: %v", step, i, err)
				}
			}
		}
	}
	if bytes.Equal(first.Certificate[0], replicas[0].serving.Load().Certificate[0]) {
		t.Error("the certificate never changed")
	}
}

func TestReplicasShareOneSecret(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme(t)).Build()
	a, b := keeperOver(c, clocktesting.NewFakeClock(time.Now())), keeperOver(c, clocktesting.NewFakeClock(time.Now()))
	if a.ready(nil) == nil {
		t.Error("ready before it can serve")
	}
	for _, k := range []*keeper{a, b, a} {
		if err := k.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if a.ready(nil) != nil || !bytes.Equal(a.serving.Load().Certificate[0], b.serving.Load().Certificate[0]) {
		t.Error("two replicas serve two certificates")
	}
	var hook admissionregv1.ValidatingWebhookConfiguration
	if err := c.Get(t.Context(), client.ObjectKey{Name: Name}, &hook); err != nil {
		t.Fatal(err)
	}
	for _, w := range hook.Webhooks {
		exempt := w.NamespaceSelector.MatchExpressions[0]
		if exempt.Operator != "NotIn" || exempt.Values[0] != "kerf-system" {
			t.Errorf("%s would be asked about the guard's own pods: %v", w.Name, exempt)
		}
		if *w.FailurePolicy != admissionregv1.Ignore {
			t.Errorf("%s fails closed without being told to", w.Name)
		}
	}
}

// server is a guard behind TLS, as a manager runs it.
func server(t testing.TB) (url string, caller *http.Client) {
	t.Helper()
	log.SetLogger(logr.Discard())
	g := &review.Guard{Cluster: silent{}, Exemptions: guard.DefaultExemptions()}
	mux := http.NewServeMux()
	mux.Handle(validatePath, Validating(g))
	mux.Handle(mutatePath, Mutating(g))
	s := httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, s.Client()
}

func send(t testing.TB, caller *http.Client, url string, body []byte) {
	r, err := caller.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Contains(data, []byte(`"allowed":true`)) {
		t.Errorf("answer %.300s, %v", data, err)
	}
}

// The heap after 2,000 reviews is what it was before them.
func TestReviewsLeaveNothingBehind(t *testing.T) {
	url, caller := server(t)
	body := reviewBody(t)
	round := func(n int) {
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for range n / 4 {
					send(t, caller, url+mutatePath, body)
				}
			})
		}
		wait.Wait()
	}
	round(400)
	before := heap()
	round(2000)
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d KiB over 2,000 reviews", before>>10, after>>10)
	}
}

func reviewBody(t testing.TB) []byte {
	t.Helper()
	env := make([]map[string]any, 20)
	for i := range env {
		env[i] = map[string]any{"name": fmt.Sprintf("SETTING_%d", i), "value": "a value of some length"}
	}
	container := func(name string) map[string]any {
		return map[string]any{
			"name": name, "image": "example.com/team/app:1", "env": env,
			"resources":    map[string]any{"limits": map[string]any{"cpu": "1", "memory": "1Gi"}, "requests": map[string]any{"cpu": "1", "memory": "1Gi"}},
			"volumeMounts": []any{map[string]any{"name": "data", "mountPath": "/data"}},
		}
	}
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "app", "namespace": "team-a", "labels": map[string]any{"app": "a"}},
		"spec": map[string]any{"containers": []any{container("main"), container("sidecar")}, "volumes": []any{map[string]any{"name": "data", "emptyDir": map[string]any{}}}},
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]any{"uid": "1", "kind": map[string]any{"version": "v1", "kind": "Pod"}, "operation": "CREATE", "namespace": "team-a", "object": pod},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
