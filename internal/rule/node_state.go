package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

func nodeGPUAmount(v *view) []model.Note {
	var out []model.Note
	for _, n := range v.gpuNodes {
		if n.InFlight || n.Leaving || n.Unready != "" || !advertisesGPU(n) {
			continue
		}
		if text, fix := v.wrongAmount(n, v.byName[n.Type]); text != "" {
			out = append(out, model.Note{Place: n.Place, Text: text, Fix: fix})
		}
	}
	return out
}

// wrongAmount compares what a node advertises of its NVIDIA GPUs with what they
// can be, and where device configs are known with what they are to be.
func (v *view) wrongAmount(n model.Node, t *model.InstanceType) (text, fix string) {
	var physical, cut int64
	for _, g := range t.GPUs {
		if g.Manufacturer == "nvidia" {
			physical += g.Count
		}
	}
	whole := n.Allocatable[model.NvidiaGPU]
	for name, amount := range n.Allocatable {
		if strings.HasPrefix(name, "nvidia.com/mig-") {
			cut += amount
		}
	}
	ad, err := gpu.ForNode(*t, v.Sharing, n.Labels)
	want := ad.Resources[model.NvidiaGPU]
	switch {
	case physical == 0 || err != nil:
		return "", ""
	case cut > 0 && whole >= physical:
		return fmt.Sprintf("%s node advertises all of its %d GPUs whole and %d MIG slices of them beside: a pod that is given a GPU in MIG mode gets nothing", t.Name, physical, cut),
			"set flags.migStrategy: mixed, and restart the plugin after MIG has been turned on"
	case cut > 0 || ad.Kind == model.MIG:
		return "", "" // how many slices there are is up to the layout
	case ad.Config != "" && whole != want:
		return fmt.Sprintf("%s node advertises %s %d, and by config %s it is %d", t.Name, model.NvidiaGPU, whole, ad.Config, want),
			"look at the plugin on this node: it may run another config, or a GPU may be unhealthy"
	case ad.Config == "" && whole > 0 && whole < physical:
		return fmt.Sprintf("%s node advertises %d of its %d GPUs", t.Name, whole, physical), "look at the plugin's log on this node: a GPU may be unhealthy"
	}
	return "", ""
}

// passing are the domains of taints that come and go with a node's state.
var passing = []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/", "ToBeDeleted", "DeletionCandidate"}

func undeclaredTaint(v *view) []model.Note {
	var out []model.Note
	for _, n := range v.Nodes {
		i := slices.IndexFunc(v.Pools, func(p model.Pool) bool { return p.Name == n.Pool })
		if i < 0 || n.InFlight || n.Leaving {
			continue
		}
		for _, t := range n.Taints {
			if t.Effect == model.PreferNoSchedule || declares(v.Pools[i], t) || slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(t.Key, p) }) {
				continue
			}
			out = append(out, model.Note{
				Place: n.Place,
				Text:  fmt.Sprintf("a node of pool %s has the taint %s, which the pool does not declare: while it is there Karpenter launches further nodes for the same pods", n.Pool, t.Key),
				Fix:   fmt.Sprintf("spec.template.spec.startupTaints of %s: [{key: %s, effect: %s}] if something takes it away again, else under taints", n.Pool, t.Key, t.Effect),
			})
		}
	}
	return out
}

// declares reports whether a pool has a taint of this key and effect.
func declares(p model.Pool, t model.Taint) bool {
	return slices.ContainsFunc(slices.Concat(p.Taints, p.StartupTaints), func(o model.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
}

func driftStuck(v *view) []model.Note {
	nodes := map[string]model.Node{}
	for _, n := range v.Nodes {
		nodes[n.Name] = n
	}
	var out []model.Note
	for _, pod := range v.Pods {
		n, ok := nodes[pod.Node]
		if !ok || strings.HasPrefix(pod.Owner, "DaemonSet ") || v.somewhere(pod.Spec) {
			continue
		}
		for _, p := range v.Pools {
			t, ok := constraint.Tolerates(pod.Spec.Tolerations, p.Taints)
			if p.Name != n.Pool || ok || slices.Contains(n.Taints, t) {
				continue
			}
			out = append(out, model.Note{
				Place: n.Place,
				Text: fmt.Sprintf("node %s has drifted, as pool %s has the taint %s now, and cannot be replaced: its pod %s/%s tolerates the taints of no pool",
					n.Name, p.Name, t.Key, pod.Namespace, pod.Name),
				Fix: yamlTolerations(covering([]model.Taint{t})) + " on the pod, or another pool for it",
			})
		}
	}
	return out
}

// somewhere reports whether a pod tolerates the taints of some pool.
func (v *view) somewhere(spec *model.PodSpec) bool {
	return slices.ContainsFunc(v.Pools, func(p model.Pool) bool {
		_, ok := constraint.Tolerates(spec.Tolerations, p.Taints)
		return ok
	})
}
