package rule

import (
	"maps"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// A view is a Snapshot with what several rules want to know about it.
type view struct {
	model.Snapshot
	pools    []poolView
	specs    []model.Pod // the first pod of every spec, DaemonSets aside
	typeKeys map[string]bool
	byName   map[string]*model.InstanceType
	gpuNodes []model.Node // whose type has GPUs
}

// A poolView is a pool with the types that it may launch.
type poolView struct {
	model.Pool
	set     constraint.Set
	types   []*model.InstanceType // admitted by requirements and offerings
	nvidia  []*model.InstanceType // of these, those with NVIDIA GPUs
	labels  []constraint.Set      // of nodes of the types in nvidia, one for each
	onlyGPU bool                  // nothing without a GPU is admitted
	// gpu: the pool is there for NVIDIA GPUs. It launches nothing else, or a pod
	// that asks for GPUs can go there.
	gpu bool
}

func newView(s model.Snapshot) *view {
	v := &view{Snapshot: s, specs: firstOfEachSpec(s.Pods), typeKeys: map[string]bool{}, byName: map[string]*model.InstanceType{}}
	for i := range s.Types {
		v.byName[s.Types[i].Name] = &s.Types[i]
		for key := range s.Types[i].Labels {
			v.typeKeys[key] = true
		}
	}
	for _, n := range s.Nodes {
		if t := v.byName[n.Type]; t != nil && len(t.GPUs) > 0 {
			v.gpuNodes = append(v.gpuNodes, n)
		}
	}
	for _, p := range s.Pools {
		v.pools = append(v.pools, v.poolView(p))
	}
	return v
}

func firstOfEachSpec(pods []model.Pod) []model.Pod {
	var out []model.Pod
	seen := map[*model.PodSpec]bool{}
	for _, p := range pods {
		if p.Spec == nil || seen[p.Spec] || strings.HasPrefix(p.Owner, "DaemonSet ") {
			continue
		}
		seen[p.Spec] = true
		out = append(out, p)
	}
	return out
}

func (v *view) poolView(p model.Pool) poolView {
	pv := poolView{Pool: p, set: constraint.ForPool(p)}
	byType := func(key string) bool { return v.typeKeys[key] }
	gpus := 0
	for i := range v.Types {
		t := &v.Types[i]
		if _, no := pv.set.Rejects(t.Labels, byType); no || !offered(t, pv.set) {
			continue
		}
		pv.types = append(pv.types, t)
		if len(t.GPUs) > 0 {
			gpus++
		}
		if hasNVIDIA(t) {
			pv.nvidia = append(pv.nvidia, t)
			pv.labels = append(pv.labels, pv.set.Intersect(constraint.FromLabels(t.Labels)))
		}
	}
	pv.onlyGPU = gpus > 0 && gpus == len(pv.types)
	pv.gpu = len(pv.nvidia) > 0 && (pv.onlyGPU || slices.ContainsFunc(v.specs, func(pod model.Pod) bool {
		return asksGPU(pod.Spec) && v.canGo(pod.Spec, &pv)
	}))
	return pv
}

func offered(t *model.InstanceType, set constraint.Set) bool {
	return len(t.Offerings) == 0 || slices.ContainsFunc(t.Offerings, func(o model.Offering) bool {
		return set.Has(model.LabelZone, o.Zone) && set.Has(model.LabelCapacityType, o.CapacityType)
	})
}

func hasNVIDIA(t *model.InstanceType) bool {
	return slices.ContainsFunc(t.GPUs, func(g model.GPU) bool { return g.Manufacturer == "nvidia" })
}

// canGo reports whether taints and labels let a pod onto an NVIDIA node of the pool.
func (v *view) canGo(spec *model.PodSpec, pv *poolView) bool {
	if _, ok := constraint.Tolerates(spec.Tolerations, pv.Taints); !ok {
		return false
	}
	_, fails := pv.conflict(spec, nil)
	return !fails
}

// conflict looks for an NVIDIA node of the pool that meets a pod's label
// demands. When there is none it returns a key on which they fail, or "" when
// they contradict each other. Labels that open names may be there with any value.
func (pv *poolView) conflict(spec *model.PodSpec, open func(string) bool) (key string, fails bool) {
	wants := constraint.Alternatives(spec)
	for _, node := range pv.labels {
		for _, want := range wants {
			key, fails = node.Conflict(want, func(k string) bool { return everyNode(k) || (open != nil && open(k)) })
			if !fails {
				return "", false
			}
		}
	}
	return key, true
}

// everyNode names labels that every node has with a value that is not known
// before it is launched.
func everyNode(key string) bool {
	switch key {
	case model.LabelZone, model.LabelRegion, model.LabelCapacityType, model.LabelHostname, model.LabelOS, model.LabelArch,
		"topology.k8s.aws/zone-id", "karpenter.sh/registered", "karpenter.sh/initialized":
		return true
	}
	return false
}

func asksGPU(spec *model.PodSpec) bool {
	for name, n := range spec.Requests {
		if n > 0 && model.IsGPU(name) {
			return true
		}
	}
	return len(spec.Shares) > 0
}

// gpuPools lists the pools that are there for NVIDIA GPUs.
func (v *view) gpuPools() []*poolView {
	var out []*poolView
	for i := range v.pools {
		if v.pools[i].gpu {
			out = append(out, &v.pools[i])
		}
	}
	return out
}

// sortedKeys lists a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// nodeView shows an existing node as a pool of one node.
func nodeView(n model.Node) *poolView {
	return &poolView{Pool: model.Pool{Taints: n.Taints}, labels: []constraint.Set{constraint.FromLabels(n.Labels)}}
}
