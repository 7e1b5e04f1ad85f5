package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

var pluginChecks = []check{
	{
		name: "plugin-taint", severity: model.Error, run: pluginTaint,
		doc: "A GPU pool has a taint that the device plugin's pods do not tolerate, so they never run there and no GPU registers. " +
			"The chart tolerates CriticalAddonsOnly and nvidia.com/gpu (Exists, NoSchedule) only (k8s-device-plugin 0.14 to 0.20, values.yaml); " +
			"the ExtendedResourceToleration admission plugin adds nothing, as the plugin's pods ask for no GPU (Kubernetes 1.37).",
	},
	{
		name: "plugin-affinity", severity: model.Warning, run: pluginAffinity,
		doc: "From chart 0.15 on the device plugin's pods want a label that NFD sets, or nvidia.com/gpu.present=true, and a nodeSelector counts beside that affinity, " +
			"not instead of it (k8s-device-plugin values.yaml, 0.14.3 against 0.15.0). Nodes without either label get no plugin.",
	},
	{
		name: "plugin-upgrade", severity: model.Info, run: pluginUpgrade,
		doc: "The device plugin runs on the pool's nodes with its present chart, older than 0.15, and will not after an upgrade: see plugin-affinity.",
	},
	{
		name: "nfd-worker-taint", severity: model.Error, run: nfdWorkerTaint,
		doc: "The chart's NFD worker tolerates the taint nvidia.com/gpu only with the value \"present\" (k8s-device-plugin 0.20 values.yaml). With another value or taint " +
			"it cannot label the node, and the plugin's affinity waits for that label for ever.",
	},
	{
		name: "plugin-selector", severity: model.Error, run: pluginSelector,
		doc: "The nodeSelector or affinity given to the device plugin matches no GPU node of a pool, going by the pool's labels and requirements and its instance types' labels.",
	},
	{
		name: "two-plugins", severity: model.Warning, run: twoPlugins,
		doc: "Two device plugins would run on the same nodes. Both register the same resource with the kubelet, which keeps the one that came last (kubelet device manager, Kubernetes 1.37).",
	},
	{
		name: "argo-restarts-plugin", severity: model.Info, run: argoRestartsPlugin,
		doc: "Chart 0.12.0 renders a random annotation into the plugin's pods, so Argo CD restarts them at every sync; 0.12.1 does not (NVIDIA/k8s-device-plugin 309).",
	},
	{
		name: "no-plugin", severity: model.Info, run: noPlugin,
		doc: "Pools launch GPU nodes and no device plugin is in the input. Without one no node has nvidia.com/gpu; Bottlerocket's NVIDIA variants and EKS Auto Mode bring their own.",
	},
}

func pluginTaint(v *view) []model.Note {
	var out []model.Note
	for _, p := range v.Plugins {
		var taints []model.Taint
		var pools, keys []string
		for _, pv := range v.wants(p) {
			bad := untolerated(p, pv.Taints)
			if len(bad) > 0 {
				pools = append(pools, pv.Name)
			}
			for _, t := range bad {
				if !slices.Contains(taints, t) {
					taints = append(taints, t)
				}
				if !slices.Contains(keys, t.Key) {
					keys = append(keys, t.Key)
				}
			}
		}
		if len(pools) == 0 {
			continue
		}
		out = append(out, model.Note{
			Place: p.Place,
			Text:  fmt.Sprintf("the plugin does not tolerate %s: its pods would not land on %s and no GPU would register there", list(keys), list(pools)),
			Fix:   yamlTolerations(slices.Concat(given(p), covering(taints))),
		})
	}
	return out
}

// covering returns one toleration for each key.
func covering(taints []model.Taint) []model.Toleration {
	var out []model.Toleration
	for _, t := range taints {
		tol := model.Toleration{Key: t.Key, Operator: "Exists"}
		if !slices.Contains(out, tol) {
			out = append(out, tol)
		}
	}
	return out
}

func pluginAffinity(v *view) []model.Note {
	var out []model.Note
	for _, p := range v.Plugins {
		if eraOf(p) == before || discovers(p) {
			continue
		}
		var pools []string
		for _, pv := range v.wants(p) {
			if !labelled(pv) {
				pools = append(pools, pv.Name)
			}
		}
		if len(pools) == 0 {
			continue
		}
		lead := "the default affinity of chart " + p.ChartVersion
		if eraOf(p) == maybe {
			lead = "the default affinity from chart 0.15 on"
		}
		out = append(out, model.Note{Place: p.Place, Text: affinityText(lead, p, pools), Fix: labelFix(p, pools)})
	}
	return out
}

func affinityText(lead string, p model.Plugin, pools []string) string {
	and := ""
	if len(p.NodeSelector) > 0 {
		and = " beside the nodeSelector"
	}
	return fmt.Sprintf("%s wants a label of NFD or %s=true%s: the %s have neither, so the plugin would not run there",
		lead, labelGPUPresent, and, nodesOf(pools))
}

func labelFix(p model.Plugin, pools []string) string {
	fix := fmt.Sprintf("spec.template.metadata.labels of %s: {%s: \"true\"}", list(pools), labelGPUPresent)
	if strings.HasPrefix(p.Place.Object, "Application ") {
		fix += "; affinity: null in valuesObject has no effect, as Argo CD drops nulls"
	}
	return fix
}

