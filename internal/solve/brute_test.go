package solve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// tiny is a Snapshot small enough to try everything: up to eight pods, up to
// five types.
func tiny(rng *rand.Rand) model.Snapshot {
	s := model.Snapshot{Pools: []model.Pool{{Name: "any"}}}
	for i := range 2 + rng.IntN(4) {
		name := fmt.Sprint("t", i)
		size := 1 + rng.Int64N(8)
		r := model.Resources{model.CPU: size * 2000, model.Memory: size * (2 + 2*rng.Int64N(4)) * gi, model.Pods: 4 + rng.Int64N(12)}
		price := float64(size) * (0.8 + 0.4*rng.Float64())
		t := model.InstanceType{Name: name, Labels: map[string]string{model.LabelInstanceType: name}}
		if rng.IntN(2) == 0 {
			n := 1 + rng.Int64N(4)
			r[model.NvidiaGPU] = n
			t.GPUs = []model.GPU{{Manufacturer: "nvidia", Model: "t4", Count: n, MemoryMiB: 15360, Fraction: 1}}
			price += float64(n) * 2
		}
		t.Capacity, t.Allocatable = r, r
		t.Offerings = []model.Offering{{Zone: "a", CapacityType: model.OnDemand, Price: math.Round(price*100) / 100}}
		s.Types = append(s.Types, t)
	}
	for i := range 2 + rng.IntN(7) {
		r := model.Resources{model.CPU: 500 * (1 + rng.Int64N(12)), model.Memory: gi * (1 + rng.Int64N(12)), model.Pods: 1}
		if rng.IntN(3) == 0 {
			r[model.NvidiaGPU] = 1 + rng.Int64N(2)
		}
		s.Pods = append(s.Pods, model.Pod{Namespace: "a", Name: fmt.Sprint("p", i), Spec: &model.PodSpec{Requests: r}})
	}
	return s
}

// brute tries every way to share the pods out over nodes, and returns the
// least cost of one that places all that fit anywhere.
func brute(s model.Snapshot) float64 {
	var pods []model.Resources
	for _, p := range s.Pods {
		if cheapestFor(s, p.Spec.Requests) < math.Inf(1) {
			pods = append(pods, p.Spec.Requests)
		}
	}
	best := math.Inf(1)
	var nodes []model.Resources
	var walk func(i int)
	walk = func(i int) {
		if i == len(pods) {
			sum := 0.0
			for _, n := range nodes {
				sum += cheapestFor(s, n)
			}
			best = min(best, sum)
			return
		}
		for j := range nodes {
			old := nodes[j]
			if joined := old.Plus(pods[i], 1); cheapestFor(s, joined) < math.Inf(1) && mixed(s, old, pods[i]) {
				nodes[j] = joined
				walk(i + 1)
				nodes[j] = old
			}
		}
		nodes = append(nodes, pods[i])
		walk(i + 1)
		nodes = nodes[:len(nodes)-1]
	}
	walk(0)
	return best
}

// mixed reports whether two lots may share a node: pods without GPUs stay off
// GPU nodes, unless there are no others.
func mixed(s model.Snapshot, a, b model.Resources) bool {
	return onlyGPUTypes(s) || (a[model.NvidiaGPU] > 0) == (b[model.NvidiaGPU] > 0)
}

func onlyGPUTypes(s model.Snapshot) bool {
	for _, t := range s.Types {
		if len(t.GPUs) == 0 {
			return false
		}
	}
	return true
}

// cheapestFor is the price of the cheapest type that may hold r.
func cheapestFor(s model.Snapshot, r model.Resources) float64 {
	best := math.Inf(1)
	for _, t := range s.Types {
		if len(t.GPUs) > 0 && r[model.NvidiaGPU] == 0 && !onlyGPUTypes(s) {
			continue
		}
		if t.Allocatable.Lacking(r) == "" {
			best = min(best, t.Offerings[0].Price)
		}
	}
	return best
}

// On instances small enough to try everything Solve finds the least cost, or
// comes within two in a hundred.
func TestTinyInstancesAgainstBruteForce(t *testing.T) {
	const runs = 300
	optimal := 0
	for seed := range uint64(runs) {
		s := tiny(rand.New(rand.NewPCG(seed, 7)))
		p, _ := Solve(s, Options{})
		for _, err := range plan.Check(s, p) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := brute(s)
		switch {
		case p.Cost > want*1.02+1e-9:
			t.Errorf("seed %d: %.2f $/h, and %.2f is possible", seed, p.Cost, want)
		case p.Cost < want-1e-6:
			t.Errorf("seed %d: %.2f $/h is less than brute force finds, %.2f", seed, p.Cost, want)
		case p.Cost <= want+1e-6:
			optimal++
		}
	}
	if optimal < runs*98/100 {
		t.Errorf("optimal in %d of %d", optimal, runs)
	}
}
