package solve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"pgregory.net/rapid"
)

// draw makes small Snapshots in which everything that Solve knows turns up.
type draw struct{ *rapid.T }

func (d draw) n(name string, low, high int) int { return rapid.IntRange(low, high).Draw(d.T, name) }
func (d draw) often(name string, percent int) bool {
	return d.n(name, 0, 99) < percent
}

func (d draw) of(name string, from ...string) string { return rapid.SampledFrom(from).Draw(d.T, name) }

var randomZones = []string{"z1", "z2", "z3"}

func (d draw) snapshot() model.Snapshot {
	s := model.Snapshot{Region: "r", Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{
		"default": {}, "sliced": {TimeSlicing: &deviceconfig.Replicated{FailRequestsGreaterThanOne: true, Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Rename: "nvidia.com/gpu.shared", Replicas: 3}}}},
	}}}
	for i := range d.n("types", 1, 5) {
		s.Types = append(s.Types, d.typ(i))
	}
	for i := range d.n("pools", 0, 3) {
		s.Pools = append(s.Pools, d.pool(i))
	}
	for i := range d.n("nodes", 0, 3) {
		s.Nodes = append(s.Nodes, d.node(i))
	}
	for i := range d.n("daemonsets", 0, 2) {
		spec := d.spec()
		spec.PodAffinity, spec.Spread, spec.Shares, spec.Volumes = nil, nil, nil, nil
		s.DaemonSets = append(s.DaemonSets, model.DaemonSet{Namespace: "kube-system", Name: fmt.Sprint("ds", i), Spec: spec})
	}
	for i := range d.n("workloads", 1, 5) {
		spec := d.spec()
		for j := range d.n("replicas", 1, 5) {
			s.Pods = append(s.Pods, d.pod(fmt.Sprintf("w%d-%d", i, j), spec, len(s.Nodes)))
		}
	}
	return s
}

func (d draw) typ(i int) model.InstanceType {
	name := fmt.Sprintf("t%d.%s", i, d.of("size", "large", "xlarge"))
	t := model.InstanceType{Name: name, Labels: map[string]string{
		model.LabelInstanceType: name, model.LabelArch: d.of("arch", "amd64", "amd64", "arm64"), familyKey: fmt.Sprint("t", i),
	}}
	r := model.Resources{model.CPU: int64(d.n("cpu", 1, 16)) * 1000, model.Memory: int64(d.n("memory", 1, 32)) * gi, model.Pods: int64(d.n("pods", 3, 20))}
	if d.often("has GPUs", 40) {
		n := int64(d.n("gpus", 1, 4))
		r[model.NvidiaGPU] = n
		g := model.GPU{Manufacturer: "nvidia", Model: "t4", Count: n, MemoryMiB: 15360, Fraction: 1}
		if d.often("fraction", 15) {
			g.Fraction = 0.5
		}
		t.GPUs = []model.GPU{g}
	}
	t.Capacity = r
	t.Allocatable = r.Clone()
	t.Allocatable[model.CPU] -= 100
	for _, z := range randomZones {
		for _, ct := range []string{model.OnDemand, model.Spot} {
			if d.often("sold", 70) {
				t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: ct, Price: float64(d.n("price", 1, 40)) / 10, Estimated: ct == model.Spot})
			}
		}
	}
	return t
}

func (d draw) pool(i int) model.Pool {
	p := model.Pool{Name: fmt.Sprint("p", i), Weight: d.n("weight", 0, 2), Labels: map[string]string{}}
	if d.often("tainted", 25) {
		p.Taints = append(p.Taints, d.taint())
	}
	if d.often("labelled", 30) {
		p.Labels[d.of("key", "team", model.LabelDeviceConfig)] = d.of("value", "a", "b", "sliced")
	}
	if d.often("custom", 40) {
		p.Requirements = append(p.Requirements, d.requirement("team", "rack", "count"))
	}
	if d.often("well known", 40) {
		p.Requirements = append(p.Requirements, d.requirement(model.LabelZone, model.LabelCapacityType, model.LabelArch, familyKey))
	}
	if d.often("flexible", 10) {
		p.Requirements = append(p.Requirements, model.Requirement{Key: model.LabelInstanceType, Operator: model.Exists, MinValues: d.n("min", 1, 3)})
	}
	if d.often("limited", 30) {
		p.Limits = model.Resources{d.of("limit", model.CPU, model.Nodes, model.NvidiaGPU): int64(d.n("limit", 0, 4))}
		if v, ok := p.Limits[model.CPU]; ok {
			p.Limits[model.CPU] = v * 6000
		}
	}
	if d.often("dead", 5) {
		p.Unusable = []model.Verdict{{Code: model.CodeUnusable, Detail: "broken"}}
	}
	p.Static = d.often("static", 5)
	return p
}

