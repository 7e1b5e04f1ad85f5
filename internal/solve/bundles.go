package solve

import (
	"math"

	"github.com/kerfdev/kerf/internal/model"
)

// Pods that must share a node with others are packed as one piece: a bundle.
// Those drawn to their own kind go all together; those drawn to another
// shape's pods are shared out over some of them.

// bundle replaces items with affinity by host by bundles. What stays as it is
// can only join pods that nodes hold already.
func (a *attempt) bundle(items []item) []item {
	for i := range items {
		if len(items[i].parts) != 1 || items[i].count == 0 {
			continue
		}
		s := items[i].parts[0].shape
		others, drawn := a.drawnTo(s)
		if !drawn {
			continue
		}
		items[i].byHand = true
		switch {
		case a.haveResidents(s):
		case len(others) == 0:
			items = a.together(items, i)
		default:
			items = a.withOthers(items, i, others)
		}
	}
	return items
}

// drawnTo lists the crowds by host that a shape must be near to and is not of
// itself; drawn is true when it must be near to any.
func (a *attempt) drawnTo(s int) (others []int, drawn bool) {
	for _, r := range a.topo.rules[s] {
		if r.relation != near || a.topo.crowds[r.crowd].key != model.LabelHostname {
			continue
		}
		drawn = true
		if !r.self {
			others = append(others, r.crowd)
		}
	}
	return others, drawn
}

// haveResidents reports whether pods that stay somewhere are what a shape is
// drawn to.
func (a *attempt) haveResidents(s int) bool {
	for _, r := range a.topo.rules[s] {
		if r.relation != near || a.topo.crowds[r.crowd].key != model.LabelHostname {
			continue
		}
		for n := range a.g.residents {
			for _, t := range a.g.residents[n] {
				if a.topo.crowds[r.crowd].members[t] {
					return true
				}
			}
		}
	}
	return false
}

// together makes one bundle of as many pods as a node can hold.
func (a *attempt) together(items []item, i int) []item {
	it := items[i]
	for n := a.most(&it); n > 0; n-- {
		if n > 1 && a.price(a.bundled(&it, []part{{it.parts[0].shape, n}})) < 0 {
			continue
		}
		if crowds := a.lonely(items, i); n == 1 && len(crowds) > 0 {
			items[i].count = 1
			items = a.withOthers(items, i, crowds)
		} else {
			b := a.bundled(&it, []part{{it.parts[0].shape, n}})
			b.count = 1
			items = append(items, b)
			items[i].count = 0
		}
		if rest := it.count - n; rest > 0 {
			a.stuck = append(a.stuck, stuck{shape: it.parts[0].shape, n: rest, why: model.Verdict{
				Code: model.CodeAffinity, Key: model.LabelHostname, Asked: int64(it.count), Have: int64(n),
			}})
		}
		return items
	}
	return items
}

// most is how many of an item the largest node could hold, at least 1.
func (a *attempt) most(it *item) int {
	most := 1
	for n := range a.bins {
		most = max(most, times(it.vec, a.bins[n].free, it.count))
	}
	for k := range a.m.kinds {
		most = max(most, times(it.vec, a.m.kinds[k].alloc, it.count))
	}
	return most
}

// lonely lists the crowds by host that item i must be near to and of which
// other shapes wait too: it cannot be the first of such a crowd by itself.
func (a *attempt) lonely(items []item, i int) []int {
	var out []int
	s := items[i].parts[0].shape
	for _, r := range a.topo.rules[s] {
		if r.relation != near || a.topo.crowds[r.crowd].key != model.LabelHostname {
			continue
		}
		for j := range items {
			if j != i && items[j].count > 0 && a.topo.crowds[r.crowd].members[items[j].parts[0].shape] {
				out = append(out, r.crowd)
				break
			}
		}
	}
	return out
}

func (a *attempt) bundled(it *item, parts []part) item {
	b := item{parts: parts, dom: it.dom, vec: make([]int64, len(it.vec))}
	for _, p := range parts {
		add(b.vec, a.g.shapes[p.shape].vec, int64(p.n))
	}
	return b
}

