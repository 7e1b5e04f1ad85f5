package rival

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

const gi = int64(1) << 30

var loaded = sync.OnceValues(func() (catalog.Book, error) { return catalog.Load("us-east-1") })

func load(t *testing.T) catalog.Book {
	t.Helper()
	book, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// usEast is the on-demand market of us-east-1 with one pool for some families or types.
func usEast(t *testing.T, key string, values ...string) model.Snapshot {
	t.Helper()
	book := load(t)
	pool := model.Pool{Name: "gpu", Requirements: []model.Requirement{
		{Key: model.LabelCapacityType, Operator: model.In, Values: []string{model.OnDemand}},
		{Key: key, Operator: model.In, Values: values},
	}}
	s := model.Snapshot{Region: "us-east-1", Pools: []model.Pool{pool}}
	for _, typ := range book.Types {
		if slices.Contains(values, typ.Labels[key]) {
			s.Types = append(s.Types, typ)
		}
	}
	return s
}

const family = "karpenter.k8s.aws/instance-family"

func spec(cpu, gib int64, resource string, n int64) *model.PodSpec {
	r := model.Resources{model.CPU: cpu, model.Memory: gib * gi, model.Pods: 1}
	if n > 0 {
		r[resource] = n
	}
	return &model.PodSpec{Labels: map[string]string{"app": "a"}, Requests: r}
}

func add(s *model.Snapshot, n int, spec *model.PodSpec) {
	for range n {
		s.Pods = append(s.Pods, model.Pod{Namespace: "default", Name: fmt.Sprintf("pod-%d", len(s.Pods)), Spec: spec})
	}
}

func sliced(s *model.Snapshot, r deviceconfig.Replicated) {
	s.Sharing.Configs = map[string]deviceconfig.Config{"sliced": {TimeSlicing: &r}}
}

func run(t *testing.T, s model.Snapshot, o Options) Result {
	t.Helper()
	out, err := Run(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What Karpenter v1.15.0 makes of public complaints about it.
func TestComplaints(t *testing.T) {
	four := deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Replicas: 4}}}
	renamed := deviceconfig.Replicated{RenameByDefault: true, Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Rename: "nvidia.com/gpu.shared", Replicas: 4}}}
	cases := map[string]struct {
		key      string
		values   []string
		fill     func(*model.Snapshot)
		options  Options
		nodes    int
		cost     float64
		unplaced int
	}{
		"slices are not seen: one node a pod": {
			model.LabelInstanceType,
			[]string{"g4dn.xlarge", "g4dn.2xlarge"},
			func(s *model.Snapshot) { sliced(s, four); add(s, 8, spec(500, 1, model.NvidiaGPU, 1)) },
			Options{},
			8, 4.208, 0,
		},
		"with overlays slices count": {
			model.LabelInstanceType,
			[]string{"g4dn.xlarge", "g4dn.2xlarge"},
			func(s *model.Snapshot) { sliced(s, four); add(s, 8, spec(500, 1, model.NvidiaGPU, 1)) },
			Options{Overlay: true},
			2, 1.052, 0,
		},
		"four slices for one pod are too many": {
			model.LabelInstanceType,
			[]string{"g5.xlarge", "g5.2xlarge"},
			func(s *model.Snapshot) { sliced(s, four); add(s, 1, spec(2000, 4, model.NvidiaGPU, 4)) },
			Options{},
			0, 0, 1,
		},
		"with overlays four slices for one pod fit": {
			model.LabelInstanceType,
			[]string{"g5.xlarge", "g5.2xlarge"},
			func(s *model.Snapshot) { sliced(s, four); add(s, 1, spec(2000, 4, model.NvidiaGPU, 4)) },
			Options{Overlay: true},
			1, 1.006, 0,
		},
		"renamed slices do not exist": {
			family,
			[]string{"g5"},
			func(s *model.Snapshot) { sliced(s, renamed); add(s, 1, spec(500, 1, "nvidia.com/gpu.shared", 1)) },
			Options{},
			0, 0, 1,
		},
		"with overlays renamed slices exist": {
			family,
			[]string{"g5"},
			func(s *model.Snapshot) { sliced(s, renamed); add(s, 1, spec(500, 1, "nvidia.com/gpu.shared", 1)) },
			Options{Overlay: true},
			1, 1.006, 0,
		},
		"three pods grow one node to four GPUs": {
			family,
			[]string{"g5"},
			func(s *model.Snapshot) { add(s, 3, spec(2000, 13, model.NvidiaGPU, 1)) },
			Options{},
			1, 5.672, 0,
		},
		"the order of pods ignores GPUs": {
			family,
			[]string{"g5"},
			func(s *model.Snapshot) {
				add(s, 4, spec(8000, 8, model.NvidiaGPU, 1))
				add(s, 1, spec(1000, 4, model.NvidiaGPU, 4))
			},
			Options{},
			1, 16.288, 0,
		},
		"a slice that EC2 counts as no GPU is none": {
			family,
			[]string{"g6f"},
			func(s *model.Snapshot) { add(s, 1, spec(1000, 4, model.NvidiaGPU, 1)) },
			Options{},
			0, 0, 1,
		},
		"what HAMi hands out is not known": {
			model.LabelInstanceType,
			[]string{"g4dn.xlarge"},
			func(s *model.Snapshot) {
				p := spec(500, 1, model.ShareMemory, 4000)
				p.Requests[model.NvidiaGPU] = 1
				p.Shares = []model.DeviceShare{{Resource: model.NvidiaGPU, Count: 1, PerDevice: model.Resources{model.ShareMemory: 4000}}}
				s.Sharing.Consumable = true
				add(s, 2, p)
			},
			Options{Overlay: true},
			0, 0, 2,
		},
		"thousandths of a GPU are whole ones": {
			model.LabelInstanceType,
			[]string{"g4dn.xlarge"},
			func(s *model.Snapshot) {
				p := spec(500, 1, "", 0)
				p.Shares = []model.DeviceShare{{Resource: model.NvidiaGPU, Count: 1, PerDevice: model.Resources{model.ShareMilli: 250}}}
				s.Sharing.Consumable = true
				add(s, 4, p)
			},
			Options{},
			4, 2.104, 0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := usEast(t, c.key, c.values...)
			c.fill(&s)
			got := run(t, s, c.options)
			if len(got.Nodes) != c.nodes || math.Abs(got.Cost-c.cost) > 1e-6 || len(got.Unplaced) != c.unplaced {
				t.Errorf("%d nodes, %.3f $/h, %d unplaced; want %d, %.3f, %d\n%v", len(got.Nodes), got.Cost, len(got.Unplaced), c.nodes, c.cost, c.unplaced, got)
			}
		})
	}
}