func (d draw) taint() model.Taint {
	return model.Taint{Key: d.of("taint", "gpu", "team"), Value: d.of("taint value", "", "a"), Effect: d.of("effect", model.NoSchedule, model.NoExecute, model.PreferNoSchedule)}
}

func (d draw) requirement(keys ...string) model.Requirement {
	r := model.Requirement{Key: d.of("key", keys...), Operator: rapid.SampledFrom([]model.Operator{model.In, model.In, model.In, model.NotIn, model.Exists, model.DoesNotExist, model.Gt, model.Lte}).Draw(d.T, "operator")}
	values := map[string][]string{
		model.LabelZone: randomZones, model.LabelCapacityType: {model.Spot, model.OnDemand}, model.LabelArch: {"amd64", "arm64"},
		familyKey: {"t0", "t1", "t2"}, "team": {"a", "b"}, "rack": {"1", "2", "3"}, "count": {"1", "2", "8"}, model.LabelHostname: {"n0", "n1"},
	}[r.Key]
	switch r.Operator {
	case model.In, model.NotIn:
		for range d.n("values", 1, 2) {
			r.Values = append(r.Values, d.of("value", values...))
		}
	case model.Gt, model.Lte:
		r.Values = []string{d.of("bound", "1", "2", "4")}
	}
	return r
}

func (d draw) node(i int) model.Node {
	n := model.Node{
		Name: fmt.Sprint("n", i), Pool: d.of("pool", "", "p0", "p1"), Type: d.of("type", "t0.large", "t1.xlarge", "other"), Zone: d.of("zone", randomZones...),
		CapacityType: d.of("ct", model.Spot, model.OnDemand), Labels: map[string]string{"team": d.of("team", "a", "b")}, Price: 1,
		Allocatable: model.Resources{model.CPU: int64(d.n("cpu", 1, 8)) * 1000, model.Memory: int64(d.n("memory", 1, 16)) * gi, model.Pods: 10},
		Leaving:     d.often("leaving", 20), InFlight: d.often("in flight", 20),
	}
	if d.often("GPU node", 30) {
		n.Allocatable[model.NvidiaGPU] = int64(d.n("gpus", 0, 2))
	}
	if d.often("shares", 20) {
		for range d.n("devices", 1, 3) {
			n.Devices = append(n.Devices, model.Device{Resources: model.Resources{model.NvidiaGPU: 1}, Shares: model.Resources{"hami/mem": 16}})
		}
		n.Allocatable[model.NvidiaGPU] = int64(len(n.Devices))
	}
	if d.often("tainted", 20) {
		n.Taints = append(n.Taints, d.taint())
	}
	if d.often("unready", 10) {
		n.Unready = "cordoned"
	}
	return n
}

func (d draw) pod(name string, spec *model.PodSpec, nodes int) model.Pod {
	p := model.Pod{Namespace: d.of("namespace", "a", "a", "b"), Name: name, Spec: spec}
	if nodes > 0 && d.often("bound", 15) {
		p.Node = fmt.Sprint("n", d.n("on", 0, nodes-1))
	}
	return p
}