// price returns the lowest price of a node for the item, 0 when one that
// exists may hold it, and -1 when nothing can.
func (a *attempt) price(it item) float64 {
	if !a.bearable(it.parts) {
		return -1
	}
	best := math.Inf(1)
	for n := range a.bins {
		if a.onNode(&it, n) && within(it.vec, a.bins[n].free) {
			return 0
		}
	}
	for k := range a.m.kinds {
		if at := a.where(&it, k); at != 0 {
			if p, _, ok := a.m.kinds[k].cheapest(at, a.m.cells); ok && p < best {
				best = p
			}
		}
	}
	if math.IsInf(best, 1) {
		return -1
	}
	return best
}

// bearable reports whether the pods of a piece can be on one node at all.
func (a *attempt) bearable(parts []part) bool {
	for i, p := range parts {
		for j, q := range parts {
			if (i != j || p.n > 1) && a.clash(p.shape, q.shape) {
				return false
			}
		}
		for _, r := range a.topo.rules[p.shape] {
			if r.relation != spread || a.topo.crowds[r.crowd].key != model.LabelHostname {
				continue
			}
			n := 0
			for _, q := range parts {
				if a.topo.crowds[r.crowd].members[q.shape] {
					n += q.n
				}
			}
			if n > r.maxSkew {
				return false
			}
		}
	}
	return true
}

// withOthers shares the pods of item i out over pods of the crowds that it is
// drawn to, over as many of them as makes the cheapest bundles.
func (a *attempt) withOthers(items []item, i int, crowds []int) []item {
	it := items[i]
	company, most := a.company(items, i, crowds)
	if company == nil {
		return items
	}
	best, cost := 0, math.Inf(1)
	for n := 1; n <= min(most, it.count); n++ {
		each := (it.count + n - 1) / n
		p := a.price(a.bundled(&it, a.partsWith(items, it, company, each)))
		if c := p*float64(n) + a.alone(items, company, n); p >= 0 && c < cost {
			best, cost = n, c
		}
	}
	if best == 0 {
		return items
	}
	small := it.count / best
	large := it.count % best
	for _, j := range company {
		items[j].count -= best
	}
	items[i].count = 0
	for _, b := range []struct{ each, count int }{{small + 1, large}, {small, best - large}} {
		if b.count > 0 {
			made := a.bundled(&it, a.partsWith(items, it, company, b.each))
			made.count = b.count
			items = append(items, made)
		}
	}
	return items
}

// alone estimates what the company costs that n bundles do not take.
func (a *attempt) alone(items []item, company []int, n int) float64 {
	sum := 0.0
	for _, j := range company {
		sum += max(a.price(items[j]), 0) * float64(items[j].count-n)
	}
	return sum
}

func (a *attempt) partsWith(items []item, it item, company []int, each int) []part {
	parts := []part{{it.parts[0].shape, each}}
	for _, j := range company {
		parts = append(parts, part{items[j].parts[0].shape, 1})
	}
	return parts
}

// company picks an item for each crowd, the first that may share a node with
// item i, and returns how many bundles their counts allow.
func (a *attempt) company(items []item, i int, crowds []int) (picked []int, most int) {
	most = math.MaxInt
	for _, c := range crowds {
		found := -1
		for _, j := range picked {
			if a.topo.crowds[c].members[items[j].parts[0].shape] {
				found = j
			}
		}
		if found >= 0 {
			continue
		}
		for j := range items {
			o := &items[j]
			if j == i || o.count == 0 || len(o.parts) != 1 || !a.topo.crowds[c].members[o.parts[0].shape] || a.clash(items[i].parts[0].shape, o.parts[0].shape) || (o.dom != nil && o.dom != items[i].dom) {
				continue
			}
			found = j
			break
		}
		if found < 0 {
			return nil, 0
		}
		picked = append(picked, found)
		most = min(most, items[found].count)
	}
	return picked, most
}
