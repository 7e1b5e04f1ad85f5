package rule

import (
	"testing"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// nodes is a cluster of one node that is ready; edits change it.
func nodes(allocatable model.Resources, edits ...func(*model.Snapshot)) model.Snapshot {
	s := model.Snapshot{Types: types, Nodes: []model.Node{{Name: "n", Pool: "gpu", Type: "g4dn.12xlarge", Allocatable: allocatable}}}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func slicedBy(replicas int64) func(*model.Snapshot) {
	return func(s *model.Snapshot) {
		s.Sharing.Configs = map[string]deviceconfig.Config{"shared": {TimeSlicing: &deviceconfig.Replicated{
			Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Replicas: replicas}},
		}}}
	}
}

func TestNodeGPUAmount(t *testing.T) {
	run(t, "node-gpu-amount", map[string]scenario{
		"GPUs whole and cut at once": {
			in: nodes(model.Resources{model.NvidiaGPU: 4, "nvidia.com/mig-1g.5gb": 14}),
			want: []said{{
				"g4dn.12xlarge node advertises all of its 4 GPUs whole and 14 MIG slices of them beside: a pod that is given a GPU in MIG mode gets nothing",
				"set flags.migStrategy: mixed, and restart the plugin after MIG has been turned on",
			}},
		},
		"one GPU is missing": {
			in:   nodes(model.Resources{model.NvidiaGPU: 3}),
			want: []said{{"g4dn.12xlarge node advertises 3 of its 4 GPUs", "look at the plugin's log on this node: a GPU may be unhealthy"}},
		},
		"another number of slices than the config gives": {
			in: nodes(model.Resources{model.NvidiaGPU: 16}, slicedBy(10)),
			want: []said{{
				"g4dn.12xlarge node advertises nvidia.com/gpu 16, and by config shared it is 40",
				"look at the plugin on this node: it may run another config, or a GPU may be unhealthy",
			}},
		},
		"as the config gives":                 {in: nodes(model.Resources{model.NvidiaGPU: 40}, slicedBy(10))},
		"slices by a config that is unknown":  {in: nodes(model.Resources{model.NvidiaGPU: 16})},
		"one GPU cut, the others whole":       {in: nodes(model.Resources{model.NvidiaGPU: 3, "nvidia.com/mig-1g.5gb": 7})},
		"none at all is for node-without-gpu": {in: nodes(model.Resources{model.NvidiaGPU: 0})},
		"a node that is not ready":            {in: nodes(model.Resources{model.NvidiaGPU: 3}, func(s *model.Snapshot) { s.Nodes[0].Unready = "not ready" })},
	})
}

func TestUndeclaredTaint(t *testing.T) {
	with := func(taints []model.Taint, edits ...func(*model.Pool)) model.Snapshot {
		return nodes(nil, func(s *model.Snapshot) {
			s.Nodes[0].Taints, s.Pools = taints, []model.Pool{pool("gpu", edits...)}
		})
	}
	cni := []model.Taint{taint("cni.example.com/not-ready", "")}
	run(t, "undeclared-taint", map[string]scenario{
		"a taint that something adds later": {
			in: with(cni),
			want: []said{{
				"a node of pool gpu has the taint cni.example.com/not-ready, which the pool does not declare: while it is there Karpenter launches further nodes for the same pods",
				"spec.template.spec.startupTaints of gpu: [{key: cni.example.com/not-ready, effect: NoSchedule}] if something takes it away again, else under taints",
			}},
		},
		"a startup taint":         {in: with(cni, func(p *model.Pool) { p.StartupTaints = cni })},
		"the pool's own":          {in: with([]model.Taint{taint("nvidia.com/gpu", "")})},
		"a state of the node":     {in: with([]model.Taint{taint("node.kubernetes.io/not-ready", "")})},
		"a pool that is not here": {in: nodes(nil, func(s *model.Snapshot) { s.Nodes[0].Taints = cni })},
	})
}

func TestDriftStuck(t *testing.T) {
	with := func(owner string, tolerations []model.Toleration, pools ...model.Pool) model.Snapshot {
		return nodes(nil, func(s *model.Snapshot) {
			s.Pools = pools
			s.Pods = []model.Pod{{Namespace: "team-a", Name: "old", Node: "n", Owner: owner, Spec: &model.PodSpec{Tolerations: tolerations}}}
		})
	}
	team := pool("gpu", tainted(taint("team", "a")))
	run(t, "drift-stuck", map[string]scenario{
		"a taint that came later": {
			in: with("", nil, team),
			want: []said{{
				"node n has drifted, as pool gpu has the taint team now, and cannot be replaced: its pod team-a/old tolerates the taints of no pool",
				"tolerations: [{key: team, operator: Exists}] on the pod, or another pool for it",
			}},
		},
		"a pod that tolerates it": {in: with("", []model.Toleration{{Operator: "Exists"}}, team)},
		"another pool takes it":   {in: with("", nil, team, pool("open", tainted()))},
		"a pod of a DaemonSet":    {in: with("DaemonSet agent", nil, team)},
	})
}
