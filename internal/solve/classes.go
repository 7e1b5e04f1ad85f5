package solve

import (
	"maps"
	"slices"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// A class is where a pod may run by its selector, affinity, volumes and
// tolerations. Many shapes share one.
type class struct {
	where []cells // by kind; 0 = not there
	nodes set     // nodes that exist and admit it
}

// A classifier makes each class once.
type classifier struct {
	m      *market
	labels []map[string]string // by node
	taints [][]model.Taint     // by node, those that count
	made   map[string]*class
	canon  canon
}

func newClassifier(m *market) *classifier {
	c := &classifier{m: m, made: map[string]*class{}}
	pools := map[string]*model.Pool{}
	for i := range m.snap.Pools {
		pools[m.snap.Pools[i].Name] = &m.snap.Pools[i]
	}
	for i := range m.snap.Nodes {
		n := &m.snap.Nodes[i]
		c.labels = append(c.labels, nodeLabels(n))
		c.taints = append(c.taints, lastingTaints(n, pools[n.Pool]))
	}
	return c
}

func (c *classifier) class(spec *model.PodSpec, strict bool) *class {
	key := c.key(spec, strict)
	if have, ok := c.made[key]; ok {
		return have
	}
	out := &class{where: c.m.admit(spec, strict), nodes: newSet(len(c.labels))}
	for i, labels := range c.labels {
		n := &c.m.snap.Nodes[i]
		if n.Leaving || n.Unready != "" {
			continue
		}
		if _, ok := constraint.MatchNode(spec, labels); ok && c.tolerates(spec, i, strict) {
			out.nodes.add(i)
		}
	}
	c.made[key] = out
	return out
}

func (c *classifier) tolerates(spec *model.PodSpec, node int, strict bool) bool {
	_, ok := constraint.Tolerates(spec.Tolerations, c.taints[node])
	if ok && strict {
		_, ok = constraint.Tolerates(spec.Tolerations, c.taints[node], model.PreferNoSchedule)
	}
	return ok
}

func (c *classifier) key(spec *model.PodSpec, strict bool) string {
	k := &c.canon
	k.buf = k.buf[:0]
	k.flags(strict)
	k.table(spec.NodeSelector)
	k.terms(spec.NodeAffinity)
	for _, v := range spec.Volumes {
		if len(v.Terms) > 0 {
			k.terms(v.Terms)
		}
	}
	k.mark('t')
	for _, t := range spec.Tolerations {
		k.text(t.Key)
		k.text(t.Operator)
		k.text(t.Value)
		k.text(t.Effect)
	}
	return string(k.buf)
}

// nodeLabels are a node's labels with what its fields say and its name for
// terms over metadata.name.
func nodeLabels(n *model.Node) map[string]string {
	out := maps.Clone(n.Labels)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range map[string]string{
		model.LabelZone: n.Zone, model.LabelCapacityType: n.CapacityType, model.LabelInstanceType: n.Type,
		model.LabelNodePool: n.Pool, constraint.NodeNameField: n.Name, model.LabelHostname: n.Name,
	} {
		if _, has := out[k]; !has && v != "" {
			out[k] = v
		}
	}
	return out
}

// lastingTaints leaves out the taints that go by themselves while a node comes
// up: its pool's startup taints and those that Karpenter 1.15 knows to be
// passing. They count once the node has been initialized.
func lastingTaints(n *model.Node, p *model.Pool) []model.Taint {
	if p == nil || n.Labels["karpenter.sh/initialized"] == "true" {
		return n.Taints
	}
	return slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return passing(t) || slices.ContainsFunc(p.StartupTaints, func(s model.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
	})
}

func passing(t model.Taint) bool {
	switch t.Key {
	case "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered":
		return true
	}
	const readiness = "readiness.k8s.io/"
	return len(t.Key) > len(readiness) && t.Key[:len(readiness)] == readiness
}
