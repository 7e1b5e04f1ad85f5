package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

var nodeChecks = []check{
	{
		name: "node-without-gpu", severity: model.Warning, run: nodeWithoutGPU,
		doc: "A node that is ready has GPUs by its instance type and advertises none, so its GPU pods wait; Karpenter 1.15 has no deadline for that. " +
			"The note says what keeps the device plugin away, where the input shows it.",
	},
	{
		name: "node-gpu-amount", severity: model.Warning, run: nodeGPUAmount,
		doc: "A node advertises GPUs, and not as many as its type and device config give: some are unhealthy, the plugin has another config, or GPUs are handed out whole and " +
			"as MIG slices at once, where a pod that is given a GPU in MIG mode gets nothing (k8s-device-plugin 0.20). Karpenter 1.15 warns only of less than 90 %.",
	},
	{
		name: "undeclared-taint", severity: model.Warning, run: undeclaredTaint,
		doc: "A node has a taint that its pool declares neither as taint nor as startup taint, so something adds it later. Karpenter 1.15 does not wait for it to go away: " +
			"it finds no room on the node and launches another for the same pods.",
	},
	{
		name: "drift-stuck", severity: model.Warning, run: driftStuck,
		doc: "A node's pool has got a taint since, and a pod on the node tolerates the taints of no pool: the drifted node cannot be replaced, and Karpenter 1.15 does not say so.",
	},
}

func advertisesGPU(n model.Node) bool {
	for name, amount := range n.Allocatable {
		if amount > 0 && model.IsGPU(name) {
			return true
		}
	}
	return false
}

func nodeWithoutGPU(v *view) []model.Note {
	var out []model.Note
	for _, n := range v.Nodes {
		t := v.byName[n.Type]
		if n.InFlight || n.Leaving || n.Unready != "" || t == nil || !hasNVIDIA(t) || advertisesGPU(n) {
			continue
		}
		reason, fix := v.whyNoGPU(n)
		out = append(out, model.Note{
			Place: n.Place,
			Text:  fmt.Sprintf("%s node advertises none of its GPUs (%d × %s): %s", t.Name, t.GPUs[0].Count, strings.ToUpper(t.GPUs[0].Model), reason),
			Fix:   fix,
		})
	}
	return out
}

// whyNoGPU says what keeps the plugins off a node.
func (v *view) whyNoGPU(n model.Node) (reason, fix string) {
	reason, fix = "no device plugin is among the files", "install the plugin, or look at its pod on this node"
	for _, p := range v.Plugins {
		pv := nodeView(n)
		key, fails := pv.conflict(ownSelector(p), nil)
		bad := untolerated(p, n.Taints)
		switch {
		case fails && p.NodeSelector[key] == "":
			reason, fix = "the plugin's affinity does not match its label "+key, "add a label that the affinity asks for, or change it"
		case fails:
			reason, fix = "the plugin's node selector does not match its label "+key, "add the label, or change the plugin's nodeSelector"
		case len(bad) > 0:
			return "the plugin does not tolerate its taint " + bad[0].Key, yamlTolerations(slices.Concat(given(p), covering(bad)))
		case eraOf(p) != before && !labelled(pv):
			return "it has none of the labels that the plugin's affinity wants since chart 0.15", "label the node " + labelGPUPresent + "=true"
		default:
			return "the plugin should run there", "look at the log of its pod on this node: driver, runtime or device config"
		}
	}
	return reason, fix
}