// Every pod is somewhere once, and what is rebuilt of pods and nodes counts.
func TestConstraintsReachKarpenter(t *testing.T) {
	book := load(t)
	zone := book.Zones[1]
	cases := map[string]struct {
		change func(*model.Snapshot, *model.PodSpec)
		want   string // nodes, binds, unplaced
	}{
		"nothing special": {func(*model.Snapshot, *model.PodSpec) {}, "1 0 0"},
		"anti-affinity by host": {func(_ *model.Snapshot, p *model.PodSpec) {
			p.PodAffinity = []model.PodTerm{{Anti: true, Selector: only("app", "a"), Namespaces: []string{"default"}, TopologyKey: model.LabelHostname}}
		}, "4 0 0"},
		"spread over zones": {func(_ *model.Snapshot, p *model.PodSpec) {
			p.Spread = []model.Spread{{MaxSkew: 1, TopologyKey: model.LabelZone, Selector: only("app", "a")}}
		}, "3 0 0"},
		"host ports": {func(_ *model.Snapshot, p *model.PodSpec) { p.HostPorts = []model.HostPort{{Port: 80, Protocol: "TCP"}} }, "4 0 0"},
		"a taint": {func(s *model.Snapshot, _ *model.PodSpec) {
			s.Pools[0].Taints = []model.Taint{{Key: "team", Value: "a", Effect: model.NoSchedule}}
		}, "0 0 4"},
		"a tolerated taint": {func(s *model.Snapshot, p *model.PodSpec) {
			s.Pools[0].Taints = []model.Taint{{Key: "team", Value: "a", Effect: model.NoSchedule}}
			p.Tolerations = []model.Toleration{{Key: "team", Operator: "Exists"}}
		}, "1 0 0"},
		"a label that no type has": {func(_ *model.Snapshot, p *model.PodSpec) { p.NodeSelector = map[string]string{"team": "a"} }, "0 0 4"},
		"a volume in another zone than the pool": {func(s *model.Snapshot, p *model.PodSpec) {
			s.Pools[0].Requirements = append(s.Pools[0].Requirements, model.Requirement{Key: model.LabelZone, Operator: model.In, Values: []string{zone}})
			p.Volumes = []model.Volume{{Claim: "c", Terms: []model.Term{{{Key: model.LabelZone, Operator: model.In, Values: []string{book.Zones[0]}}}}}}
		}, "0 0 4"},
		"a limit on CPUs, of which the first node is taken to need the most": {func(s *model.Snapshot, p *model.PodSpec) {
			s.Pools[0].Limits = model.Resources{model.CPU: 2000}
			p.HostPorts = []model.HostPort{{Port: 80, Protocol: "TCP"}}
		}, "1 0 3"},
		"a limit on nodes, which one round of scheduling does not count": {func(s *model.Snapshot, p *model.PodSpec) {
			s.Pools[0].Limits = model.Resources{model.Nodes: 2}
			p.HostPorts = []model.HostPort{{Port: 80, Protocol: "TCP"}}
		}, "4 0 0"},
		"room on a node that exists": {func(s *model.Snapshot, _ *model.PodSpec) {
			s.Nodes = []model.Node{{Name: "old", Zone: zone, Allocatable: model.Resources{model.CPU: 4000, model.Memory: 16 * gi, model.Pods: 10}}}
		}, "0 1 0"},
		"a node that exists and is half full": {func(s *model.Snapshot, p *model.PodSpec) {
			s.Nodes = []model.Node{{Name: "old", Zone: zone, Allocatable: model.Resources{model.CPU: 4000, model.Memory: 16 * gi, model.Pods: 10}}}
			s.Pods = append(s.Pods, model.Pod{Namespace: "default", Name: "runs", Node: "old", Spec: spec(3000, 1, "", 0)})
		}, "1 1 0"},
		"a node that is leaving": {func(s *model.Snapshot, p *model.PodSpec) {
			s.Nodes = []model.Node{{Name: "old", Leaving: true, Allocatable: model.Resources{model.CPU: 4000, model.Memory: 16 * gi, model.Pods: 10}}}
			s.Pods[0].Node = "old"
		}, "1 0 0"},
		"a gate":  {func(_ *model.Snapshot, p *model.PodSpec) { p.Gates = []string{"wait"} }, "0 0 4"},
		"a claim": {func(_ *model.Snapshot, p *model.PodSpec) { p.Claims = []string{"gpu"} }, "0 0 4"},
		"a daemon that takes half of each node": {func(s *model.Snapshot, p *model.PodSpec) {
			s.Pools[0].Requirements = append(s.Pools[0].Requirements, model.Requirement{Key: model.LabelInstanceType, Operator: model.In, Values: []string{"m5.large"}})
			p.Requests[model.CPU] = 800
			s.DaemonSets = []model.DaemonSet{{Namespace: "kube-system", Name: "agent", Spec: spec(1000, 0, "", 0)}}
		}, "4 0 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := usEast(t, family, "c6g", "m5")
			p := spec(500, 1, "", 0)
			add(&s, 4, p)
			c.change(&s, p)
			got := run(t, s, Options{})
			if diff := cmp.Diff(c.want, fmt.Sprint(len(got.Nodes), len(got.Binds), len(got.Unplaced))); diff != "" {
				t.Errorf("nodes, binds, unplaced (-want +got)\n%s%v", diff, got)
			}
			once(t, s, got)
		})
	}
}

