package solve

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// A domain is one combination of values for the topology keys that matter to a
// shape: a zone, or a zone with a capacity type, or a rack.
type domain struct {
	name   string // the values, joined
	values []string
	keys   []string
	cells  cells
	kinds  *kindsBy // nil = every kind
	tuple  int32
	nodes  set
	price  float64 // of one pod by the kind that suits it best; +Inf where only nodes are
	room   int     // pods for which nodes that exist have space
}

// kindsBy sorts kinds by the values of some labels.
type kindsBy struct {
	of     []int32
	values [][]string
}

func (d *domain) cellsOf(k int) cells {
	if d.kinds != nil && d.kinds.of[k] != d.tuple {
		return 0
	}
	return d.cells
}

func (d *domain) value(key string) string {
	for i, k := range d.keys {
		if k == key {
			return d.values[i]
		}
	}
	return ""
}

// A splitter divides shapes over domains, pod by pod as the scheduler would.
type splitter struct {
	a     *attempt
	tally *tally
	kinds map[string]*kindsBy
}

// split turns shapes into items. Shapes that no rule and no crowd touches, but
// by host, are one item each.
func (a *attempt) split() []item {
	sp := &splitter{a: a, tally: newTally(len(a.topo.crowds)), kinds: map[string]*kindsBy{}}
	for n := range a.m.snap.Nodes {
		labels := a.classifier.labels[n]
		for _, s := range a.g.residents[n] {
			sp.tally.note(a.topo, s, 1, func(key string) string { return labels[key] })
		}
	}
	var items []item
	var tied []int
	for s := range a.g.shapes {
		switch {
		case len(a.g.shapes[s].pods) == 0:
		case len(a.topo.in[s])+len(a.topo.rules[s]) > 0 && len(sp.keys(s)) > 0:
			tied = append(tied, s)
		default:
			items = append(items, a.newItem(s, len(a.g.shapes[s].pods), nil))
		}
	}
	slices.SortStableFunc(tied, func(x, y int) int {
		return cmp.Or(cmp.Compare(len(a.topo.rules[x]), len(a.topo.rules[y])), cmp.Compare(sp.follows(x), sp.follows(y)),
			cmp.Compare(a.g.shapes[y].spec.Priority, a.g.shapes[x].spec.Priority))
	})
	return sp.divide(items, tied)
}

// follows counts the spreads of a shape over other pods than its own: it goes
// where those are fewest, so they come first.
func (sp *splitter) follows(s int) int {
	n := 0
	for _, r := range sp.a.topo.rules[s] {
		if r.relation == spread && !r.self {
			n++
		}
	}
	return n
}

// keys lists the topology keys, hosts apart, that a shape's place is counted by.
func (sp *splitter) keys(s int) []string {
	var out []string
	top := sp.a.topo
	for _, r := range top.rules[s] {
		out = append(out, top.crowds[r.crowd].key)
	}
	for _, c := range top.in[s] {
		out = append(out, top.crowds[c].key)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(k string) bool { return k == model.LabelHostname })
}

// divide places the shapes that are tied to others; those that wait for a pod
// to be near to come again once others are placed.
func (sp *splitter) divide(items []item, tied []int) []item {
	for len(tied) > 0 {
		var waiting []int
		for _, s := range tied {
			if sp.waits(s) {
				waiting = append(waiting, s)
				continue
			}
			items = append(items, sp.shape(s)...)
		}
		if len(waiting) == len(tied) {
			for _, s := range waiting {
				items = append(items, sp.shape(s)...)
			}
			break
		}
		tied = waiting
	}
	return items
}

func (sp *splitter) waits(s int) bool {
	for _, r := range sp.a.topo.rules[s] {
		if r.relation == near && !r.self && sp.a.topo.crowds[r.crowd].key != model.LabelHostname && len(sp.tally.count[r.crowd]) == 0 {
			return true
		}
	}
	return false
}

