package controller

import (
	"maps"
	"slices"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// A company tells which NodeClaims' nodes wait for which others before they
// take pods. Pods that are tied to each other, spread or drawn together, may go
// where the plan has them only when others of them are bound: until then the
// scheduler refuses them, and gives their room to whoever fits; and one that
// finds room in the wrong zone, because its own node is not up yet, leads the
// others astray. So a node that such pods are for, or could go to, opens together
// with their nodes and with those of all pods that could take their room.
//
// The sets of claims are shared: a thousand nodes of one spread wait for the same
// thousand.
type company map[string][]map[string]bool

// A seat is a node that is not up yet, as it will be.
type seat struct {
	claim  string
	zones  []string // in one of which it is; none is unknown
	labels map[string]string
	taints []model.Taint
	room   model.Resources // that the plan leaves free
	pods   []int
}

// companions makes the company of a decision, whose claims have their names.
func companions(v *view, answer plan.Plan, expected places) company {
	out := company{}
	all := seats(v, answer, expected)
	homes := map[*model.PodSpec]map[string]bool{} // claims
	spaces := map[*model.PodSpec]string{}         // namespaces; pods of one spec are in one
	for i := range all {
		for _, p := range all[i].pods {
			pod := &v.snapshot.Pods[p]
			if homes[pod.Spec] == nil {
				homes[pod.Spec], spaces[pod.Spec] = map[string]bool{}, pod.Namespace
			}
			homes[pod.Spec][all[i].claim] = true
		}
	}
	bound := tied(spaces)
	if len(bound) == 0 {
		return out
	}
	for i := range all {
		s := &all[i]
		loose, empty, hosts := s.room, s.room, false // room without tied pods, and without any
		for _, p := range s.pods {
			spec := v.snapshot.Pods[p].Spec
			empty = empty.Plus(spec.Requests, 1)
			if bound[spec] {
				loose, hosts = loose.Plus(spec.Requests, 1), true
			}
		}
		for spec, at := range homes {
			if bound[spec] && s.takes(spec, empty) || hosts && s.takes(spec, loose) {
				out[s.claim] = append(out[s.claim], at)
			}
		}
	}
	return out
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
			continue // it could not be written as an order
		}
		out = append(out, seat{
			claim: claim, zones: l.Zones, labels: l.Labels, taints: taints[l.Pool], pods: l.Pods,
			room: l.Allocatable.Plus(l.Overhead, -1).Plus(l.Used, -1),
		})
	}
	return out
}

// tied are the pods whose place depends on where others are bound, or on which
// such pods depend: by required affinity, by spread, and by anti-affinity over
// more than one node. Pods of which each wants a node of its own are not.
func tied(spaces map[*model.PodSpec]string) map[*model.PodSpec]bool {
	out := map[*model.PodSpec]bool{}
	tie := func(spec *model.PodSpec, picks func(*model.PodSpec, string) bool) {
		out[spec] = true
		for other, space := range spaces {
			if picks(other, space) {
				out[other] = true
			}
		}
	}
	for spec := range spaces {
		for i := range spec.PodAffinity {
			if t := &spec.PodAffinity[i]; t.Weight == 0 && (!t.Anti || t.TopologyKey != model.LabelHostname) {
				tie(spec, func(other *model.PodSpec, space string) bool {
					return slices.Contains(t.Namespaces, space) && constraint.MatchSelector(t.Selector, other.Labels)
				})
			}
		}
		for i := range spec.Spread {
			if t := &spec.Spread[i]; !t.Soft {
				tie(spec, func(other *model.PodSpec, space string) bool {
					return t.SelectorNamespace == space && constraint.MatchSelector(t.Selector, other.Labels)
				})
			}
		}
	}
	return out
}

// takes reports whether a pod could be bound to a node that has so much room.
func (s *seat) takes(spec *model.PodSpec, room model.Resources) bool {
	if room.Lacking(spec.Requests) != "" {
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
