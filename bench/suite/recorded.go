package suite

import "time"

// A record is a measurement of Karpenter v1.15.0 that is not repeated unless
// BENCH_FULL is set.
type record struct {
	Outcome
	day string
}

// recorded are Karpenter's figures on the large workloads, measured by this
// program (BENCH_FULL=1) on 2 CPUs of an AMD EPYC; CPU time is what compares.
var recorded = map[string]record{
	"diverse 5000":       took("2026-11-30", 1000, 1742.76, 80.0, 447),
	"diverse 10000":      took("2026-11-30", 2000, 3493.71, 142.0, 462),
	"gpu 5000 spot":      took("2026-11-30", 1300, 5061.55, 131.3, 487),
	"gpu 5000, no metal": took("2026-11-30", 1426, 17210.84, 131.9, 590),
}

func took(day string, nodes int, dollars, cpu, wall float64) record {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return record{day: day, Outcome: Outcome{Nodes: nodes, Dollars: dollars, CPU: seconds(cpu), Wall: seconds(wall)}}
}
