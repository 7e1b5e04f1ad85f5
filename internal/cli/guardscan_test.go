package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// limited is an API server that lets nobody list anything but pods.
func limited(t *testing.T) (kubeconfig string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/pods" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}`)
			return
		}
		fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [
			{"metadata": {"name": "app", "namespace": "team-a", "uid": "1"}, "status": {"phase": "Running"},
			 "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}}]}`)
	}))
	t.Cleanup(s.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
		"clusters": [{"name": "a", "cluster": {"server": "` + s.URL + `"}}], "users": [{"name": "a", "user": {}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// An auditor who may list pods and nothing else is told what is found in them
// and what was not looked at, and the evidence claims no more.
func TestAScanOfAClusterByWhoMayListLittle(t *testing.T) {
	evidence := filepath.Join(t.TempDir(), "evidence.md")
	var out, said bytes.Buffer
	code := Main([]string{"guard", "scan", "--kubeconfig", limited(t), "--evidence", evidence}, Streams{
		In: strings.NewReader(""), Out: &out, Err: &said, Getenv: func(string) string { return "" },
	})
	if code != exitFindings {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	for _, part := range []string{
		"\n           Pod team-a/app  spec.containers[0].env[0]\n", "sets NVIDIA_VISIBLE_DEVICES to all", "the cluster does not let you list cronjobs, so the scan is made without them",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the scan does not say %q:\n%s", part, out.String())
		}
	}
	if strings.Contains(out.String(), "storageclasses") {
		t.Errorf("the scan misses what it does not look at:\n%s", out.String())
	}
	text, err := os.ReadFile(evidence)
	if err != nil || !strings.Contains(string(text), "not read: the cluster does not let you list cronjobs") {
		t.Errorf("evidence, %v:\n%s", err, text)
	}
}
