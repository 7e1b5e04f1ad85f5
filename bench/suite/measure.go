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
	Proof     time.Duration // CPU time of the bound
	MiB       float64       // most memory that the process held for Go meanwhile
}

// shortRuns are repeated until this much time has passed, and their mean counts.
const shortRuns = 300 * time.Millisecond

// proveSteps limit the search for a bound, to a few seconds.
const proveSteps = 10_000_000

// kerf plans a Snapshot without and, for so many steps, with a bound. The plans
// are the same; what the second takes longer is the proof's.
func kerf(s model.Snapshot, o solve.Options, prove int64) (plan.Plan, cost) {
	runtime.GC()
	debug.FreeOSMemory()
	stop := watchMemory()
	var out cost
	cpu, start := rival.CPUTime(), time.Now()
	answer, _ := solve.Solve(s, o)
	out.CPU, out.Wall = rival.CPUTime()-cpu, time.Since(start)
	if prove > 0 {
		proving := o
		proving.Prove = prove
		cpu = rival.CPUTime()
		answer, _ = solve.Solve(s, proving)
		out.Proof = max(0, rival.CPUTime()-cpu-out.CPU)
	}
	out.MiB = stop()
	if out.Wall < shortRuns {
		out.CPU, out.Wall = mean(s, o)
	}
	return answer, out
}

// mean plans on and on and returns what one plan takes.
func mean(s model.Snapshot, o solve.Options) (cpu, wall time.Duration) {
	runs := time.Duration(0)
	before, start := rival.CPUTime(), time.Now()
	for time.Since(start) < shortRuns {
		solve.Solve(s, o)
		runs++
	}
	return (rival.CPUTime() - before) / runs, time.Since(start) / runs
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
