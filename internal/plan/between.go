package plan

import (
	"fmt"
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// ports checks that no two pods of a node take one port.
func (c *checker) ports(s *spot) {
	var with []int
	for _, i := range slices.Concat(s.stays, s.new) {
		if len(c.s.Pods[i].Spec.HostPorts) > 0 {
			with = append(with, i)
		}
	}
	for x, i := range with {
		for _, j := range with[x+1:] {
			if portsClash(c.s.Pods[i].Spec.HostPorts, c.s.Pods[j].Spec.HostPorts) && slices.Contains(s.new, j) {
				c.wrong("%s: %s and %s take the same host port", s.name, c.name(i), c.name(j))
			}
		}
	}
}

// devices checks shares device by device, and returns the resources that are
// counted so and not on the node as a whole.
func (c *checker) devices(s *spot) map[string]bool {
	packed := map[string]bool{}
	for i := range s.racks {
		if len(s.racks[i].Shares) > 0 {
			for name := range s.racks[i].Resources {
				packed[name] = true
			}
		}
	}
	if len(packed) == 0 {
		return packed
	}
	used := make([]model.Resources, len(s.racks))
	users := make([]int64, len(s.racks))
	whole := make([]bool, len(s.racks))
	for _, i := range s.new {
		spec := c.s.Pods[i].Spec
		on := s.on[i]
		if want := devicesAsked(spec, packed); int64(len(on)) != want {
			if s.on != nil || s.launch != nil {
				c.wrong("%s: %s is on %d devices and asks for %d", s.name, c.name(i), len(on), want)
			}
			continue
		}
		next := 0
		for _, d := range spec.Shares {
			for range d.Count {
				at := on[next]
				next++
				if at < 0 || at >= len(s.racks) || s.racks[at].Resources[d.Resource] <= 0 {
					c.wrong("%s: %s is on device %d, which does not back %s", s.name, c.name(i), at, d.Resource)
					continue
				}
				used[at] = used[at].Plus(d.Of(s.racks[at].Shares), 1)
				users[at]++
				if backs := s.racks[at].Resources[d.Resource]; backs > 1 && users[at] > backs {
					c.wrong("%s: device %d has %d users and takes %d", s.name, at, users[at], backs)
				}
			}
		}
		for _, at := range on[next:] {
			whole[at] = true
			users[at]++
		}
	}
	for at := range used {
		if name := s.racks[at].Shares.Lacking(used[at]); name != "" {
			c.wrong("%s: device %d is asked for %d of %s", s.name, at, used[at][name], name)
		}
		if whole[at] && users[at] > 1 {
			c.wrong("%s: device %d is taken whole and shared", s.name, at)
		}
	}
	return packed
}

func devicesAsked(spec *model.PodSpec, packed map[string]bool) int64 {
	var n int64
	for _, d := range spec.Shares {
		n += d.Count
	}
	if n == 0 {
		for name, v := range spec.Requests {
			if packed[name] {
				n += max(v, 0)
			}
		}
	}
	return n
}

// A breed is the pods of one spec and namespace: rules treat them alike.
type breed struct {
	spec      *model.PodSpec
	namespace string
}

// A census counts pods by breed on every spot.
type census struct {
	breeds  []breed
	ids     map[breed]int
	at      [][]tenants // by spot
	on      [][]int     // by breed: spots
	first   []int       // a pod of each breed
	crowds  map[string]crowd
	regions map[string][]region
}

type tenants struct{ breed, n, new int }

// A crowd is the breeds that a selector picks, counted by the domains of a
// topology key.
type crowd struct {
	match  []bool
	counts map[string]int
	fresh  map[string]bool // domains into which the plan puts some
}

// A region is a domain of a topology key with what makes it count for a spread.
type region struct {
	value  string
	stands bool // a node that exists is in it
}

func (c *checker) census() *census {
	out := &census{ids: map[breed]int{}, at: make([][]tenants, len(c.spots)), crowds: map[string]crowd{}, regions: map[string][]region{}}
	here := map[int]int{}
	var pods []int
	for s := range c.spots {
		sp := &c.spots[s]
		if sp.gone {
			continue
		}
		clear(here)
		pods = append(append(pods[:0], sp.stays...), sp.new...)
		for k, i := range pods {
			id := out.id(breed{c.s.Pods[i].Spec, c.s.Pods[i].Namespace}, i)
			at, ok := here[id]
			if !ok {
				at = len(out.at[s])
				here[id] = at
				out.at[s] = append(out.at[s], tenants{breed: id})
				out.on[id] = append(out.on[id], s)
			}
			out.at[s][at].n++
			if k >= len(sp.stays) {
				out.at[s][at].new++
			}
		}
	}
	return out
}

func (cs *census) id(b breed, pod int) int {
	id, ok := cs.ids[b]
	if !ok {
		id = len(cs.breeds)
		cs.ids[b] = id
		cs.breeds = append(cs.breeds, b)
		cs.first = append(cs.first, pod)
		cs.on = append(cs.on, nil)
	}
	return id
}

// between checks the rules that relate pods to pods.
func (c *checker) between() {
	cs := c.census()
	for b := range cs.breeds {
		spec := cs.breeds[b].spec
		for i := range spec.PodAffinity {
			if t := &spec.PodAffinity[i]; t.Weight == 0 {
				c.affinity(cs, b, t)
			}
		}
		for i := range spec.Spread {
			if r := &spec.Spread[i]; !r.Soft {
				c.spread(cs, b, r)
			}
		}
	}
}

// crowd finds out, once for each selector, whom it picks and where they are.
func (c *checker) crowd(cs *census, sel model.Selector, namespaces []string, key string) crowd {
	name := fmt.Sprintf("%q %q %v", key, namespaces, sel)
	if have, ok := cs.crowds[name]; ok {
		return have
	}
	out := crowd{match: make([]bool, len(cs.breeds)), counts: map[string]int{}, fresh: map[string]bool{}}
	for i, b := range cs.breeds {
		out.match[i] = slices.Contains(namespaces, b.namespace) && picks(sel, b.spec.Labels)
	}
	for s := range cs.at {
		v, fixed := c.domain(s, key)
		for _, t := range cs.at[s] {
			if !out.match[t.breed] {
				continue
			}
			if !fixed {
				c.wrong("%s: %s is counted by %s, and the node may be in several", c.spots[s].name, c.name(cs.first[t.breed]), key)
				continue
			}
			out.counts[v] += t.n
			out.fresh[v] = out.fresh[v] || t.new > 0
		}
	}
	cs.crowds[name] = out
	return out
}

// of returns the pods of a breed on one of its spots.
func (cs *census) of(b, s int) tenants {
	return cs.at[s][slices.IndexFunc(cs.at[s], func(t tenants) bool { return t.breed == b })]
}

// domain is the value of a topology key on a spot. A launch that may be in
// several zones has no zone to count by: pods that are counted by zone must not
// be on one.
func (c *checker) domain(s int, key string) (value string, fixed bool) {
	sp := &c.spots[s]
	if now, old := renamed[key]; old {
		key = now
	}
	switch {
	case key == model.LabelHostname && sp.node == nil:
		return fmt.Sprintf("launch %d", s), true
	case key == model.LabelZone && len(sp.zones) > 1:
		return "", false
	}
	return sp.labels[key], true
}

func (c *checker) affinity(cs *census, b int, t *model.PodTerm) {
	crowd := c.crowd(cs, t.Selector, t.Namespaces, t.TopologyKey)
	total, self := 0, 0
	for _, n := range crowd.counts {
		total += n
	}
	if crowd.match[b] {
		self = 1
	}
	who := c.name(cs.first[b])
	for _, s := range cs.on[b] {
		v, _ := c.domain(s, t.TopologyKey)
		others, isNew := crowd.counts[v]-self, cs.of(b, s).new > 0
		if t.Anti && v != "" && others > 0 && (isNew || crowd.fresh[v]) {
			c.wrong("%s: %s must be apart by %s from %d pods there", c.spots[s].name, who, t.TopologyKey, others)
		}
		if !t.Anti && isNew && (v == "" || others <= 0 && !(self == 1 && total == 1)) {
			c.wrong("%s: %s must be near by %s to pods that are not there", c.spots[s].name, who, t.TopologyKey)
		}
	}
}

// spread checks one constraint of one breed. Domains count when a node that
// stays is eligible or a matching pod is there: what else is launched may come
// up after the pods are placed.
func (c *checker) spread(cs *census, b int, r *model.Spread) {
	crowd := c.crowd(cs, r.Selector, []string{r.SelectorNamespace}, r.TopologyKey)
	least, first, wide := 0, true, 0
	for _, g := range c.eligible(cs, r, cs.breeds[b].spec) {
		wide++
		if n := crowd.counts[g.value]; (g.stands || n > 0) && (first || n < least) {
			least, first = n, false
		}
	}
	if wide < int(r.MinDomains) || r.TopologyKey == model.LabelHostname {
		least = 0
	}
	for _, s := range cs.on[b] {
		v, _ := c.domain(s, r.TopologyKey)
		if cs.of(b, s).new > 0 && (v == "" || crowd.counts[v]-least > int(max(r.MaxSkew, 1))) {
			c.wrong("%s: %s is spread by %s: %d there, %d elsewhere, skew at most %d",
				c.spots[s].name, c.name(cs.first[b]), r.TopologyKey, crowd.counts[v], least, r.MaxSkew)
		}
	}
}

// eligible lists the domains that count for a spread constraint of a pod.
func (c *checker) eligible(cs *census, r *model.Spread, spec *model.PodSpec) []region {
	name := fmt.Sprintf("%q %v %v", r.TopologyKey, r.IgnoreAffinity, r.HonorTaints)
	if !r.IgnoreAffinity {
		name += fmt.Sprintf(" %v %v", spec.NodeSelector, spec.NodeAffinity)
	}
	if r.HonorTaints {
		name += fmt.Sprintf(" %v", spec.Tolerations)
	}
	if have, ok := cs.regions[name]; ok {
		return have
	}
	at := map[string]int{}
	var out []region
	for s := range c.spots {
		sp := &c.spots[s]
		v, fixed := c.domain(s, r.TopologyKey)
		if sp.gone || !fixed || v == "" || !takesIn(r, spec, sp) {
			continue
		}
		i, ok := at[v]
		if !ok {
			i = len(out)
			at[v] = i
			out = append(out, region{value: v})
		}
		out[i].stands = out[i].stands || sp.node != nil
	}
	cs.regions[name] = out
	return out
}

// takesIn reports whether a constraint counts a spot for a pod.
func takesIn(r *model.Spread, spec *model.PodSpec, s *spot) bool {
	bare := model.PodSpec{NodeSelector: spec.NodeSelector, NodeAffinity: spec.NodeAffinity}
	if _, ok := matchesNode(&bare, s.labels); !ok && !r.IgnoreAffinity {
		return false
	}
	if !r.HonorTaints {
		return true
	}
	_, ok := tolerates(spec.Tolerations, s.taints)
	return ok
}
