package overlay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

const family = "karpenter.k8s.aws/instance-family"

func typ(name, fam, gpuModel string, gpus int64, fraction float64) model.InstanceType {
	capacity := model.Resources{model.CPU: 4000, model.Memory: 16 << 30, model.Pods: 29, model.NvidiaGPU: gpus}
	return model.InstanceType{
		Name: name, Labels: map[string]string{model.LabelInstanceType: name, family: fam}, Capacity: capacity, Allocatable: capacity,
		GPUs:      []model.GPU{{Manufacturer: "nvidia", Model: gpuModel, Count: gpus, MemoryMiB: 15360, Fraction: fraction}},
		Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, Price: 1}},
	}
}

func replicas(n int64, more func(*deviceconfig.Replicated)) deviceconfig.Config {
	r := &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Replicas: n}}}
	if more != nil {
		more(r)
	}
	return deviceconfig.Config{TimeSlicing: r}
}

func TestOverlaysSayWhatNodesAdvertise(t *testing.T) {
	types := []model.InstanceType{typ("t1", "t", "t4", 1, 1), typ("t2", "t", "t4", 1, 1), typ("t4", "t", "t4", 4, 1), typ("f1", "f", "l4", 1, 0.125)}
	label := func(v string) map[string]string { return map[string]string{model.LabelDeviceConfig: v} }
	cases := map[string]struct {
		pools  []model.Pool
		config map[string]deviceconfig.Config
		want   []string
		notes  int
	}{
		"nothing is shared, nothing is needed": {pools: []model.Pool{{Name: "p"}}},
		"types of one capacity are one overlay": {
			pools:  []model.Pool{{Name: "p"}},
			config: map[string]deviceconfig.Config{"any": replicas(4, nil)},
			want:   []string{"kerf-p-1 1000 p [t1 t2] nvidia.com/gpu=4", "kerf-p-2 1001 p [t4] nvidia.com/gpu=16"},
		},
		"each pool by its own config": {
			pools:  []model.Pool{{Name: "b", Labels: label("two")}, {Name: "a", Labels: label("four")}, {Name: "c", Labels: label("whole")}},
			config: map[string]deviceconfig.Config{"two": replicas(2, nil), "four": replicas(4, nil), "whole": {}},
			want: []string{
				"kerf-a-1 1000 a [t1 t2] nvidia.com/gpu=4", "kerf-a-2 1001 a [t4] nvidia.com/gpu=16",
				"kerf-b-1 1002 b [t1 t2] nvidia.com/gpu=2", "kerf-b-2 1003 b [t4] nvidia.com/gpu=8",
			},
		},
		"a renamed resource is gone under its old name": {
			pools: []model.Pool{{Name: "p", Requirements: []model.Requirement{{Key: model.LabelInstanceType, Operator: model.In, Values: []string{"t4"}}}}},
			config: map[string]deviceconfig.Config{"any": replicas(2, func(r *deviceconfig.Replicated) {
				r.RenameByDefault, r.Resources[0].Rename = true, "nvidia.com/gpu.shared"
			})},
			want: []string{"kerf-p-1 1000 p [t4] nvidia.com/gpu=0 nvidia.com/gpu.shared=8"},
		},
		"slices of a GPU only where the pool names them": {
			pools: []model.Pool{{Name: "p", Requirements: []model.Requirement{{Key: family, Operator: model.In, Values: []string{"f"}}}}, {Name: "q"}},
			want:  []string{"kerf-p-1 1000 p [f1] nvidia.com/gpu=1"},
		},
		"an open choice of config": {
			pools:  []model.Pool{{Name: "p", Requirements: []model.Requirement{{Key: model.LabelDeviceConfig, Operator: model.In, Values: []string{"two", "four"}}}}},
			config: map[string]deviceconfig.Config{"two": replicas(2, nil), "four": replicas(4, nil)},
			notes:  1,
		},
		"a config that does not exist": {
			pools:  []model.Pool{{Name: "p", Labels: label("three")}},
			config: map[string]deviceconfig.Config{"two": replicas(2, nil)},
			notes:  3,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			overlays, notes := For(model.Snapshot{Types: types, Pools: c.pools, Sharing: model.Sharing{Configs: c.config}})
			var got []string
			for _, o := range overlays {
				line := fmt.Sprint(o.Name, " ", o.Weight, " ", o.Pool, " ", o.Types)
				for _, r := range o.Capacity.Names() {
					line += fmt.Sprintf(" %s=%d", r, o.Capacity[r])
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("overlays (-want +got)\n%s", diff)
			}
			if len(notes) != c.notes {
				t.Errorf("notes: want %d, got %v", c.notes, notes)
			}
		})
	}
}

func TestPartsOfGPUsCannotBeSaid(t *testing.T) {
	s := model.Snapshot{Types: []model.InstanceType{typ("t1", "t", "t4", 1, 1)}, Pools: []model.Pool{{Name: "p"}}, Sharing: model.Sharing{Consumable: true}}
	overlays, notes := For(s)
	if len(overlays) != 0 || len(notes) != 1 {
		t.Errorf("overlays %v, notes %v; want none and one", overlays, notes)
	}
}

func TestYAML(t *testing.T) {
	one := replicas(4, func(r *deviceconfig.Replicated) { r.FailRequestsGreaterThanOne = true })
	s := model.Snapshot{
		Types: []model.InstanceType{typ("g4dn.xlarge", "g4dn", "t4", 1, 1)}, Pools: []model.Pool{{Name: "shared"}},
		Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{"sliced": one}},
	}
	overlays, _ := For(s)
	_, got, _ := strings.Cut(string(YAML(overlays)), "---\n")
	want := `# pool shared: time-slicing by device config sliced
# a container gets one nvidia.com/gpu at most (failRequestsGreaterThanOne); Karpenter does not know, and launches a node on which a pod that asks for more fails
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata:
  name: kerf-shared-1
spec:
  weight: 1000
  requirements:
    - key: karpenter.sh/nodepool
      operator: In
      values:
        - shared
    - key: node.kubernetes.io/instance-type
      operator: In
      values:
        - g4dn.xlarge
  capacity:
    nvidia.com/gpu: 4
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
