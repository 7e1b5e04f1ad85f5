package intake

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

// bindingTime is how long the pods that a claim was made for are kept for its
// node after the node is complete, as long as it has room for them: the
// scheduler needs a moment to bind them, and a busy one longer.
const bindingTime = 30 * time.Second

// gpuDeadline is Options.GPUDeadline where it is not given.
const gpuDeadline = 10 * time.Minute

// KindSnapshot is the kind of the object in which kerf snapshot notes, in the
// field taken, when it read the cluster; its apiVersion is kerf.dev/v1alpha1.
const KindSnapshot = "ClusterSnapshot"

// taken makes the time of a snapshot the time of the plan.
func (l *loader) taken(docs []manifest.Document) {
	for _, d := range docs {
		if d.Kind != KindSnapshot || d.Group() != "kerf.dev" || !l.options.Now.IsZero() {
			continue
		}
		if at, err := time.Parse(time.RFC3339, d.Root.Get("taken").Str()); err == nil {
			l.options.Now = at
		}
	}
}

// comes reports whether a node that is not complete is still to be counted with
// what was ordered: not when its GPUs have been missing too long, or for how
// long nobody can tell.
func (l *loader) comes(o nodepool.Origin) bool {
	switch now := l.options.Now; {
	case !o.Coming || now.IsZero():
		return false
	case o.Since.IsZero():
		return true
	default:
		return now.Sub(o.Since) < cmp.Or(l.options.GPUDeadline, gpuDeadline)
	}
}

// passing are the taints that Kubernetes and Karpenter 1.15 take off a node
// before it is initialized.
var passing = []string{
	"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered",
}

// incoming is a node that has registered, seen as what it will be: with what it
// reports already, what is expected of the rest, and without the taints that it
// is about to lose.
func (l *loader) incoming(n, claim model.Node, o nodepool.Origin) model.Node {
	claim.Labels = merged(claim.Labels, n.Labels)
	claim.Type, claim.Zone, claim.CapacityType = n.Type, n.Zone, n.CapacityType
	l.predict(&claim, o)
	out := n
	out.InFlight, out.Labels, out.Devices, out.Limits, out.Price = true, claim.Labels, claim.Devices, claim.Limits, claim.Price
	out.Allocatable = claim.Allocatable.Clone()
	for name, v := range n.Allocatable {
		if v > 0 {
			out.Allocatable[name] = v
		}
	}
	if n.Unready == notReady {
		out.Unready = ""
	}
	out.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return slices.Contains(passing, t.Key) || strings.HasPrefix(t.Key, "readiness.k8s.io/") || hasTaint(o.StartupTaints, t)
	})
	return out
}

// notReady is what workload says of a node whose kubelet is not ready.
const notReady = "not ready"

func hasTaint(list []model.Taint, t model.Taint) bool {
	return slices.ContainsFunc(list, func(have model.Taint) bool { return have.Key == t.Key && have.Effect == t.Effect })
}

// reserved maps pods, by "namespace/name", to the node that was ordered for
// them and that the scheduler has not given them yet. Without it a plan would
// divide nodes in flight anew each time, and order more of them.
func (l *loader) reserved(nodes map[string]*model.Node, origins []nodepool.Origin, claims []model.Node) map[string]string {
	out := map[string]string{}
	for i, o := range origins {
		node := nodes[claims[i].Name]
		if len(o.Pods) == 0 || node == nil || node.Leaving || !l.keeps(o) {
			continue
		}
		for _, pod := range o.Pods {
			out[pod] = node.Name
		}
	}
	return out
}

// keeps reports whether a claim's pods are still to be kept for its node.
func (l *loader) keeps(o nodepool.Origin) bool {
	if o.Initialized.IsZero() {
		return o.NodeName == "" || l.comes(o)
	}
	now := l.options.Now
	return !now.IsZero() && now.Sub(o.Initialized) < bindingTime
}

