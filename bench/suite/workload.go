package suite

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/solve"
)

// A Workload is one input of the benchmark.
type Workload struct {
	Name    string
	About   string
	build   func() (model.Snapshot, error)
	options solve.Options
	rival   string // what Karpenter sees of it, by name
	long    bool   // Karpenter takes minutes
	picture bool   // stands in the picture
	modest  bool   // no bound is proven: the proof takes minutes
	again   bool   // the input of another workload with another budget
}

var workloads = list()

func list() []Workload {
	var out []Workload
	for _, n := range []int{1000, 5000, 10000} {
		out = append(out, Workload{
			Name: fmt.Sprintf("diverse %d", n), About: "Karpenter's own benchmark, 400 types", build: diverse(n), long: n > 1000, picture: n == 10000, modest: n > 1000,
		})
	}
	for _, n := range []int{1000, 5000} {
		out = append(out,
			Workload{Name: fmt.Sprintf("gpu %d spot", n), About: "1-8 GPUs a pod, spot and on demand", build: gpuMix(n, true, true), long: n > 1000, picture: n == 5000},
			Workload{Name: fmt.Sprintf("gpu %d spot, no metal", n), About: "the same without bare metal", build: gpuMix(n, true, false), long: n > 1000},
			Workload{Name: fmt.Sprintf("gpu %d", n), About: "the same on demand", build: gpuMix(n, false, true), long: n > 1000},
			Workload{Name: fmt.Sprintf("gpu %d, no metal", n), About: "the same on demand, without bare metal", build: gpuMix(n, false, false), long: n > 1000, picture: n == 5000},
		)
	}
	for i := range out {
		out[i].rival = out[i].Name
		if strings.HasPrefix(out[i].Name, "gpu ") {
			out[i].options.Steps = quickSteps
		}
	}
	for _, trace := range []string{"default", "gpushare40", "gpushare100", "multigpu50", "cpu250", "gpuspec33"} {
		for _, metal := range []bool{false, true} {
			out = append(out, traced(trace, metal)...)
		}
	}
	return out
}

// traced are a trace's workloads: with shares of GPUs and with whole ones.
// Karpenter sees whole ones either way.
func traced(trace string, metal bool) []Workload {
	suffix, about := "", "openb on AWS, no bare metal"
	if metal {
		suffix, about = ", metal", "openb on AWS with bare metal"
	}
	base := Workload{About: about, rival: "openb " + trace + suffix, long: metal || trace != "default", options: solve.Options{CPUOnGPU: true}}
	if trace != "default" {
		base.options.Steps = patientSteps // their goals allow 5 s
	}
	shared, whole := base, base
	shared.Name, shared.build = "openb "+trace+" shares"+suffix, openb(trace, true, metal)
	whole.Name, whole.build = "openb "+trace+" whole"+suffix, openb(trace, false, metal)
	shared.picture, whole.picture = !metal && trace != "gpuspec33", !metal && trace == "default"
	out := []Workload{shared, whole}
	if trace != "default" || metal {
		return out
	}
	for _, w := range []*Workload{&shared, &whole} {
		for _, b := range []struct {
			name  string
			steps int64
		}{{"first answer", quickSteps}, {"long search", patientSteps}} {
			more := *w
			more.Name, more.options.Steps, more.picture, more.again = w.Name+", "+b.name, b.steps, false, true
			out = append(out, more)
		}
	}
	return out
}

// Steps of a first answer and of a long search, beside the default: some
// milliseconds and some seconds.
const (
	quickSteps   = 40_000
	patientSteps = 8_000_000
)
