package install

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// read reads files called f0.yaml, f1.tf and so on, by what their text looks like.
func read(t *testing.T, texts ...string) (Result, []string) {
	t.Helper()
	var docs []manifest.Document
	for i, text := range texts {
		name := fmt.Sprintf("f%d.yaml", i)
		if strings.HasPrefix(text, "resource") {
			name = fmt.Sprintf("f%d.tf", i)
		}
		more, notes := source.Parse(source.File{Name: name, Data: []byte(text)})
		for _, n := range notes {
			t.Errorf("the test's own text: %s %s", n.Place, n.Text)
		}
		docs = append(docs, more...)
	}
	res, notes := Read(docs, source.Nested)
	var said []string
	for _, n := range notes {
		said = append(said, fmt.Sprintf("%s %s %s %s: %s", n.Severity, n.Code, n.Place, n.Place.Field, n.Text))
	}
	return res, said
}

const slices10 = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}"

// block puts a text into a block scalar.
func block(indent, text string) string {
	return "|\n" + indent + strings.ReplaceAll(text, "\n", "\n"+indent) + "\n"
}

// replicas tells of each config how many replicas it makes, 0 for none.
func replicas(s model.Sharing) map[string]int64 {
	out := map[string]int64{}
	for name, c := range s.Configs {
		out[name] = 0
		if c.TimeSlicing != nil {
			for _, r := range c.TimeSlicing.Resources {
				out[name] = r.Replicas
			}
		}
	}
	return out
}

func TestConfigsAreFoundWhereverTheyAreInstalledFrom(t *testing.T) {
	values := "config:\n  map:\n    default: |\n      version: v1\n    ten: |\n      version: v1\n      sharing: {timeSlicing: {resources: [{name: gpu, replicas: 10}]}}\n"
	indented := func(by string) string {
		return strings.ReplaceAll(strings.TrimSuffix(values, "\n"), "\n", "\n"+by)
	}
	application := func(helm string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: nvdp, namespace: argocd}\nspec:\n  destination: {namespace: nvidia}\n" +
			"  source:\n    chart: nvidia-device-plugin\n    targetRevision: 0.17.1\n    helm:\n" + helm
	}
	both := map[string]int64{"default": 0, "ten": 10}
	tests := map[string]struct {
		texts []string
		want  map[string]int64
		def   string
	}{
		"a values file":                 {[]string{values}, both, ""},
		"a helm_release with a heredoc": {[]string{"resource \"helm_release\" \"x\" {\n  name = \"x\"\n  namespace = \"gpu\"\n  chart = \"nvdp/nvidia-device-plugin\"\n  values = [<<-EOT\n    " + indented("    ") + "\n  EOT\n  ]\n}\n"}, both, ""},
		"an Application's valuesObject": {[]string{application("      valuesObject:\n        " + indented("        "))}, both, ""},
		"an Application's values":       {[]string{application("      values: |\n        " + indented("        "))}, both, ""},
		"parameters over values":        {[]string{application("      values: |\n        " + indented("        ") + "\n      parameters: [{name: config.default, value: ten}]")}, both, "ten"},
		"a value file of an Application": {
			[]string{application("      valueFiles: [$ref/f1.yaml]\n      valuesObject: {config: {default: ten}}"), values}, both, "ten",
		},
		"an ApplicationSet": {
			[]string{"apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: s}\nspec: {template: {spec: {source: {chart: nvidia-device-plugin, helm: {valuesObject: {config: {map: {default: ''}}}}}}}}"},
			map[string]int64{"default": 0},
			"",
		},
		"a Flux HelmRelease":           {[]string{"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: x, namespace: gpu}\nspec:\n  chart: {spec: {chart: nvidia-device-plugin, version: 0.17.1}}\n  values:\n    " + indented("    ")}, both, ""},
		"a ConfigMap that values name": {[]string{"config: {name: dp, default: ten}\nmigStrategy: none", configMap("gpu", "dp", "ten", slices10) + "  other: anything\n"}, map[string]int64{"ten": 10, "other": 0}, "ten"},
		"a config that shares nothing, known by its neighbour": {
			[]string{configMap("gpu", "dp", "ten", slices10) + "  default: 'version: v1'\n  release: 'version: v2'\n"}, map[string]int64{"ten": 10, "default": 0}, "",
		},
		"a ConfigMap that nothing names": {[]string{configMap("gpu", "dp", "ten", slices10) + "  other: anything\n"}, map[string]int64{"ten": 10}, ""},
		"the GPU operator's values":      {[]string{"devicePlugin: {config: {name: dp, default: ten}}", configMap("gpu", "dp", "ten", slices10)}, map[string]int64{"ten": 10}, "ten"},
		"configs in the operator's data": {[]string{"devicePlugin:\n  config:\n    create: true\n    name: dp\n    data:\n      ten: " + block("        ", slices10)}, map[string]int64{"ten": 10}, ""},
		"a ClusterPolicy":                {[]string{"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {devicePlugin: {config: {name: dp, default: ten}}}", configMap("gpu", "dp", "ten", slices10)}, map[string]int64{"ten": 10}, "ten"},
		"a bare config file":             {[]string{slices10}, map[string]int64{"f0": 10}, ""},
		"an empty config is a config":    {[]string{"config: {map: {default: ''}}"}, map[string]int64{"default": 0}, ""},
		"a rendered chart": {
			[]string{daemonSet("      - {name: m, image: 'nvcr.io/nvidia/k8s-device-plugin:v0.17.1', command: [config-manager], env: [{name: DEFAULT_CONFIG, value: ten}], volumeMounts: [{name: c}]}\n"), configMap("", "dp", "ten", slices10)},
			map[string]int64{"ten": 10},
			"ten",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, said := read(t, tt.texts...)
			if diff := cmp.Diff(tt.want, replicas(res.Sharing)); diff != "" {
				t.Errorf("configs (-want +got):\n%s", diff)
			}
			if len(res.Plugins) > 1 {
				t.Errorf("%d installations, want one at most: %v", len(res.Plugins), res.Plugins)
			}
			if res.Sharing.Default != tt.def {
				t.Errorf("default %q, want %q", res.Sharing.Default, tt.def)
			}
			if len(said) > 0 && name != "a ConfigMap that values name" {
				t.Errorf("unexpected notes: %q", said)
			}
		})
	}
}