func pluginUpgrade(v *view) []model.Note {
	var out []model.Note
	for _, p := range v.Plugins {
		if !p.Chart || p.AffinitySet || eraOf(p) != before || discovers(p) {
			continue
		}
		var pools []string
		for _, pv := range v.gpuPools() {
			if lands(p, pv) && !labelled(pv) {
				pools = append(pools, pv.Name)
			}
		}
		if len(pools) > 0 {
			lead := fmt.Sprintf("chart %s runs there, but the default affinity from 0.15 on", p.ChartVersion)
			out = append(out, model.Note{Place: p.Place, Text: affinityText(lead, p, pools), Fix: "before an upgrade, " + labelFix(p, pools)})
		}
	}
	return out
}

func nfdWorkerTaint(v *view) []model.Note {
	var out []model.Note
	for _, p := range v.Plugins {
		if eraOf(p) == before || !discovers(p) {
			continue
		}
		var pools []string
		var taints []model.Taint
		for _, pv := range v.wants(p) {
			if !labelled(pv) && nfdStuck(p, pv) {
				pools = append(pools, pv.Name)
				taints = append(taints, pv.Taints...)
			}
		}
		if len(pools) > 0 {
			out = append(out, model.Note{
				Place: p.Place,
				Text: fmt.Sprintf("the chart's NFD worker tolerates only %s=present, so it cannot label the %s, and the plugin waits for that label",
					model.NvidiaGPU, nodesOf(pools)),
				Fix: "nfd.worker." + yamlTolerations(covering(taints)) + ", or " + labelFix(p, pools),
			})
		}
	}
	return out
}

func pluginSelector(v *view) []model.Note {
	var out []model.Note
	for _, pv := range v.gpuPools() {
		if len(v.Plugins) == 0 || slices.ContainsFunc(v.Plugins, func(p model.Plugin) bool { _, ok := selects(p, pv); return ok }) {
			continue
		}
		p := v.Plugins[0]
		key, _ := selects(p, pv)
		out = append(out, model.Note{
			Place: p.Place,
			Text:  fmt.Sprintf("the plugin's node selector fits no node of pool %s: %s; no GPU would register there", pv.Name, selectorFails(p, pv, key)),
			Fix:   fmt.Sprintf("add the label to spec.template.metadata.labels of %s, or select karpenter.k8s.aws/instance-gpu-manufacturer: nvidia", pv.Name),
		})
	}
	return out
}

// selectorFails says what a pool's nodes have for a key, against what the plugin wants.
func selectorFails(p model.Plugin, pv *poolView, key string) string {
	if key == "" {
		return "it contradicts itself"
	}
	text := "they have no label " + key
	if offered := pv.labels[0].Words(key); len(offered) > 0 {
		text = "they have " + key + " " + list(offered)
	}
	if want, ok := p.NodeSelector[key]; ok {
		text += fmt.Sprintf(", and %s is wanted", want)
	}
	return text
}

func twoPlugins(v *view) []model.Note {
	var out []model.Note
	for i, p := range v.Plugins {
		for _, other := range v.Plugins[:i] {
			var pools []string
			for _, pv := range v.gpuPools() {
				if allowed(p, pv) && allowed(other, pv) {
					pools = append(pools, pv.Name)
				}
			}
			if len(pools) == 0 {
				continue
			}
			out = append(out, model.Note{
				Place: p.Place,
				Text: fmt.Sprintf("plugin %s would run on %s beside plugin %s (%s): both register %s, and the kubelet keeps whichever came last",
					p.Name, list(pools), other.Name, other.Place, model.NvidiaGPU),
				Fix: "keep one of them, or give them node selectors that exclude each other",
			})
		}
	}
	return out
}

func argoRestartsPlugin(v *view) []model.Note {
	var out []model.Note
	for _, p := range v.Plugins {
		if strings.HasPrefix(p.Place.Object, "Application ") && strings.TrimPrefix(p.ChartVersion, "v") == "0.12.0" {
			out = append(out, model.Note{Place: p.Place, Text: "chart 0.12.0 changes its pods at every sync, so Argo CD restarts the plugin each time", Fix: "take chart 0.12.1 or later"})
		}
	}
	return out
}

// autoModeClass is the kind of EKS Auto Mode's node classes.
const autoModeClass = "NodeClass"

func noPlugin(v *view) []model.Note {
	// A pool without a place was made up for pods that came without one.
	pools := slices.DeleteFunc(v.gpuPools(), func(pv *poolView) bool {
		return pv.Place == model.Place{} || strings.HasPrefix(pv.NodeClass, autoModeClass+"/")
	})
	advertised := slices.ContainsFunc(v.Nodes, func(n model.Node) bool { return !n.InFlight && advertisesGPU(n) })
	if len(v.Plugins) > 0 || len(pools) == 0 || advertised {
		return nil
	}
	names := make([]string, len(pools))
	for i, pv := range pools {
		names[i] = pv.Name
	}
	return []model.Note{{
		Place: pools[0].Place,
		Text: fmt.Sprintf("%s %s GPU nodes and no device plugin is among the files: the plan takes one for granted",
			list(names), plural(len(names), "launches", "launch")),
		Fix: "pass its Helm values or manifest too; Bottlerocket and EKS Auto Mode bring their own",
	}}
}
