package controller

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// inTurn puts nodes in the order in which they open, with those beside each other
// that do at once. Whenever one does, the scheduler tries every pod, and one that
// loses its nomination in that moment may lose its room to another. So the node
// comes next into which the fewest pods fit that wait for others: small ones, as a
// rule, since their pods fit into the large ones too. Equal pods do not count, as
// nothing is lost when they change places.
//
// Nodes whose pods are tied to each other (company.go) come last, so that hardly
// anybody is left who could take the room of pods that wait for each other.
func (g *gate) inTurn(list []arrival) [][]arrival {
	kinds := g.store.waiting()
	left := g.families(list, kinds)
	var out [][]arrival
	for len(left) > 0 {
		next := 0
		for i := range left {
			if left[i].before(&left[next], kinds) {
				next = i
			}
		}
		out = append(out, left[next].inTurn(kinds)...)
		for i, n := range left[next].own {
			kinds[i].waiting -= n
		}
		left = slices.Delete(left, next, next+1)
	}
	return out
}

// A kind is pods of one spec.
type kind struct {
	spec    *model.PodSpec
	waiting int
	on      []map[string]string // labels of the nodes that others are bound to
}

// waiting are the kinds of pods that wait.
func (s *store) waiting() (out []kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := map[*model.PodSpec]int{}
	s.pods.each(func(e *podEntry) {
		if !e.takes || !e.waits {
			return
		}
		i, known := index[e.read.Spec]
		if !known {
			i = len(out)
			index[e.read.Spec], out = i, append(out, kind{spec: e.read.Spec})
		}
		out[i].waiting++
	})
	s.pods.each(func(e *podEntry) {
		if i, known := index[e.read.Spec]; known && e.takes && e.read.Node != "" {
			n, _ := s.nodes.get(e.read.Node)
			out[i].on = append(out[i].on, n.read.Labels)
		}
	})
	return out
}

// A room is one node or several, with who could go there, by the numbers of kinds.
type room struct {
	fits []bool // whether a pod of it could
	own  []int  // pods that are to
}

// room is an arrival's.
func (g *gate) room(a arrival, kinds []kind) room {
	r := room{make([]bool, len(kinds)), make([]int, len(kinds))}
	for _, p := range g.pods(a) {
		if i := slices.IndexFunc(kinds, func(k kind) bool { return k.spec == p.read.Spec }); i >= 0 {
			r.own[i]++
		}
	}
	for i := range kinds {
		r.fits[i] = a.takes(kinds[i].spec)
	}
	return r
}

// takes reports whether a pod could be bound to a node without any others.
func (a *arrival) takes(spec *model.PodSpec) bool {
	taints := slices.DeleteFunc(slices.Clone(a.read.Taints), func(t model.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	_, tolerated := constraint.Tolerates(spec.Tolerations, taints)
	_, matched := constraint.MatchNode(spec, a.read.Labels)
	return tolerated && matched && a.read.Allocatable.Lacking(spec.Requests) == ""
}

// rivals is how many pods could go there that are not to.
func (r *room) rivals(kinds []kind) (n int) {
	for i := range kinds {
		if r.fits[i] && r.own[i] == 0 {
			n += kinds[i].waiting
		}
	}
	return n
}

func (r *room) add(o room) {
	for i := range r.fits {
		r.fits[i] = r.fits[i] || o.fits[i]
		r.own[i] += o.own[i]
	}
}

// A family is nodes whose pods are tied to each other, or one node.
type family struct {
	room
	tied  bool
	nodes []arrival
	rooms []room // of each node
}

// families parts nodes into families.
func (g *gate) families(list []arrival, kinds []kind) (out []family) {
	at := map[int]int{} // of a family in out
	for _, a := range list {
		number := g.family(a)
		i, known := at[number]
		if !known || number == 0 {
			i = len(out)
			at[number], out = i, append(out, family{tied: number != 0, room: room{make([]bool, len(kinds)), make([]int, len(kinds))}})
		}
		f, r := &out[i], g.room(a, kinds)
		f.nodes, f.rooms = append(f.nodes, a), append(f.rooms, r)
		f.add(r)
	}
	return out
}

// family is the number of a node's family, 0 for none.
func (g *gate) family(a arrival) int {
	if a.claim == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.company.families[a.claim.Name]
}

// before reports whether a family's nodes should open before another's.
func (f *family) before(other *family, kinds []kind) bool {
	if f.tied != other.tied {
		return other.tied
	}
	return f.rivals(kinds) < other.rivals(kinds)
}

// inTurn puts the nodes of a family in order: always the one with the fewest
// rivals among those to which all their pods can be bound by then. When there is
// none, the others open at once.
func (f *family) inTurn(kinds []kind) (out [][]arrival) {
	left := make([]int, len(f.nodes))
	for i := range left {
		left[i] = i
	}
	slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(f.rooms[a].rivals(kinds), f.rooms[b].rivals(kinds)) })
	counts := f.counts(kinds)
	for len(left) > 0 {
		at := slices.IndexFunc(left, func(i int) bool { return f.free(i, kinds, counts) })
		if at < 0 {
			break
		}
		i := left[at]
		f.count(i, kinds, counts)
		out, left = append(out, f.nodes[i:i+1]), slices.Delete(left, at, at+1)
	}
	var joint []arrival
	for _, i := range left {
		joint = append(joint, f.nodes[i])
	}
	if len(joint) > 0 {
		out = append(out, joint)
	}
	return out
}

