package rule

import (
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

func TestPluginTaint(t *testing.T) {
	shared := pool("gpu-shared", tainted(taint("nvidia.com/gpu-shared", "")))
	run(t, "plugin-taint", map[string]scenario{
		"a taint of one's own beside the usual one": {
			in: cluster([]model.Pool{pool("gpu"), shared}, chart("")),
			want: []said{{
				"the plugin does not tolerate nvidia.com/gpu-shared: its pods would not land on gpu-shared and no GPU would register there",
				"tolerations: [{key: CriticalAddonsOnly, operator: Exists}, {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}, {key: nvidia.com/gpu-shared, operator: Exists}]",
			}},
		},
		"given tolerations replace the chart's": {
			in: cluster([]model.Pool{pool("gpu")}, chart("0.14.3", func(p *model.Plugin) {
				p.TolerateSet, p.Tolerations = true, []model.Toleration{{Key: "sku", Operator: "Equal", Value: "true"}}
			})),
			want: []said{{
				"the plugin does not tolerate nvidia.com/gpu: its pods would not land on gpu and no GPU would register there",
				`tolerations: [{key: sku, operator: Equal, value: "true"}, {key: nvidia.com/gpu, operator: Exists}]`,
			}},
		},
		"the chart does not tolerate NoExecute": {
			in: cluster([]model.Pool{pool("gpu", tainted(model.Taint{Key: model.NvidiaGPU, Effect: model.NoExecute}))}, chart("0.14.3")),
			want: []said{{
				"the plugin does not tolerate nvidia.com/gpu: its pods would not land on gpu and no GPU would register there",
				"tolerations: [{key: CriticalAddonsOnly, operator: Exists}, {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}, {key: nvidia.com/gpu, operator: Exists}]",
			}},
		},
		"the chart's own toleration":                {in: cluster([]model.Pool{pool("gpu", tainted(taint("nvidia.com/gpu", "true")))}, chart("0.14.3"))},
		"a taint that only asks for preference":     {in: cluster([]model.Pool{pool("gpu", tainted(model.Taint{Key: "x", Effect: model.PreferNoSchedule}))}, chart("0.14.3"))},
		"a taint of a pool without GPUs":            {in: cluster([]model.Pool{pool("web", requires(in("karpenter.k8s.aws/instance-family", "m5")), tainted(taint("x", "")))}, chart("0.14.3"))},
		"a pool of everything that no GPU pod uses": {in: cluster([]model.Pool{pool("general", requires(), tainted(taint("x", "")))}, chart("0.14.3"))},
		"a plugin that selects other nodes": {in: cluster([]model.Pool{shared}, chart("0.14.3", func(p *model.Plugin) {
			p.NodeSelector = map[string]string{"team": "a"}
		}))},
		"another plugin serves the pool": {in: cluster([]model.Pool{shared}, chart("0.14.3"), model.Plugin{
			Name: "mine", Tolerations: []model.Toleration{{Operator: "Exists"}},
		})},
	})
}

func TestPluginTaintOnAPoolOfEverything(t *testing.T) {
	s := pod(model.Container{Limits: model.Resources{model.NvidiaGPU: 1}}, func(p *model.PodSpec) {
		p.Tolerations = []model.Toleration{{Key: "x", Operator: "Exists"}}
	})
	s.Pools = []model.Pool{pool("general", requires(), tainted(taint("x", "")))}
	s.Plugins = []model.Plugin{chart("0.14.3")}
	if n := byName(t, "plugin-taint").Run(s); len(n) != 1 {
		t.Errorf("a GPU pod uses the pool, so its taint matters: %v", n)
	}
}

func TestPluginAffinity(t *testing.T) {
	selector := func(p *model.Plugin) {
		p.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}
	}
	run(t, "plugin-affinity", map[string]scenario{
		"a version with the affinity": {
			in: cluster([]model.Pool{pool("gpu")}, chart("0.17.4")),
			want: []said{{
				"the default affinity of chart 0.17.4 wants a label of NFD or nvidia.com/gpu.present=true: the nodes of pool gpu have neither, so the plugin would not run there",
				`spec.template.metadata.labels of gpu: {nvidia.com/gpu.present: "true"}`,
			}},
		},
		"an unknown version with a node selector": {
			in: cluster([]model.Pool{pool("gpu"), pool("gpu-shared")}, chart("", selector)),
			want: []said{{
				"the default affinity from chart 0.15 on wants a label of NFD or nvidia.com/gpu.present=true beside the nodeSelector: the nodes of pools gpu and gpu-shared have neither, so the plugin would not run there",
				`spec.template.metadata.labels of gpu and gpu-shared: {nvidia.com/gpu.present: "true"}`,
			}},
		},
		"an Argo CD application": {
			in: cluster([]model.Pool{pool("gpu")}, chart("v0.20.0", func(p *model.Plugin) { p.Place.Object = "Application argocd/nvdp" })),
			want: []said{{
				"the default affinity of chart v0.20.0 wants a label of NFD or nvidia.com/gpu.present=true: the nodes of pool gpu have neither, so the plugin would not run there",
				`spec.template.metadata.labels of gpu: {nvidia.com/gpu.present: "true"}; affinity: null in valuesObject has no effect, as Argo CD drops nulls`,
			}},
		},
		"an older version":                 {in: cluster([]model.Pool{pool("gpu")}, chart("0.14.5"))},
		"the label on the pool":            {in: cluster([]model.Pool{pool("gpu", labels(labelGPUPresent, "true"))}, chart("0.17.4"))},
		"NFD comes with it":                {in: cluster([]model.Pool{pool("gpu")}, chart("0.17.4", func(p *model.Plugin) { p.NFD = true }))},
		"an affinity of one's own":         {in: cluster([]model.Pool{pool("gpu")}, chart("0.17.4", func(p *model.Plugin) { p.AffinitySet = true }))},
		"a manifest that is not the chart": {in: cluster([]model.Pool{pool("gpu")}, model.Plugin{Tolerations: chartTolerations})},
	})
}

