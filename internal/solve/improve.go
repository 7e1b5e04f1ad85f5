package solve

import (
	"cmp"
	"math"
	"slices"
)

// improve makes a cover cheaper until nothing helps or the budget of steps is
// used up: every node on the smallest offer that holds it, then nodes taken
// apart two and three at a time and their pods covered anew.
func (p *packer) improve(c *cover) {
	if len(c.nodes) == 0 {
		return
	}
	if p.whole(c) {
		return
	}
	for p.a.steps < p.a.budget {
		p.rightSize(c)
		c.nodes = fold(c.nodes)
		if !p.mend(c) {
			break
		}
	}
	c.cost = costOf(c.nodes)
}

func costOf(nodes []filling) float64 {
	sum := 0.0
	for i := range nodes {
		sum += nodes[i].price * float64(nodes[i].copies)
	}
	return sum
}

// whole covers everything anew, exactly, where it is little enough.
func (p *packer) whole(c *cover) bool {
	which, counts := contents(c.nodes)
	nodes, cost, ok := p.exact(which, counts, math.Inf(1))
	if !ok {
		return false
	}
	if cost < c.cost-1e-9 {
		if !p.swap(c, c.nodes, nodes, 1) {
			return false
		}
		c.nodes, c.cost = nodes, cost
	}
	return true
}

// contents adds up what nodes hold, one copy of each unless they are one.
func contents(nodes []filling) (which, counts []int) {
	sum := map[int]int{}
	for i := range nodes {
		for _, t := range nodes[i].takes {
			sum[t.item] += t.n * nodes[i].copies
		}
	}
	for item := range sum {
		which = append(which, item)
	}
	slices.Sort(which)
	for _, item := range which {
		counts = append(counts, sum[item])
	}
	return which, counts
}

// swap books new nodes in place of old ones, n times each; false leaves the
// limits as they were because they do not allow it.
func (p *packer) swap(c *cover, old, new []filling, n int) bool {
	trial := p.ledger.clone()
	for i := range c.nodes {
		trial.take(p.a.m, c.nodes[i].kind, c.nodes[i].copies)
	}
	for i := range old {
		trial.giveBack(p.a.m, old[i].kind, old[i].copies*n)
	}
	for i := range new {
		if trial.room(p.a.m, new[i].kind, new[i].copies*n) < new[i].copies*n {
			return false
		}
		trial.take(p.a.m, new[i].kind, new[i].copies*n)
	}
	return true
}

// rightSize moves every node to the cheapest offer that holds its pods.
func (p *packer) rightSize(c *cover) {
	for i := range c.nodes {
		f := &c.nodes[i]
		which, n := make([]int, len(f.takes)), make([]int, len(f.takes))
		need := make([]int64, len(p.a.m.dims.names))
		for j, t := range f.takes {
			which[j], n[j] = t.item, t.n
			add(need, p.items[t.item].vec, int64(t.n))
		}
		for o := range p.offers {
			of := &p.offers[o]
			if of.price >= f.price-1e-12 || !within(need, of.alloc) || slices.ContainsFunc(which, func(i int) bool { return !of.fits.has(i) }) {
				continue
			}
			if g, ok := p.node(o, which, n); ok {
				g.copies = f.copies
				if p.swap(c, []filling{*f}, []filling{g}, 1) {
					*f = g
				}
			}
		}
		p.a.steps += int64(len(p.offers)) / 8
	}
}

// mend takes apart the nodes that are dear for what they hold together with
// others, and reports whether that made anything cheaper.
func (p *packer) mend(c *cover) bool {
	order := p.dearest(c)
	for x, i := range order {
		if p.regroup(c, i, i, i) || p.regroup(c, i, i) || p.regroup(c, i) {
			return true
		}
		for _, j := range order[x+1:] {
			if p.a.steps > p.a.budget {
				return false
			}
			if p.regroup(c, i, j) || p.regroup(c, i, i, j) || p.regroup(c, i, j, j) {
				return true
			}
		}
	}
	return p.mendThree(c, order)
}

// few is the number of different nodes among which all threes are tried.
const few = 16

func (p *packer) mendThree(c *cover, order []int) bool {
	if len(order) > few {
		order = order[:few]
	}
	for x, i := range order {
		for y, j := range order[x+1:] {
			for _, k := range order[x+y+2:] {
				if p.a.steps > p.a.budget {
					return false
				}
				if p.regroup(c, i, j, k) {
					return true
				}
			}
		}
	}
	return false
}

// dearest orders nodes by price for the worth of what they hold.
func (p *packer) dearest(c *cover) []int {
	ratio := make([]float64, len(c.nodes))
	order := make([]int, len(c.nodes))
	for i := range c.nodes {
		order[i] = i
		sum := 1e-12
		for _, t := range c.nodes[i].takes {
			sum += p.worth[t.item] * float64(t.n)
		}
		ratio[i] = c.nodes[i].price / sum
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(ratio[y], ratio[x]) })
	return order
}

// regroup covers the pods of some nodes anew, one copy of each, and where that
// is cheaper does so for as many copies as there are.
func (p *packer) regroup(c *cover, which ...int) bool {
	var old []filling
	price, uses := 0.0, map[int]int{}
	for _, i := range which {
		f := c.nodes[i]
		f.copies = 1
		old = append(old, f)
		price += f.price
		uses[i]++
	}
	n := math.MaxInt
	for _, i := range which {
		n = min(n, c.nodes[i].copies/uses[i])
	}
	if n == 0 {
		return false
	}
	p.a.steps += 8
	items, counts := contents(old)
	nodes, cost, ok := p.exact(items, counts, price)
	if !ok || cost >= price-1e-9 || !p.swap(c, old, nodes, n) {
		return false
	}
	for i, times := range uses {
		c.nodes[i].copies -= times * n
	}
	for i := range nodes {
		nodes[i].copies *= n
	}
	c.nodes = append(c.nodes, nodes...)
	c.nodes = slices.DeleteFunc(c.nodes, func(f filling) bool { return f.copies == 0 })
	return true
}