// A domain is a value of a topology key, for one kind of pods. Each node is one,
// and is not counted: others have none of the pods until the last has some.
type domain struct {
	kind  int
	key   string
	value string
}

// counts are the pods that are bound in each domain in which the family is.
func (f *family) counts(kinds []kind) map[domain]int {
	out := map[domain]int{}
	for k := range kinds {
		if f.own[k] == 0 {
			continue
		}
		for _, t := range kinds[k].spec.Spread {
			if t.TopologyKey == model.LabelHostname {
				continue
			}
			for i := range f.nodes {
				out[domain{k, t.TopologyKey, f.nodes[i].read.Labels[t.TopologyKey]}] = 0
			}
			for _, labels := range kinds[k].on {
				out[domain{k, t.TopologyKey, labels[t.TopologyKey]}]++
			}
		}
	}
	return out
}

// count adds the pods of a node.
func (f *family) count(i int, kinds []kind, counts map[domain]int) {
	for k, n := range f.rooms[i].own {
		if n > 0 {
			for _, t := range kinds[k].spec.Spread {
				if t.TopologyKey != model.LabelHostname {
					counts[domain{k, t.TopologyKey, f.nodes[i].read.Labels[t.TopologyKey]}] += n
				}
			}
		}
	}
}

// free reports whether all pods of a node can be bound to it, as far as equal
// ones are spread.
func (f *family) free(i int, kinds []kind, counts map[domain]int) bool {
	for k, n := range f.rooms[i].own {
		if n == 0 {
			continue
		}
		for _, t := range kinds[k].spec.Spread {
			here := domain{k, t.TopologyKey, f.nodes[i].read.Labels[t.TopologyKey]}
			if !t.Soft && counts[here]+n > least(counts, here)+int(t.MaxSkew) {
				return false
			}
		}
	}
	return true
}

// least is how many pods the domain has that has the fewest.
func least(counts map[domain]int, d domain) int {
	out := counts[d]
	for other, n := range counts {
		if other.kind == d.kind && other.key == d.key {
			out = min(out, n)
		}
	}
	return out
}

// calm waits until the scheduler has had the time to try all pods that wait since
// something happened for which it does.
func (s *store) calm() {
	for end := time.Now().Add(unrest); time.Now().Before(end); time.Sleep(heard) {
		s.mu.Lock()
		quiet := time.Since(s.stirred) > min(time.Duration(4+s.waits)*attempt, unrest)
		s.mu.Unlock()
		if quiet {
			return
		}
	}
}

const (
	// attempt is how long the scheduler takes for a pod, amply.
	attempt = 5 * time.Millisecond
	// unrest is for how long nodes are kept closed at most because the cluster does
	// not come to rest.
	unrest = 300 * time.Millisecond
)
