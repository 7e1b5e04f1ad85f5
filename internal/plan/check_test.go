package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

const gi = int64(1) << 30

// sound is a Snapshot with a plan that holds: two slices on a new node of pool
// gpu, one pod on a node that exists, one pod that goes nowhere.
func sound() (model.Snapshot, Plan) {
	sold := func(name string, cpu int64, gpus int64, price float64) model.InstanceType {
		r := model.Resources{model.CPU: cpu, model.Memory: 16 * gi, model.Pods: 10, model.NvidiaGPU: gpus}
		return model.InstanceType{
			Name: name, Labels: map[string]string{model.LabelInstanceType: name, model.LabelArch: "amd64"}, Capacity: r, Allocatable: r,
			GPUs:      []model.GPU{{Manufacturer: "nvidia", Model: "t4", Count: gpus, MemoryMiB: 15360, Fraction: 1}},
			Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, Price: price}, {Zone: "b", CapacityType: model.OnDemand, Price: price}},
		}
	}
	slice := func() *model.PodSpec {
		return &model.PodSpec{
			Labels:      map[string]string{"app": "web"},
			Requests:    model.Resources{model.CPU: 1000, model.Memory: gi, model.Pods: 1, "nvidia.com/gpu.shared": 1},
			Containers:  []model.Container{{Name: "main", Requests: model.Resources{"nvidia.com/gpu.shared": 1}}},
			Tolerations: []model.Toleration{{Key: "gpu", Operator: "Exists"}},
		}
	}
	plain := func() *model.PodSpec {
		return &model.PodSpec{Labels: map[string]string{"app": "db"}, Requests: model.Resources{model.CPU: 500, model.Memory: gi, model.Pods: 1}}
	}
	s := model.Snapshot{
		Region: "r",
		Types:  []model.InstanceType{sold("small", 4000, 1, 0.5), sold("large", 8000, 2, 0.9)},
		Pools: []model.Pool{{
			Name: "gpu", Labels: map[string]string{"team": "x"}, Taints: []model.Taint{{Key: "gpu", Effect: model.NoSchedule}},
			Requirements: []model.Requirement{{Key: "rack", Operator: model.In, Values: []string{"1", "2"}}},
			Limits:       model.Resources{model.CPU: 4000, model.Nodes: 3},
		}},
		Nodes: []model.Node{{
			Name: "n", Zone: "a", Labels: map[string]string{model.LabelZone: "a"}, Price: 0.1,
			Allocatable: model.Resources{model.CPU: 2000, model.Memory: 8 * gi, model.Pods: 10},
		}},
		Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{"shared": {TimeSlicing: &deviceconfig.Replicated{
			FailRequestsGreaterThanOne: true, RenameByDefault: true,
			Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Rename: "nvidia.com/gpu.shared", Replicas: 4}},
		}}}},
		DaemonSets: []model.DaemonSet{{Namespace: "kube-system", Name: "agent", Spec: &model.PodSpec{
			Requests: model.Resources{model.CPU: 100, model.Pods: 1}, Tolerations: []model.Toleration{{Operator: "Exists"}},
		}}},
		Pods: []model.Pod{
			{Namespace: "t", Name: "s0", Spec: slice()},
			{Namespace: "t", Name: "s1", Spec: slice()},
			{Namespace: "t", Name: "p", Spec: plain()},
			{Namespace: "t", Name: "lost", Spec: plain()},
			{Namespace: "t", Name: "old", Node: "n", Spec: plain()},
		},
	}
	p := Plan{
		Launches: []Launch{{
			Pool: "gpu", Type: "small", Zones: []string{"a", "b"}, CapacityType: model.OnDemand, Price: 0.5, Alternatives: []string{"small", "large"},
			Labels: map[string]string{"team": "x", "rack": "1", model.LabelNodePool: "gpu"}, Config: "shared", Sharing: model.TimeSlicing,
			Allocatable: model.Resources{model.CPU: 4000, model.Memory: 16 * gi, model.Pods: 10, "nvidia.com/gpu.shared": 4},
			Devices:     []model.Device{{Model: "t4", Resources: model.Resources{"nvidia.com/gpu.shared": 4}}},
			DaemonSets:  []string{"kube-system/agent"}, Overhead: model.Resources{model.CPU: 100, model.Pods: 1}, Pods: []int{0, 1},
			Used: model.Resources{model.CPU: 2000, model.Memory: 2 * gi, model.Pods: 2, "nvidia.com/gpu.shared": 2},
		}},
		Binds:    []Bind{{Node: "n", Pods: []int{2}}},
		Unplaced: []model.Refusal{{Pods: []int{3}, Verdicts: []model.Verdict{{Code: model.CodeTaint}}}},
		Cost:     0.5, Standing: 0.1,
	}
	return s, p
}

