package solve

import (
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/lp"
)

// The restricted master: of all nodes filled so far, how many of each together
// cover every pod at the lowest price, in fractions. Its duals say what a pod is
// worth; nodes filled by those worths are better ones to choose from; and so on.

// columns are nodes filled some time on the way.
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

const (
	// maxRows keeps the program small enough to be worth solving.
	maxRows = 600
	// fewPods are covered well enough by improve alone.
	fewPods = 40
	// masterSteps end a program that does not get anywhere.
	masterSteps = 20_000
)

// choose improves a cover through the master. counts are what there is to cover.
func (p *packer) choose(best cover, counts []int) cover {
	for i := range best.nodes {
		p.columns.add(best.nodes[i])
	}
	m := p.newChoosing(counts)
	if len(m.rows) > maxRows || p.pods(counts) < fewPods || p.a.steps+m.pivot()*int64(2*len(m.rows)) > p.a.budget/2 {
		return best
	}
	x := m.descend(math.MaxInt, p.a.budget*3/4)
	worth := slices.Clone(p.worth)
	if c := m.dive(x); x != nil && p.better(&c, &best) {
		best = c
	}
	p.worth = worth
	return best
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

// choosing is a master over what there is to cover.
type choosing struct {
	p      *packer
	counts []int
	lp     *lp.Solver
	rows   []lp.Row
	row    []int // by item, -1 when it has none
	column []int // by column of the program: filling, -1 for the safety ones
	seen   int   // fillings that were looked at for the program

	width   int      // of the searches for columns
	presses []*press // by offer, made when first needed
	wide    []*press // those for more pods, where there are: what they cannot fill well these cannot
}

// newChoosing sets up the program with a dear column for every item, so that it
// has an answer. The limits of pools are kept when columns are made whole.
func (p *packer) newChoosing(counts []int) *choosing {
	m := &choosing{p: p, counts: counts, row: make([]int, len(counts)), width: firstWidth, presses: make([]*press, len(p.offers))}
	dearest := 1.0
	for i := range p.offers {
		dearest = math.Max(dearest, p.offers[i].price)
	}
	for i, n := range counts {
		m.row[i] = -1
		if n > 0 && p.offered(i) {
			m.row[i] = len(m.rows)
			m.rows = append(m.rows, lp.Row{Sense: lp.AtLeast, RHS: float64(n)})
		}
	}
	m.lp = lp.NewSolver(m.rows)
	safe := make([]int, len(m.rows))
	for r := range m.rows {
		safe[r] = m.lp.Add(lp.NewColumn(10*dearest, lp.Entry{Row: r, Value: 1}))
		m.column = append(m.column, -1)
	}
	m.lp.Start(safe)
	return m
}

// pivot is about what a step of the simplex method costs, in steps of the search.
func (m *choosing) pivot() int64 {
	rows := int64(len(m.rows))
	return (rows*rows + 2*int64(len(m.column))) / 128
}

// feed adds the fillings that are new.
func (m *choosing) feed() {
	for ; m.seen < len(m.p.columns.all); m.seen++ {
		m.enter(m.seen)
	}
}

func (m *choosing) enter(i int) {
	f := &m.p.columns.all[i]
	col := lp.NewColumn(f.price)
	for _, t := range f.takes {
		if r := m.row[t.item]; r >= 0 {
			col.Entries = append(col.Entries, lp.Entry{Row: r, Value: float64(t.n)})
		}
	}
	m.lp.Add(col)
	m.column = append(m.column, i)
}

// descend makes columns for a number of rounds, as long as that helps and the
// steps last, and returns how much of each column the program takes; nil when
// it found no answer.
func (m *choosing) descend(rounds int, until int64) []float64 {
	exact, last := false, math.Inf(1)
	for round := 0; ; round++ {
		m.feed()
		sol := m.lp.Solve(masterSteps)
		m.p.a.steps += int64(sol.Steps+1) * m.pivot()
		if sol.Status != lp.Optimal {
			return nil
		}
		done := round == rounds || m.p.a.steps > until
		m.worths(sol.Dual, exact || done || round == 0)
		if done {
			return sol.X
		}
		if sol.Value > last*(1-slow) && m.width < closer {
			m.width *= 2
		}
		last = sol.Value
		switch {
		case m.grow():
		case !exact:
			exact = true
		case m.width >= maxWidth:
			return sol.X
		default:
			exact = false
			m.width *= 4
		}
	}
}

// worths takes the duals as what pods are worth, or goes half the way: those of
// a program with few columns jump about.
func (m *choosing) worths(dual []float64, exact bool) {
	for i, r := range m.row {
		w := 0.0
		if r >= 0 {
			w = math.Max(dual[r], 1e-9)
		}
		if exact {
			m.p.worth[i] = w
		} else {
			m.p.worth[i] += (w - m.p.worth[i]) / 2
		}
	}
}