func configMap(namespace, name, key, text string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: '" + namespace + "'}\ndata:\n  " + key + ": " + block("    ", text)
}

// daemonSet is the plugin's DaemonSet with more containers.
func daemonSet(more string) string {
	return "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: dp}\nspec:\n  template:\n    spec:\n      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]\n" +
		"      volumes: [{name: c, configMap: {name: dp}}]\n      containers:\n      - {name: p, image: 'nvcr.io/nvidia/k8s-device-plugin:v0.17.1'}\n" + more
}

func TestPluginIsReadAsItWouldRun(t *testing.T) {
	ten := []model.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists", Effect: "NoSchedule"}}
	tests := map[string]struct {
		text string
		want model.Plugin
	}{
		"seed 1's Application": {
			"apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: nvidia-device-plugin}\nspec:\n  source:\n    chart: nvidia-device-plugin\n    targetRevision: 0.14.3\n    helm: {valuesObject: {nodeSelector: {a: b}}}",
			model.Plugin{Name: "nvidia-device-plugin", ChartVersion: "0.14.3", Chart: true, NodeSelector: map[string]string{"a": "b"}, Place: model.Place{File: "f0.yaml", Line: 1, Object: "Application nvidia-device-plugin"}},
		},
		"tolerations, affinity and feature discovery of a values file": {
			"gfd: {enabled: true}\ntolerations: []\nnfd: {worker: {tolerations: [{operator: Exists}]}}\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}\nmigStrategy: none",
			model.Plugin{
				Name: "f0", Chart: true, AffinitySet: true, TolerateSet: true, GFD: true, NFD: true, NFDTolerations: []model.Toleration{{Operator: "Exists"}},
				Affinity: []model.Term{{{Key: "a", Operator: model.In, Values: []string{"b"}, Line: 4}}}, Place: model.Place{File: "f0.yaml", Line: 1},
			},
		},
		"a chart's archive tells the version": {
			"resource \"helm_release\" \"x\" {\n  name = \"x\"\n  namespace = \"gpu\"\n  chart = \"https://nvidia.github.io/k8s-device-plugin/stable/nvidia-device-plugin-0.14.3.tgz\"\n  set {\n    name = \"affinity\"\n    value = \"null\"\n  }\n}\n",
			model.Plugin{Name: "x", ChartVersion: "0.14.3", Chart: true, AffinitySet: true, Place: model.Place{File: "f0.tf", Line: 1, Object: "helm_release.x"}},
		},
		"the static manifest reads no config": {
			daemonSet(""),
			model.Plugin{Name: "dp", AffinitySet: true, Tolerations: ten, TolerateSet: true, NoConfig: true, Place: model.Place{File: "f0.yaml", Line: 1, Object: "DaemonSet dp"}},
		},
		"the GPU operator brings feature discovery": {
			"driver: {enabled: false}\ntoolkit: {enabled: true}",
			model.Plugin{Name: "f0", AffinitySet: true, Tolerations: ten, TolerateSet: true, NFD: true, GFD: true, Place: model.Place{File: "f0.yaml", Line: 1}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, said := read(t, tt.text)
			if diff := cmp.Diff([]model.Plugin{tt.want}, res.Plugins); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			if len(said) > 0 {
				t.Errorf("unexpected notes: %q", said)
			}
		})
	}
}