// shape divides one shape's pods over its domains.
func (sp *splitter) shape(s int) []item {
	domains := sp.domains(s)
	count := len(sp.a.g.shapes[s].pods)
	if len(domains) == 0 {
		return []item{sp.a.newItem(s, count, nil)}
	}
	eligible := sp.eligible(s, domains)
	placed := make([]int, len(domains))
	for done := range count {
		best := sp.best(s, domains, placed, eligible)
		if best < 0 {
			sp.a.stuck = append(sp.a.stuck, stuck{shape: s, n: count - done, why: sp.why(s, domains, eligible)})
			break
		}
		if placed[best]++; placed[best] == 1 {
			sp.tally.keep(sp.a.topo, s, domains[best].value, eligible)
		}
		sp.tally.note(sp.a.topo, s, 1, domains[best].value)
	}
	var out []item
	for i, n := range placed {
		if n > 0 {
			out = append(out, sp.a.newItem(s, n, &domains[i]))
		}
	}
	return out
}

// best returns the domain for one more pod: allowed, least full for the
// shape's spreads, then the cheapest, then the least full for those who count
// the shape; -1 when none is allowed.
func (sp *splitter) best(s int, domains []domain, placed []int, eligible [][]string) int {
	best, least, price, company := -1, 0, 0.0, 0
	for i := range domains {
		d := &domains[i]
		if limit, capped := sp.a.caps[capKey{s, d.name}]; capped && placed[i] >= limit {
			continue
		}
		if _, ok := sp.tally.allows(sp.a.topo, s, d.value, eligible); !ok {
			continue
		}
		n, cost := sp.crowding(s, d), d.price
		if placed[i] < d.room {
			cost = 0
		}
		all := sp.company(s, d)
		if best < 0 || n < least || (n == least && (cost < price || (cost == price && all < company))) {
			best, least, price, company = i, n, cost, all
		}
	}
	return best
}

func (sp *splitter) crowding(s int, d *domain) int {
	n := 0
	for _, r := range sp.a.topo.rules[s] {
		if r.relation == spread {
			n += sp.tally.count[r.crowd][d.value(sp.a.topo.crowds[r.crowd].key)]
		}
	}
	return n
}

// company counts the pods of a domain that are of the same crowds as a shape.
func (sp *splitter) company(s int, d *domain) int {
	n := 0
	for _, c := range sp.a.topo.in[s] {
		n += sp.tally.count[c][d.value(sp.a.topo.crowds[c].key)]
	}
	return n
}

// domains lists where a shape can be placed at all, by the values of its keys.
func (sp *splitter) domains(s int) []domain {
	a := sp.a
	keys := sp.keys(s)
	byName := map[string]*domain{}
	get := func(values []string) *domain {
		name := strings.Join(values, "\x00")
		d, ok := byName[name]
		if !ok {
			d = &domain{name: name, values: values, keys: keys, nodes: newSet(len(a.m.snap.Nodes)), price: math.Inf(1), tuple: -1}
			byName[name] = d
		}
		return d
	}
	sp.fromKinds(s, keys, get)
	sp.fromNodes(s, keys, get)
	out := make([]domain, 0, len(byName))
	for _, d := range byName {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(x, y domain) int { return strings.Compare(x.name, y.name) })
	return out
}

func (sp *splitter) fromKinds(s int, keys []string, get func([]string) *domain) {
	a := sp.a
	byCell := sp.cellGroups(keys)
	by := sp.kindsBy(keys)
	found := map[[2]int]*domain{}
	a.fits[s].each(func(k int) {
		kd := &a.m.kinds[k]
		share := dominant(a.g.shapes[s].vec, kd.alloc)
		where := a.classes[s].where[k]
		var done cells
		for _, l := range kd.market {
			group := byCell[l.cell]
			if where&(1<<l.cell) == 0 || done&(1<<l.cell) != 0 {
				continue
			}
			done |= group
			at := [2]int{int(by.of[k]), l.cell}
			d := found[at]
			if d == nil {
				d = get(sp.valuesOf(keys, by.values[by.of[k]], l.cell))
				d.kinds, d.tuple, d.cells = by, by.of[k], group
				found[at] = d
			}
			d.price = min(d.price, l.price*share)
		}
	})
}

// cellGroups gives every cell the cells that share its values for the keys.
func (sp *splitter) cellGroups(keys []string) []cells {
	zone, ct := slices.Contains(keys, model.LabelZone), slices.Contains(keys, model.LabelCapacityType)
	all := sp.a.m.cells
	out := make([]cells, len(all))
	for i, c := range all {
		for j, o := range all {
			if (!zone || c.zone == o.zone) && (!ct || c.capacityType == o.capacityType) {
				out[i] |= 1 << j
			}
		}
	}
	return out
}

