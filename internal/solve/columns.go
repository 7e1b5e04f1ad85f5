package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/knapsack"
	"github.com/kerfdev/kerf/internal/lp"
	"github.com/kerfdev/kerf/internal/model"
)

// The restricted master: of all nodes that the rounds have filled, how many of
// each together cover every pod at the lowest price, in fractions. Its duals say
// what a pod is worth; nodes filled by those worths are better ones to choose
// from; and so on. What comes out is rounded down, and the rest is covered anew.

const (
	// maxRows keeps the program small enough to be worth solving.
	maxRows = 600
	// fewPods are covered well enough by improve alone.
	fewPods = 40
	// wholeFrom is the part of a column from which on it counts as whole.
	wholeFrom = 0.999
)

// A pool of columns: nodes filled some time on the way.
type columns struct {
	all  []filling // copies is 1
	from map[columnKey][]int
}

type columnKey struct {
	kind  int
	cells cells
	takes int // a sum that equal fillings share
}

func (c *columns) key(f *filling) columnKey {
	sum := 0
	for _, t := range f.takes {
		sum = sum*31 + t.item*7919 + t.n
	}
	return columnKey{f.kind, f.cells, sum}
}

// add keeps a filling unless it is there already.
func (c *columns) add(f filling) {
	f.copies = 1
	k := c.key(&f)
	for _, i := range c.from[k] {
		if slices.Equal(c.all[i].takes, f.takes) {
			return
		}
	}
	if c.from == nil {
		c.from = map[columnKey][]int{}
	}
	c.from[k] = append(c.from[k], len(c.all))
	c.all = append(c.all, f)
}

// choose improves a cover through the master. counts are what there is to cover.
func (p *packer) choose(best cover, counts []int) cover {
	rows, index := p.rows(counts)
	m := choosing{p: p, counts: counts, lp: lp.NewSolver(rows), row: index, depth: firstDepth}
	if len(rows) > maxRows || p.pods(counts) < fewPods || p.a.steps+m.pivot()*int64(3*len(rows)) > p.a.budget*3/4 {
		return best
	}
	m.safe(&best)
	if p.a.budget >= relaxBudget {
		m.learnRelaxed(best.cost)
	}
	for round := 0; ; round++ {
		m.feed()
		sol := m.lp.Solve(masterSteps)
		p.a.steps += int64(sol.Steps+1) * m.pivot()
		if sol.Status != lp.Optimal {
			return best
		}
		m.worths(sol.Dual)
		grown := m.grow(round, 1+1e-7)
		done := p.a.steps > p.a.budget*3/4 || !grown && !m.deeper()
		if round%roundEvery == 0 || done {
			for _, from := range []float64{wholeFrom, 0.7, 0.5} {
				if c := m.round(sol.X, from); p.better(&c, &best) {
					best = c
				}
			}
		}
		if done {
			return best
		}
	}
}

// roundEvery is after how many rounds of columns a whole cover is made.
const roundEvery = 8

// rows are the items to cover; limits of pools are kept when columns are rounded.
func (p *packer) rows(counts []int) (rows []lp.Row, index []int) {
	index = make([]int, len(counts))
	for i, n := range counts {
		index[i] = -1
		if n > 0 && p.offered(i) {
			index[i] = len(rows)
			rows = append(rows, lp.Row{Sense: lp.AtLeast, RHS: float64(n)})
		}
	}
	return rows, index
}

func (p *packer) pods(counts []int) int {
	sum := 0
	for i, n := range counts {
		for _, part := range p.items[i].parts {
			sum += n * part.n
		}
	}
	return sum
}

// choosing is the state of choose.
type choosing struct {
	p      *packer
	counts []int
	lp     *lp.Solver
	row    []int // by item, -1 when it has none
	column []int // by column of the program: filling, -1 for the safety ones
	seen   int   // fillings that are in the program
	smooth []float64
	exact  bool  // price at the duals themselves
	depth  int64 // how many branches a knapsack may take for one column
	bays   []bay // by offer, made when first needed
}

