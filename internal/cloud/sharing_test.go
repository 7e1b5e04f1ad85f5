package cloud

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
)

// pool is a pool whose nodes get the labels.
func pool(labels map[string]string, requirements ...karpenter.NodeSelectorRequirementWithMinValues) *karpenter.NodePool {
	out := &karpenter.NodePool{}
	out.Name, out.UID, out.Generation = "gpu", types.UID("pool-uid"), 1
	out.Spec.Template.Labels = labels
	out.Spec.Template.Spec.NodeClassRef = claim("x").Spec.NodeClassRef
	out.Spec.Template.Spec.Requirements = requirements
	return out
}

// mixed is a cluster with a MIG layout of A100s and the mixed strategy.
func mixed() Configs {
	return Static(Installation{Sharing: model.Sharing{
		Configs: map[string]deviceconfig.Config{"mixed": {Flags: deviceconfig.Flags{MIGStrategy: "mixed"}}},
	}})
}

func typeOf(t *testing.T, types []*cloudprovider.InstanceType, name string) *cloudprovider.InstanceType {
	t.Helper()
	for _, k := range types {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("there is no type %s", name)
	return nil
}

func TestTypesAdvertiseWhatNodesWill(t *testing.T) {
	config := func(name string) map[string]string { return map[string]string{model.LabelDeviceConfig: name} }
	for name, c := range map[string]struct {
		configs Configs
		pool    *karpenter.NodePool
		kind    string
		want    map[string]int64
	}{
		"whole GPUs without a config": {nil, pool(nil), "g5.12xlarge", map[string]int64{model.NvidiaGPU: 4}},
		"replicas of the config that the pool's label names (karpenter#729)": {
			sliced(), pool(config("ten")), "g4dn.xlarge", map[string]int64{model.NvidiaGPU: 10},
		},
		"replicas of the config that a requirement leaves no choice about": {
			sliced(), pool(nil, asks(model.LabelDeviceConfig, "ten")), "g4dn.12xlarge", map[string]int64{model.NvidiaGPU: 40},
		},
		"the default config where the pool has no label": {sliced(), pool(nil), "g4dn.xlarge", map[string]int64{model.NvidiaGPU: 1}},
		"a renamed resource in place of the GPU": {
			sliced(), pool(config("renamed")), "g5.xlarge", map[string]int64{"nvidia.com/gpu.shared": 10},
		},
		"a config that does not exist gives nothing": {sliced(), pool(config("absent")), "g5.xlarge", map[string]int64{}},
		"MIG slices (kubernetes-sigs/karpenter#729, containers-roadmap#2690)": {
			mixed(), pool(map[string]string{model.LabelMIGConfig: "all-1g.5gb"}), "p4d.24xlarge", map[string]int64{"nvidia.com/mig-1g.5gb": 56},
		},
		"an eighth of a GPU counts where the pool names the family (aws#8324)": {
			nil, pool(nil, asks("karpenter.k8s.aws/instance-family", "g6f")), "g6f.large", map[string]int64{model.NvidiaGPU: 1},
		},
		"an eighth of a GPU is no GPU to a pool that only names a model (aws#8368)": {
			nil, pool(nil, asks("karpenter.k8s.aws/instance-gpu-name", "l4")), "g6f.large", map[string]int64{},
		},
		"a type without GPUs stays without": {sliced(), pool(config("ten")), "m5.large", map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, ec2("default"))
			if c.configs == nil {
				c.configs = noConfigs{}
			}
			s := Sharing(w.sim, c.configs, book())
			types, err := s.GetInstanceTypes(w.ctx, c.pool)
			if err != nil {
				t.Fatal(err)
			}
			k := typeOf(t, types, c.kind)
			if d := cmp.Diff(c.want, gpus(k.Allocatable())); d != "" {
				t.Error(d)
			}
			if left := k.Allocatable(); left.Cpu().IsZero() {
				t.Error("what has nothing to do with GPUs is lost")
			}
		})
	}
}

func TestThePhysicalTypesAreLeftAlone(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	s := Sharing(w.sim, sliced(), book())
	if _, err := s.GetInstanceTypes(w.ctx, pool(map[string]string{model.LabelDeviceConfig: "ten"})); err != nil {
		t.Fatal(err)
	}
	types, err := w.sim.GetInstanceTypes(w.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]int64{model.NvidiaGPU: 1}, gpus(typeOf(t, types, "g5.xlarge").Capacity)); d != "" {
		t.Errorf("the wrapped provider's own type changed: %s", d)
	}
}

