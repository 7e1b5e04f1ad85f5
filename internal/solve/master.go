package solve

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/lp"
	"github.com/kerfdev/kerf/internal/plan"
)

// A master is the fractional covering problem over the columns made so far:
// how much of each filled node to take so that every pod has a place.
type master struct {
	*yard
	lp    *lp.Solver
	once  []int
	scale float64   // $/h that count as 1 in the program
	value []float64 // scratch: worths by position in a bay
	steps int64     // spent, in items looked at
	best  float64
	worth []float64 // by item: the worths that proved best
}

// smoothing is how far the worths to price with stay with those that proved the
// best bound; the duals of a half-built program jump about.
const smoothing = 0.7

// maxBoundRows is up to how many items the program is solved; with more, the
// bound is what the worths of the search prove as they are.
const maxBoundRows = 1000

// start adds the plan's own nodes as columns and begins with the worths, by
// shape, that the search for it ended with.
func (m *master) start(p plan.Plan, worth []float64) {
	item := map[int]int{} // by pod
	first := make([]float64, len(m.items))
	for i := range m.items {
		shape := m.items[i].parts[0].shape
		first[i] = worth[shape]
		for _, pod := range m.a.g.shapes[shape].pods {
			item[pod] = i
		}
	}
	count := make([]float64, len(m.items))
	seen := map[string]bool{}
	for i := range p.Launches {
		clear(count)
		for _, pod := range p.Launches[i].Pods {
			count[item[pod]]++
		}
		col := lp.NewColumn(p.Launches[i].Price / m.scale)
		for k, n := range count {
			if n > 0 {
				col.Entries = append(col.Entries, lp.Entry{Row: k, Value: n})
			}
		}
		if key := fmt.Sprint(col.Cost, col.Entries); !seen[key] {
			seen[key] = true
			m.lp.Add(col)
		}
	}
	m.price(first)
}

// run improves the bound round by round until the budget of steps is used up.
func (m *master) run(budget int64, ceiling float64) float64 {
	if len(m.items) > maxBoundRows {
		return m.best
	}
	smooth := smoothing
	rows := int64(len(m.items))
	for m.steps < budget {
		sol := m.lp.Solve(masterSteps)
		m.steps += int64(sol.Steps+1) * (rows*rows + 2*int64(m.lp.Columns())) / 128
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

// violators is how many columns a round adds: those of the bays that hold the
// most for their price.
const violators = 32

// A violation is a bay that holds more than it costs.
type violation struct {
	bay   int
	ratio float64
	count []float64
}

// price fills every bay at the worths, adds as columns the worst of those that
// hold more than they cost, and keeps the bound that the worths prove once every
// pod that fits in such a bay is worth so much less that the bay holds no more
// than its price; less what existing nodes hold.
func (m *master) price(worth []float64) (added int) {
	free := 0.0
	least := slices.Repeat([]float64{1}, len(worth)) // by item: the part of its worth that holds everywhere
	var found []violation
	for b := range m.bays {
		bay := &m.bays[b]
		value := m.value[:len(bay.items)]
		for k, i := range bay.items {
			value[k] = worth[i]
		}
		m.steps += int64(len(value))
		if !bay.once && bay.bin.AtMost(value) <= bay.price {
			continue
		}
		r := bay.bin.Relax(value)
		m.steps += int64(len(value)) * 4
		if bay.once {
			free += r.Bound
		} else if part := bay.price / r.Bound; part < 1 {
			for _, i := range bay.items {
				least[i] = math.Min(least[i], part)
			}
		}
		if r.Bound > bay.price*(1+1e-8)+1e-12 {
			found = append(found, violation{b, r.Bound / (bay.price + 1e-9), r.Count})
		}
	}
	m.keep(worth, least, free)
	slices.SortStableFunc(found, func(x, y violation) int { return cmp.Compare(y.ratio, x.ratio) })
	for _, v := range found[:min(len(found), violators)] {
		m.add(v.bay, v.count)
	}
	return len(found)
}

// keep takes the bound that parts of the worths prove if it is better than the last.
func (m *master) keep(worth, part []float64, free float64) {
	bound := -free
	for i := range worth {
		bound += worth[i] * part[i] * float64(m.items[i].count)
	}
	if bound <= m.best {
		return
	}
	m.best, m.worth = bound, worth
	for i := range worth {
		m.worth[i] *= part[i]
	}
}

func (m *master) add(b int, count []float64) {
	bay := &m.bays[b]
	col := lp.NewColumn(bay.price / m.scale)
	for k, x := range count {
		if x > 1e-9 {
			col.Entries = append(col.Entries, lp.Entry{Row: bay.items[k], Value: x})
		}
	}
	if bay.once {
		col.Entries = append(col.Entries, lp.Entry{Row: m.once[b], Value: 1})
	}
	m.lp.Add(col)
}
