package solve

import (
	"cmp"
	"math"
	"slices"
)

// The cheapest cover of a few pods is found exactly: a table over all
// remainders, each reached by the best of all fullest nodes.

const (
	maxStates   = 4096 // remainders in a table
	maxPatterns = 1024 // fullest nodes
)

// A pattern is a way to fill a node of an offer with the pods at hand.
type pattern struct {
	offer int
	n     []int // by position in the list of items at hand
}

// exact covers counts[i] of item which[i] at the lowest price among the
// offers. ok is false when the problem is too large, or some pod has no offer.
func (p *packer) exact(which, counts []int, under float64) (nodes []filling, cost float64, ok bool) {
	states := 1
	for _, n := range counts {
		if states *= n + 1; states > maxStates {
			return nil, 0, false
		}
	}
	patterns, ok := p.patterns(which, counts, under)
	if !ok {
		return nil, 0, false
	}
	p.a.steps += int64(states) * int64(len(patterns)) * int64(2+len(which)) / 8
	t := newTable(counts, states)
	t.run(p, patterns)
	if math.IsInf(t.best[states-1], 1) {
		return nil, 0, false
	}
	return p.read(t, patterns, which), t.best[states-1], true
}

// patterns lists the fullest nodes of all offers below a price, without those
// that another beats.
func (p *packer) patterns(which, counts []int, under float64) ([]pattern, bool) {
	var out []pattern
	e := enumerator{p: p, which: which, counts: counts, n: make([]int, len(which))}
	for o := range p.offers {
		of := &p.offers[o]
		if of.price >= under || !slices.ContainsFunc(which, of.fits.has) {
			continue
		}
		e.offer, e.out = o, nil
		e.every = p.a.hosts != nil || p.a.m.kinds[of.kind].shared || p.a.demandsChoice(of.kind)
		free := slices.Clone(of.alloc)
		if !e.walk(0, free) || len(out)+len(e.out) > 4*maxPatterns {
			return nil, false
		}
		out = append(out, e.out...)
	}
	p.a.steps += int64(len(out) * len(out) / 8)
	out = p.best(out)
	return out, len(out) <= maxPatterns
}

// best drops patterns that hold no more than another which is no dearer.
func (p *packer) best(all []pattern) []pattern {
	slices.SortStableFunc(all, func(x, y pattern) int {
		return cmp.Or(cmp.Compare(p.offers[x.offer].price, p.offers[y.offer].price), -slices.Compare(x.n, y.n))
	})
	var keep []pattern
	for i := range all {
		if !slices.ContainsFunc(keep, func(k pattern) bool { return atLeast(k.n, all[i].n) }) {
			keep = append(keep, all[i])
		}
	}
	return keep
}

func atLeast(x, y []int) bool {
	for i := range x {
		if x[i] < y[i] {
			return false
		}
	}
	return true
}

// An enumerator lists the ways to fill a node of one offer.
type enumerator struct {
	p      *packer
	which  []int
	counts []int
	n      []int
	offer  int
	every  bool // those that are not full too: what is full may be forbidden
	out    []pattern
	visits int
}

const maxVisits = 20000

// walk chooses how many of the item at position i go in; false when there are
// too many ways.
func (e *enumerator) walk(i int, free []int64) bool {
	e.p.a.steps += int64(2 + len(free))
	if e.visits++; e.visits > maxVisits {
		return false
	}
	if i == len(e.which) {
		e.p.a.steps++
		if e.full(free) || e.every {
			e.keep()
		}
		return len(e.out) <= maxPatterns
	}
	item := e.which[i]
	most := 0
	if e.p.offers[e.offer].fits.has(item) {
		most = times(e.p.items[item].vec, free, e.counts[i])
	}
	vec := e.p.items[item].vec
	sub(free, vec, int64(most))
	for n := most; n >= 0; n-- {
		e.n[i] = n
		if !e.walk(i+1, free) {
			return false
		}
		if n > 0 {
			add(free, vec, 1)
		}
		if i == len(e.which)-1 && !e.every {
			add(free, vec, int64(max(n-1, 0)))
			break
		}
	}
	e.n[i] = 0
	return true
}

// full reports whether not one more pod fits.
func (e *enumerator) full(free []int64) bool {
	for i, item := range e.which {
		if e.n[i] < e.counts[i] && e.p.offers[e.offer].fits.has(item) && within(e.p.items[item].vec, free) {
			return false
		}
	}
	return true
}

func (e *enumerator) keep() {
	if !slices.ContainsFunc(e.n, func(n int) bool { return n > 0 }) {
		return
	}
	if e.every || len(e.which) > 1 {
		if _, ok := e.p.node(e.offer, e.which, e.n); !ok {
			return
		}
	}
	e.out = append(e.out, pattern{e.offer, slices.Clone(e.n)})
}

// node puts n[i] of each item on a node of an offer; ok is false when they may
// not share one.
func (p *packer) node(o int, which, n []int) (f filling, ok bool) {
	of := &p.offers[o]
	nd := p.bench.empty(of.kind, of.cells)
	for i, item := range which {
		if n[i] > 0 && nd.put(p.items, item, n[i]) < n[i] {
			return filling{}, false
		}
	}
	if p.a.demandsChoice(of.kind) && !p.a.flexible(of.kind, nd.cells, p.items, nd.takes) {
		return filling{}, false
	}
	return nd.filling(of.price), true
}

// A table holds for every remainder, a number in mixed radix, the least cost
// of covering it and the pattern to begin with.
type table struct {
	counts []int
	radix  []int
	best   []float64
	by     []int
	from   []int
}

func newTable(counts []int, states int) *table {
	t := &table{counts: counts, radix: make([]int, len(counts)), best: make([]float64, states), by: make([]int, states), from: make([]int, states)}
	r := 1
	for i, n := range counts {
		t.radix[i] = r
		r *= n + 1
	}
	return t
}

func (t *table) digit(state, i int) int { return state / t.radix[i] % (t.counts[i] + 1) }

func (t *table) run(p *packer, patterns []pattern) {
	digits := make([]int, len(t.counts))
	for state := 1; state < len(t.best); state++ {
		t.best[state] = math.Inf(1)
		first := -1
		for i := range digits {
			digits[i] = t.digit(state, i)
			if digits[i] > 0 && first < 0 {
				first = i
			}
		}
		for j := range patterns {
			pt := &patterns[j]
			if pt.n[first] == 0 {
				continue
			}
			rest := state
			for i, n := range pt.n {
				rest -= min(n, digits[i]) * t.radix[i]
			}
			if c := t.best[rest] + p.offers[pt.offer].price; c < t.best[state]-1e-12 {
				t.best[state], t.by[state], t.from[state] = c, j, rest
			}
		}
	}
}

// read follows the table back and builds the nodes.
func (p *packer) read(t *table, patterns []pattern, which []int) []filling {
	var out []filling
	n := make([]int, len(which))
	for state := len(t.best) - 1; state > 0; state = t.from[state] {
		for i := range n {
			n[i] = t.digit(state, i) - t.digit(t.from[state], i)
		}
		f, _ := p.node(patterns[t.by[state]].offer, which, n)
		out = append(out, f)
	}
	return fold(out)
}

// fold joins nodes that are the same, in the order in which they first appear.
func fold(nodes []filling) []filling {
	var out []filling
	for _, f := range nodes {
		at := slices.IndexFunc(out, func(o filling) bool {
			return o.kind == f.kind && o.cells == f.cells && slices.Equal(o.takes, f.takes)
		})
		if at < 0 {
			out = append(out, f)
			continue
		}
		out[at].copies += f.copies
	}
	return out
}
