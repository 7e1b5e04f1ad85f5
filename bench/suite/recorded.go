package suite

import "time"

// A record is a measurement of Karpenter v1.15.0 that is not repeated unless
// BENCH_FULL is set.
type record struct {
	Outcome
	day string
}

// recorded are Karpenter's figures on the large workloads, measured by this
// program with BENCH_FULL=1 on 2 CPUs of an AMD EPYC that did other work too:
// wall times are several times too long, CPU times perhaps a third.
var recorded = map[string]record{
	"diverse 5000":             took("2026-11-30", 1000, 1750.00, 12.917, 26.1),
	"diverse 10000":            took("2026-11-30", 2000, 3487.73, 49.371, 99.0),
	"gpu 5000 spot":            took("2026-11-30", 1300, 5061.55, 72.317, 180),
	"gpu 5000 spot, no metal":  took("2026-11-30", 1426, 6886.10, 69.154, 157),
	"gpu 5000":                 took("2026-11-30", 1300, 12809.41, 64.075, 163),
	"gpu 5000, no metal":       took("2026-11-30", 1426, 17210.84, 67.789, 216),
	"openb default, metal":     took("2026-11-30", 948, 11133.77, 27.765, 93.1),
	"openb gpushare40":         took("2026-11-30", 947, 13278.28, 21.670, 63.3),
	"openb gpushare40, metal":  took("2026-11-30", 947, 10642.18, 20.207, 36.6),
	"openb gpushare100":        took("2026-11-30", 930, 12736.41, 16.835, 35.1),
	"openb gpushare100, metal": took("2026-11-30", 930, 8851.35, 17.557, 49.6),
	"openb multigpu50":         took("2026-11-30", 1589, 21908.69, 125.485, 299),
	"openb multigpu50, metal":  took("2026-11-30", 1589, 18736.54, 137.201, 288),
	"openb cpu250":             took("2026-11-30", 1001, 14508.53, 21.540, 24.3),
	"openb cpu250, metal":      took("2026-11-30", 1001, 12226.13, 24.934, 41.7),
	"openb gpuspec33":          took("2026-11-30", 1387, 17193.40, 44.525, 64.2).without(2),
	"openb gpuspec33, metal":   took("2026-11-30", 993, 16455.46, 18.450, 22.7).without(2),
}

func took(day string, nodes int, dollars, cpu, wall float64) record {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return record{day: day, Outcome: Outcome{Nodes: nodes, Dollars: dollars, CPU: seconds(cpu), Wall: seconds(wall)}}
}

// without notes pods that were not placed.
func (r record) without(pods int) record {
	r.Unplaced = pods
	return r
}