// once checks that every pending pod is in one place.
func once(t *testing.T, s model.Snapshot, r Result) {
	t.Helper()
	seen := map[int]int{}
	for _, n := range r.Nodes {
		for _, p := range n.Pods {
			seen[p]++
		}
	}
	for _, b := range r.Binds {
		for _, p := range b.Pods {
			seen[p]++
		}
	}
	for p := range r.Unplaced {
		seen[p]++
	}
	for i, p := range s.Pods {
		pending := p.Node == "" || len(s.Nodes) > 0 && s.Nodes[0].Leaving
		if pending != (seen[i] == 1) {
			t.Errorf("pod %d is in %d places", i, seen[i])
		}
	}
}

func only(key, value string) model.Selector {
	return model.Selector{All: true, Term: model.Term{{Key: key, Operator: model.In, Values: []string{value}}}}
}

func TestMessagesAreKarpenters(t *testing.T) {
	s := usEast(t, family, "g5")
	add(&s, 1, spec(1000, 4, model.NvidiaGPU, 16))
	if got := run(t, s, Options{}).Unplaced[0]; !strings.Contains(got, "no instance type") {
		t.Errorf("message %q", got)
	}
	s.Pools = nil
	if got := run(t, s, Options{}).Unplaced[0]; got != "no dynamic nodepools found" {
		t.Errorf("message without pools %q", got)
	}
}