func (d draw) spec() *model.PodSpec {
	r := model.Resources{model.CPU: int64(d.n("millis", 1, 60)) * 100, model.Memory: int64(d.n("quarters", 1, 32)) * gi / 4, model.Pods: 1}
	spec := &model.PodSpec{Requests: r, Labels: map[string]string{"app": d.of("app", "x", "y")}}
	if d.often("GPU pod", 30) {
		r[d.of("resource", model.NvidiaGPU, "nvidia.com/gpu.shared")] = int64(d.n("gpus", 1, 3))
	}
	if d.often("shares", 8) {
		spec.Shares = []model.DeviceShare{{Resource: model.NvidiaGPU, Count: int64(d.n("count", 1, 2)), PerDevice: model.Resources{"hami/mem": int64(d.n("share", 1, 16))}}}
		delete(r, model.NvidiaGPU)
	}
	own := r.Clone()
	delete(own, model.Pods)
	spec.Containers = []model.Container{{Requests: own}}
	if d.often("selects", 25) {
		k := d.of("key", "team", "rack", model.LabelZone, model.LabelCapacityType)
		spec.NodeSelector = map[string]string{k: d.of("value", map[string][]string{"team": {"a", "b"}, "rack": {"1", "2"}, model.LabelZone: randomZones, model.LabelCapacityType: {model.Spot, model.OnDemand}}[k]...)}
	}
	for range d.n("terms", 0, 6) / 4 {
		spec.NodeAffinity = append(spec.NodeAffinity, model.Term{d.requirement(model.LabelZone, "team", "rack", "count", familyKey, model.LabelArch, model.LabelHostname)})
	}
	if d.often("prefers", 15) {
		spec.NodePreferred = append(spec.NodePreferred, model.WeightedTerm{Weight: 1, Term: model.Term{d.requirement(model.LabelZone, "team", model.LabelCapacityType)}})
	}
	if d.often("tolerates", 50) {
		spec.Tolerations = []model.Toleration{{Key: d.of("taint", "gpu", "team", ""), Operator: "Exists"}}
	}
	d.topology(spec)
	if d.often("port", 8) {
		spec.HostPorts = []model.HostPort{{Port: int32(d.n("port", 80, 81)), Protocol: "TCP"}}
	}
	if d.often("volume", 8) {
		spec.Volumes = []model.Volume{{Claim: "c", Terms: []model.Term{{{Key: model.LabelZone, Operator: model.In, Values: []string{d.of("zone", randomZones...)}}}}}}
	}
	spec.Priority = int32(d.n("priority", 0, 1))
	return spec
}

var topologyKeys = []string{model.LabelZone, model.LabelHostname, model.LabelCapacityType, "rack", "team"}

func (d draw) topology(spec *model.PodSpec) {
	pick := model.Selector{All: true, Term: model.Term{{Key: "app", Operator: model.In, Values: []string{d.of("picks", "x", "y")}}}}
	if d.often("spread", 20) {
		spec.Spread = append(spec.Spread, model.Spread{
			MaxSkew: int32(d.n("skew", 1, 2)), TopologyKey: d.of("topology", topologyKeys...), Soft: d.often("soft", 30), Selector: pick,
			MinDomains: int32(d.n("domains", 0, 3) / 3 * 2), SelectorNamespace: "a", HonorTaints: d.often("honor", 20), IgnoreAffinity: d.often("ignore", 20),
		})
	}
	for range d.n("pod terms", 0, 5) / 4 {
		spec.PodAffinity = append(spec.PodAffinity, model.PodTerm{
			Anti: d.often("anti", 60), Weight: int32(d.n("weight", 0, 3) / 3), Selector: pick, Namespaces: []string{"a"}, TopologyKey: d.of("topology", topologyKeys...),
		})
	}
}

// Whatever the input: the plan holds, the input is as it was, a second run
// gives the same bytes, and pods that only depend on themselves are not left
// out where a pool would have them.
func plansHold(t *rapid.T) {
	s := draw{t}.snapshot()
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p, trace := Solve(s, Options{Steps: 200_000})
	for _, err := range plan.Check(s, p) {
		t.Errorf("check: %v", err)
	}
	after, _ := json.Marshal(s)
	if !bytes.Equal(before, after) {
		t.Error("the Snapshot was written to")
	}
	first, err := plan.Encode(s, p, trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	p2, trace2 := Solve(s, Options{Steps: 200_000})
	if second, _ := plan.Encode(s, p2, trace2, nil); !bytes.Equal(first, second) {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
	for _, r := range p.Unplaced {
		if len(r.Verdicts) == 0 {
			t.Errorf("no reason for %v", r.Pods)
		}
		spec := s.Pods[r.Pods[0]].Spec
		for _, v := range r.Verdicts {
			alone := len(spec.Spread)+len(spec.PodAffinity)+len(spec.HostPorts)+len(spec.Shares) == 0 && v.Node == ""
			if alone && (v.Code == model.CodeAffinity || v.Code == model.CodeSpread || v.Code == model.CodeHostPort) && !shunned(s) {
				t.Errorf("pod %d could go to pool %s and does not", r.Pods[0], v.Pool)
			}
		}
	}
	if t.Failed() {
		t.Logf("%s", describe(s, p, trace))
		t.Logf("%s", before)
	}
}

// shunned reports whether some pod keeps others away.
func shunned(s model.Snapshot) bool {
	for _, p := range s.Pods {
		for _, t := range p.Spec.PodAffinity {
			if t.Anti {
				return true
			}
		}
	}
	return false
}

func TestPlansHold(t *testing.T) { rapid.Check(t, plansHold) }

func FuzzSolve(f *testing.F) { f.Fuzz(rapid.MakeFuzz(plansHold)) }
