package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

const dir = "../../charts/kerf"

var kerf = Release{Name: "kerf", Namespace: "kerf-system"}

// render renders the chart with values that it must take.
func render(t *testing.T, values string) Rendered {
	t.Helper()
	out, err := Render(dir, []byte(values), kerf)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const onAWS = "controller: {settings: {clusterName: prod}}\n"

func TestGolden(t *testing.T) {
	files, err := filepath.Glob(dir + "/testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no values", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".values.yaml"), func(t *testing.T) {
			got := render(t, read(t, file))
			for _, sign := range []string{"<no value>", "{{", "%!", "<nil>", "null"} {
				if strings.Contains(got.Text, sign) || strings.Contains(got.Notes, sign) {
					t.Errorf("something was not rendered: %q is in the output", sign)
				}
			}
			text := got.Text + "---\n# Notes\n# " + strings.ReplaceAll(got.Notes, "\n", "\n# ") + "\n"
			text = strings.ReplaceAll(text, "# \n", "#\n")
			golden := strings.Replace(file, ".values.yaml", ".yaml", 1)
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(read(t, golden), text); d != "" {
				t.Errorf("%s is not up to date; run make update (-have +rendered):\n%s", golden, d)
			}
		})
	}
}

func TestEveryObjectHasItsNamespace(t *testing.T) {
	wide := []string{"ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
	seen := map[string]bool{}
	for _, o := range render(t, read(t, dir+"/testdata/full.values.yaml")).Objects {
		if id := o.text("kind") + " " + o.namespace() + "/" + o.name(); seen[id] || o.name() == "" {
			t.Errorf("%s is there twice, or has no name", id)
		} else {
			seen[id] = true
		}
		if (o.namespace() == "") != slices.Contains(wide, o.text("kind")) {
			t.Errorf("%s %s is in namespace %q", o.text("kind"), o.name(), o.namespace())
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		values, want string
		to           Release
	}{
		"a key that does not exist":            {values: onAWS + "migStrategie: mixed", want: "migStrategie"},
		"a misspelt key of a config":           {values: onAWS + "config: {maps: {}}", want: "maps"},
		"a misspelt key of the controller":     {values: "controller: {clusterName: prod}", want: "clusterName"},
		"an unknown gate":                      {values: "controller: {settings: {clusterName: prod, featureGates: {nodeOverlay: true}}}", want: "nodeOverlay"},
		"a strategy that does not exist":       {values: onAWS + "deviceListStrategy: [cdi]", want: "/deviceListStrategy"},
		"a MIG strategy that does not exist":   {values: onAWS + "migStrategy: all", want: "/migStrategy"},
		"Tegra, which is not served":           {values: onAWS + "deviceDiscoveryStrategy: tegra", want: "/deviceDiscoveryStrategy"},
		"a config that is a map and no text":   {values: onAWS + "config: {map: {default: {version: v1}}}", want: "/config/map/default"},
		"a toleration that is misspelt":        {values: onAWS + "tolerations: [{keys: nvidia.com/gpu}]", want: "keys"},
		"a config map given twice":             {values: onAWS + "config: {name: mine, map: {default: 'version: v1'}}", want: "config.name and config.map are both set"},
		"a default that is no config":          {values: onAWS + "config: {default: five, map: {four: 'version: v1'}}", want: "config.default is five, and config.map has only four"},
		"configs without a default":            {values: onAWS + "config: {map: {four: 'version: v1', two: 'version: v1'}}", want: "config.map has four, two and nothing says"},
		"a config that is no YAML":             {values: onAWS + "config: {map: {default: 'a: [b'}}", want: "config.map.default is no YAML"},
		"the image of NVIDIA's plugin":         {values: onAWS + "image: {repository: nvcr.io/nvidia/k8s-device-plugin}", want: "name an image with kerf-node in its name"},
		"aws without a cluster":                {values: "{}", want: "controller.settings.clusterName is required on aws"},
		"a service account that is nobody's":   {values: "controller: {settings: {clusterName: prod}, serviceAccount: {create: false}}", want: "controller.serviceAccount.name is required"},
		"the namespace default":                {values: onAWS, want: "the namespace is default", to: Release{Name: "kerf", Namespace: "default"}},
		"a namespace among the values":         {values: onAWS + "namespace: gpu", want: "namespace"},
		"a duration that is none":              {values: "controller: {gpuDeadline: 10 minutes}", want: "/controller/gpuDeadline"},
		"a port that is none":                  {values: onAWS + "metricsPort: 80800", want: "/metricsPort"},
		"an unknown cloud":                     {values: "controller: {cloud: gcp}", want: "/controller/cloud"},
		"a fallback that does not exist":       {values: onAWS + "config: {fallbackStrategies: [first]}", want: "/config/fallbackStrategies"},
		"a section that belongs below another": {values: "settings: {clusterName: prod}", want: "settings"},
	} {
		t.Run(name, func(t *testing.T) {
			to := kerf
			if c.to.Name != "" {
				to = c.to
			}
			_, err := Render(dir, []byte(c.values), to)
			if err == nil {
				t.Fatal("it was taken")
			}
			if text := strings.NewReplacer("'", "", "at /", "/").Replace(err.Error()); !strings.Contains(text, c.want) {
				t.Errorf("refused with %q, which does not say %q", err, c.want)
			}
		})
	}
}

// Values and schema know the same keys.
func TestTheSchemaIsComplete(t *testing.T) {
	var schema property
	if err := json.Unmarshal([]byte(read(t, dir+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(read(t, dir+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	compare(t, "", schema, values)
}

type property struct {
	Properties map[string]property `json:"properties"`
}

func compare(t *testing.T, at string, p property, values map[string]any) {
	for name, inner := range p.Properties {
		v, there := values[name]
		optional := at == "" && name == "global" || at == ".updateStrategy" || at == ".controller.podDisruptionBudget"
		if !there && !optional {
			t.Errorf("values.yaml does not say that there is %s.%s", at, name)
		}
		if m, ok := v.(map[string]any); ok && len(inner.Properties) > 0 {
			compare(t, at+"."+name, inner, m)
		}
	}
	for name := range values {
		if _, there := p.Properties[name]; !there {
			t.Errorf("the schema does not know %s.%s", at, name)
		}
	}
}

// Templates read no value that does not exist, which helm would take for empty.
func TestTemplatesReadWhatThereIs(t *testing.T) {
	var schema property
	if err := json.Unmarshal([]byte(read(t, dir+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	templates, err := filepath.Glob(dir + "/templates/*")
	if err != nil || len(templates) == 0 {
		t.Fatal("no templates", err)
	}
	for _, file := range templates {
		for _, found := range regexp.MustCompile(`\.Values((?:\.[A-Za-z]+)+)`).FindAllStringSubmatch(read(t, file), -1) {
			at := schema
			for name := range strings.SplitSeq(found[1][1:], ".") {
				next, there := at.Properties[name]
				if !there {
					t.Errorf("%s reads %s", filepath.Base(file), found[0])
				}
				at = next
			}
		}
	}
}

// Every value at the top, and every section of the controller, stands below a
// comment or beside neighbours that one speaks of.
func TestValuesAreDocumented(t *testing.T) {
	told := false
	for i, line := range strings.Split(read(t, dir+"/values.yaml"), "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "":
			told = false
		case strings.HasPrefix(trimmed, "#"):
			told = true
		case !told && !plain[strings.SplitN(trimmed, ":", 2)[0]]:
			t.Errorf("values.yaml:%d: nothing says what %q means", i+1, trimmed)
		}
	}
}

// plain are values that are what Kubernetes means by the name.
var plain = map[string]bool{"controller": true, "devicePlugin": true, "mps": true, "cdi": true, "metricsPort": true, "serviceAccount": true}

// daemonSet is the agent's.
func daemonSet(t *testing.T, values string) Object {
	t.Helper()
	for _, o := range render(t, values).Objects {
		if o.text("kind") == "DaemonSet" {
			return o
		}
	}
	t.Fatal("no DaemonSet")
	return nil
}

func TestTheSecurityOfTheAgent(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"nothing that it does not need": {"", `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"time-slicing needs no more":    {"config: {map: {default: 'sharing: {timeSlicing: {resources: []}}'}}", `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"MIG needs an administrator":    {"migStrategy: mixed", `{"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"MIG in a config too":           {"config: {map: {default: 'flags: {migStrategy: single}'}}", `{"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"a ConfigMap may hold anything": {"config: {name: mine}", `{"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"volume mounts too":             {"deviceListStrategy: volume-mounts", `{"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"the CPU manager":               {"compatWithCPUManager: true", `{"privileged":true}`},
		"MPS":                           {"config: {map: {default: 'sharing: {mps: {resources: []}}'}}", `{"privileged":true}`},
		"MPS switched off":              {"mps: {enabled: false}\nconfig: {map: {default: 'sharing: {mps: {resources: []}}'}}", `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"sections that are empty":       {"config: {map: {default: \"sharing:\\nflags:\"}}", `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"what is given":                 {"securityContext: {privileged: true}\nmigStrategy: mixed", `{"privileged":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := daemonSet(t, onAWS+c.values)
			got, err := json.Marshal(d.container()["securityContext"])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
			mps := strings.Contains(c.want, "privileged") && strings.Contains(c.values, "mps")
			if pid := d.pod()["hostPID"] == true; pid != mps {
				t.Errorf("hostPID is %t", pid)
			}
		})
	}
}

// What has kept device plugins off their nodes: a default affinity for labels
// that nothing sets (k8s-device-plugin#708), and taints.
func TestWhereTheAgentRuns(t *testing.T) {
	keys := func(d Object) []string {
		var out []string
		text, _ := json.Marshal(d.pod()["affinity"])
		for _, label := range []string{"karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia.com/gpu.present", "pci-10de.present", "pci-0300_10de.present", "pci-0302_10de.present"} {
			if bytes.Contains(text, []byte(label)) {
				out = append(out, label)
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		values   string
		affinity int // labels, of five
		selector bool
	}{
		"without values":                  {"", 5, false},
		"a nodeSelector alone decides":    {"nodeSelector: {example.com/gpu: nvidia}", 0, true},
		"an empty affinity is every node": {"affinity: {}", 0, false},
		"one's own affinity":              {"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu.present, operator: Exists}]}]}}}", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := daemonSet(t, onAWS+c.values)
			if got := keys(d); len(got) != c.affinity {
				t.Errorf("the affinity names %v", got)
			}
			if _, got := d.pod()["nodeSelector"]; got != c.selector {
				t.Errorf("nodeSelector: %t", got)
			}
			if diff := cmp.Diff([]any{map[string]any{"operator": "Exists"}}, d.pod()["tolerations"]); diff != "" {
				t.Errorf("a taint may keep it off: %s", diff)
			}
		})
	}
}

// A config in the values reaches the agent under the name that nodes select.
func TestConfigsReachTheAgent(t *testing.T) {
	out := render(t, read(t, dir+"/testdata/nvidia.values.yaml"))
	var data map[string]any
	for _, o := range out.Objects {
		if o.text("kind") == "ConfigMap" && o.name() == "kerf-configs" {
			data, _ = o["data"].(map[string]any)
		}
	}
	if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, []string{"default", "shared_gpu"}) {
		t.Fatalf("the ConfigMap has %v", got)
	}
	if text, _ := data["shared_gpu"].(string); !strings.Contains(text, "replicas: 10") {
		t.Errorf("the config's text is %q", text)
	}
}

// Webhooks that outlive the guard would refuse pods or delay each one.
func TestTheWebhooksGoWithTheGuard(t *testing.T) {
	webhooks := func(values string) (out []string) {
		for _, o := range render(t, values).Objects {
			if strings.HasSuffix(o.text("kind"), "WebhookConfiguration") {
				out = append(out, o.text("kind")+" "+o.name())
				if _, has := o["webhooks"]; has {
					t.Errorf("an upgrade would overwrite what the controller has put into %s", o.name())
				}
			}
		}
		return out
	}
	on := "controller: {settings: {clusterName: prod}, guard: {enabled: true}}"
	if diff := cmp.Diff([]string{"ValidatingWebhookConfiguration kerf-guard", "MutatingWebhookConfiguration kerf-guard"}, webhooks(on)); diff != "" {
		t.Error(diff)
	}
	if got := webhooks(onAWS); len(got) > 0 {
		t.Errorf("without the guard there are %v", got)
	}
}
