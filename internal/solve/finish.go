package solve

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// fallback is how much dearer than the planned type an alternative may be.
// EC2 Fleet takes at most maxAlternatives.
const (
	fallback        = 1.2
	maxAlternatives = 60
)

// finish writes an attempt as a plan: fillings become launches, items become
// pods, and what is left is explained.
func (a *attempt) finish(relaxed []model.Relaxation) (plan.Plan, model.Trace) {
	d := newDealer(a)
	var p plan.Plan
	nodes := 0
	for i := range a.launches {
		nodes += a.launches[i].copies
	}
	p.Launches = make([]plan.Launch, 0, nodes)
	for n := range a.bins {
		if b := &a.bins[n]; len(b.takes) > 0 {
			bind := plan.Bind{Node: a.m.snap.Nodes[n].Name}
			bind.Pods, bind.OnDevice = d.deal(b.takes, a.binRack(n))
			p.Binds = append(p.Binds, bind)
		}
	}
	a.sortLaunches()
	for i := range a.launches {
		f := &a.launches[i]
		l := a.launch(f)
		for range f.copies {
			one := l
			one.Pods, one.OnDevice = d.deal(f.takes, a.kindRack(f.kind))
			p.Launches = append(p.Launches, one)
		}
	}
	for i := range p.Launches {
		p.Cost += p.Launches[i].Price
	}
	for i := range a.m.snap.Nodes {
		if !a.m.snap.Nodes[i].Leaving {
			p.Standing += a.m.snap.Nodes[i].Price
		}
	}
	p.Unplaced = append(slices.Clone(a.g.refused), a.refusals(d)...)
	slices.SortStableFunc(p.Unplaced, func(x, y model.Refusal) int { return cmp.Compare(x.Pods[0], y.Pods[0]) })
	return p, model.Trace{Refusals: p.Unplaced, Relaxed: relaxed, Steps: a.steps}
}

// A dealer hands out the pods of shapes in order.
type dealer struct {
	a    *attempt
	next []int // by shape
}

func newDealer(a *attempt) *dealer { return &dealer{a: a, next: make([]int, len(a.g.shapes))} }

func (d *dealer) deal(takes []take, r *rack) (pods []int, onDevice map[int][]int) {
	for _, t := range takes {
		for _, p := range d.a.items[t.item].parts {
			sh := &d.a.g.shapes[p.shape]
			for range t.n * p.n {
				pod := sh.pods[d.next[p.shape]]
				d.next[p.shape]++
				pods = append(pods, pod)
				if r == nil {
					continue
				}
				if on, ok := r.place(sh.spec); ok && len(on) > 0 {
					if onDevice == nil {
						onDevice = map[int][]int{}
					}
					onDevice[pod] = on
				}
			}
		}
	}
	slices.Sort(pods)
	return pods, onDevice
}

// rest returns the pods of a shape that were not dealt.
func (d *dealer) rest(s int) []int { return d.a.g.shapes[s].pods[d.next[s]:] }

func (a *attempt) kindRack(k int) *rack {
	if !a.m.kinds[k].shared {
		return nil
	}
	return newRack(a.m.kinds[k].chassis)
}

// binRack is the devices of a node with only the pods that stay on them.
func (a *attempt) binRack(n int) *rack {
	if a.bins[n].rack == nil {
		return nil
	}
	r := newRack(a.m.chassis(a.m.snap.Nodes[n].Devices))
	for _, s := range a.g.residents[n] {
		r.place(a.g.shapes[s].spec)
	}
	return r
}

// launch writes one filling, its pods apart.
func (a *attempt) launch(f *filling) plan.Launch {
	k := &a.m.kinds[f.kind]
	p := &a.m.pools[k.pool]
	t := &a.m.snap.Types[k.typ]
	price, at, _ := k.cheapest(f.cells, a.m.cells)
	l := plan.Launch{
		Pool: p.src.Name, Type: t.Name, Price: price, Estimated: k.estimated(at), Labels: k.labels,
		Config: k.adv.Config, Sharing: k.adv.Kind, Devices: k.adv.Devices,
		Allocatable: withGPUs(allocatable(t, p.src.Kubelet), k.adv.Resources), Overhead: model.Resources{}, Used: model.Resources{},
	}
	if !k.gpu {
		l.Allocatable = maps.Clone(allocatable(t, p.src.Kubelet))
	}
	for i, c := range a.m.cells {
		if at&(1<<i) != 0 {
			l.Zones = append(l.Zones, c.zone)
			l.CapacityType = c.capacityType
		}
	}
	for _, d := range k.daemons {
		ds := &a.m.snap.DaemonSets[d]
		l.DaemonSets = append(l.DaemonSets, ds.Namespace+"/"+ds.Name)
		l.Overhead = l.Overhead.Plus(ds.Spec.Requests, 1)
	}
	for _, tk := range f.takes {
		for _, p := range a.items[tk.item].parts {
			l.Used = l.Used.Plus(a.g.shapes[p.shape].spec.Requests, int64(p.n*tk.n))
		}
	}
	l.Alternatives = a.alternatives(f, at)
	return l
}

