package solve

import (
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// dims numbers the resources that some pod asks: cpu, memory and pods first,
// the rest by name. Resources that nobody asks decide nothing and are left out.
//
// Where pods ask for shares of devices there is one more: thousandths of the
// devices that are packed one by one, so that nodes whose devices are full look
// full. It is necessary, not sufficient: racks have the last word.
type dims struct {
	names   []string
	index   map[string]int
	devices int // dimension of the shared devices, -1 when nobody asks for shares
}

const wholeDevice = 1000

const (
	dimCPU = iota
	dimMemory
	dimPods
)

// plenty stands for an amount that never runs out and can still be added to.
const plenty = math.MaxInt64 / 4

func newDims(specs []*model.PodSpec) dims {
	d := dims{names: []string{model.CPU, model.Memory, model.Pods}, index: map[string]int{}, devices: -1}
	seen := map[string]bool{model.CPU: true, model.Memory: true, model.Pods: true}
	for _, spec := range specs {
		for name, v := range spec.Requests {
			if v > 0 && !seen[name] {
				seen[name] = true
				d.names = append(d.names, name)
			}
		}
	}
	slices.Sort(d.names[dimPods+1:])
	if slices.ContainsFunc(specs, func(s *model.PodSpec) bool { return len(s.Shares) > 0 }) {
		d.devices = len(d.names)
		d.names = append(d.names, "devices")
	}
	for i, name := range d.names {
		d.index[name] = i
	}
	return d
}

// vector writes r densely; what is not asked by anybody is dropped, and
// amounts below zero count as zero.
func (d dims) vector(r model.Resources) []int64 {
	out := make([]int64, len(d.names))
	for i, name := range d.names {
		out[i] = min(max(r[name], 0), plenty)
	}
	return out
}

// hold sets how many devices are packed one by one; where none are, the
// dimension does not count.
func (d dims) hold(v []int64, devices int, shared bool) {
	switch {
	case d.devices < 0:
	case shared:
		v[d.devices] = wholeDevice * int64(devices)
	default:
		v[d.devices] = plenty
	}
}

// deviceUse is what a pod takes of devices, in thousandths; of memory in MiB,
// whose part depends on the device, nothing is counted.
func deviceUse(spec *model.PodSpec) int64 {
	if len(spec.Shares) == 0 {
		return wholeDevice * spec.Requests[model.NvidiaGPU]
	}
	sum := int64(0)
	for _, s := range spec.Shares {
		part := max(s.PerDevice[model.ShareMilli], 10*s.PerDevice[model.SharePercent], 10*s.PerDevice[model.ShareCores])
		sum += s.Count * min(part, wholeDevice)
	}
	return sum
}

// within reports whether ask fits in have in every dimension.
func within(ask, have []int64) bool {
	for i, a := range ask {
		if a > have[i] && a > 0 {
			return false
		}
	}
	return true
}

// times returns how often ask fits in have, at most n.
func times(ask, have []int64, n int) int {
	for i, a := range ask {
		if a <= 0 {
			continue
		}
		if have[i] < a {
			return 0
		}
		if int64(n) > have[i]/a {
			n = int(have[i] / a)
		}
	}
	return n
}

// add adds n times b to a, in place, holding at plenty.
func add(a, b []int64, n int64) {
	for i, v := range b {
		if v != 0 {
			a[i] = min(a[i]+saturated(v, n), plenty)
		}
	}
}

// sub takes n times b from a, in place, holding at minus plenty.
func sub(a, b []int64, n int64) {
	for i, v := range b {
		if v != 0 {
			a[i] = max(a[i]-saturated(v, n), -plenty)
		}
	}
}

func saturated(v, n int64) int64 {
	if v > 0 && n > plenty/v {
		return plenty
	}
	return v * n
}