// safe adds a dear column for every item, so that the program has an answer,
// and the nodes of the cover.
func (m *choosing) safe(best *cover) {
	dearest := 1.0
	for i := range m.p.offers {
		dearest = math.Max(dearest, m.p.offers[i].price)
	}
	for _, r := range m.row {
		if r >= 0 {
			m.lp.Add(lp.NewColumn(10*dearest, lp.Entry{Row: r, Value: 1}))
			m.column = append(m.column, -1)
		}
	}
	for i := range best.nodes {
		m.p.columns.add(best.nodes[i])
	}
}

// pivot is about what a step of the simplex method costs, in steps of the search.
func (m *choosing) pivot() int64 {
	rows := int64(len(m.row))
	return (rows*rows + 4*int64(len(m.p.columns.all))) / 64
}

// feed adds the fillings that are new.
func (m *choosing) feed() {
	for ; m.seen < len(m.p.columns.all); m.seen++ {
		f := &m.p.columns.all[m.seen]
		col := lp.NewColumn(f.price)
		for _, t := range f.takes {
			if r := m.row[t.item]; r >= 0 {
				col.Entries = append(col.Entries, lp.Entry{Row: r, Value: float64(t.n)})
			}
		}
		m.lp.Add(col)
		m.column = append(m.column, m.seen)
	}
}

// worths takes the duals as what pods are worth, damped: those of a program
// with few columns jump about.
func (m *choosing) worths(dual []float64) {
	first := m.smooth == nil
	if first {
		m.smooth = make([]float64, len(m.row))
	}
	for i, r := range m.row {
		w := 0.0
		if r >= 0 {
			w = math.Max(dual[r], 1e-9)
		}
		if first || m.exact {
			m.smooth[i] = w
		} else {
			m.smooth[i] += damping * (w - m.smooth[i])
		}
	}
	copy(m.p.worth, m.smooth)
}

// relaxBudget is the number of steps from which on it pays to learn worths from
// the relaxed problem first.
const relaxBudget = 2_000_000

// nearly is how much of its price a node must be worth to be kept then: those
// worths make no node worth more than its price.
const nearly = 0.97

// learnRelaxed makes columns at the worths by which the bound is proven: they
// settle quickly, and near the ones that matter in the end.
func (m *choosing) learnRelaxed(ceiling float64) {
	p := m.p
	y := &yard{a: p.a}
	var item []int
	for i, r := range m.row {
		if r >= 0 {
			it := p.items[i]
			it.count = m.counts[i]
			y.items = append(y.items, it)
			item = append(item, i)
		}
	}
	for o := range p.offers {
		of := &p.offers[o]
		var devices []model.Device
		if k := &p.a.m.kinds[of.kind]; k.shared {
			devices = k.adv.Devices
		}
		y.add(bay{price: of.price}, of.alloc, devices, func(i int) bool { return of.fits.has(item[i]) })
	}
	relaxed := y.master(ceiling)
	round := 0
	relaxed.each = func() {
		for k, i := range item {
			p.worth[i] = math.Max(relaxed.worth[k], 1e-9)
		}
		if relaxed.best > ceiling*0.8 {
			m.grow(round, nearly)
		}
		round++
	}
	relaxed.run(p.a.budget/8, ceiling)
	p.a.steps += relaxed.steps
}

// deeper looks closer after a round that found nothing: first at the worths
// themselves instead of damped ones, then with longer searches. It reports false
// when that has been tried.
func (m *choosing) deeper() bool {
	if !m.exact {
		m.exact = true
		return true
	}
	m.exact = false
	m.depth *= 4
	return m.depth <= maxDepth
}

// grow fills every offer at the worths, in the order of worth for size and as
// the relaxation would, and keeps what is worth more than its price times least;
// false when nothing is.
func (m *choosing) grow(round int, least float64) bool {
	before := len(m.p.columns.all)
	m.p.reorder(weighing(round)%weighings, m.counts)
	for o := range m.p.offers {
		if m.p.ledger.room(m.p.a.m, m.p.offers[o].kind, 1) == 0 {
			continue
		}
		if f, worth := m.p.fill(o, m.counts); worth > f.price*least {
			m.p.columns.add(f)
		}
		if f, worth := m.dive(o, least); worth > f.price*least {
			m.p.columns.add(f)
		}
	}
	return len(m.p.columns.all) > before
}