// reserve binds pods that wait, or whose node is on its way out, to the nodes
// that were ordered for them. The scheduler gives a node to whom it likes, and
// GPUs die: where the room is not there, a pod waits like any other.
func reserve(pods []model.Pod, nodes map[string]*model.Node, kept map[string]string) {
	if len(kept) == 0 {
		return
	}
	room := roomOf(pods, nodes, kept)
	for i := range pods {
		p := &pods[i]
		if old := nodes[p.Node]; p.Node != "" && (old == nil || !old.Leaving) {
			continue
		}
		node, ok := kept[p.Namespace+"/"+p.Name]
		if !ok {
			continue
		}
		if room[node].Lacking(p.Spec.Requests) != "" {
			continue
		}
		room[node] = room[node].Plus(p.Spec.Requests, -1)
		p.Node = node
	}
}

// roomOf is what is left on the nodes that pods are kept for.
func roomOf(pods []model.Pod, nodes map[string]*model.Node, kept map[string]string) map[string]model.Resources {
	out := map[string]model.Resources{}
	for _, name := range kept {
		if n := nodes[name]; n != nil {
			out[name] = n.Allocatable
		}
	}
	for i := range pods {
		if free, ok := out[pods[i].Node]; ok {
			out[pods[i].Node] = free.Plus(pods[i].Spec.Requests, -1)
		}
	}
	return out
}

// least is what a node will have at the least, whichever of the types that its
// claim admits the cloud chooses.
func (l *loader) least(n *model.Node, o nodepool.Origin) (out model.Node, ok bool) {
	names := typesOf(o)
	key := strings.Join([]string{o.Class, n.Zone, n.CapacityType, n.Labels[model.LabelDeviceConfig], n.Labels[model.LabelMIGConfig], strings.Join(names, ",")}, "|")
	if out, ok = l.leasts[key]; ok && len(n.Allocatable) == 0 {
		return out, true
	}
	for _, name := range names {
		if t, known := l.types.Type(name); known {
			out, ok = lesser(out, l.asType(*n, t, o), ok), true
		}
	}
	if ok && l.leasts != nil && len(n.Allocatable) == 0 {
		l.leasts[key] = out
	}
	return out, ok
}

// typesOf lists the types among which the cloud may choose for a claim.
func typesOf(o nodepool.Origin) []string {
	for _, r := range o.Requirements {
		if r.Key == model.LabelInstanceType && r.Operator == model.In {
			return r.Values
		}
	}
	return nil
}

// lesser is what two nodes have in common.
func lesser(a, b model.Node, some bool) model.Node {
	if !some {
		return b
	}
	common := model.Resources{}
	for name, v := range a.Allocatable {
		if w := min(v, b.Allocatable[name]); w > 0 {
			common[name] = w
		}
	}
	if len(b.Devices) < len(a.Devices) {
		a.Devices = b.Devices
	}
	a.Allocatable = common
	return a
}

// asType is a node that has been ordered, as it would be of one type.
func (l *loader) asType(n model.Node, t model.InstanceType, o nodepool.Origin) model.Node {
	n.Price = priceOf(t, n.Zone, n.CapacityType)
	n.Labels = merged(t.Labels, n.Labels)
	if len(n.Allocatable) == 0 {
		n.Allocatable = catalog.Allocatable(t, l.pool.Classes[o.Class].Kubelet)
	}
	ad, err := gpu.ForNode(t, l.snapshot.Sharing, n.Labels)
	if err != nil {
		return n // the checks name it
	}
	n.Allocatable = n.Allocatable.Clone()
	for _, name := range n.Allocatable.Names() {
		if strings.HasPrefix(name, "nvidia.com/") {
			delete(n.Allocatable, name)
		}
	}
	for name, v := range ad.Resources {
		n.Allocatable[name] = v
	}
	n.Devices, n.Limits = ad.Devices, ad.MaxRequest
	n.Labels = merged(ad.Labels, n.Labels)
	return n
}
