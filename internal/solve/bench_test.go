package solve

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
)

const gi = int64(1) << 30

// fleet is a Snapshot of n pods in shapes kinds over every type of us-east-1,
// in three zones, spot and on demand: a third of the shapes ask for GPUs.
func fleet(t testing.TB, n, shapes int) model.Snapshot {
	t.Helper()
	book, err := catalog.Load("us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var specs []*model.PodSpec
	for i := range shapes {
		r := model.Resources{model.CPU: 100 * (1 + rng.Int64N(80)), model.Memory: gi / 4 * (1 + rng.Int64N(64)), model.Pods: 1}
		spec := &model.PodSpec{Labels: map[string]string{"app": fmt.Sprint(i)}, Requests: r}
		switch {
		case i%3 == 0:
			r[model.NvidiaGPU] = []int64{1, 1, 1, 2, 4, 8}[rng.IntN(6)]
		case i%7 == 0:
			spec.NodeSelector = map[string]string{model.LabelArch: "arm64"}
		case i%11 == 0:
			spec.NodeSelector = map[string]string{model.LabelZone: book.Zones[rng.IntN(3)]}
		case i%13 == 0:
			spec.NodeSelector = map[string]string{model.LabelCapacityType: model.OnDemand}
		}
		specs = append(specs, spec)
	}
	s := model.Snapshot{Region: "us-east-1", Types: book.Types, Pools: []model.Pool{{Name: "any"}}}
	for i := range s.Types {
		s.Types[i].Offerings = inZones(s.Types[i].Offerings, book.Zones[:3])
	}
	for i := range n {
		spec := specs[rng.IntN(shapes)]
		if i < shapes {
			spec = specs[i]
		}
		s.Pods = append(s.Pods, model.Pod{Namespace: "default", Name: fmt.Sprint("pod-", i), Spec: spec})
	}
	return s
}

func inZones(offerings []model.Offering, zones []string) []model.Offering {
	var out []model.Offering
	for _, o := range offerings {
		for _, z := range zones {
			if o.Zone == z {
				out = append(out, o)
			}
		}
	}
	return out
}

// processorTime is what the process has used so far, user and system.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkSolve(b *testing.B) {
	for _, size := range []struct{ pods, shapes int }{{1000, 100}, {10000, 300}, {100000, 300}} {
		b.Run(fmt.Sprintf("pods=%d/shapes=%d", size.pods, size.shapes), func(b *testing.B) {
			s := fleet(b, size.pods, size.shapes)
			b.ReportAllocs()
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			cost, nodes, busy := 0.0, 0, processorTime()
			for b.Loop() {
				p, _ := Solve(s, Options{})
				cost, nodes = p.Cost, len(p.Launches)
			}
			busy = processorTime() - busy
			runtime.ReadMemStats(&after)
			b.ReportMetric(busy.Seconds()*1000/float64(b.N), "cpu-ms/op") // what a quiet machine would take, or less
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/(1<<20), "MiB/op")
			b.ReportMetric(cost, "$/h")
			b.ReportMetric(float64(nodes), "nodes")
		})
	}
}
