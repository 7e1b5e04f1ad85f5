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
				used[at] = used[at].Plus(d.PerDevice, 1)
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
	breeds []breed
	ids    map[breed]int
	at     [][]tenants // by spot
	first  []int       // a pod of each breed
}

type tenants struct{ breed, n, new int }

func (c *checker) census() *census {
	out := &census{ids: map[breed]int{}, at: make([][]tenants, len(c.spots))}
	for s := range c.spots {
		sp := &c.spots[s]
		if sp.gone {
			continue
		}
		for k, i := range slices.Concat(sp.stays, sp.new) {
			b := breed{c.s.Pods[i].Spec, c.s.Pods[i].Namespace}
			id, ok := out.ids[b]
			if !ok {
				id = len(out.breeds)
				out.ids[b] = id
				out.breeds = append(out.breeds, b)
				out.first = append(out.first, i)
			}
			at := slices.IndexFunc(out.at[s], func(t tenants) bool { return t.breed == id })
			if at < 0 {
				at = len(out.at[s])
				out.at[s] = append(out.at[s], tenants{breed: id})
			}
			out.at[s][at].n++
			if k >= len(sp.stays) {
				out.at[s][at].new++
			}
		}
	}
	return out
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

// matching tells for each breed whether a selector picks it.
func (cs *census) matching(sel model.Selector, namespaces []string) []bool {
	out := make([]bool, len(cs.breeds))
	for i, b := range cs.breeds {
		out[i] = slices.Contains(namespaces, b.namespace) && picks(sel, b.spec.Labels)
	}
	return out
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

// count adds up matching pods by domain.
func (c *checker) count(cs *census, match []bool, key string) map[string]int {
	out := map[string]int{}
	for s := range cs.at {
		for _, t := range cs.at[s] {
			if !match[t.breed] {
				continue
			}
			v, fixed := c.domain(s, key)
			if !fixed {
				c.wrong("%s: %s is counted by %s, and the node may be in several", c.spots[s].name, c.name(cs.first[t.breed]), key)
				continue
			}
			out[v] += t.n
		}
	}
	return out
}

func (c *checker) affinity(cs *census, b int, t *model.PodTerm) {
	match := cs.matching(t.Selector, t.Namespaces)
	counts := c.count(cs, match, t.TopologyKey)
	total := 0
	for _, n := range counts {
		total += n
	}
	self := 0
	if match[b] {
		self = 1
	}
	for s := range cs.at {
		for _, ten := range cs.at[s] {
			if ten.breed != b {
				continue
			}
			v, _ := c.domain(s, t.TopologyKey)
			others := counts[v] - self
			who := c.name(cs.first[b])
			if t.Anti && v != "" && others > 0 {
				if ten.new > 0 || c.newIn(cs, match, v, t.TopologyKey) {
					c.wrong("%s: %s must be apart by %s from %d pods there", c.spots[s].name, who, t.TopologyKey, others)
				}
			}
			if !t.Anti && ten.new > 0 && (v == "" || others <= 0 && !(self == 1 && total == 1)) {
				c.wrong("%s: %s must be near by %s to pods that are not there", c.spots[s].name, who, t.TopologyKey)
			}
		}
	}
}

// newIn reports whether the plan put a matching pod into a domain.
func (c *checker) newIn(cs *census, match []bool, domain, key string) bool {
	for s := range cs.at {
		if v, _ := c.domain(s, key); v != domain {
			continue
		}
		for _, t := range cs.at[s] {
			if match[t.breed] && t.new > 0 {
				return true
			}
		}
	}
	return false
}

// spread checks one constraint of one breed. Domains count when a node that
// stays is eligible or a matching pod is there: what else is launched may come
// up after the pods are placed.
func (c *checker) spread(cs *census, b int, r *model.Spread) {
	match := cs.matching(r.Selector, []string{r.SelectorNamespace})
	counts := c.count(cs, match, r.TopologyKey)
	spec := cs.breeds[b].spec
	domains := map[string]bool{}
	wide := map[string]bool{}
	for s := range c.spots {
		sp := &c.spots[s]
		v, fixed := c.domain(s, r.TopologyKey)
		if sp.gone || !fixed || v == "" || !c.eligible(r, spec, sp) {
			continue
		}
		wide[v] = true
		if sp.node != nil || counts[v] > 0 {
			domains[v] = true
		}
	}
	least, first := 0, true
	for v := range domains {
		if first || counts[v] < least {
			least, first = counts[v], false
		}
	}
	if len(wide) < int(r.MinDomains) || r.TopologyKey == model.LabelHostname {
		least = 0
	}
	for s := range cs.at {
		for _, t := range cs.at[s] {
			v, _ := c.domain(s, r.TopologyKey)
			if t.breed == b && t.new > 0 && (v == "" || counts[v]-least > int(max(r.MaxSkew, 1))) {
				c.wrong("%s: %s is spread by %s: %d there, %d elsewhere, skew at most %d",
					c.spots[s].name, c.name(cs.first[b]), r.TopologyKey, counts[v], least, r.MaxSkew)
			}
		}
	}
}

func (c *checker) eligible(r *model.Spread, spec *model.PodSpec, s *spot) bool {
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