func TestPluginUpgrade(t *testing.T) {
	run(t, "plugin-upgrade", map[string]scenario{
		"a pinned old chart": {
			in: cluster([]model.Pool{pool("gpu")}, chart("0.14.3")),
			want: []said{{
				"chart 0.14.3 runs there, but the default affinity from 0.15 on wants a label of NFD or nvidia.com/gpu.present=true: the nodes of pool gpu have neither, so the plugin would not run there",
				`before an upgrade, spec.template.metadata.labels of gpu: {nvidia.com/gpu.present: "true"}`,
			}},
		},
		"the label is there already": {in: cluster([]model.Pool{pool("gpu", labels(labelGPUPresent, "true"))}, chart("0.14.3"))},
		"a chart of today":           {in: cluster([]model.Pool{pool("gpu")}, chart("0.17.4"))},
	})
}

func TestNFDWorkerTaint(t *testing.T) {
	nfd := func(p *model.Plugin) { p.NFD = true }
	run(t, "nfd-worker-taint", map[string]scenario{
		"the taint has another value": {
			in: cluster([]model.Pool{pool("gpu", tainted(taint("nvidia.com/gpu", "true")))}, chart("0.17.4", nfd)),
			want: []said{{
				"the chart's NFD worker tolerates only nvidia.com/gpu=present, so it cannot label the nodes of pool gpu, and the plugin waits for that label",
				`nfd.worker.tolerations: [{key: nvidia.com/gpu, operator: Exists}], or spec.template.metadata.labels of gpu: {nvidia.com/gpu.present: "true"}`,
			}},
		},
		"the value that the worker tolerates": {in: cluster([]model.Pool{pool("gpu", tainted(taint("nvidia.com/gpu", "present")))}, chart("0.17.4", nfd))},
		"the worker's tolerations are given": {in: cluster([]model.Pool{pool("gpu", tainted(taint("nvidia.com/gpu", "true")))}, chart("0.17.4", nfd, func(p *model.Plugin) {
			p.NFDTolerations = []model.Toleration{{Key: model.NvidiaGPU, Operator: "Exists"}}
		}))},
		"the label is on the pool": {in: cluster([]model.Pool{pool("gpu", tainted(taint("nvidia.com/gpu", "true")), labels(labelGPUPresent, "true"))}, chart("0.17.4", nfd))},
	})
}

