// Package knapsack bounds how valuably one bin of several dimensions can be
// filled: items, each with a value, a weight in every dimension and a largest
// count. It is how the planner prices a node: which pods, at the prices that the
// rest of the fleet puts on them, are worth more than the node costs.
//
// Relax answers for fractions of items, exactly and at once, and says what each
// dimension is worth. AtMost asks the prices of the last answer about other
// values, which takes one multiplication a weight.
package knapsack

import (
	"math"

	"github.com/kerfdev/kerf/internal/lp"
)

// A Bin is a node to be filled. All figures should be near 1: weights are best
// given as fractions of the capacity.
type Bin struct {
	weight   [][]float64 // by item, then dimension
	capacity []float64
	most     []int // by item: the largest count, and no more than fit alone
	relaxed  *lp.Solver
	last     []float64 // prices of the last Relax
}

// tolerance by which weights may exceed a capacity.
const tolerance = 1e-9

// New returns a bin for items of the given weights (by item, then dimension;
// not negative) and largest counts.
func New(weight [][]float64, capacity []float64, most []int) *Bin {
	b := &Bin{weight: weight, capacity: capacity, most: make([]int, len(most))}
	rows := make([]lp.Row, len(capacity))
	for d, c := range capacity {
		rows[d] = lp.Row{Sense: lp.AtMost, RHS: c}
	}
	b.relaxed = lp.NewSolver(rows)
	for i, w := range weight {
		b.most[i] = max(0, min(most[i], fit(w, capacity)))
		col := lp.Column{Upper: float64(b.most[i])}
		for d, v := range w {
			if v != 0 {
				col.Entries = append(col.Entries, lp.Entry{Row: d, Value: v})
			}
		}
		b.relaxed.Add(col)
	}
	return b
}

// fit is how often a weight fits in what is left.
func fit(weight, left []float64) int {
	n := float64(math.MaxInt32)
	for d, w := range weight {
		if w > 0 {
			n = math.Min(n, math.Floor((left[d]+tolerance)/w))
		}
	}
	return int(n)
}

// A Relaxation is the best filling with fractions of items.
type Relaxation struct {
	Count []float64 // by item
	Price []float64 // by dimension: what a unit of capacity is worth, not negative
	Bound float64   // no filling is worth more, fractional or not; proven by Price alone
}

// relaxSteps is far more than a relaxation needs; running out of it only makes
// the bound loose.
const relaxSteps = 10_000

// Relax solves the linear relaxation for the items' values; items worth zero or
// less are never taken. It starts from where the last Relax ended.
func (b *Bin) Relax(value []float64) Relaxation {
	for i, v := range value {
		b.relaxed.SetCost(i, -v)
	}
	sol := b.relaxed.Solve(relaxSteps)
	out := Relaxation{Count: sol.X, Price: sol.Dual}
	for d, y := range out.Price {
		out.Price[d] = math.Max(0, -y)
	}
	out.Bound = b.proves(value, out.Price)
	b.last = out.Price
	return out
}

// AtMost returns a bound on the value of every filling from the prices of the
// last Relax, infinite when there was none. It is quick, and close while the
// values change little.
func (b *Bin) AtMost(value []float64) float64 {
	if b.last == nil {
		return math.Inf(1)
	}
	return b.proves(value, b.last)
}

// proves is the bound that prices of the capacities prove, whatever they are.
func (b *Bin) proves(value, price []float64) float64 {
	sum := 0.0
	for d, y := range price {
		sum += y * b.capacity[d]
	}
	for i, v := range value {
		if v > 0 {
			sum += math.Max(0, b.surplus(i, v, price)) * float64(b.most[i])
		}
	}
	return sum
}

// surplus is what an item is worth above the price of its weight.
func (b *Bin) surplus(i int, value float64, price []float64) float64 {
	return value - b.Price(i, price)
}

// Price is what the weight of an item costs at prices of the dimensions.
func (b *Bin) Price(item int, price []float64) float64 {
	sum := 0.0
	for d, w := range b.weight[item] {
		sum += price[d] * w
	}
	return sum
}
