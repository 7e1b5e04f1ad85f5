package solve

import (
	"container/heap"
	"slices"
)

// A cover is what one pass found: nodes, and how many of each item are left.
type cover struct {
	nodes []filling
	left  []int
	cost  float64
}

const (
	maxRounds = 4
	learning  = 0.35 // how much of a round's prices the next one takes over
)

// rounds covers the items with nodes again and again, each time with the
// prices that placing them has cost so far, and returns the best cover.
func (p *packer) rounds(counts []int) cover {
	var best cover
	for r := range maxRounds {
		p.reorder(weighing(r)%weighings, counts)
		c := p.pass(slices.Clone(counts), p.ledger.clone())
		if r == 0 || p.better(&c, &best) {
			best = c
		}
		if p.a.steps > p.a.budget/2 || len(best.nodes) == 0 {
			break
		}
		p.learn(&c)
	}
	return best
}

// better prefers more of the important pods placed, then the lower cost.
func (p *packer) better(x, y *cover) bool {
	if by := p.a.compareLeft(p.items, x.left, y.left); by != 0 {
		return by < 0
	}
	return x.cost < y.cost-1e-9
}

// pass takes the best node for its price as long as pods are left, in as many
// copies as the counts allow.
func (p *packer) pass(left []int, l *ledger) cover {
	c := cover{left: left}
	q := p.queue(left, l)
	for q.Len() > 0 {
		b := q.bids[0]
		n := copiesLeft(b.filling.takes, left)
		if n > 0 {
			if n = l.room(p.a.m, b.filling.kind, n); n == 0 {
				heap.Pop(q)
				continue
			}
			l.take(p.a.m, b.filling.kind, n)
			for _, t := range b.filling.takes {
				left[t.item] -= t.n * n
			}
			f := b.filling
			f.copies = n
			c.nodes = append(c.nodes, f)
			c.cost += f.price * float64(n)
		}
		p.again(q, b.offer, left)
	}
	return c
}

func (p *packer) queue(left []int, l *ledger) *auction {
	q := &auction{}
	for o := range p.offers {
		if l.room(p.a.m, p.offers[o].kind, 1) == 0 {
			continue
		}
		if f, worth := p.fill(o, left); len(f.takes) > 0 {
			p.columns.add(f)
			q.bids = append(q.bids, bid{offer: o, ratio: f.price / max(worth, 1e-12), filling: f})
		}
	}
	heap.Init(q)
	return q
}

// again fills the offer at the head of the queue anew.
func (p *packer) again(q *auction, o int, left []int) {
	f, worth := p.fill(o, left)
	if len(f.takes) == 0 {
		heap.Pop(q)
		return
	}
	p.columns.add(f)
	q.bids[0] = bid{offer: o, ratio: f.price / max(worth, 1e-12), filling: f}
	heap.Fix(q, 0)
}

// learn moves every item's worth towards what placing it has cost: a node's
// price, shared among its pods by their worth.
func (p *packer) learn(c *cover) {
	paid := make([]float64, len(p.items))
	placed := make([]int, len(p.items))
	for i := range c.nodes {
		f := &c.nodes[i]
		sum := 0.0
		for _, t := range f.takes {
			sum += p.worth[t.item] * float64(t.n)
		}
		for _, t := range f.takes {
			n := t.n * f.copies
			paid[t.item] += p.worth[t.item] * float64(n) * f.price / max(sum, 1e-12)
			placed[t.item] += n
		}
	}
	for i, n := range placed {
		if n > 0 {
			p.worth[i] += learning * (paid[i]/float64(n) - p.worth[i])
		}
	}
}

// firstWorth values every item at what it takes of the node that suits it best.
func (p *packer) firstWorth() {
	p.worth = make([]float64, len(p.items))
	for o := range p.offers {
		of := &p.offers[o]
		of.fits.each(func(i int) {
			w := max(of.price*dominant(p.items[i].vec, of.alloc), 1e-9)
			if p.worth[i] == 0 || w < p.worth[i] {
				p.worth[i] = w
			}
		})
	}
}

// A bid is an offer, filled; the one with the least price for its worth wins.
type bid struct {
	offer   int
	ratio   float64
	filling filling
}

type auction struct{ bids []bid }

func (q *auction) Len() int { return len(q.bids) }
func (q *auction) Less(i, j int) bool {
	if q.bids[i].ratio != q.bids[j].ratio {
		return q.bids[i].ratio < q.bids[j].ratio
	}
	return q.bids[i].offer < q.bids[j].offer
}
func (q *auction) Swap(i, j int) { q.bids[i], q.bids[j] = q.bids[j], q.bids[i] }
func (q *auction) Push(x any)    { q.bids = append(q.bids, x.(bid)) }
func (q *auction) Pop() any {
	last := len(q.bids) - 1
	b := q.bids[last]
	q.bids = q.bids[:last]
	return b
}
