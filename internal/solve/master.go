package solve

import (
	"math"

	"github.com/kerfdev/kerf/internal/lp"
	"github.com/kerfdev/kerf/internal/plan"
)

// A master is the fractional covering problem over the columns made so far:
// how much of each filled node to take so that every pod has a place.
type master struct {
	*yard
	lp    *lp.Solver
	once  []int
	scale float64 // $/h that count as 1 in the program
	best  float64
	worth []float64 // by item: the worths that proved best
	each  func()    // called after every round that proved more; nil for none
}

// smoothing is how far the worths to price with stay with those that proved the
// best bound; the duals of a half-built program jump about.
const smoothing = 0.7

const masterSteps = 20_000

// start adds the plan's own nodes as columns.
func (m *master) start(p plan.Plan) {
	item := map[int]int{} // by pod
	for i := range m.items {
		for _, pod := range m.a.g.shapes[m.items[i].parts[0].shape].pods {
			item[pod] = i
		}
	}
	for i := range p.Launches {
		count := map[int]float64{}
		for _, pod := range p.Launches[i].Pods {
			count[item[pod]]++
		}
		col := lp.NewColumn(p.Launches[i].Price / m.scale)
		for k := range m.items {
			if n := count[k]; n > 0 {
				col.Entries = append(col.Entries, lp.Entry{Row: k, Value: n})
			}
		}
		m.lp.Add(col)
	}
}

// run improves the bound round by round.
func (m *master) run(rounds int, ceiling float64) float64 {
	smooth := 0.0
	for range rounds {
		sol := m.lp.Solve(masterSteps)
		if sol.Status != lp.Optimal {
			break
		}
		added := m.price(m.blend(sol.Dual, smooth))
		if m.best >= ceiling*(1-1e-9) || m.best >= sol.Value*m.scale*(1-1e-7) {
			break
		}
		switch {
		case added > 0:
			smooth = smoothing
		case smooth > 0:
			smooth = 0
		default:
			return m.best
		}
	}
	return m.best
}

// blend returns worths between the duals and the best known, in $/h.
func (m *master) blend(dual []float64, smooth float64) []float64 {
	out := make([]float64, len(m.items))
	for i := range out {
		out[i] = math.Max(0, dual[i]) * m.scale
		if m.worth != nil {
			out[i] = smooth*m.worth[i] + (1-smooth)*out[i]
		}
	}
	return out
}

// price fills every bay at the worths, adds as columns those that hold more
// than they cost, and keeps the bound that the worths prove: scaled down so
// that no node holds more than its price, less what existing nodes hold.
func (m *master) price(worth []float64) (added int) {
	theta, free := 1.0, 0.0
	total := 0.0
	for i := range m.items {
		total += worth[i] * float64(m.items[i].count)
	}
	for b := range m.bays {
		bay := &m.bays[b]
		value := make([]float64, len(bay.items))
		for k, i := range bay.items {
			value[k] = worth[i]
		}
		r := bay.bin.Relax(value)
		if bay.price == 0 {
			free += r.Bound
		} else if r.Bound > bay.price {
			theta = math.Min(theta, bay.price/r.Bound)
		}
		if r.Bound > bay.price*(1+1e-8)+1e-12 {
			m.add(b, r.Count)
			added++
		}
	}
	if bound := theta * (total - free); bound > m.best {
		m.best, m.worth = bound, worth
		for i := range worth {
			worth[i] *= theta
		}
		if m.each != nil {
			m.each()
		}
	}
	return added
}

func (m *master) add(b int, count []float64) {
	bay := &m.bays[b]
	col := lp.NewColumn(bay.price / m.scale)
	for k, x := range count {
		if x > 1e-9 {
			col.Entries = append(col.Entries, lp.Entry{Row: bay.items[k], Value: x})
		}
	}
	if bay.price == 0 {
		col.Entries = append(col.Entries, lp.Entry{Row: m.once[b], Value: 1})
	}
	m.lp.Add(col)
}
