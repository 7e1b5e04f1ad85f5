package knapsack

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

type problem struct {
	value    []float64
	weight   [][]float64
	capacity []float64
	most     []int
}

func draw(t *rapid.T) problem {
	dims, items := rapid.IntRange(1, 3).Draw(t, "dims"), rapid.IntRange(1, 5).Draw(t, "items")
	var p problem
	for range dims {
		p.capacity = append(p.capacity, float64(rapid.IntRange(0, 12).Draw(t, "capacity")))
	}
	for range items {
		p.value = append(p.value, float64(rapid.IntRange(-1, 9).Draw(t, "value")))
		p.most = append(p.most, rapid.IntRange(0, 4).Draw(t, "max"))
		var w []float64
		for range dims {
			w = append(w, float64(rapid.IntRange(0, 5).Draw(t, "weight")))
		}
		p.weight = append(p.weight, w)
	}
	return p
}

// brute tries every filling.
func brute(p problem) float64 {
	best := 0.0
	count := make([]int, len(p.value))
	var try func(i int, left []float64, value float64)
	try = func(i int, left []float64, value float64) {
		if i == len(count) {
			best = math.Max(best, value)
			return
		}
		for n := 0; n <= p.most[i]; n++ {
			rest, fits := make([]float64, len(left)), true
			for d := range left {
				rest[d] = left[d] - float64(n)*p.weight[i][d]
				fits = fits && rest[d] >= 0
			}
			if !fits {
				break
			}
			count[i] = n
			try(i+1, rest, value+float64(n)*p.value[i])
		}
		count[i] = 0
	}
	try(0, p.capacity, 0)
	return best
}

func TestRelaxationBoundsEveryFilling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		b := New(p.weight, p.capacity, p.most)
		b.Relax(make([]float64, len(p.value))) // a warm start must not matter
		r := b.Relax(p.value)
		value := 0.0
		for i, x := range r.Count {
			value += x * p.value[i]
		}
		if most := b.AtMost(p.value); math.Abs(most-r.Bound) > 1e-6 {
			t.Fatalf("the same values again are bounded by %g, not %g", most, r.Bound)
		}
		if want := brute(p); r.Bound < want-1e-6 || r.Bound > value+1e-6 {
			t.Fatalf("bound %g around a relaxation of %g, but the best filling is worth %g", r.Bound, value, want)
		}
	})
}