func (sp *splitter) kindsBy(keys []string) *kindsBy {
	var own []string
	for _, k := range keys {
		if k != model.LabelZone && k != model.LabelCapacityType {
			own = append(own, k)
		}
	}
	name := strings.Join(own, "\x00")
	if by, ok := sp.kinds[name]; ok {
		return by
	}
	m := sp.a.m
	by := &kindsBy{of: make([]int32, len(m.kinds))}
	ids := map[string]int32{}
	for i := range m.kinds {
		values := make([]string, len(own))
		for j, key := range own {
			values[j], _ = m.label(&m.kinds[i], key)
		}
		text := strings.Join(values, "\x00")
		id, ok := ids[text]
		if !ok {
			id = int32(len(by.values))
			ids[text] = id
			by.values = append(by.values, values)
		}
		by.of[i] = id
	}
	sp.kinds[name] = by
	return by
}

// valuesOf puts a kind's values and a cell's together in the order of keys.
func (sp *splitter) valuesOf(keys, own []string, at int) []string {
	out := make([]string, 0, len(keys))
	for _, k := range keys {
		switch k {
		case model.LabelZone:
			out = append(out, sp.a.m.cells[at].zone)
		case model.LabelCapacityType:
			out = append(out, sp.a.m.cells[at].capacityType)
		default:
			out = append(out, own[0])
			own = own[1:]
		}
	}
	return out
}

func (sp *splitter) fromNodes(s int, keys []string, get func([]string) *domain) {
	a := sp.a
	a.classes[s].nodes.each(func(n int) {
		room := times(a.g.shapes[s].vec, a.bins[n].free, math.MaxInt32)
		if room == 0 {
			return
		}
		values := make([]string, len(keys))
		for i, k := range keys {
			values[i] = a.classifier.labels[n][k]
		}
		d := get(values)
		d.nodes.add(n)
		if !a.bins[n].gpu || a.g.shapes[s].gpu {
			d.room = min(d.room+room, math.MaxInt32)
		}
	})
}

// eligible lists for each rule of a shape the domains that its spread counts:
// those where it can be placed and those of nodes that its constraint takes in.
func (sp *splitter) eligible(s int, domains []domain) [][]string {
	a := sp.a
	out := make([][]string, len(a.topo.rules[s]))
	for i, r := range a.topo.rules[s] {
		key := a.topo.crowds[r.crowd].key
		if r.relation != spread || key == model.LabelHostname {
			continue
		}
		for d := range domains {
			out[i] = append(out[i], domains[d].value(key))
		}
		for n := range a.m.snap.Nodes {
			labels := a.classifier.labels[n]
			if !a.m.snap.Nodes[n].Leaving && constraint.SpreadEligible(r.spread, a.specs[s], labels, a.classifier.taints[n]) {
				out[i] = append(out[i], labels[key])
			}
		}
		slices.Sort(out[i])
		out[i] = slices.DeleteFunc(slices.Compact(out[i]), func(v string) bool { return v == "" })
	}
	return out
}

// why words the rule that keeps a shape's next pod out of the domains.
func (sp *splitter) why(s int, domains []domain, eligible [][]string) model.Verdict {
	top := sp.a.topo
	for i := range domains {
		failed, ok := sp.tally.allows(top, s, domains[i].value, eligible)
		if ok || failed < 0 {
			continue
		}
		r := top.rules[s][failed]
		v := model.Verdict{Code: model.CodeAffinity, Key: top.crowds[r.crowd].key, Wanted: top.crowds[r.crowd].words}
		if r.relation == spread {
			v.Code, v.Asked = model.CodeSpread, int64(r.maxSkew)
		}
		for _, d := range domains {
			v.Offered = append(v.Offered, d.value(v.Key))
		}
		slices.Sort(v.Offered)
		v.Offered = slices.Compact(v.Offered)
		return v
	}
	return model.Verdict{Code: model.CodeAffinity, Detail: "pods that are there keep apart from it"}
}
