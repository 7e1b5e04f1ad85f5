package solve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// proven returns a plan and what is proven about it before the bound is held at
// its cost: by worths, and by nodes being whole.
func proven(s model.Snapshot, steps int64) (p plan.Plan, byWorth, byWholes float64) {
	w := newWorld(&s, Options{Steps: steps})
	a, relaxed := w.best()
	p, _ = a.finish(relaxed)
	y := w.newYard(placed(&w.group, p))
	return p, y.climb(p, a.worths(), 4_000_000, p.Cost), y.whole()
}

func TestNoPlanIsCheaperThanItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, byWorth, byWholes := proven(draw{t}.snapshot(), 200_000)
		if limit := p.Cost*(1+1e-9) + 1e-9; byWorth > limit || byWholes > limit {
			t.Fatalf("the plan costs %g, and it is proven that none costs less than %g or %g", p.Cost, byWorth, byWholes)
		}
	})
}

func TestBoundOfTinyInstancesAgainstBruteForce(t *testing.T) {
	tight, all := 0, 0
	for seed := range uint64(300) {
		s := tiny(rand.New(rand.NewPCG(seed, 7)))
		best := brute(s)
		_, byWorth, byWholes := proven(s, 0)
		if byWorth > best+1e-6 || byWholes > best+1e-6 {
			t.Errorf("seed %d: the least cost is %g, the bounds say %g and %g", seed, best, byWorth, byWholes)
		}
		all++
		if max(byWorth, byWholes) > best-1e-6 {
			tight++
		}
	}
	if tight*100 < all*95 {
		t.Errorf("the bound meets the optimum in %d of %d instances, want 95 %%", tight, all)
	}
}

func TestBoundCountsWhatIsFree(t *testing.T) {
	s := parse(t, `
zones a
type t1 cpu=4 memory=16Gi pods=20 od=1
pool any
node n1 type=t1 cpu=4 memory=16Gi pods=20
pod a x8 cpu=1 memory=1Gi
`)
	p, _ := Solve(s, Options{Prove: 1_000_000})
	if p.Cost != 1 || p.Bound < 1-1e-6 || p.Bound > 1 {
		t.Errorf("cost %g and bound %g, want 1 and 1: four pods fit on the node that exists, four need another\n%s", p.Cost, p.Bound, describe(s, p, model.Trace{}))
	}
}

func TestNothingIsProvenWhereNodesAreFree(t *testing.T) {
	s := parse(t, `
zones a
type free cpu=1 memory=4Gi pods=20 od=0
type paid cpu=8 memory=32Gi pods=20 od=1
pool any
pod a x3 cpu=1 memory=1Gi
pod b cpu=4 memory=1Gi
`)
	p, byWorth, byWholes := proven(s, 0)
	if byWorth > p.Cost+1e-9 || byWholes > p.Cost+1e-9 || p.Cost > 1+1e-9 {
		t.Errorf("cost %g, proven %g and %g", p.Cost, byWorth, byWholes)
	}
}

func TestBoundAsksForNoChoiceOfTypes(t *testing.T) {
	s := parse(t, `
zones a
type small cpu=1 memory=4Gi pods=20 od=0.1 spot=0.1
type large cpu=2 memory=4Gi pods=20 spot=0.2
pool any
    exists type min=2
pod a x3 cpu=0.7 memory=1Gi
`)
	p, byWorth, byWholes := proven(s, 0)
	if byWorth > p.Cost+1e-9 || byWholes > p.Cost+1e-9 || math.Abs(p.Cost-0.3) > 1e-9 {
		t.Errorf("cost %g, proven %g and %g: only the spot market has two types, at the price of the other", p.Cost, byWorth, byWholes)
	}
}

func BenchmarkBound(b *testing.B) {
	s := fleet(b, 10000, 300)
	for _, steps := range []int64{0, 1_000_000, 4_000_000, 16_000_000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			start := processorTime()
			for b.Loop() {
				p, _ := Solve(s, Options{Prove: steps, Steps: 4_000_000})
				if gap, ok := p.Gap(); ok {
					b.ReportMetric(100*gap, "gap-%")
				}
			}
			b.ReportMetric(float64((processorTime()-start).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}
