package knapsack

import (
	"cmp"
	"math"
	"slices"
)

// A Result is the best filling that was found and what is known about better ones.
type Result struct {
	Count []int   // by item; nil when nothing worth more than the target was found
	Value float64 // of Count; the target when there is none
	Bound float64 // no filling is worth more than this or the target
	Steps int64
}

// Search looks for the best filling worth more than target; fillings worth less
// are of no interest, and not looking for them saves most of the work. At most
// steps branches are taken.
//
// Accept says whether a filling that respects the capacities is possible
// otherwise (pods on separate GPUs, say); nil accepts all. A part of an
// acceptable filling must be acceptable. The slice is only lent.
func (b *Bin) Search(value []float64, target float64, steps int64, accept func(count []int) bool) Result {
	s := b.newSearch(value, target, steps, accept)
	s.dive()
	s.branch(0, 0)
	return Result{Count: s.best, Value: s.value, Bound: math.Max(s.value, s.open), Steps: s.taken}
}

// search is the state of one Search. Positions are items in branching order.
type search struct {
	*Bin
	worth   []float64
	accept  func(count []int) bool
	order   []int
	price   []float64 // by dimension
	relaxed []float64 // by item: count in the relaxation
	surplus []float64 // by position: value less the price of the weight
	rest    []float64 // by position: the most that items from there on add to the bound
	left    []float64 // capacity left, by dimension
	count   []int     // by item
	best    []int
	value   float64 // of best, or the target
	open    float64 // highest bound of a branch that was not taken for want of steps
	taken   int64
	limit   int64
}

func (b *Bin) newSearch(value []float64, target float64, steps int64, accept func(count []int) bool) *search {
	r := b.Relax(value)
	s := &search{
		Bin: b, worth: value, accept: accept, price: r.Price, relaxed: r.Count, left: slices.Clone(b.capacity),
		count: make([]int, len(value)), value: target, open: math.Inf(-1), limit: steps,
	}
	surplus := make([]float64, len(value))
	for i, v := range value {
		surplus[i] = b.surplus(i, v, r.Price)
		if v > 0 && b.most[i] > 0 {
			s.order = append(s.order, i)
		}
	}
	// Best surplus first: the first dive is then close to the relaxation's answer.
	slices.SortStableFunc(s.order, func(x, y int) int {
		return cmp.Or(cmp.Compare(surplus[y], surplus[x]), cmp.Compare(x, y))
	})
	s.rest = make([]float64, len(s.order)+1)
	s.surplus = make([]float64, len(s.order))
	for k := len(s.order) - 1; k >= 0; k-- {
		i := s.order[k]
		s.surplus[k] = surplus[i]
		s.rest[k] = s.rest[k+1] + math.Max(0, surplus[i])*float64(b.most[i])
	}
	return s
}

// dive finds a first filling: the relaxation's whole part, topped up in
// branching order. On big bins it is close to the best.
func (s *search) dive() {
	value := 0.0
	put := func(i, n int) {
		for n = min(n, s.room(i)); n > 0; n-- {
			s.take(i, n)
			if s.accept == nil || s.accept(s.count) {
				value += float64(n) * s.worth[i]
				return
			}
			s.take(i, -n)
		}
	}
	for _, i := range s.order {
		put(i, int(s.relaxed[i]+tolerance))
	}
	for _, i := range s.order {
		put(i, s.most[i]-s.count[i])
	}
	if value > s.value+tolerance {
		s.value, s.best = value, slices.Clone(s.count)
	}
	for i, n := range s.count {
		s.take(i, -n)
	}
}

// branch tries every count of the item at position k, most first, with value
// already packed.
func (s *search) branch(k int, value float64) {
	if value > s.value+tolerance {
		if s.accept != nil && !s.accept(s.count) {
			return // whatever is added, this part stays impossible
		}
		s.value, s.best = value, slices.Clone(s.count)
	}
	if k == len(s.order) {
		return
	}
	i := s.order[k]
	for n := s.take(i, s.room(i)); n >= 0; n-- {
		with := value + float64(n)*s.worth[i]
		if b := s.bound(k+1, with); b > s.value+tolerance {
			if s.taken >= s.limit {
				s.open = math.Max(s.open, b)
			} else {
				s.taken++
				s.branch(k+1, with)
			}
		} else if s.surplus[k] >= 0 {
			s.take(i, -n) // fewer of an item worth its weight only lowers the bound
			return
		}
		if n > 0 {
			s.take(i, -1)
		}
	}
}

// room is how many more of item i fit, up to its largest count.
func (s *search) room(i int) int {
	return max(0, min(s.most[i]-s.count[i], fit(s.weight[i], s.left)))
}

// take packs n more of item i, or unpacks, and returns n.
func (s *search) take(i, n int) int {
	for d, w := range s.weight[i] {
		s.left[d] -= float64(n) * w
	}
	s.count[i] += n
	return n
}

// bound is an upper bound on the value of any filling that goes on from here
// with the items from position k.
func (s *search) bound(k int, value float64) float64 {
	b := value + s.rest[k]
	for d, c := range s.left {
		b += s.price[d] * c
	}
	return b
}