// A choice is a kind that a launch may fall back on.
type choice struct {
	kind  int
	name  string
	price float64
}

// alternatives lists the types of the pool that hold the same pods, the
// planned one first, then by price: those within fallback of the price, and as
// many more as minValues demands. Only for minValues it lists types that would
// exceed the pool's limits.
func (a *attempt) alternatives(f *filling, at cells) []string {
	price, _, _ := a.m.kinds[f.kind].cheapest(at, a.m.cells)
	demanding := a.demandsChoice(f.kind)
	var usual, others []choice
	most := price * fallback
	if demanding {
		most = math.Inf(1)
	}
	for o := range a.holders(f.kind, at, a.items, f.takes, most) {
		c := choice{kind: o}
		c.price, _, _ = a.m.kinds[o].cheapest(at, a.m.cells)
		c.name = a.m.snap.Types[a.m.kinds[o].typ].Name
		if a.affords(f.kind, o) {
			usual = append(usual, c)
		} else if demanding {
			others = append(others, c)
		}
	}
	names, enough := a.choose(f.kind, at, usual)
	if !enough {
		names, _ = a.choose(f.kind, at, append(usual, others...))
	}
	return names
}

// choose takes from the choices what alternatives lists; enough is false when
// minValues is not met.
func (a *attempt) choose(k int, at cells, all []choice) (names []string, enough bool) {
	slices.SortStableFunc(all, func(x, y choice) int {
		return cmp.Or(cmp.Compare(b2i(y.kind == k), b2i(x.kind == k)), cmp.Compare(x.price, y.price), strings.Compare(x.name, y.name))
	})
	set := a.m.pools[a.m.kinds[k].pool].set
	var kept []int
	for _, c := range all {
		if enough && (c.price > all[0].price*fallback || len(names) >= maxAlternatives) {
			break
		}
		names, kept = append(names, c.name), append(kept, c.kind)
		if !enough {
			_, _, _, enough = set.Flexible(func(key string) []string { return a.valuesAmong(kept, at, key) })
		}
	}
	return names, enough
}

// affords reports whether a pool's limits leave room for kind o in place of k,
// in every launch of the pool at once.
func (a *attempt) affords(k, o int) bool {
	n := 0
	for i := range a.launches {
		if a.m.kinds[a.launches[i].kind].pool == a.m.kinds[k].pool {
			n += a.launches[i].copies
		}
	}
	left := a.ledger.left[a.m.kinds[k].pool]
	for i, c := range a.ledger.costs[o] {
		if more := c - a.ledger.costs[k][i]; more > 0 && left[i]/int64(max(n, 1)) < more {
			return false
		}
	}
	return true
}

// sortLaunches puts the heaviest pools first, then type, capacity type and
// zones by name, then the fuller nodes.
func (a *attempt) sortLaunches() {
	slices.SortStableFunc(a.launches, func(x, y filling) int {
		kx, ky := &a.m.kinds[x.kind], &a.m.kinds[y.kind]
		return cmp.Or(cmp.Compare(kx.pool, ky.pool), strings.Compare(a.m.snap.Types[kx.typ].Name, a.m.snap.Types[ky.typ].Name),
			strings.Compare(a.capacityType(&x), a.capacityType(&y)), cmp.Compare(kx.variant, ky.variant), cmp.Compare(x.cells, y.cells), compareTakes(x.takes, y.takes))
	})
}

func (a *attempt) capacityType(f *filling) string {
	return a.m.cells[bits.TrailingZeros64(uint64(f.cells))].capacityType
}

func compareTakes(x, y []take) int {
	return slices.CompareFunc(x, y, func(p, q take) int { return cmp.Or(cmp.Compare(p.item, q.item), cmp.Compare(q.n, p.n)) })
}

// refusals explains the pods that were not dealt.
func (a *attempt) refusals(d *dealer) []model.Refusal {
	var out []model.Refusal
	for s := range a.g.shapes {
		if rest := d.rest(s); len(rest) > 0 {
			out = append(out, model.Refusal{Pods: slices.Clone(rest), Verdicts: a.refuse(s, len(rest))})
		}
	}
	return out
}
