package solve

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
)

// The language of the scenarios, a line a thing, its details indented below:
//
//	use g5.* g4dn.xlarge                types of us-east-1 by name; "zones a b", "only on-demand" narrow all
//	type small cpu=2 memory=4Gi pods=10 gpu=1 od=0.1 spot=0.03     zones z1 z2 z3
//	config shared replicas=4 [rename] [max]     default CONFIG     mig LAYOUT 1g.5gb=7
//	pool NAME [weight=1] [limit.cpu=10] [replicas=2] [unusable=why] [maxPods=8] [cpu-on-gpu=true]
//	    in KEY V...  notin KEY V...  exists KEY  lacks KEY  gt KEY V   [min=2]   label K=V   taint K=V:Effect
//	pod NAME [xN] cpu=1 memory=1Gi nvidia.com/gpu=1 [ns=a] [owner=Kind/name] [node=n] [priority=5]
//	    select K=V   in KEY V... (and the others; "or" begins another term)   prefer W in KEY V...
//	    tolerate K[=V]   label K=V   port 80   volume zone=z1   spread KEY [skew=1] [soft] [min=3] K=V
//	    near KEY K=V   apart KEY K=V   wish-near W KEY K=V   wish-apart W KEY K=V   container gpu=1 ...   share R N gpumem=1
//	daemonset NAME cpu=...              node NAME type=T pool=P zone=Z ct=C price=0.1 cpu=... [leaving] [inflight] [unready=why]
type script struct {
	s     model.Snapshot
	zones []string
	only  string
	last  any // what indented lines speak of
}

func parse(t testing.TB, text string) model.Snapshot {
	t.Helper()
	sc := script{s: model.Snapshot{Region: "us-east-1", Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{}}}}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var err error
		if line[0] == ' ' || line[0] == '\t' {
			err = sc.detail(words)
		} else {
			err = sc.thing(words)
		}
		if err != nil {
			t.Fatalf("line %d: %q: %v", i+1, line, err)
		}
	}
	return sc.s
}

var book = sync.OnceValues(func() (catalog.Book, error) { return catalog.Load("us-east-1") })

func (sc *script) thing(w []string) error {
	switch w[0] {
	case "use":
		return sc.use(w[1:])
	case "zones":
		sc.zones = w[1:]
	case "only":
		sc.only = w[1]
	case "type":
		return sc.typ(w[1:])
	case "config":
		return sc.config(w[1:])
	case "default":
		sc.s.Sharing.Default = w[1]
	case "mig":
		return sc.mig(w[1:])
	case "pool":
		return sc.pool(w[1:])
	case "pod":
		return sc.pod(w[1:])
	case "daemonset":
		spec, _, err := specOf(w[2:])
		sc.s.DaemonSets = append(sc.s.DaemonSets, model.DaemonSet{Namespace: "kube-system", Name: w[1], Spec: spec})
		sc.last = spec
		return err
	case "node":
		return sc.node(w[1:])
	default:
		return fmt.Errorf("no such thing")
	}
	return nil
}

func (sc *script) use(globs []string) error {
	b, err := book()
	if err != nil {
		return err
	}
	for _, t := range b.Types {
		if !slices.ContainsFunc(globs, func(g string) bool { ok, _ := path.Match(g, t.Name); return ok }) {
			continue
		}
		t.Offerings = slices.DeleteFunc(slices.Clone(t.Offerings), func(o model.Offering) bool {
			return (sc.only != "" && o.CapacityType != sc.only) || (len(sc.zones) > 0 && !slices.Contains(sc.zones, o.Zone))
		})
		sc.s.Types = append(sc.s.Types, t)
	}
	return nil
}

func (sc *script) typ(w []string) error {
	t := model.InstanceType{Name: w[0], Labels: map[string]string{
		model.LabelInstanceType: w[0], model.LabelArch: "amd64", model.LabelOS: "linux", familyKey: strings.Split(w[0], ".")[0],
	}}
	r, rest, err := resources(w[1:])
	if err != nil {
		return err
	}
	if n := r[model.NvidiaGPU]; n > 0 {
		t.GPUs = []model.GPU{{Manufacturer: "nvidia", Model: "t4", Product: "Tesla-T4", Count: n, MemoryMiB: 15360, Fraction: 1}}
	}
	for _, kv := range rest {
		k, v, _ := strings.Cut(kv, "=")
		price, _ := strconv.ParseFloat(v, 64)
		switch k {
		case "od", "spot":
			ct := map[string]string{"od": model.OnDemand, "spot": model.Spot}[k]
			for _, z := range sc.zones {
				t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: ct, Price: price})
			}
		case "fraction":
			t.GPUs[0].Fraction = price
		case "model":
			t.GPUs[0].Model, t.GPUs[0].Product = v, ""
		case "mem":
			t.GPUs[0].MemoryMiB = int64(price)
		default:
			t.Labels[k] = v
		}
	}
	slices.SortStableFunc(t.Offerings, func(a, b model.Offering) int {
		if a.Price < b.Price {
			return -1
		}
		return 1
	})
	if r[model.Pods] == 0 {
		r[model.Pods] = 110
	}
	t.Capacity, t.Allocatable = r, r
	sc.s.Types = append(sc.s.Types, t)
	return nil
}

