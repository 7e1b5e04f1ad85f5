package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func TestNode(t *testing.T) {
	r, notes := read(t, `apiVersion: v1
kind: Node
metadata:
  name: ip-10-0-0-1
  labels:
    karpenter.sh/nodepool: gpu
    karpenter.sh/capacity-type: spot
    node.kubernetes.io/instance-type: g4dn.12xlarge
    topology.kubernetes.io/zone: us-east-1a
    karpenter.k8s.aws/instance-gpu-name: t4
    nvidia.com/gpu.count: "4"
spec:
  taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
status:
  allocatable: {cpu: 47810m, memory: 190Gi, pods: "110", nvidia.com/gpu: "40"}
  conditions: [{type: Ready, status: "True"}]
  someNewField: 1
`)
	if len(notes) > 0 || len(r.Nodes) != 1 {
		t.Fatalf("%d nodes, notes %q", len(r.Nodes), say(notes))
	}
	got := r.Nodes[0]
	device := model.Device{Model: "t4", Resources: model.Resources{"nvidia.com/gpu": 10}}
	want := model.Node{
		Name: "ip-10-0-0-1", Pool: "gpu", Type: "g4dn.12xlarge", Zone: "us-east-1a", CapacityType: "spot", Labels: got.Labels,
		Taints:      []model.Taint{{Key: "nvidia.com/gpu", Value: "true", Effect: "NoSchedule"}},
		Allocatable: model.Resources{"cpu": 47810, "memory": 190 << 30, "pods": 110, "nvidia.com/gpu": 40},
		Devices:     []model.Device{device, device, device, device},
		Place:       got.Place,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodesThatTakeNoPods(t *testing.T) {
	node := func(meta, spec, status string) string {
		return "apiVersion: v1\nkind: Node\nmetadata: {name: n" + meta + "}\nspec: {" + spec + "}\nstatus: {allocatable: {cpu: 1}" + status + "}\n"
	}
	for name, c := range map[string]struct {
		text    string
		unready string
		leaving bool
		pool    string
	}{
		"a node that is well":                {node("", "", ", conditions: [{type: Ready, status: \"True\"}]"), "", false, ""},
		"a node that says nothing":           {node("", "", ""), "", false, ""},
		"cordoned":                           {node("", "unschedulable: true", ""), "cordoned", false, ""},
		"not ready":                          {node("", "", ", conditions: [{type: Ready, status: Unknown}]"), "not ready", false, ""},
		"being deleted":                      {node(", deletionTimestamp: \"2026-01-01T00:00:00Z\"", "", ""), "being deleted", true, ""},
		"disrupted by Karpenter":             {node("", "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]", ""), "being drained", true, ""},
		"disrupted by Karpenter before v1":   {node("", "taints: [{key: karpenter.sh/disruption, value: disrupting, effect: NoSchedule}]", ""), "being drained", true, ""},
		"on its way out for the autoscaler":  {node("", "taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]", ""), "being drained", true, ""},
		"of a Provisioner":                   {node(", labels: {karpenter.sh/provisioner-name: old}", "", ""), "", false, "old"},
		"of a managed node group, on demand": {node(", labels: {eks.amazonaws.com/capacityType: ON_DEMAND}", "", ""), "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, c.text)
			n := r.Nodes[0]
			if n.Unready != c.unready || n.Leaving != c.leaving || n.Pool != c.pool {
				t.Errorf("unready %q, leaving %v, pool %q", n.Unready, n.Leaving, n.Pool)
			}
		})
	}
}

func TestDevicesOfANode(t *testing.T) {
	node := func(labels, allocatable string) string {
		return "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {" + labels + "}}\nstatus: {allocatable: {" + allocatable + "}}\n"
	}
	for name, c := range map[string]struct {
		text string
		want []model.Resources
	}{
		"whole GPUs without labels":           {node("", "nvidia.com/gpu: 2"), []model.Resources{{"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1}}},
		"slices without a count tell nothing": {node("nvidia.com/gpu.replicas: \"4\"", "nvidia.com/gpu: 8"), nil},
		"MIG slices of unequal GPUs":          {node("nvidia.com/gpu.count: \"2\"", "nvidia.com/mig-1g.5gb: 7"), []model.Resources{{"nvidia.com/mig-1g.5gb": 4}, {"nvidia.com/mig-1g.5gb": 3}}},
		"no GPU":                              {node("", "cpu: 4"), nil},
		"a GPU that never came up":            {node("nvidia.com/gpu.count: \"1\"", "nvidia.com/gpu: 0"), []model.Resources{{"nvidia.com/gpu": 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, c.text)
			var got []model.Resources
			for _, d := range r.Nodes[0].Devices {
				got = append(got, d.Resources)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
