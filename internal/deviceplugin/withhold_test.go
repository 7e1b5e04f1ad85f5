package deviceplugin

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What may not be handed out after a switch, since a pod of before holds it.
func TestWithhold(t *testing.T) {
	parents := map[string]string{"GPU-0": "GPU-0", "GPU-1": "GPU-1", "MIG-a": "GPU-1", "MIG-b": "GPU-1"}
	named := func(r Resource, name string) Resource { r.Name = name; return r }
	instances := Resource{Name: "nvidia.com/mig-3g.20gb", Devices: []Device{{ID: "MIG-a", UUID: "MIG-a", GPU: "GPU-1"}, {ID: "MIG-b", UUID: "MIG-b", GPU: "GPU-1"}}}
	slicedInstances := Resource{Name: "nvidia.com/gpu", Devices: []Device{{ID: "MIG-a::0", UUID: "MIG-a", GPU: "GPU-1"}, {ID: "MIG-a::1", UUID: "MIG-a", GPU: "GPU-1"}, {ID: "MIG-b", UUID: "MIG-b", GPU: "GPU-1"}}}
	hold := func(resource, id string) Holding { return Holding{Resource: resource, ID: id, Pod: "a/b"} }
	const gpu, renamed = "nvidia.com/gpu", "nvidia.com/gpu.shared"
	for name, test := range map[string]struct {
		plan []Resource
		held []Holding
		want []string
	}{
		"nothing is held":                            {plan: []Resource{shared(2, 3)}},
		"what is held is still listed":               {plan: []Resource{shared(2, 3)}, held: []Holding{hold(gpu, "GPU-0::1")}},
		"a whole GPU is held that is to be shared":   {plan: []Resource{shared(2, 3)}, held: []Holding{hold(gpu, "GPU-0")}, want: []string{"GPU-0::0", "GPU-0::1", "GPU-0::2"}},
		"a slice is held of a GPU to be given whole": {plan: []Resource{whole(2)}, held: []Holding{hold(gpu, "GPU-1::4")}, want: []string{"GPU-1"}},
		"a slice is held that is there no more":      {plan: []Resource{shared(2, 3)}, held: []Holding{hold(gpu, "GPU-0::7")}, want: []string{"GPU-0::2"}},
		"two such, and one that stays": {
			plan: []Resource{shared(1, 3)},
			held: []Holding{hold(gpu, "GPU-0::7"), hold(gpu, "GPU-0::8"), hold(gpu, "GPU-0::2")},
			want: []string{"GPU-0::0", "GPU-0::1"},
		},
		"more such than there are slices now": {
			plan: []Resource{shared(1, 2)},
			held: []Holding{hold(gpu, "GPU-0::7"), hold(gpu, "GPU-0::8"), hold(gpu, "GPU-0::9")},
			want: []string{"GPU-0::0", "GPU-0::1"},
		},
		"slices under another name":              {plan: []Resource{named(shared(1, 3), renamed)}, held: []Holding{hold(gpu, "GPU-0::0")}, want: []string{"GPU-0::2"}},
		"a whole GPU under another name":         {plan: []Resource{named(shared(1, 2), renamed)}, held: []Holding{hold(gpu, "GPU-0")}, want: []string{"GPU-0::0", "GPU-0::1"}},
		"a whole GPU that is cut now":            {plan: []Resource{instances}, held: []Holding{hold(gpu, "GPU-1")}, want: []string{"MIG-a", "MIG-b"}},
		"an instance of a GPU to be given whole": {plan: []Resource{whole(2)}, held: []Holding{hold(gpu, "MIG-a")}, want: []string{"GPU-1"}},
		"an instance that is shared now":         {plan: []Resource{slicedInstances}, held: []Holding{hold(gpu, "MIG-a")}, want: []string{"MIG-a::0", "MIG-a::1"}},
		"an instance beside is left alone":       {plan: []Resource{slicedInstances}, held: []Holding{hold("nvidia.com/mig-3g.20gb", "MIG-b")}, want: []string{"MIG-b"}},
		"slices of a GPU that is cut now":        {plan: []Resource{instances}, held: []Holding{hold(gpu, "GPU-1::3")}, want: []string{"MIG-a", "MIG-b"}},
		"a GPU that is gone":                     {plan: []Resource{whole(1)}, held: []Holding{hold(gpu, "GPU-9")}},
		"devices of other makers":                {plan: []Resource{whole(1)}, held: []Holding{hold("example.com/nic", "eth0")}},
	} {
		t.Run(name, func(t *testing.T) {
			p := Plan{Resources: test.plan, Parents: parents}
			got := p.withhold(test.held)
			want := test.want
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("withheld (-want +got):\n%s", diff)
			}
			for id, why := range got {
				if why == "" {
					t.Errorf("%s is withheld without a reason", id)
				}
			}
		})
	}
}
