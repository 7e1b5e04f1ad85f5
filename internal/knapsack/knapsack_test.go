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
	accept   func(count []int) bool
}

func (p problem) solve(target float64, steps int64) Result {
	return New(p.weight, p.capacity, p.most).Search(p.value, target, steps, p.accept)
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
	if rapid.Bool().Draw(t, "pairs exclude") {
		p.accept = func(count []int) bool { return count[0] == 0 || count[len(count)-1] < 2 }
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
			if p.accept == nil || p.accept(count) {
				best = math.Max(best, value)
			}
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

func TestAgreesWithTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		got, want := p.solve(0, math.MaxInt64), brute(p)
		if math.Abs(got.Value-want) > 1e-6 || math.Abs(got.Bound-want) > 1e-6 {
			t.Fatalf("value %g bound %g, want %g", got.Value, got.Bound, want)
		}
	})
}

func TestBoundHoldsWhenStepsRunOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		got, want := p.solve(0, int64(rapid.IntRange(0, 6).Draw(t, "steps"))), brute(p)
		if got.Bound < want-1e-6 || got.Value > want+1e-6 {
			t.Fatalf("value %g bound %g around %g", got.Value, got.Bound, want)
		}
	})
}

func TestOnlyFillingsAboveTheTargetCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		want := brute(p)
		target := want + float64(rapid.IntRange(-3, 3).Draw(t, "off"))
		got := p.solve(target, math.MaxInt64)
		if want > target && (got.Count == nil || math.Abs(got.Value-want) > 1e-6) {
			t.Fatalf("target %g: found %g, want %g", target, got.Value, want)
		}
		if want <= target && (got.Count != nil || got.Bound > target+1e-6) {
			t.Fatalf("target %g: found %v with bound %g, but the best is %g", target, got.Count, got.Bound, want)
		}
	})
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
		if want := brute(p); r.Bound < want-1e-6 || r.Bound > value+1e-6 {
			t.Fatalf("bound %g around a relaxation of %g, but the best filling is worth %g", r.Bound, value, want)
		}
	})
}
