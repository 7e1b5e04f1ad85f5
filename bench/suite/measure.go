package suite

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/kerfdev/kerf/internal/rival"
	"github.com/kerfdev/kerf/internal/solve"
)

// A cost is what a run took.
type cost struct {
	CPU, Wall time.Duration
	MiB       float64 // most memory that the process held for Go meanwhile; 0 = not measured
}

// shortRuns are repeated until this much time has passed, and their mean counts.
const shortRuns = 300 * time.Millisecond

// kerf plans a Snapshot and measures it: once with an eye on memory, then on
// and on while it is short.
func kerf(s model.Snapshot, o solve.Options) (plan.Plan, cost) {
	runtime.GC()
	debug.FreeOSMemory()
	stop := watchMemory()
	cpu, start := rival.CPUTime(), time.Now()
	answer, _ := solve.Solve(s, o)
	first := cost{CPU: rival.CPUTime() - cpu, Wall: time.Since(start)}
	most := stop()
	if first.Wall > shortRuns {
		first.MiB = most
		return answer, first
	}
	runs := 0
	cpu, start = rival.CPUTime(), time.Now()
	for time.Since(start) < shortRuns {
		solve.Solve(s, o)
		runs++
	}
	n := time.Duration(runs)
	return answer, cost{CPU: (rival.CPUTime() - cpu) / n, Wall: time.Since(start) / n, MiB: most}
}

// watchMemory looks every two milliseconds at how much memory Go holds, and
// returns how to stop and learn the most in MiB.
func watchMemory() (stop func() float64) {
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		peak := held()
		for {
			select {
			case <-tick.C:
				peak = max(peak, held())
			case <-done:
				most <- max(peak, held())
				return
			}
		}
	}()
	return func() float64 {
		close(done)
		return float64(<-most) / float64(mi)
	}
}

// held is the memory that Go has from the system and has not given back.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
