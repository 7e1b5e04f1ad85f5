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
// others astray. So a node that such pods are for, or could go to, opens when
// their nodes are up, and those of all pods that could take their room; in which
// order, is for turns.go.
type company struct {
	// The claims that a claim's node waits for. The sets are shared: a thousand
	// nodes of one spread wait for the same thousand.
	waits map[string][]map[string]bool
	// The families of claims whose nodes are for pods that are tied to each other,
	// from 1. A claim of no tied pods has none, 0.
	families map[string]int
}

// A seat is a node that is not up yet, or not open, as it will be.
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
	out := company{waits: map[string][]map[string]bool{}, families: map[string]int{}}
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
	out.families = families(bound, homes)
	for i := range all {
		s := &all[i]
		loose, empty, hosts := s.room, s.room, false // room without tied pods, and without any
		for _, p := range s.pods {
			spec := v.snapshot.Pods[p].Spec
			empty = empty.Plus(spec.Requests, 1)
			if bound[spec] != nil {
				loose, hosts = loose.Plus(spec.Requests, 1), true
			}
		}
		for spec, at := range homes {
			if bound[spec] != nil && s.takes(spec, empty) || hosts && s.takes(spec, loose) {
				out.waits[s.claim] = append(out.waits[s.claim], at)
			}
		}
	}
	return out
}

// seats lists the nodes that are ordered or on their way, with what the plan
// has on them.
func seats(v *view, answer plan.Plan, expected places) []seat {
	coming := map[string]string{} // nodes, and their claims
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		if claim := v.claims[n.Name]; claim != "" && !n.Leaving && (n.InFlight || v.closed[n.Name]) {
			coming[n.Name] = claim
		}
	}
	on := map[string][]int{}
	for i := range v.snapshot.Pods {
		if node := v.snapshot.Pods[i].Node; coming[node] != "" {
			on[node] = append(on[node], i)
		}
	}
	for _, b := range answer.Binds {
		on[b.Node] = append(on[b.Node], b.Pods...)
	}
	var out []seat
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		claim := coming[n.Name]
		if claim == "" {
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

// families numbers, from 1, the claims whose pods are tied to each other, over
// however many others.
func families(bound map[*model.PodSpec]specs, homes map[*model.PodSpec]map[string]bool) map[string]int {
	out, on := map[string]int{}, map[string]specs{}
	for spec, at := range homes {
		for claim := range at {
			if bound[spec] != nil {
				on[claim] = append(on[claim], spec)
			}
		}
	}
	last, joined := 0, map[*model.PodSpec]bool{}
	var join func(claim string)
	join = func(claim string) {
		if out[claim] != 0 {
			return
		}
		out[claim] = last
		for _, spec := range on[claim] {
			for _, other := range bound[spec] {
				if joined[other] {
					continue
				}
				joined[other] = true
				for next := range homes[other] {
					join(next)
				}
			}
		}
	}
	for claim := range on {
		if out[claim] == 0 {
			last++
			join(claim)
		}
	}
	return out
}

type specs []*model.PodSpec

// tied are the pods whose place depends on where others are bound, or on which
// such pods depend, with those others: by required affinity, by spread, and by
// anti-affinity over more than one node. Pods of which each wants a node of its
// own are not.
func tied(spaces map[*model.PodSpec]string) map[*model.PodSpec]specs {
	out := map[*model.PodSpec]specs{}
	tie := func(spec *model.PodSpec, picks func(*model.PodSpec, string) bool) {
		out[spec] = append(out[spec], spec)
		for other, space := range spaces {
			if other != spec && picks(other, space) {
				out[spec], out[other] = append(out[spec], other), append(out[other], spec)
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
