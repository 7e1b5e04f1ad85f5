package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kubeconfig is that of a server without credentials.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server + "'}}]\ncontexts: [{name: c, context: {cluster: c}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An uninstall takes the labels off every node of the agents, however many, and
// a node that refuses keeps them on no other.
func TestLabelsAreRemovedEverywhere(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		switch {
		case r.Method == "GET" && r.URL.Query().Get("labelSelector") == "nvidia.com/gpu.present=true":
			page := map[string]any{"metadata": map[string]string{"continue": "more"}, "items": []any{node("a"), node("b")}}
			if r.URL.Query().Get("continue") == "more" {
				page = map[string]any{"metadata": map[string]string{}, "items": []any{node("c")}}
			}
			_ = json.NewEncoder(w).Encode(page)
		case r.Method == "PATCH" && r.URL.Path == "/api/v1/nodes/b":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message": "b stays as it is"}`)
		case r.Method == "PATCH":
			fmt.Fprint(w, "{}")
		default:
			t.Errorf("unexpected %s %s", r.Method, r.URL)
		}
	}))
	defer server.Close()
	var out, errs bytes.Buffer
	code := Main([]string{"labels", "--remove", "--all", "--kubeconfig", kubeconfig(t, server.URL)}, Streams{Out: &out, Err: &errs, Env: func(string) (string, bool) { return "", false }})
	if code != exitUnusable || !strings.Contains(errs.String(), "label node b: b stays as it is") {
		t.Errorf("exit code %d, said %q", code, errs.String())
	}
	if diff := cmp.Diff("labels removed from a\nlabels removed from c\n", out.String()); diff != "" {
		t.Error(diff)
	}
	if n := len(slices.DeleteFunc(asked, func(s string) bool { return !strings.HasPrefix(s, "PATCH") })); n != 3 {
		t.Errorf("%d nodes were patched", n)
	}
}

func node(name string) map[string]any {
	return map[string]any{"metadata": map[string]string{"name": name}}
}