func (sc *script) config(w []string) error {
	rep := &deviceconfig.Replicated{}
	res := deviceconfig.Resource{Name: model.NvidiaGPU}
	c := deviceconfig.Config{TimeSlicing: rep}
	for _, o := range w[1:] {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "replicas":
			res.Replicas, _ = strconv.ParseInt(v, 10, 64)
		case "rename":
			res.Rename, rep.RenameByDefault = "nvidia.com/gpu.shared", true
		case "max":
			rep.FailRequestsGreaterThanOne = true
		case "mps":
			c = deviceconfig.Config{MPS: rep}
		case "mig":
			c.Flags.MIGStrategy, c.TimeSlicing = v, nil
		}
	}
	rep.Resources = []deviceconfig.Resource{res}
	if res.Replicas == 0 {
		c.TimeSlicing, c.MPS = nil, nil
	}
	sc.s.Sharing.Configs[w[0]] = c
	return nil
}

func (sc *script) mig(w []string) error {
	if sc.s.Sharing.MIG == nil {
		sc.s.Sharing.MIG = map[string]deviceconfig.MIGConfig{}
	}
	devices := map[string]int64{}
	for _, kv := range w[1:] {
		k, v, _ := strings.Cut(kv, "=")
		devices[k], _ = strconv.ParseInt(v, 10, 64)
	}
	sc.s.Sharing.MIG[w[0]] = deviceconfig.MIGConfig{{Enabled: true, MIGDevices: devices}}
	return nil
}

func (sc *script) pool(w []string) error {
	p := model.Pool{Name: w[0], Labels: map[string]string{}}
	for _, kv := range w[1:] {
		k, v, _ := strings.Cut(kv, "=")
		n, _ := strconv.ParseInt(v, 10, 64)
		switch name, limit := strings.CutPrefix(k, "limit."); {
		case limit:
			if p.Limits == nil {
				p.Limits = model.Resources{}
			}
			q, err := quantity(name, v)
			if err != nil {
				return err
			}
			p.Limits[name] = q
		case k == "weight":
			p.Weight = int(n)
		case k == "replicas":
			p.Replicas, p.Static = n, true
		case k == "cpu-on-gpu":
			p.CPUOnGPU = v == "true"
		case k == "maxPods":
			p.Kubelet.MaxPods = n
		case k == "unusable":
			p.Unusable = []model.Verdict{{Code: model.CodeUnusable, Detail: v}}
		default:
			return fmt.Errorf("%s?", k)
		}
	}
	sc.s.Pools = append(sc.s.Pools, p)
	sc.last = &sc.s.Pools[len(sc.s.Pools)-1]
	return nil
}

func (sc *script) pod(w []string) error {
	name, count := w[0], 1
	w = w[1:]
	if len(w) > 0 && w[0][0] == 'x' {
		if n, err := strconv.Atoi(w[0][1:]); err == nil {
			count, w = n, w[1:]
		}
	}
	spec, rest, err := specOf(w)
	if err != nil {
		return err
	}
	pod := model.Pod{Namespace: "default", Name: name, Spec: spec}
	for _, kv := range rest {
		k, v, _ := strings.Cut(kv, "=")
		switch k {
		case "ns":
			pod.Namespace = v
		case "owner":
			pod.Owner = strings.Replace(v, "/", " ", 1)
		case "node":
			pod.Node = v
		case "priority":
			n, _ := strconv.Atoi(v)
			spec.Priority = int32(n)
		default:
			return fmt.Errorf("%s?", k)
		}
	}
	for i := range count {
		if count > 1 {
			pod.Name = fmt.Sprintf("%s-%d", name, i)
		}
		sc.s.Pods = append(sc.s.Pods, pod)
	}
	sc.last = &sc.s.Pods[len(sc.s.Pods)-1]
	return nil
}

func specOf(w []string) (*model.PodSpec, []string, error) {
	r, rest, err := resources(w)
	if err != nil {
		return nil, nil, err
	}
	r[model.Pods] = 1
	own := r.Clone()
	delete(own, model.Pods)
	return &model.PodSpec{Requests: r, Labels: map[string]string{}, Containers: []model.Container{{Name: "main", Requests: own, Limits: own}}}, rest, nil
}

func (sc *script) node(w []string) error {
	n := model.Node{Name: w[0], Labels: map[string]string{}}
	r, rest, err := resources(w[1:])
	if err != nil {
		return err
	}
	n.Allocatable = r
	if r[model.Pods] == 0 {
		r[model.Pods] = 110
	}
	for _, kv := range rest {
		k, v, _ := strings.Cut(kv, "=")
		switch k {
		case "type":
			n.Type = v
		case "pool":
			n.Pool = v
		case "zone":
			n.Zone = v
		case "ct":
			n.CapacityType = v
		case "price":
			n.Price, _ = strconv.ParseFloat(v, 64)
		case "leaving":
			n.Leaving = true
		case "inflight":
			n.InFlight = true
		case "unready":
			n.Unready = v
		default:
			return fmt.Errorf("%s?", k)
		}
	}
	sc.s.Nodes = append(sc.s.Nodes, n)
	sc.last = &sc.s.Nodes[len(sc.s.Nodes)-1]
	return nil
}