func TestCheckAcceptsASoundPlan(t *testing.T) {
	s, p := sound()
	for _, err := range Check(s, p) {
		t.Error(err)
	}
}

func TestCheckFinds(t *testing.T) {
	spread := func(key string) []model.Spread {
		return []model.Spread{{MaxSkew: 1, TopologyKey: key, SelectorNamespace: "t", Selector: model.Selector{All: true, Term: model.Term{{Key: "app", Operator: model.In, Values: []string{"web"}}}}}}
	}
	term := func(anti bool, key, app string) []model.PodTerm {
		return []model.PodTerm{{Anti: anti, TopologyKey: key, Namespaces: []string{"t"}, Selector: model.Selector{All: true, Term: model.Term{{Key: "app", Operator: model.In, Values: []string{app}}}}}}
	}
	tests := map[string]struct {
		spoil func(s *model.Snapshot, p *Plan)
		want  string
	}{
		"a pod left out":                         {func(_ *model.Snapshot, p *Plan) { p.Unplaced = nil }, "pod t/lost is in the plan 0 times"},
		"a pod placed twice":                     {func(_ *model.Snapshot, p *Plan) { p.Binds[0].Pods = []int{0, 2} }, "pod t/s0 is in the plan 2 times"},
		"a pod that stays where it is":           {func(_ *model.Snapshot, p *Plan) { p.Binds[0].Pods = []int{2, 4} }, "pod t/old is in the plan 1 times, not 0"},
		"a pod of a leaving node left there":     {func(s *model.Snapshot, _ *Plan) { s.Nodes[0].Leaving = true }, "pod t/old is in the plan 0 times, not 1"},
		"a refusal without a reason":             {func(_ *model.Snapshot, p *Plan) { p.Unplaced[0].Verdicts = nil }, "gives no reason"},
		"a pod that does not exist":              {func(_ *model.Snapshot, p *Plan) { p.Binds[0].Pods = []int{2, 9} }, "there is no pod 9"},
		"a node that is not ready":               {func(s *model.Snapshot, _ *Plan) { s.Nodes[0].Unready = "cordoned" }, "takes no pods"},
		"a node that does not exist":             {func(_ *model.Snapshot, p *Plan) { p.Binds[0].Node = "m" }, "no such node"},
		"a node with too little left":            {func(s *model.Snapshot, _ *Plan) { s.Nodes[0].Allocatable[model.CPU] = 1000 }, "node n: 1100 of cpu are asked and 1000 are there"},
		"too many pods":                          {func(s *model.Snapshot, _ *Plan) { s.Nodes[0].Allocatable[model.Pods] = 2 }, "node n: 3 of pods"},
		"a daemonset that was forgotten":         {func(_ *model.Snapshot, p *Plan) { p.Launches[0].DaemonSets = nil }, "DaemonSet kube-system/agent runs there"},
		"overhead too small":                     {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Overhead = nil }, "is less than what DaemonSets take"},
		"more slices than the config gives":      {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Allocatable["nvidia.com/gpu.shared"] = 9 }, "9 of nvidia.com/gpu.shared are more than the type's 4"},
		"a container that asks two slices":       {func(s *model.Snapshot, _ *Plan) { s.Pods[0].Spec.Containers[0].Requests["nvidia.com/gpu.shared"] = 2 }, "at most 1 is allowed"},
		"a config that the labels do not select": {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Config = "other" }, `config "other"`},
		"a taint that is not tolerated":          {func(s *model.Snapshot, _ *Plan) { s.Pods[0].Spec.Tolerations = nil }, "does not tolerate gpu"},
		"a selector that fails":                  {func(s *model.Snapshot, _ *Plan) { s.Pods[0].Spec.NodeSelector = map[string]string{"rack": "2"} }, "does not match on rack"},
		"a zone in which a pod cannot be": {func(s *model.Snapshot, _ *Plan) {
			s.Pods[0].Spec.NodeSelector = map[string]string{model.LabelZone: "a"}
		}, `in zone "b"`},
		"a volume elsewhere": {func(s *model.Snapshot, _ *Plan) {
			s.Pods[2].Spec.Volumes = []model.Volume{{Claim: "c", Terms: []model.Term{{{Key: model.LabelZone, Operator: model.In, Values: []string{"b"}}}}}}
		}, "volume c"},
		"a host port taken twice": {func(s *model.Snapshot, _ *Plan) {
			s.Pods[2].Spec.HostPorts, s.Pods[4].Spec.HostPorts = []model.HostPort{{Port: 80}}, []model.HostPort{{Port: 80, Protocol: "TCP"}}
		}, "the same host port"},
		"pods spread by zone on a node without one": {func(s *model.Snapshot, _ *Plan) { s.Pods[0].Spec.Spread = spread(model.LabelZone) }, "the node may be in several"},
		"a spread by host that is tipped over":      {func(s *model.Snapshot, _ *Plan) { s.Pods[0].Spec.Spread = spread(model.LabelHostname) }, "is spread by kubernetes.io/hostname"},
		"pods that keep apart together":             {func(s *model.Snapshot, _ *Plan) { s.Pods[0].Spec.PodAffinity = term(true, model.LabelHostname, "web") }, "must be apart"},
		"a pod that another there keeps apart from": {func(s *model.Snapshot, _ *Plan) { s.Pods[4].Spec.PodAffinity = term(true, model.LabelHostname, "db") }, "must be apart"},
		"a pod far from those it is drawn to":       {func(s *model.Snapshot, _ *Plan) { s.Pods[0].Spec.PodAffinity = term(false, model.LabelHostname, "db") }, "must be near"},
		"a pool's label that is missing":            {func(_ *model.Snapshot, p *Plan) { delete(p.Launches[0].Labels, "team") }, "label team"},
		"a label that the pool does not give":       {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Labels["x"] = "y" }, "label x is not the pool's"},
		"a choice outside the pool's values":        {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Labels["rack"] = "3" }, "requirement on rack"},
		"a zone that is not sold":                   {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Zones = []string{"a", "c"} }, `not sold as on-demand in zone "c"`},
		"a wrong price":                             {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Price = 0.4 }, "at 0.4"},
		"a wrong sum":                               {func(_ *model.Snapshot, p *Plan) { p.Cost = 0.4 }, "the launches sum up to 0.5"},
		"a wrong standing cost":                     {func(_ *model.Snapshot, p *Plan) { p.Standing = 0 }, "standing cost"},
		"a limit on cpu":                            {func(s *model.Snapshot, _ *Plan) { s.Pools[0].Limits[model.CPU] = 3000 }, "pool gpu: 4000 of cpu"},
		"a limit on nodes that exist already":       {func(s *model.Snapshot, _ *Plan) { s.Nodes[0].Pool, s.Pools[0].Limits[model.Nodes] = "gpu", 1 }, "pool gpu: 2 of nodes"},
		"an unusable pool":                          {func(s *model.Snapshot, _ *Plan) { s.Pools[0].Unusable = []model.Verdict{{}} }, "launches nothing"},
		"too few types for minValues": {func(s *model.Snapshot, _ *Plan) {
			s.Pools[0].Requirements = append(s.Pools[0].Requirements, model.Requirement{Key: model.LabelInstanceType, Operator: model.Exists, MinValues: 3})
		}, "minValues is 3"},
		"an alternative that is too small": {func(s *model.Snapshot, _ *Plan) {
			s.Types[1].Allocatable = model.Resources{model.CPU: 100, model.Memory: 16 * gi, model.Pods: 10, model.NvidiaGPU: 2}
		}, "as large: 2100 of cpu"},
		"alternatives that do not start with it":    {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Alternatives = []string{"large", "small"} }, "do not start with its type"},
		"a fraction of a GPU that nobody named":     {func(s *model.Snapshot, _ *Plan) { s.Types[0].GPUs[0].Fraction = 0.5 }, "has a part of a GPU"},
		"use that is not the sum of its pods' asks": {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Used = model.Resources{} }, "its pods ask"},
		"a launch for nobody":                       {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Pods = nil }, "no pod is on it"},
		"a pod that waits for its scheduling gates": {func(s *model.Snapshot, _ *Plan) { s.Pods[2].Spec.Gates = []string{"g"} }, "can never be placed"},
		"a type that does not exist":                {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Type = "none" }, "does not exist"},
		"pods out of order":                         {func(_ *model.Snapshot, p *Plan) { p.Launches[0].Pods = []int{1, 0} }, "not sorted"},
		"a taint that an existing node has for good": {func(s *model.Snapshot, _ *Plan) {
			s.Nodes[0].Taints = []model.Taint{{Key: "t", Effect: model.NoExecute}}
		}, "does not tolerate t"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, p := sound()
			tt.spoil(&s, &p)
			errs := Check(s, p)
			if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), tt.want) }) {
				t.Errorf("want an error with %q, got %v", tt.want, errs)
			}
		})
	}
}

