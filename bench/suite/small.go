package suite

import (
	"fmt"
	"io"
	"math/rand"
	"slices"
	"time"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/kerfdev/kerf/internal/solve"
)

// instances is how many small fleets are compared.
const instances = 200

// A Small is how Kerf's plans for small fleets compare with the optimum.
type Small struct {
	Instances int
	Optimal   int     // at the optimum
	Proven    int     // proven to be at the optimum by Kerf's own bound
	Worst     float64 // highest cost over the optimum, 1 = equal
	Nodes     [2]int  // fewest and most nodes of an optimum
	CPU       time.Duration
	Wrong     []error
}

// small plans random small fleets and compares each with its optimum.
func small(w io.Writer) (Small, error) {
	types, err := fleetTypes(false)
	if err != nil {
		return Small{}, err
	}
	out := Small{Worst: 1, Nodes: [2]int{1 << 30, 0}}
	d := draw{rand.New(rand.NewSource(7))}
	for i := range instances {
		s := d.fleet(types, i%3 == 0)
		best, nodes := exact(s)
		p, spent := kerfOnce(s)
		out.Instances++
		out.CPU += spent
		out.Nodes = [2]int{min(out.Nodes[0], nodes), max(out.Nodes[1], nodes)}
		out.Wrong = append(out.Wrong, plan.Check(s, p)...)
		if b := p.Bound; b > best+1e-6 {
			out.Wrong = append(out.Wrong, fmt.Errorf("small fleet %d: bound %.4f $/h is above the optimum %.4f $/h", i, b, best))
		}
		switch ratio := p.Cost / best; {
		case len(p.Unplaced) > 0:
			out.Wrong = append(out.Wrong, fmt.Errorf("small fleet %d: pods are not placed", i))
		case ratio < 1-1e-9:
			out.Wrong = append(out.Wrong, fmt.Errorf("small fleet %d: %.4f $/h is below the optimum %.4f $/h", i, p.Cost, best))
		case ratio < 1+1e-9:
			out.Optimal++
		default:
			out.Worst = max(out.Worst, ratio)
		}
		if gap, known := p.Gap(); known && gap == 0 {
			out.Proven++
		}
	}
	fmt.Fprintf(w, "small fleets: %d of %d at the optimum, at most %.2f %% above it\n", out.Optimal, out.Instances, 100*(out.Worst-1))
	return out, nil
}

// kerfOnce plans, and plans again with a bound.
func kerfOnce(s model.Snapshot) (plan.Plan, time.Duration) {
	start, o := time.Now(), solve.Options{CPUOnGPU: true}
	solve.Solve(s, o)
	took := time.Since(start)
	o.Prove = proveSteps
	p, _ := solve.Solve(s, o)
	return p, took
}

// fleet draws three to six types and two or three specs with up to twelve pods
// each, all of which fit somewhere.
func (d draw) fleet(all []model.InstanceType, shares bool) model.Snapshot {
	s := model.Snapshot{Region: "us-east-1", Pools: []model.Pool{{Name: "fleet"}}, Sharing: model.Sharing{Consumable: shares}}
	for wanted := 3 + d.Intn(4); len(s.Types) < wanted; {
		t := all[d.Intn(len(all))]
		gpu := len(t.GPUs) > 0
		if t.Allocatable[model.CPU] > 64000 || gpu != (len(s.Types)%2 == 0) || slices.ContainsFunc(s.Types, func(o model.InstanceType) bool { return o.Name == t.Name }) {
			continue
		}
		t.Offerings = t.Offerings[:1]
		s.Types = append(s.Types, t)
	}
	for specs := 2 + d.Intn(2); specs > 0; {
		p := d.anyPod(shares)
		if cheapestFor(s, p) == 0 {
			continue
		}
		specs--
		for n := 1 + d.Intn(12); n > 0; n-- {
			s.Pods = append(s.Pods, model.Pod{Namespace: "default", Name: fmt.Sprintf("pod-%d", len(s.Pods)), Spec: p})
		}
	}
	return s
}

func (d draw) anyPod(shares bool) *model.PodSpec {
	p := &model.PodSpec{Requests: model.Resources{
		model.Pods: 1, model.CPU: d.of(250, 500, 1000, 2000, 3000, 4000, 7000), model.Memory: d.of(1, 2, 4, 6, 8, 16, 30) * gi,
	}}
	switch kind := d.Intn(3); {
	case kind == 0:
	case kind == 1 && shares:
		p.Shares = []model.DeviceShare{{Resource: model.NvidiaGPU, Count: 1, PerDevice: model.Resources{model.ShareMilli: 10 * (10 + d.Int63n(90))}}}
	default:
		p.Requests[model.NvidiaGPU] = d.of(1, 1, 1, 2, 4)
	}
	return p
}
