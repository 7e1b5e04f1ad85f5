package nodepool

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rebuild schemas/ from the AWS provider's module, which is downloaded")

// provider is the module that the embedded schemas come from.
const provider = "github.com/aws/karpenter-provider-aws@v1.15.0"

// TestSchemas rebuilds the embedded schemas on demand and holds them against the
// Karpenter library: the provider's definitions are the library's with one rule
// more, which keeps labels of the domain karpenter.k8s.aws to those that exist.
func TestSchemas(t *testing.T) {
	if *update {
		writeSchemas(t)
		return // what was embedded is of before
	}
	for name, crd := range map[string][]byte{
		"nodepools": apis.NodePoolCRD, "nodeclaims": apis.NodeClaimCRD, "nodeoverlays": apis.NodeOverlayCRD,
	} {
		t.Run(name, func(t *testing.T) {
			data, err := schemaFiles.ReadFile("schemas/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			want := essence(t, crd)
			if diff := cmp.Diff(want, withoutAWSRules(got)); diff != "" {
				t.Errorf("run go test ./internal/nodepool -run TestSchemas -update (-library +embedded):\n%s", diff)
			}
		})
	}
}

func writeSchemas(t *testing.T) {
	t.Helper()
	dir := moduleDir(t)
	for _, name := range []string{"karpenter.sh_nodepools", "karpenter.sh_nodeclaims", "karpenter.sh_nodeoverlays", "karpenter.k8s.aws_ec2nodeclasses"} {
		crd, err := os.ReadFile(filepath.Join(dir, "pkg", "apis", "crds", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		out, err := marshal(essence(t, crd))
		if err != nil {
			t.Fatal(err)
		}
		_, short, _ := strings.Cut(name, "_")
		if err := os.WriteFile(filepath.Join("schemas", short+".json"), out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// moduleDir downloads the provider's module outside this one, whose go.mod does not need it.
func moduleDir(t *testing.T) string {
	t.Helper()
	tmp := t.TempDir()
	if err := os.WriteFile(filepath.Join(tmp, "go.mod"), []byte("module schemas\n\ngo 1.27.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "mod", "download", "-json", provider)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// essence is the schema of a definition's one version without prose and without
// status, which nobody writes.
func essence(t *testing.T, data []byte) any {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) != 1 {
		t.Fatalf("%s has %d versions, want 1", crd.Name, len(crd.Spec.Versions))
	}
	raw, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	delete(out["properties"].(map[string]any), "status")
	return withoutProse(out)
}

func withoutProse(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			if _, prose := inner.(string); k == "description" && prose {
				continue
			}
			out[k] = withoutProse(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutProse(v[i])
		}
		return out
	}
	return v
}

// withoutAWSRules leaves out the rules that the AWS provider adds.
func withoutAWSRules(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			out[k] = withoutAWSRules(inner)
		}
		return out
	case []any:
		out := []any{}
		for _, inner := range v {
			if rule, ok := inner.(map[string]any); ok && rule["message"] == awsDomainRule {
				continue
			}
			out = append(out, withoutAWSRules(inner))
		}
		return out
	}
	return v
}