// Taints that go by themselves while a pool's node comes up do not count.
func TestCheckLetsPassingTaintsPass(t *testing.T) {
	s, p := sound()
	s.Nodes[0].Pool, s.Nodes[0].InFlight, s.Pools[0].Limits = "gpu", true, nil
	s.Nodes[0].Taints = []model.Taint{{Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule}, {Key: "warming", Effect: model.NoSchedule}}
	s.Pools[0].StartupTaints = []model.Taint{{Key: "warming", Effect: model.NoSchedule}}
	for _, err := range Check(s, p) {
		t.Error(err)
	}
	s.Nodes[0].Labels = maps.Clone(s.Nodes[0].Labels)
	s.Nodes[0].Labels["karpenter.sh/initialized"] = "true"
	if len(Check(s, p)) == 0 {
		t.Error("taints of a node that is up do not count")
	}
}

// Shares are counted device by device.
func TestCheckCountsShares(t *testing.T) {
	device := model.Device{Resources: model.Resources{model.NvidiaGPU: 1}, Shares: model.Resources{"mem": 16}}
	spec := func(mem int64) *model.PodSpec {
		return &model.PodSpec{Requests: model.Resources{model.CPU: 1, model.Pods: 1}, Shares: []model.DeviceShare{{Resource: model.NvidiaGPU, Count: 1, PerDevice: model.Resources{"mem": mem}}}}
	}
	s := model.Snapshot{
		Nodes: []model.Node{{Name: "n", Allocatable: model.Resources{model.CPU: 9, model.Pods: 9, model.NvidiaGPU: 2}, Devices: []model.Device{device, device}}},
		Pods:  []model.Pod{{Name: "a", Spec: spec(10)}, {Name: "b", Spec: spec(8)}, {Name: "c", Spec: spec(6)}},
	}
	tests := map[string]struct {
		on   map[int][]int
		want string
	}{
		"a fit":                           {map[int][]int{0: {0}, 1: {1}, 2: {0}}, ""},
		"a device asked for too much":     {map[int][]int{0: {0}, 1: {0}, 2: {1}}, "device 0 is asked for 18 of mem"},
		"a pod on no device":              {map[int][]int{0: {0}, 1: {1}}, "is on 0 devices and asks for 1"},
		"a device that is not there":      {map[int][]int{0: {0}, 1: {1}, 2: {5}}, "does not back"},
		"a pod on more than it asked for": {map[int][]int{0: {0, 1}, 1: {1}, 2: {0}}, "is on 2 devices"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			errs := Check(s, Plan{Binds: []Bind{{Node: "n", Pods: []int{0, 1, 2}, OnDevice: tt.on}}})
			if tt.want == "" && len(errs) > 0 || tt.want != "" && !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), tt.want) }) {
				t.Errorf("want %q, got %v", tt.want, errs)
			}
		})
	}
}