// resources takes amounts out of words, and returns the words that are none.
func resources(w []string) (model.Resources, []string, error) {
	out := model.Resources{}
	var rest []string
	for _, kv := range w {
		k, v, ok := strings.Cut(kv, "=")
		if k == "gpu" {
			k = model.NvidiaGPU
		}
		known := slices.Contains([]string{model.CPU, model.Memory, model.Pods, model.EphemeralStorage}, k) || (strings.Contains(k, "/") && model.IsGPU(k)) || strings.HasPrefix(k, "hami/")
		if !ok || !known {
			rest = append(rest, kv)
			continue
		}
		q, err := quantity(k, v)
		if err != nil {
			return nil, nil, err
		}
		out[k] = q
	}
	return out, rest, nil
}

func quantity(name, v string) (int64, error) {
	unit := int64(1)
	if name == model.CPU {
		unit = 1000
	}
	for suffix, u := range map[string]int64{"Gi": 1 << 30, "Mi": 1 << 20, "m": 1} {
		if rest, ok := strings.CutSuffix(v, suffix); ok {
			v, unit = rest, u
		}
	}
	f, err := strconv.ParseFloat(v, 64)
	return int64(f * float64(unit)), err
}

func (sc *script) detail(w []string) error {
	switch on := sc.last.(type) {
	case *model.Pool:
		return poolDetail(on, w)
	case *model.Node:
		switch w[0] {
		case "label":
			maps.Copy(on.Labels, pairs(w[1:]))
		case "taint":
			on.Taints = append(on.Taints, taint(w[1]))
		case "limit":
			k, v, _ := strings.Cut(w[1], "=")
			n, _ := strconv.ParseInt(v, 10, 64)
			on.Limits = map[string]int64{k: n}
		case "device":
			d := model.Device{Model: "t4", Resources: model.Resources{model.NvidiaGPU: 1}, Shares: model.Resources{}}
			for k, v := range pairs(w[1:]) {
				d.Shares[k], _ = strconv.ParseInt(v, 10, 64)
			}
			on.Devices = append(on.Devices, d)
		default:
			return fmt.Errorf("%s?", w[0])
		}
		return nil
	case *model.Pod:
		return specDetail(on.Spec, on.Namespace, w)
	case *model.PodSpec:
		return specDetail(on, "kube-system", w)
	}
	return fmt.Errorf("nothing to add to")
}

func poolDetail(p *model.Pool, w []string) error {
	switch w[0] {
	case "label":
		maps.Copy(p.Labels, pairs(w[1:]))
	case "taint":
		p.Taints = append(p.Taints, taint(w[1]))
	case "startup":
		p.StartupTaints = append(p.StartupTaints, taint(w[1]))
	default:
		r, err := requirement(w)
		p.Requirements = append(p.Requirements, r)
		return err
	}
	return nil
}

var operators = map[string]model.Operator{
	"in": model.In, "notin": model.NotIn, "exists": model.Exists, "lacks": model.DoesNotExist,
	"gt": model.Gt, "lt": model.Lt, "gte": model.Gte, "lte": model.Lte,
}

func requirement(w []string) (model.Requirement, error) {
	op, ok := operators[w[0]]
	if !ok || len(w) < 2 {
		return model.Requirement{}, fmt.Errorf("%s?", w[0])
	}
	r := model.Requirement{Key: key(w[1]), Operator: op}
	for _, v := range w[2:] {
		if n, ok := strings.CutPrefix(v, "min="); ok {
			r.MinValues, _ = strconv.Atoi(n)
			continue
		}
		r.Values = append(r.Values, v)
	}
	return r, nil
}

// key spells out the names that scenarios use most.
func key(k string) string {
	switch k {
	case "zone":
		return model.LabelZone
	case "host":
		return model.LabelHostname
	case "ct":
		return model.LabelCapacityType
	case "type":
		return model.LabelInstanceType
	case "arch":
		return model.LabelArch
	case "family":
		return familyKey
	case "nodepool":
		return model.LabelNodePool
	case "config":
		return model.LabelDeviceConfig
	}
	return k
}

func pairs(w []string) map[string]string {
	out := map[string]string{}
	for _, kv := range w {
		k, v, _ := strings.Cut(kv, "=")
		out[key(k)] = v
	}
	return out
}

func taint(s string) model.Taint {
	kv, effect, ok := strings.Cut(s, ":")
	if !ok {
		effect = model.NoSchedule
	}
	k, v, _ := strings.Cut(kv, "=")
	return model.Taint{Key: k, Value: v, Effect: effect}
}