// dive fills an offer with what a search of its knapsack finds, as far as it
// may share a node, and tops it up.
func (m *choosing) dive(o int, least float64) (f filling, worth float64) {
	if m.bays == nil {
		m.bays = make([]bay, len(m.p.offers))
	}
	of, b := &m.p.offers[o], &m.bays[o]
	if b.bin == nil {
		*b = m.p.bay(of, m.counts)
	}
	value := make([]float64, len(b.items))
	for k, i := range b.items {
		value[k] = m.p.worth[i]
	}
	r := b.bin.Search(value, of.price*least, m.depth, nil)
	m.p.a.steps += r.Steps + int64(len(b.items))*8
	if r.Count == nil {
		return filling{}, 0
	}
	n := m.p.bench.empty(of.kind, of.cells)
	for _, k := range b.order {
		if r.Count[k] > 0 {
			worth += value[k] * float64(n.put(m.p.items, b.items[k], r.Count[k]))
		}
	}
	for _, i := range m.p.order[o] {
		if had := n.has(int(i)); m.counts[i] > had {
			worth += m.p.worth[i] * float64(n.put(m.p.items, int(i), m.counts[i]-had))
		}
	}
	if m.p.a.demandsChoice(of.kind) {
		worth -= m.p.loosen(n)
	}
	return n.filling(of.price), worth
}

const (
	firstDepth = 100
	maxDepth   = 100_000
	damping    = 0.5 // how far worths follow the duals at once
)

// bay makes an offer's knapsack over the items.
func (p *packer) bay(of *offer, counts []int) bay {
	b := bay{price: of.price}
	var vecs [][]int64
	var specs []*model.PodSpec
	var most []int
	for i := range p.items {
		if counts[i] == 0 || !of.fits.has(i) || !within(p.items[i].vec, of.alloc) {
			continue
		}
		b.items = append(b.items, i)
		vecs = append(vecs, p.items[i].vec)
		specs = append(specs, p.a.g.shapes[p.items[i].parts[0].shape].spec)
		most = append(most, counts[i])
	}
	weights, capacity := fractions(vecs, of.alloc, 0)
	if k := &p.a.m.kinds[of.kind]; k.shared && !slices.ContainsFunc(p.items, func(it item) bool { return len(it.parts) > 1 }) {
		weights, capacity = withDevices(weights, capacity, specs, most, k.adv.Devices)
	}
	b.bin = knapsack.New(weights, capacity, most)
	b.order = make([]int, len(b.items))
	for k := range b.order {
		b.order[k] = k
	}
	slices.SortStableFunc(b.order, func(x, y int) int { return cmp.Compare(deviceUse(specs[y]), deviceUse(specs[x])) })
	return b
}

// round takes the whole part of each column, and one more where at least from
// of it is left over, and covers the rest anew.
func (m *choosing) round(x []float64, from float64) cover {
	p := m.p
	c := cover{left: slices.Clone(m.counts)}
	l := p.ledger.clone()
	order := make([]int, 0, len(x))
	for j, v := range x {
		if v > 1e-6 && m.column[j] >= 0 {
			order = append(order, j)
		}
	}
	part := func(j int) float64 { return x[j] - math.Floor(x[j]) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(part(b), part(a)) })
	for _, j := range order {
		m.put(&c, l, m.column[j], int(x[j]+1e-6))
	}
	for _, j := range order {
		if part(j) >= from && part(j) < wholeFrom {
			m.put(&c, l, m.column[j], 1)
		}
	}
	p.reorder(bySum, c.left)
	rest := p.pass(c.left, l)
	c.nodes = fold(append(c.nodes, rest.nodes...))
	c.left, c.cost = rest.left, costOf(c.nodes)
	return c
}

// put takes up to n nodes of a column, as many as the counts and limits allow.
func (m *choosing) put(c *cover, l *ledger, column, n int) {
	f := m.p.columns.all[column]
	n = min(n, copiesLeft(f.takes, c.left))
	if n = l.room(m.p.a.m, f.kind, n); n <= 0 {
		return
	}
	l.take(m.p.a.m, f.kind, n)
	for _, t := range f.takes {
		c.left[t.item] -= t.n * n
	}
	f.copies = n
	c.nodes = append(c.nodes, f)
}