func TestMistakesOfAnInstallationAreNamed(t *testing.T) {
	application := "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec:\n  destination: {namespace: gpu}\n  source:\n    chart: nvidia-device-plugin\n    helm:\n"
	tests := map[string]struct {
		texts []string
		want  []string
	}{
		"a null that Argo CD loses": {
			[]string{application + "      valuesObject:\n        affinity: null\n"},
			[]string{"warning argocd-null f0.yaml:10 spec.source.helm.valuesObject.affinity: affinity: null does not reach Helm, as Argo CD loses nulls in valuesObject; the chart's default stays in force"},
		},
		"a value file that was not given": {
			[]string{application + "      valueFiles:\n      - values.yaml\n"},
			[]string{"warning values-unread f0.yaml:10 helm.valueFiles: the value file values.yaml is not among the files; the chart's defaults count in its place"},
		},
		"an empty affinity, which Helm merges": {
			[]string{"affinity: {}\nmigStrategy: none"},
			[]string{"info chart-no-effect f0.yaml:1 affinity: affinity: {} leaves the chart's default affinity in force, as Helm merges maps"},
		},
		"config.name with config.map": {
			[]string{"config:\n  name: dp\n  map: {default: ''}", configMap("gpu", "dp", "x", "version: v1\n")},
			[]string{"error chart-refuses f0.yaml:2 config.name: the chart refuses config.name together with config.map; both are read here"},
		},
		"no default among the configs": {
			[]string{"config:\n  map:\n    a: ''\n    b: ''"},
			[]string{"error chart-refuses f0.yaml:3 config.map: the chart refuses these configs: none of them is the default for nodes without the label nvidia.com/device-plugin.config"},
		},
		"a default that does not exist": {
			[]string{"config:\n  default: c\n  map:\n    a: ''\n    b: ''"},
			[]string{"error config-default f0.yaml:2 config.default: the default config c does not exist, so the plugin would not start on nodes without the label nvidia.com/device-plugin.config; there are: a, b"},
		},
		"a ConfigMap that was not given": {
			[]string{"config:\n  name: dp\n  default: x\nmigStrategy: none"},
			[]string{"warning config-missing f0.yaml:2 config.name: the device configs of the plugin are in ConfigMap dp, which is not among the files"},
		},
		"a value that the chart does not have, with where it belongs": {
			[]string{"migStrategy: none\nfallbackStrategies: [named]\ngfd: {Enabled: true}"},
			[]string{
				"warning chart-value f0.yaml:2 fallbackStrategies: the device-plugin chart has no value fallbackStrategies, so it has no effect",
				"warning chart-value f0.yaml:3 gfd.Enabled: the device-plugin chart has no value gfd.Enabled, so it has no effect",
			},
		},
		"a config that is a map and not a text": {
			[]string{"config:\n  map:\n    default:\n      version: v1\n"},
			[]string{"error config-text f0.yaml:3 config.map.default: the config default is a map, and the chart wants its text, so the plugin could not read it; it is read here as it is meant"},
		},
		"a mistake in a config keeps the others, and its line": {
			[]string{"config:\n  map:\n    default: |\n      version: v1\n      sharing:\n        timeSlicing:\n          replicas: 4\n    bad: |\n      a: 1\n       b: 2\n"},
			nil,
		},
		"the static manifest beside a ConfigMap": {
			[]string{daemonSet(""), configMap("gpu", "dp", "ten", slices10)},
			[]string{"warning config-unread f1.yaml:6 data.ten: the plugin is installed by a manifest that reads no config, so this one has no effect"},
		},
		"a ConfigMap that the installation does not name": {
			[]string{"config: {map: {default: ''}}", configMap("gpu", "dp", "ten", slices10)},
			[]string{"warning config-unread f1.yaml:6 data.ten: no installation of the plugin here names this ConfigMap, so this config has no effect"},
		},
		"two configs of one name": {
			[]string{slices10, "config: {map: {f0: ''}}"},
			[]string{"warning config-twice f1.yaml:1 config.map.f0: the device config f0 is given here and at f0.yaml:1, and they differ; that of f1.yaml:1 counts"},
		},
		"the namespace that the chart refuses": {
			[]string{"resource \"helm_release\" \"x\" {\n  name = \"x\"\n  chart = \"nvidia-device-plugin\"\n}\n"},
			[]string{"error chart-refuses f0.tf:1 : the chart refuses to be installed in namespace default unless allowDefaultNamespace is true"},
		},
		"charts that are not read are named once": {
			[]string{"resource \"helm_release\" \"x\" {\n  chart = \"karpenter\"\n}\nresource \"helm_release\" \"y\" {\n  chart = \"keda\"\n}\n"},
			[]string{"info not-modelled f0.tf:2 : what this installs (karpenter) is not rendered, so its pods are not in the plan; so of 1 more"},
		},
		"a set block whose name is no path": {
			[]string{"resource \"helm_release\" \"x\" {\n  namespace = \"gpu\"\n  chart = \"nvidia-device-plugin\"\n  set {\n    name = \"a[x]\"\n    value = 1\n  }\n}\n"},
			[]string{"error set-path f0.tf:5 : the name \"a[x]\" is no path to a value: the index in brackets must be a number from 0 to 65536"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, said := read(t, tt.texts...)
			if tt.want == nil { // the words are those of the decoder; the places are ours
				for i, want := range []string{
					"error device-config f0.yaml:7 config.map.default.sharing.timeSlicing.replicas: ", "error device-config f0.yaml:7 config.map.default.sharing.timeSlicing: ",
					"error syntax f0.yaml:10 config.map.bad: ",
				} {
					if i >= len(said) || !strings.HasPrefix(said[i], want) {
						t.Errorf("notes %q, want one that begins %q", said, want)
					}
				}
				return
			}
			if diff := cmp.Diff(tt.want, said); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMIGStrategyAndLayouts(t *testing.T) {
	layouts := "version: v1\nmig-configs:\n  halves:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {3g.20gb: 2}\n"
	want := map[string]deviceconfig.MIGConfig{"halves": {{Enabled: true, MIGDevices: map[string]int64{"3g.20gb": 2}}}}
	for name, texts := range map[string][]string{
		"a mig-parted file":             {layouts},
		"a ConfigMap":                   {configMap("gpu", "parted", "config.yaml", layouts)},
		"a ConfigMap the operator uses": {"mig: {strategy: mixed}\nmigManager: {config: {name: parted}}\n", configMap("gpu", "parted", "config.yaml", layouts)},
	} {
		t.Run(name, func(t *testing.T) {
			res, said := read(t, texts...)
			if diff := cmp.Diff(want, res.Sharing.MIG); diff != "" || len(said) > 0 {
				t.Errorf("layouts (-want +got):\n%s%q", diff, said)
			}
		})
	}
	res, _ := read(t, "migStrategy: mixed\nconfig: {map: {default: 'flags: {migStrategy: none}'}}")
	if got := res.Sharing.Configs["default"].Flags.MIGStrategy; got != "mixed" {
		t.Errorf("strategy %q: the chart's value must win over the config's", got)
	}
	res, _ = read(t, "migStrategy: mixed\n")
	if len(res.Sharing.Configs) != 1 || res.Sharing.Configs["values of f0"].Flags.MIGStrategy != "mixed" {
		t.Errorf("configs %v: the chart's strategy must count without any config", res.Sharing.Configs)
	}
}

func TestSetFollowsHelm(t *testing.T) {
	tests := map[string]struct{ name, value, want string }{
		"a path of names":         {"a.b", "x", `{"k":1,"a":{"b":"x"}}`},
		"a dot in a name":         {`a\.b`, "x", `{"k":1,"a.b":"x"}`},
		"a list index":            {"l[1].x", "1", `{"k":1,"l":[null,{"x":1}]}`},
		"true is a boolean":       {"k", "true", `{"k":true}`},
		"null unsets":             {"k", "null", `{"k":null}`},
		"a number":                {"k", "12", `{"k":12}`},
		"a leading zero is text":  {"k", "012", `{"k":"012"}`},
		"a fraction is text":      {"k", "0.5", `{"k":"0.5"}`},
		"braces make a list":      {"k", "{a, b}", `{"k":["a","b"]}`},
		"a comma with a backlash": {"k", `a\,b`, `{"k":"a,b"}`},
	}
	values := &manifest.Node{Kind: manifest.Map, Fields: []manifest.Field{{Name: "k", Value: &manifest.Node{Kind: manifest.Number, Text: "1"}}}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			steps, err := parsePath(tt.name)
			if err != nil {
				t.Fatal(err)
			}
			got := put(values, steps, typed(&manifest.Node{Kind: manifest.String, Text: tt.value}, false))
			if diff := cmp.Diff(tt.want, string(got.JSON())); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
	for _, bad := range []string{"", "a..b", ".a", "[0]", "a[", "a[-1]", "a[99999999]"} {
		if steps, err := parsePath(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, steps)
		}
	}
	if got := string(values.JSON()); got != `{"k":1}` {
		t.Errorf("the argument was written to: %s", got)
	}
}

func TestSeeds(t *testing.T) {
	files, err := source.Read([]string{"../../../shared/seeds/manifests"}, nil)
	if err != nil {
		t.Skip("the seeds' manifests are not here: ", err)
	}
	docs, _ := source.ParseAll(files)
	res, notes := Read(docs, source.Nested)
	if diff := cmp.Diff(map[string]int64{"default": 0, "shared_gpu": 10}, replicas(res.Sharing)); diff != "" {
		t.Errorf("configs (-want +got):\n%s", diff)
	}
	if line := res.Sharing.Places["shared_gpu"].Line; line != 17 {
		t.Errorf("shared_gpu on line %d, want 17", line)
	}
	var plugins []string
	for _, p := range res.Plugins {
		plugins = append(plugins, p.Name+" "+p.ChartVersion)
	}
	if diff := cmp.Diff([]string{"nvidia-device-plugin 0.14.3", "nvdp "}, plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	if len(notes) > 0 {
		t.Errorf("unexpected notes: %v", notes)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("config: {name: a, default: b, map: {a: 'version: v1'}}")
	f.Add(daemonSet("") + "---\n" + configMap("gpu", "dp", "ten", slices10))
	f.Add("apiVersion: argoproj.io/v1alpha1\nkind: Application\nspec: {sources: [{chart: nvidia-device-plugin, helm: {values: 'a: b', parameters: [{name: 'a[0]', value: '{x}'}]}}]}")
	f.Add("driver: {}\ntoolkit: {}\nmig: {strategy: mixed}\nmigManager: {config: {create: true, data: {x: 'mig-configs: {}'}}}")
	f.Fuzz(func(_ *testing.T, text string) {
		docs, _ := source.Parse(source.File{Name: "f.yaml", Data: []byte(text)})
		Read(docs, source.Nested)
	})
}

func TestKerfsOwnChart(t *testing.T) {
	res, said := read(t, "config:\n  map:\n    ten: "+block("      ", slices10)+"controller:\n  settings:\n    clusterName: prod\nhealth: {disable: all}\nmps: {enabled: true}\n")
	if len(said) > 0 || len(res.Plugins) != 1 {
		t.Fatalf("plugins %v, said %v", res.Plugins, said)
	}
	p := res.Plugins[0]
	if p.Chart || !p.AffinitySet || len(p.Affinity) != len(kerfAffinity) || !p.GFD || p.Name != "f0-node" {
		t.Errorf("NVIDIA's defaults count: %+v", p)
	}
	if diff := cmp.Diff([]model.Toleration{{Operator: "Exists"}}, p.Tolerations); diff != "" {
		t.Errorf("a taint may keep the agent off: %s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"ten": 10}, replicas(res.Sharing)); diff != "" {
		t.Error(diff)
	}
	t.Run("a nodeSelector alone decides", func(t *testing.T) {
		res, _ := read(t, "nodeSelector: {gpu: a}\ncontroller: {enabled: false, settings: {}}\n")
		if p := res.Plugins[0]; len(p.Affinity) != 0 || p.NodeSelector["gpu"] != "a" {
			t.Errorf("affinity %v, selector %v", p.Affinity, p.NodeSelector)
		}
	})
	t.Run("a misspelt value is one at which helm fails", func(t *testing.T) {
		_, said := read(t, "migStrategie: mixed\ncontroller: {settings: {}}\n")
		if len(said) != 1 || !strings.Contains(said[0], "kerf's chart has no value migStrategie") {
			t.Errorf("said %v", said)
		}
	})
	t.Run("an Application of it", func(t *testing.T) {
		res, _ := read(t, "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: kerf}\nspec: {source: {path: charts/kerf, helm: {valuesObject: {config: {name: mine}}}}}\n")
		if len(res.Plugins) != 1 || res.Plugins[0].Chart || res.Plugins[0].ConfigNames[0] != "mine" {
			t.Errorf("plugins %+v", res.Plugins)
		}
	})
}

// What the chart renders is read back by the controller: kerf-node has no config
// manager beside it.
func TestADaemonSetOfKerfNodeFollowsItsConfigMap(t *testing.T) {
	daemonSet := `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kerf-node, namespace: kerf-system}
spec:
  template:
    spec:
      containers:
      - name: kerf-node
        image: ghcr.io/kerfdev/kerf-node:v1
        args: [serve]
        env: [{name: CONFIG_FILE_SRCDIR, value: /available-configs}, {name: DEFAULT_CONFIG, value: ten}, {name: MIG_STRATEGY, value: mixed}]
        volumeMounts: [{name: configs, mountPath: /available-configs}]
      volumes: [{name: configs, configMap: {name: kerf-configs}}]
`
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kerf-configs, namespace: kerf-system}\ndata:\n  ten: " + block("    ", slices10) + "  whole: 'version: v1'\n"
	res, said := read(t, daemonSet, configMap)
	if len(said) > 0 || len(res.Plugins) != 1 || res.Plugins[0].NoConfig || !res.Plugins[0].GFD {
		t.Fatalf("plugins %+v, said %v", res.Plugins, said)
	}
	if diff := cmp.Diff(map[string]int64{"ten": 10, "whole": 0}, replicas(res.Sharing)); diff != "" || res.Sharing.Default != "ten" {
		t.Errorf("default %q, configs %s", res.Sharing.Default, diff)
	}
	if got := res.Sharing.Configs["ten"].Flags.MIGStrategy; got != "mixed" {
		t.Errorf("the variable wins over the config, and the strategy is %q", got)
	}
}

// What is read of the chart's values is what is read of the objects that the
// chart renders from them.
func TestKerfsChartIsReadAsItRenders(t *testing.T) {
	for _, name := range []string{"default", "full", "nvidia", "simulated"} {
		t.Run(name, func(t *testing.T) {
			result := func(file string) Result {
				data, err := os.ReadFile("../../charts/kerf/testdata/" + file)
				if err != nil {
					t.Fatal(err)
				}
				docs, _ := source.Parse(source.File{Name: file, Data: data})
				res, notes := Read(docs, source.Nested)
				for _, n := range notes {
					t.Errorf("%s %s", n.Place, n.Text)
				}
				return res
			}
			values, rendered := result(name+".values.yaml"), result(name+".yaml")
			if len(values.Plugins) != len(rendered.Plugins) {
				t.Fatalf("the values install %d plugins, the objects %d", len(values.Plugins), len(rendered.Plugins))
			}
			for i, v := range values.Plugins {
				r := rendered.Plugins[i]
				lines := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Line" }, cmp.Ignore())
				if diff := cmp.Diff([]any{v.NodeSelector, v.Affinity, v.Tolerations, v.GFD}, []any{r.NodeSelector, r.Affinity, r.Tolerations, r.GFD}, lines); diff != "" {
					t.Errorf("where it runs (-values +objects):\n%s", diff)
				}
			}
			if diff := cmp.Diff([]any{values.Sharing.Default, values.Sharing.Configs}, []any{rendered.Sharing.Default, rendered.Sharing.Configs}); diff != "" {
				t.Errorf("configs (-values +objects):\n%s", diff)
			}
		})
	}
}