func TestPluginSelector(t *testing.T) {
	selects := func(key, value string) func(*model.Plugin) {
		return func(p *model.Plugin) { p.NodeSelector = map[string]string{key: value} }
	}
	fix := "add the label to spec.template.metadata.labels of gpu, or select karpenter.k8s.aws/instance-gpu-manufacturer: nvidia"
	run(t, "plugin-selector", map[string]scenario{
		"a label that the pool does not set": {
			in:   cluster([]model.Pool{pool("gpu")}, chart("", selects("team/gpu-type", "nvidia"))),
			want: []said{{"the plugin's node selector fits no node of pool gpu: they have no label team/gpu-type, and nvidia is wanted; no GPU would register there", fix}},
		},
		"another value": {
			in:   cluster([]model.Pool{pool("gpu", labels("gpu-type", "t4"))}, chart("", selects("gpu-type", "nvidia"))),
			want: []said{{"the plugin's node selector fits no node of pool gpu: they have gpu-type t4, and nvidia is wanted; no GPU would register there", fix}},
		},
		"an instance type's label in the wrong case": {
			in: cluster([]model.Pool{pool("gpu")}, chart("", selects("karpenter.k8s.aws/instance-gpu-manufacturer", "NVIDIA"))),
			want: []said{{
				"the plugin's node selector fits no node of pool gpu: they have karpenter.k8s.aws/instance-gpu-manufacturer nvidia, and NVIDIA is wanted; no GPU would register there", fix,
			}},
		},
		"the pool's label":                       {in: cluster([]model.Pool{pool("gpu", labels("gpu-type", "nvidia"))}, chart("", selects("gpu-type", "nvidia")))},
		"an instance type's label":               {in: cluster([]model.Pool{pool("gpu")}, chart("", selects("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia")))},
		"a requirement's value":                  {in: cluster([]model.Pool{pool("gpu", requires(in("karpenter.k8s.aws/instance-family", "g4dn"), in("kind", "gpu")))}, chart("", selects("kind", "gpu")))},
		"a label that NFD sets":                  {in: cluster([]model.Pool{pool("gpu")}, chart("", selects("feature.node.kubernetes.io/pci-10de.present", "true")))},
		"a second plugin that fits":              {in: cluster([]model.Pool{pool("gpu")}, chart("", selects("a", "b")), chart("", selects("karpenter.sh/nodepool", "gpu")))},
		"no plugin at all, which no-plugin says": {in: cluster([]model.Pool{pool("gpu")})},
	})
}

func TestTwoPlugins(t *testing.T) {
	static := model.Plugin{Name: "static", NoConfig: true, Tolerations: chartTolerations, Place: model.Place{File: "static.yaml", Line: 1}}
	on := func(name string) func(*model.Plugin) {
		return func(p *model.Plugin) { p.NodeSelector = map[string]string{model.LabelNodePool: name} }
	}
	run(t, "two-plugins", map[string]scenario{
		"the static manifest beside the chart": {
			in: cluster([]model.Pool{pool("gpu"), pool("gpu-shared")}, chart("0.14.3"), static),
			want: []said{{
				"plugin static would run on gpu and gpu-shared beside plugin nvdp (nvdp.yaml:3): both register nvidia.com/gpu, and the kubelet keeps whichever came last",
				"keep one of them, or give them node selectors that exclude each other",
			}},
		},
		"one for each pool":                       {in: cluster([]model.Pool{pool("a"), pool("b")}, chart("", on("a")), chart("", on("b")))},
		"a taint that only one of them tolerates": {in: cluster([]model.Pool{pool("a", tainted(taint("x", "")))}, chart(""), model.Plugin{Tolerations: []model.Toleration{{Operator: "Exists"}}})},
	})
}

func TestNoPlugin(t *testing.T) {
	pools := []model.Pool{pool("gpu"), pool("web", requires(in("karpenter.k8s.aws/instance-family", "m5")))}
	run(t, "no-plugin", map[string]scenario{
		"a GPU pool alone": {
			in: cluster(pools),
			want: []said{{
				"gpu launches GPU nodes and no device plugin is among the files: the plan takes one for granted",
				"pass its Helm values or manifest too; Bottlerocket and EKS Auto Mode bring their own",
			}},
		},
		"with a plugin": {in: cluster(pools, chart(""))},
		"a node that advertises GPUs shows that one is there": scenario{in: cluster(pools)}.with(func(s *model.Snapshot) {
			s.Nodes = []model.Node{{Name: "n", Allocatable: model.Resources{model.NvidiaGPU: 1}}}
		}),
		"no GPU pool":                  {in: cluster(pools[1:])},
		"EKS Auto Mode brings its own": {in: cluster([]model.Pool{pool("auto", func(p *model.Pool) { p.NodeClass = "NodeClass/default" })})},
		"a pool that nobody wrote":     {in: cluster([]model.Pool{pool("default", func(p *model.Pool) { p.Place = model.Place{} })})},
	})
}

