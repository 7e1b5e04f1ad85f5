package install

import (
	"slices"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// kerfChart is Kerf's own chart (charts/kerf). What it says of the agent has the
// names of the device-plugin chart.
const kerfChart = "kerf"

// kerfValues are values that the device-plugin chart does not have.
var kerfValues = map[string][]string{
	"":    {"cdiDir", "controller", "env", "health", "kubeletDir", "lenient", "metricsPort", "removeLabels", "stateDir"},
	"mps": {"enabled"},
}

// isKerf tells the values of Kerf's chart from those of the device-plugin chart.
func isKerf(values *manifest.Node) bool {
	c := values.Get("controller")
	return has(c, "settings", "cloud", "enabled", "guard") || has(values, "health", "kubeletDir", "lenient", "removeLabels", "stateDir")
}

// kerfAffinity is the chart's default: labels of nodes with NVIDIA GPUs, each of
// which is enough. It holds where the values give neither affinity nor
// nodeSelector.
var kerfAffinity = func() []model.Term {
	var out []model.Term
	for _, l := range [][2]string{
		{"karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"},
		{"karpenter.azure.com/sku-gpu-manufacturer", "nvidia"},
		{"nvidia.com/gpu.present", "true"},
		{"feature.node.kubernetes.io/pci-10de.present", "true"},
		{"feature.node.kubernetes.io/pci-0300_10de.present", "true"},
		{"feature.node.kubernetes.io/pci-0302_10de.present", "true"},
		{"feature.node.kubernetes.io/cpu-model.vendor_id", "NVIDIA"},
	} {
		out = append(out, model.Term{{Key: l[0], Operator: model.In, Values: []string{l[1]}}})
	}
	return out
}()

// agent is the plugin of a release of Kerf's chart: unless the values say
// otherwise it tolerates every taint and runs where GPUs are known to be.
func (r *reader) agent(rel release) model.Plugin {
	v := rel.values
	p := model.Plugin{
		Name: rel.name + "-node", ChartVersion: rel.version, NodeSelector: labels(v.Get("nodeSelector")),
		Affinity: affinity(v.Get("affinity")), AffinitySet: true, Tolerations: []model.Toleration{{Operator: "Exists"}}, TolerateSet: true,
		GFD: true, Place: r.place(rel),
	}
	if a := v.Get("affinity"); (a == nil || a.Kind == manifest.Null) && len(p.NodeSelector) == 0 {
		p.Affinity = kerfAffinity
	}
	if t := v.Get("tolerations"); t != nil {
		p.Tolerations = tolerations(t)
	}
	return p
}

// knows reports whether the chart of a release has a value.
func (rel release) knows(section, name string) bool {
	return slices.Contains(chartValues[section], name) || rel.kerf && slices.Contains(kerfValues[section], name)
}
