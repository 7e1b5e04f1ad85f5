package solve

import (
	"cmp"
	"math"
	"slices"
)

// A take is n of an item.
type take struct {
	item int
	n    int
}

// A filling is a node with what goes on it.
type filling struct {
	kind   int
	cells  cells
	price  float64
	takes  []take // by item, rising; where devices are shared in the order in which they were placed
	copies int
}

// weighing is a way of measuring how much of a node an item uses.
type weighing int

const (
	bySum    weighing = iota // the fractions of each dimension, added
	byMax                    // the largest fraction
	byDemand                 // fractions weighed by how short the dimension is
	weighings
)

// A packer covers items with nodes of one tier of pools.
type packer struct {
	a       *attempt
	items   []item
	offers  []offer
	worth   []float64 // of one of each item, $/h: what it has cost to place
	ledger  *ledger
	order   [][]int32           // by offer: items in the order in which fill takes them
	bench   *node               // the node being filled, used again and again
	ranks   []ranked            // of reorder, likewise
	columns columns             // nodes filled in the rounds, for choose
	weights map[ask][][]float64 // of shares of devices, by item
	packing packing             // what fills nodes for it, used again and again
}

func (a *attempt) newPacker(offers []offer) *packer {
	p := &packer{a: a, items: a.items, offers: offers, ledger: a.ledger, bench: a.newNode(), weights: map[ask][][]float64{}}
	p.firstWorth()
	return p
}

// ranked is an item in the order of reorder.
type ranked struct {
	item          int32
	density, size float64
}

// reorder sorts for every offer the items that fit by worth for size, so that
// fill takes them in that order.
func (p *packer) reorder(w weighing, left []int) {
	if p.order == nil {
		p.order = make([][]int32, len(p.offers))
	}
	demand := p.demand(w, left)
	for o := range p.offers {
		list := p.ranks[:0]
		of := &p.offers[o]
		of.fits.each(func(i int) {
			if left[i] > 0 {
				size := p.size(w, p.items[i].vec, of.alloc, demand)
				list = append(list, ranked{int32(i), p.worth[i] / size, size})
			}
		})
		slices.SortFunc(list, byDensity)
		p.ranks = list
		p.order[o] = slices.Grow(p.order[o][:0], len(list))
		for _, r := range list {
			p.order[o] = append(p.order[o], r.item)
		}
	}
}

// byDensity puts what is worth most for its size first, then the larger.
func byDensity(x, y ranked) int {
	switch {
	case x.density > y.density:
		return -1
	case x.density < y.density:
		return 1
	case x.size > y.size:
		return -1
	case x.size < y.size:
		return 1
	}
	return int(x.item - y.item)
}

func (p *packer) demand(w weighing, left []int) []float64 {
	out := make([]float64, len(p.a.m.dims.names))
	if w != byDemand {
		return out
	}
	for i, n := range left {
		for d, v := range p.items[i].vec {
			out[d] += float64(v) * float64(n)
		}
	}
	return out
}

func (p *packer) size(w weighing, vec, alloc []int64, demand []float64) float64 {
	switch w {
	case byMax:
		return max(dominant(vec, alloc), 1e-12)
	case byDemand:
		sum, most := 0.0, 0.0
		for d, v := range vec {
			if alloc[d] <= 0 {
				continue
			}
			need := demand[d] / float64(alloc[d])
			most = max(most, need)
			sum += need * float64(v) / float64(alloc[d])
		}
		return max(sum/max(most, 1e-12), 1e-12)
	}
	sum := 0.0
	for d, v := range vec {
		if v > 0 && alloc[d] > 0 {
			sum += float64(v) / float64(alloc[d])
		}
	}
	return max(sum, 1e-12)
}

// fill packs one node of an offer with what is left, in the order of reorder,
// and returns it with the worth of what it holds. The filling is empty when
// nothing fits.
func (p *packer) fill(o int, left []int) (f filling, worth float64) {
	of := &p.offers[o]
	n := p.bench.empty(of.kind, of.cells)
	for _, i := range p.order[o] {
		if left[i] == 0 {
			continue
		}
		if k := n.put(p.items, int(i), left[i]); k > 0 {
			worth += p.worth[i] * float64(k)
		}
	}
	p.a.steps += int64(len(p.order[o]))
	if p.a.demandsChoice(of.kind) {
		worth -= p.loosen(n)
	}
	return n.filling(of.price), worth
}

