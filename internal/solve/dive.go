package solve

import (
	"cmp"
	"slices"
)

const (
	diveRounds = 1    // of columns for what is left
	divePart   = 0.2  // of the nodes of what is left are taken at once
	nearly     = 0.99 // of a column from which on it counts as whole
)

// dive makes the program's answer whole: it takes the whole part of every
// column and some of the largest rest, and solves what is left again, with
// columns made for it, until nothing is left.
func (m *choosing) dive(x []float64) cover {
	p := m.p
	c := cover{left: slices.Clone(m.counts)}
	l := p.ledger.clone()
	for part := 0.0; x != nil; part = divePart {
		taken := m.take(&c, l, x, part)
		if part > 0 && taken == 0 || p.a.steps > p.a.budget*7/8 {
			break
		}
		m = m.rest(c.left)
		if len(m.rows) == 0 {
			break
		}
		x = m.descend(diveRounds, p.a.budget)
	}
	p.reorder(bySum, c.left)
	rest := p.pass(c.left, l)
	c.nodes = fold(append(c.nodes, rest.nodes...))
	c.left, c.cost = rest.left, costOf(c.nodes)
	return c
}

// rest is the program for what is left, with the columns that may still be of use.
func (m *choosing) rest(left []int) *choosing {
	out := m.p.newChoosing(left)
	if out.wide = m.wide; out.wide == nil {
		out.wide = m.presses
	}
	for i := range m.p.columns.all {
		f := &m.p.columns.all[i]
		worth := 0.0
		for _, t := range f.takes {
			worth += m.p.worth[t.item] * float64(min(t.n, left[t.item]))
		}
		if worth > f.price*useful {
			out.enter(i)
		}
	}
	out.seen = len(m.p.columns.all)
	return out
}

// useful is what part of its price a column must be worth to be of use.
const useful = 0.8

// take takes the whole part of every column, and then one of each, the largest
// parts first, until so much of all nodes is taken. It returns how many it took.
func (m *choosing) take(c *cover, l *ledger, x []float64, part float64) int {
	var order []int
	sum, taken := 0.0, 0
	for j, v := range x {
		if v > 1-nearly && m.column[j] >= 0 {
			order = append(order, j)
			sum += v
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	for _, j := range order {
		n := int(x[j] + 1 - nearly)
		x[j] -= float64(n)
		taken += m.put(c, l, m.column[j], n)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	for _, j := range order {
		if float64(taken) >= sum*part {
			break
		}
		taken += m.put(c, l, m.column[j], 1)
	}
	return taken
}

// put takes up to n nodes of a column, as many as limits allow, and of the last
// one what is left of its pods, with others in the place of those that are not.
func (m *choosing) put(c *cover, l *ledger, column, n int) int {
	p := m.p
	f := p.columns.all[column]
	n = l.room(p.a.m, f.kind, n)
	if n <= 0 {
		return 0
	}
	if whole := copiesLeft(f.takes, c.left); whole > 0 {
		n = min(n, whole)
	} else {
		var worth float64
		if f, worth = m.trimmed(&f, c.left); worth < f.price*useful {
			return 0
		}
		n = 1
	}
	l.take(p.a.m, f.kind, n)
	for _, t := range f.takes {
		c.left[t.item] -= t.n * n
	}
	f.copies = n
	c.nodes = append(c.nodes, f)
	return n
}

// trimmed is a column without what is not left, topped up with what is.
func (m *choosing) trimmed(f *filling, left []int) (out filling, worth float64) {
	p := m.p
	n := p.bench.empty(f.kind, f.cells)
	add := func(i, most int) {
		if most > 0 {
			worth += p.worth[i] * float64(n.put(p.items, i, most))
		}
	}
	for _, t := range f.takes {
		add(t.item, min(t.n, left[t.item]))
	}
	o := slices.IndexFunc(p.offers, func(of offer) bool { return of.kind == f.kind && f.cells&^of.cells == 0 })
	if o >= 0 {
		for _, i := range p.order[o] {
			add(int(i), left[i]-n.has(int(i)))
		}
	}
	if p.a.demandsChoice(f.kind) {
		worth -= p.loosen(n)
	}
	return n.filling(f.price), worth
}
