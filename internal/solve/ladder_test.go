package solve

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestAWideLadderFindsTheMostValuableFilling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ladder{capacity: []int64{rapid.Int64Range(1, 9).Draw(t, "cpu"), rapid.Int64Range(1, 9).Draw(t, "memory")}, width: 1 << 20, keep: 1}
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			vec := []int64{rapid.Int64Range(0, 5).Draw(t, "cpu"), rapid.Int64Range(1, 5).Draw(t, "memory")}
			value := float64(rapid.IntRange(1, 9).Draw(t, "value"))
			l.steps = append(l.steps, step{vec: vec, at: 1, most: rapid.IntRange(1, 3).Draw(t, "most"), value: value, weight: float64(vec[0] + vec[1])})
		}
		l.total, l.plain = float64(l.capacity[0]+l.capacity[1]), len(l.steps)
		l.climb(1)
		got := 0.0
		if len(l.best) > 0 {
			got = l.states[l.best[0]].value
		}
		if want := most(l.steps, l.capacity[0], l.capacity[1]); math.Abs(got-want) > 1e-9 {
			t.Fatalf("found a filling worth %g, want %g", got, want)
		}
	})
}

// most is the value of the best filling, by trying all.
func most(steps []step, cpu, memory int64) float64 {
	if len(steps) == 0 {
		return 0
	}
	best := 0.0
	for n := range steps[0].most + 1 {
		c, m := cpu-int64(n)*steps[0].vec[0], memory-int64(n)*steps[0].vec[1]
		if c >= 0 && m >= 0 {
			best = math.Max(best, float64(n)*steps[0].value+most(steps[1:], c, m))
		}
	}
	return best
}
