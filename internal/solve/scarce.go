package solve

import (
	"cmp"
	"slices"
)

// short reports whether pods are left that an offer would hold: a limit
// stopped them.
func (p *packer) short(left []int) bool {
	for i, n := range left {
		if n > 0 && p.offered(i) {
			return true
		}
	}
	return false
}

func (p *packer) offered(i int) bool {
	return slices.ContainsFunc(p.offers, func(o offer) bool { return o.fits.has(i) })
}

// scarce covers anew where limits bind: with every offer, the small ones that
// others dominate included; with prices to which the use of the limits is
// added; and the more important pods before the others.
func (p *packer) scarce(first cover, all []offer) cover {
	best := first
	p.offers, p.order = all, nil
	p.firstWorth()
	plain := slices.Clone(p.offers)
	counts := make([]int, len(p.items))
	for i := range counts {
		counts[i] = p.a.left[i]
	}
	for _, weight := range []float64{0, 0.3, 1, 3, 10} {
		p.tax(plain, weight)
		for w := range weighings {
			if c := p.inOrder(counts, w); p.better(&c, &best) {
				best = c
			}
		}
	}
	p.offers = plain
	best.cost = 0
	for i := range best.nodes {
		f := &best.nodes[i]
		f.price, _, _ = p.a.m.kinds[f.kind].cheapest(f.cells, p.a.m.cells)
		best.cost += f.price * float64(f.copies)
	}
	return best
}

// tax adds to each offer's price what part of its pool's remaining limits it
// uses, weighed against the dearest offer.
func (p *packer) tax(plain []offer, weight float64) {
	p.offers = slices.Clone(plain)
	most := 0.0
	for i := range plain {
		most = max(most, plain[i].price)
	}
	for i := range p.offers {
		o := &p.offers[i]
		left := p.ledger.left[p.a.m.kinds[o.kind].pool]
		used := 0.0
		for j, c := range p.ledger.costs[o.kind] {
			if c > 0 && left[j] > 0 {
				used = max(used, float64(c)/float64(left[j]))
			}
		}
		o.price += weight * most * used
	}
}

// inOrder covers the items priority by priority: later ones first go where
// earlier ones left space.
func (p *packer) inOrder(counts []int, w weighing) cover {
	c := cover{left: slices.Clone(counts)}
	l := p.ledger.clone()
	for _, pr := range p.priorities() {
		now := make([]int, len(counts))
		for i := range now {
			if p.a.priority(&p.items[i]) == pr {
				now[i] = c.left[i]
			}
		}
		p.topUp(&c, now)
		p.reorder(w, now)
		one := p.pass(now, l)
		for i := range one.nodes {
			f := &one.nodes[i]
			for _, t := range f.takes {
				c.left[t.item] -= t.n * f.copies
			}
		}
		c.nodes = append(c.nodes, one.nodes...)
		p.topUp(&c, one.left)
	}
	for i := range c.nodes {
		f := &c.nodes[i]
		f.price, _, _ = p.a.m.kinds[f.kind].cheapest(f.cells, p.a.m.cells)
		c.cost += f.price * float64(f.copies)
	}
	return c
}

func (p *packer) priorities() []int32 {
	var out []int32
	for i := range p.items {
		out = append(out, p.a.priority(&p.items[i]))
	}
	slices.SortFunc(out, func(x, y int32) int { return cmp.Compare(y, x) })
	return slices.Compact(out)
}

// topUp puts what is left into the space of nodes that are bought already,
// splitting off copies that differ then.
func (p *packer) topUp(c *cover, now []int) {
	for i := 0; i < len(c.nodes); i++ {
		for c.nodes[i].copies > 0 {
			g, put := p.topped(&c.nodes[i], now)
			if !put {
				break
			}
			for j := range now {
				now[j] -= g.added[j]
				c.left[j] -= g.added[j]
			}
			if c.nodes[i].copies == 1 {
				c.nodes[i] = g.filling
				break
			}
			c.nodes[i].copies--
			c.nodes = append(c.nodes, g.filling)
		}
	}
}

type topped struct {
	filling filling
	added   []int
}

func (p *packer) topped(f *filling, now []int) (topped, bool) {
	nd := p.bench.empty(f.kind, f.cells)
	for _, t := range f.takes {
		nd.put(p.items, t.item, t.n)
	}
	had := len(nd.takes)
	out := topped{added: make([]int, len(now))}
	for i, n := range now {
		if n == 0 || p.a.where(&p.items[i], f.kind)&nd.cells == 0 {
			continue
		}
		if k := nd.put(p.items, i, n); k > 0 {
			out.added[i] += k
			if p.a.demandsChoice(f.kind) && !p.a.flexible(f.kind, nd.cells, p.items, nd.takes) {
				return topped{}, false
			}
		}
	}
	out.filling = nd.filling(f.price)
	return out, len(nd.takes) > had
}
