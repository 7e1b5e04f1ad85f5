package controller

import (
	"maps"
	"slices"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// A company tells which NodeClaims' nodes wait for which others before they
// take pods. Pods that are tied to each other by zone, or to one node, go
// together or apart from where the first of them is bound: one that finds room
// in the wrong zone, because the node that it is for is not up yet, leads the
// others astray. So a node with room for such a pod waits until the node that
// the pod is for is up.
type company map[string]map[string]bool

// A seat is a node that is not up yet, as it will be.
type seat struct {
	claim  string
	zones  []string // in one of which it is; none is unknown
	labels map[string]string
	taints []model.Taint
	room   model.Resources // that the plan leaves free
	pods   []int
}

// A bond is what ties pods to each other, over the values of a label of nodes.
type bond struct {
	key     string
	members map[*model.PodSpec]bool
}

// companions makes the company of a decision, once its claims are written.
func companions(v *view, answer plan.Plan, expected places) company {
	out := company{}
	all := seats(v, answer, expected)
	bonds := bondsOf(v, all)
	for _, b := range bonds {
		homes := map[*model.PodSpec][]*seat{}
		for i := range all {
			for _, p := range all[i].pods {
				if spec := v.snapshot.Pods[p].Spec; b.members[spec] && !slices.Contains(homes[spec], &all[i]) {
					homes[spec] = append(homes[spec], &all[i])
				}
			}
		}
		for spec, at := range homes {
			for i := range all {
				if all[i].takes(spec) {
					out.wait(&all[i], at, b.key)
				}
			}
		}
	}
	return out
}

func (c company) wait(s *seat, homes []*seat, key string) {
	for _, h := range homes {
		if h == s || key != model.LabelHostname && s.beside(h, key) {
			continue
		}
		if c[s.claim] == nil {
			c[s.claim] = map[string]bool{}
		}
		c[s.claim][h.claim] = true
	}
}

// seats lists the nodes that are ordered or on their way, with what the plan
// has on them.
func seats(v *view, answer plan.Plan, expected places) []seat {
	on := map[string][]int{}
	for i := range v.snapshot.Pods {
		if node := v.snapshot.Pods[i].Node; node != "" {
			on[node] = append(on[node], i)
		}
	}
	for _, b := range answer.Binds {
		on[b.Node] = append(on[b.Node], b.Pods...)
	}
	var out []seat
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		claim := v.claims[n.Name]
		if !n.InFlight || n.Leaving || claim == "" {
			continue
		}
		s := seat{claim: claim, labels: n.Labels, taints: n.Taints, room: n.Allocatable, pods: on[n.Name]}
		if n.Zone != "" {
			s.zones = []string{n.Zone}
		}
		for _, p := range s.pods {
			s.room = s.room.Plus(v.snapshot.Pods[p].Spec.Requests, -1)
		}
		out = append(out, s)
	}
	taints := map[string][]model.Taint{}
	for _, p := range v.snapshot.Pools {
		taints[p.Name] = p.Taints
	}
	for i := range answer.Launches {
		l := &answer.Launches[i]
		if len(l.Pods) == 0 {
			continue
		}
		claim := expected[keyOf(v.objects[l.Pods[0]])].claim
		if claim == "" {
			continue // it could not be created
		}
		out = append(out, seat{
			claim: claim, zones: l.Zones, labels: l.Labels, taints: taints[l.Pool], pods: l.Pods,
			room: l.Allocatable.Plus(l.Overhead, -1).Plus(l.Used, -1),
		})
	}
	return out
}

// bondsOf lists the bonds of the pods that have a seat.
func bondsOf(v *view, all []seat) []bond {
	spaces := map[*model.PodSpec]string{} // namespaces; pods of one spec are in one
	for i := range all {
		for _, p := range all[i].pods {
			spaces[v.snapshot.Pods[p].Spec] = v.snapshot.Pods[p].Namespace
		}
	}
	var out []bond
	add := func(spec *model.PodSpec, key string, picks func(*model.PodSpec, string) bool) {
		b := bond{key: key, members: map[*model.PodSpec]bool{spec: true}}
		for other, space := range spaces {
			if picks(other, space) {
				b.members[other] = true
			}
		}
		out = append(out, b)
	}
	for spec := range spaces {
		for i := range spec.PodAffinity {
			if t := &spec.PodAffinity[i]; t.Weight == 0 && (!t.Anti || t.TopologyKey != model.LabelHostname) {
				add(spec, t.TopologyKey, func(other *model.PodSpec, space string) bool {
					return slices.Contains(t.Namespaces, space) && constraint.MatchSelector(t.Selector, other.Labels)
				})
			}
		}
		for i := range spec.Spread {
			if t := &spec.Spread[i]; !t.Soft && t.TopologyKey != model.LabelHostname {
				add(spec, t.TopologyKey, func(other *model.PodSpec, space string) bool {
					return t.SelectorNamespace == space && constraint.MatchSelector(t.Selector, other.Labels)
				})
			}
		}
	}
	return out
}

// takes reports whether a pod could be bound where the plan does not have it.
func (s *seat) takes(spec *model.PodSpec) bool {
	if s.room.Lacking(spec.Requests) != "" {
		return false
	}
	if _, ok := constraint.Tolerates(spec.Tolerations, s.taints); !ok {
		return false
	}
	if len(s.zones) == 0 {
		return true
	}
	labels := maps.Clone(s.labels)
	return slices.ContainsFunc(s.zones, func(zone string) bool {
		labels[model.LabelZone] = zone
		_, ok := constraint.MatchNode(spec, labels)
		return ok
	})
}

// beside reports whether two nodes are sure to have the same value of a label.
func (s *seat) beside(o *seat, key string) bool {
	if key == model.LabelZone {
		return len(s.zones) == 1 && slices.Equal(s.zones, o.zones)
	}
	mine, ok := s.labels[key]
	return ok && mine == o.labels[key]
}