func TestNodeWithoutGPU(t *testing.T) {
	node := model.Node{Name: "n", Type: "g4dn.12xlarge", Taints: []model.Taint{taint("team", "a")}, Labels: map[string]string{labelGPUPresent: "true"}}
	with := func(edit func(*model.Node)) model.Snapshot {
		n := node
		edit(&n)
		return model.Snapshot{Types: types, Nodes: []model.Node{n}, Plugins: []model.Plugin{chart("0.17.4")}}
	}
	run(t, "node-without-gpu", map[string]scenario{
		"a taint": {
			in: with(func(*model.Node) {}),
			want: []said{{
				"g4dn.12xlarge node advertises none of its GPUs (4 × T4): the plugin does not tolerate its taint team",
				"tolerations: [{key: CriticalAddonsOnly, operator: Exists}, {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}, {key: team, operator: Exists}]",
			}},
		},
		"no label for the affinity": {
			in: with(func(n *model.Node) { n.Taints, n.Labels = nil, nil }),
			want: []said{{
				"g4dn.12xlarge node advertises none of its GPUs (4 × T4): it has none of the labels that the plugin's affinity wants since chart 0.15",
				"label the node nvidia.com/gpu.present=true",
			}},
		},
		"nothing that the input shows": {
			in: with(func(n *model.Node) { n.Taints = nil }),
			want: []said{{
				"g4dn.12xlarge node advertises none of its GPUs (4 × T4): the plugin should run there",
				"look at the log of its pod on this node: driver, runtime or device config",
			}},
		},
		"no plugin": scenario{
			in: with(func(*model.Node) {}),
			want: []said{{
				"g4dn.12xlarge node advertises none of its GPUs (4 × T4): no device plugin is among the files",
				"install the plugin, or look at its pod on this node",
			}},
		}.with(func(s *model.Snapshot) { s.Plugins = nil }),
		"an affinity of its own": scenario{
			in: with(func(n *model.Node) { n.Labels, n.Taints = map[string]string{"a": "b"}, nil }),
			want: []said{{
				"g4dn.12xlarge node advertises none of its GPUs (4 × T4): the plugin's affinity does not match its label nvidia.com/gpu.present",
				"add a label that the affinity asks for, or change it",
			}},
		}.with(func(s *model.Snapshot) {
			s.Plugins = []model.Plugin{{Affinity: chartAffinity, AffinitySet: true, Tolerations: chartTolerations}}
		}),
		"a selector": scenario{
			in: with(func(*model.Node) {}),
			want: []said{{
				"g4dn.12xlarge node advertises none of its GPUs (4 × T4): the plugin's node selector does not match its label pool",
				"add the label, or change the plugin's nodeSelector",
			}},
		}.with(func(s *model.Snapshot) { s.Plugins[0].NodeSelector = map[string]string{"pool": "x"} }),
		"MIG slices are GPUs too":  {in: with(func(n *model.Node) { n.Allocatable = model.Resources{"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 2} })},
		"a node on its way":        {in: with(func(n *model.Node) { n.InFlight = true })},
		"a node that is not ready": {in: with(func(n *model.Node) { n.Unready = "not ready" })},
		"a node without GPUs":      {in: with(func(n *model.Node) { n.Type = "m5.large" })},
	})
}

func TestArgoRestartsPlugin(t *testing.T) {
	application := func(p *model.Plugin) { p.Place.Object = "Application argocd/plugin" }
	run(t, "argo-restarts-plugin", map[string]scenario{
		"chart 0.12.0 in Argo CD": {
			in:   cluster(nil, chart("0.12.0", application)),
			want: []said{{"chart 0.12.0 changes its pods at every sync, so Argo CD restarts the plugin each time", "take chart 0.12.1 or later"}},
		},
		"the next one":        {in: cluster(nil, chart("0.12.1", application))},
		"Helm alone does not": {in: cluster(nil, chart("0.12.0"))},
	})
}