func TestTypesPromiseTheLabelsOfFeatureDiscovery(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	types, err := Sharing(w.sim, noConfigs{}, book()).GetInstanceTypes(w.ctx, pool(nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"g4dn.xlarge": "Tesla-T4", "m5.large": ""} {
		r := typeOf(t, types, name).Requirements.Get("nvidia.com/gpu.product")
		if want == "" && r.Operator() != corev1.NodeSelectorOpDoesNotExist || want != "" && !r.Has(want) {
			t.Errorf("%s: nvidia.com/gpu.product %v, want %q", name, r, want)
		}
	}
}

func TestAChangedConfigChangesTheTypes(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	configs := sliced()
	s := Sharing(w.sim, configs, book())
	p := pool(map[string]string{model.LabelDeviceConfig: "ten"})
	count := func() int64 {
		types, err := s.GetInstanceTypes(w.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return gpus(typeOf(t, types, "g4dn.xlarge").Capacity)[model.NvidiaGPU]
	}
	if n := count(); n != 10 {
		t.Fatalf("%d", n)
	}
	configs.now = &Installation{Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{"ten": {}}}}
	if n := count(); n != 1 {
		t.Errorf("the config shares nothing any more, and the type still has %d", n)
	}
	w.sim.shelf.without(Offering{Type: "g4dn.xlarge", Zone: "us-east-1a", CapacityType: model.Spot}, start.Add(defaults.Stock))
	types, err := s.GetInstanceTypes(w.ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range typeOf(t, types, "g4dn.xlarge").Offerings {
		if o.Zone() == "us-east-1a" && o.CapacityType() == model.Spot && o.Available {
			t.Error("an offering that ran out of stock is still shown")
		}
	}
}

func TestSlicesAreLaunched(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		asks   string
		amount int64
		kind   string // launched; "" = refused
	}{
		"four slices of one GPU (karpenter#729)":                  {"ten", model.NvidiaGPU, 4, "g4dn.xlarge"},
		"more slices than one GPU has go to the next type":        {"ten", model.NvidiaGPU, 11, "g4dn.12xlarge"},
		"slices under another name":                               {"renamed", "nvidia.com/gpu.shared", 8, "g4dn.xlarge"},
		"a name that the config does not give is refused at once": {"renamed", model.NvidiaGPU, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, ec2("default"))
			s := Sharing(w.sim, sliced(), book())
			in := claim("a", kinds("g4dn.xlarge", "g4dn.12xlarge"), asks("nvidia.com/gpu.product", "Tesla-T4-SHARED"))
			if c.config == "renamed" {
				in.Spec.Requirements = in.Spec.Requirements[:1]
			}
			in.Labels[model.LabelDeviceConfig] = c.config
			in.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceName(c.asks): amount(c.amount)}
			got, err := s.Create(w.ctx, in)
			if c.kind == "" {
				if !cloudprovider.IsInsufficientCapacityError(err) || !strings.Contains(err.Error(), c.asks) {
					t.Errorf("error %v, want insufficient capacity of %s", err, c.asks)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Labels[model.LabelInstanceType] != c.kind {
				t.Errorf("launched %s, want %s", got.Labels[model.LabelInstanceType], c.kind)
			}
			if n := gpus(got.Status.Capacity)[c.asks]; n < c.amount {
				t.Errorf("the claim's capacity has %d of %s, want what the node will advertise", n, c.asks)
			}
			if seen, err := s.Get(w.ctx, got.Status.ProviderID); err != nil || gpus(seen.Status.Allocatable)[model.NvidiaGPU] > 1 && c.config == "renamed" {
				t.Errorf("seen again: %v, %v", seen, err)
			}
			if d := cmp.Diff(c.amount, func() int64 { q := in.Spec.Resources.Requests[corev1.ResourceName(c.asks)]; return q.Value() }()); d != "" {
				t.Errorf("the caller's claim was written to: %s", d)
			}
		})
	}
}

func TestTheHardwareOfAnUnknownTypeFollowsFromItsLabels(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	s := Sharing(w.sim, sliced(), book())
	c := claim("a")
	c.Labels = map[string]string{
		model.LabelInstanceType: "g99.xlarge", model.LabelDeviceConfig: "ten", "karpenter.k8s.aws/instance-gpu-count": "2",
		"karpenter.k8s.aws/instance-gpu-name": "a10g", "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia", "karpenter.k8s.aws/instance-gpu-memory": "22888",
	}
	ad, err := s.Predict(w.ctx, c)
	if err != nil || ad.Resources[model.NvidiaGPU] != 20 {
		t.Errorf("two GPUs in ten slices each give %v, %v", ad.Resources, err)
	}
}

// everything is the decorated cloud over the whole book.
func everything(b *testing.B, objects ...client.Object) *Shared {
	b.Helper()
	registerOnce()
	all, err := catalog.Load("us-east-1")
	if err != nil {
		b.Fatal(err)
	}
	sim, err := NewSimulated(Config{Client: newClient(clocktesting.NewFakeClock(start), objects...), Book: all})
	if err != nil {
		b.Fatal(err)
	}
	return Sharing(sim, sliced(), all)
}

func BenchmarkTypesOfAPool(b *testing.B) {
	s := everything(b)
	p := pool(map[string]string{model.LabelDeviceConfig: "ten"})
	p.Spec.Template.Spec.NodeClassRef = nil
	for b.Loop() {
		if _, err := s.GetInstanceTypes(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLaunchOfSlices(b *testing.B) {
	s := everything(b, ec2("default"))
	in := claim("a", kinds("g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge", "g4dn.8xlarge", "g4dn.12xlarge", "g5.xlarge", "g5.2xlarge", "g5.4xlarge", "g6.xlarge", "g6.2xlarge"))
	in.Labels[model.LabelDeviceConfig] = "ten"
	in.Spec.Resources.Requests = corev1.ResourceList{model.NvidiaGPU: amount(4)}
	n := 0
	for b.Loop() {
		n++
		in.UID = types.UID(fmt.Sprint(n))
		if _, err := s.Create(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