// loosen takes pods off a node until its pool's minValues hold, and returns
// the worth of what it took off.
func (p *packer) loosen(n *node) (lost float64) {
	for len(n.takes) > 0 && !p.a.flexible(n.kind, n.cells, p.items, n.takes) {
		last := len(n.takes) - 1
		t := &n.takes[last]
		t.n--
		lost += p.worth[t.item]
		if t.n == 0 {
			n.takes = n.takes[:last]
		}
	}
	return lost
}

// A node is one being filled.
type node struct {
	a     *attempt
	kind  int
	cells cells
	free  []int64
	takes []take
	rack  *rack
	own   rack // what rack points to on a node that is filled from empty
	host  *hostState
}

func (a *attempt) newNode() *node {
	n := &node{a: a, free: make([]int64, len(a.m.dims.names))}
	if a.hosts != nil {
		n.host = a.hosts.state()
	}
	return n
}

// empty makes n an empty node of a kind.
func (n *node) empty(kind int, at cells) *node {
	k := &n.a.m.kinds[kind]
	n.kind, n.cells, n.takes, n.rack = kind, at, n.takes[:0], nil
	copy(n.free, k.alloc)
	if k.shared {
		n.own.empty(k.chassis)
		n.rack = &n.own
	}
	if n.host != nil {
		n.host.clear()
	}
	return n
}

// put places up to limit of an item and returns how many went.
func (n *node) put(items []item, i, limit int) int {
	it := &items[i]
	k := times(it.vec, n.free, limit)
	if k == 0 {
		return 0
	}
	at := n.cells & n.a.where(it, n.kind)
	if at == 0 {
		return 0
	}
	if n.host != nil {
		if k = n.a.hosts.room(n.host, i, k); k == 0 {
			return 0
		}
	}
	if n.rack != nil {
		// Placed in two goes, an item could not be placed again in one.
		if slices.ContainsFunc(n.takes, func(t take) bool { return t.item == i }) {
			return 0
		}
		if k = n.rackPut(it, k); k == 0 {
			return 0
		}
	}
	n.cells = at
	sub(n.free, it.vec, int64(k))
	if n.host != nil {
		n.a.hosts.take(n.host, i, k)
	}
	n.takes = append(n.takes, take{i, k})
	return k
}

// has returns how many of an item are on the node.
func (n *node) has(i int) int {
	sum := 0
	for _, t := range n.takes {
		if t.item == i {
			sum += t.n
		}
	}
	return sum
}

// rackPut places up to k of an item on the node's devices.
func (n *node) rackPut(it *item, k int) int {
	if len(it.parts) == 1 && it.parts[0].n == 1 {
		ask := n.rack.ask(n.a.g.shapes[it.parts[0].shape].spec)
		for done := range k {
			if !n.rack.put(ask) {
				return done
			}
		}
		return k
	}
	for done := range k {
		before := n.rack.clone()
		for _, p := range it.parts {
			for range p.n {
				if !n.rack.put(n.rack.ask(n.a.g.shapes[p.shape].spec)) {
					n.rack = before
					return done
				}
			}
		}
	}
	return k
}

func (n *node) filling(price float64) filling {
	takes := slices.Clone(n.takes)
	if n.rack == nil {
		slices.SortFunc(takes, func(x, y take) int { return cmp.Compare(x.item, y.item) })
		takes = merge(takes)
	}
	return filling{kind: n.kind, cells: n.cells, price: price, takes: takes, copies: 1}
}

// merge joins takes of one item that follow each other.
func merge(takes []take) []take {
	out := takes[:0]
	for _, t := range takes {
		if n := len(out); n > 0 && out[n-1].item == t.item {
			out[n-1].n += t.n
			continue
		}
		out = append(out, t)
	}
	return out
}

// copiesLeft returns how many such fillings what is left can make.
func copiesLeft(takes []take, left []int) int {
	out := math.MaxInt
	for _, t := range takes {
		out = min(out, left[t.item]/t.n)
	}
	return out
}