// Check finds a plan that Karpenter would not have made, and passes its own.
func TestCheck(t *testing.T) {
	s := usEast(t, family, "g4dn", "g5")
	p := spec(1000, 4, model.NvidiaGPU, 1)
	p.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-gpu-name": "t4"}
	add(&s, 2, p)
	launch := plan.Launch{Pool: "gpu", Type: "g4dn.xlarge", Zones: []string{load(t).Zones[0]}, CapacityType: model.OnDemand, Pods: []int{0, 1}}
	if errs := Check(s, plan.Plan{Launches: []plan.Launch{launch}}); len(errs) > 0 {
		t.Errorf("a good launch: %v", errs)
	}
	launch.Type = "g5.xlarge"
	if errs := Check(s, plan.Plan{Launches: []plan.Launch{launch}}); len(errs) != 2 {
		t.Errorf("the wrong GPU for two pods: %v", errs)
	}
	launch.Type, launch.CapacityType = "g4dn.xlarge", model.Spot
	if errs := Check(s, plan.Plan{Launches: []plan.Launch{launch}}); len(errs) != 1 {
		t.Errorf("a capacity type that the pool does not allow: %v", errs)
	}
}

// A Snapshot is not written to, and a run leaves nothing behind for the next.
func TestRunsAreIndependent(t *testing.T) {
	s := usEast(t, family, "g5")
	add(&s, 3, spec(2000, 13, model.NvidiaGPU, 1))
	before := fmt.Sprintf("%+v", s)
	first := run(t, s, Options{})
	run(t, usEast(t, family, "m5"), Options{})
	second := run(t, s, Options{Workers: 4})
	if diff := cmp.Diff(first.Nodes, second.Nodes); diff != "" {
		t.Errorf("nodes of two runs (-first +second)\n%s", diff)
	}
	if fmt.Sprintf("%+v", s) != before {
		t.Error("the Snapshot was written to")
	}
}

// A NodeClass may give nodes a larger disk than the type has by itself.
func TestALargerDiskIsRoomForPods(t *testing.T) {
	for size, placed := range map[int64]bool{0: false, 200 * gi: true} {
		s := usEast(t, model.LabelInstanceType, "g4dn.xlarge")
		s.Pools[0].Kubelet.RootBytes = size
		add(&s, 1, spec(500, 1, model.EphemeralStorage, 150*gi))
		r, err := Run(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(r.Unplaced) == 0; got != placed {
			t.Errorf("a disk of %d GiB: placed is %v, want %v: %v", size/gi, got, placed, r.Unplaced)
		}
	}
}
