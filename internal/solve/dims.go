package solve

import (
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// dims numbers the resources that some pod asks: cpu, memory and pods first,
// the rest by name. Resources that nobody asks decide nothing and are left out.
type dims struct {
	names []string
	index map[string]int
}

const (
	dimCPU = iota
	dimMemory
	dimPods
)

// plenty stands for an amount that never runs out and can still be added to.
const plenty = math.MaxInt64 / 4

func newDims(specs []*model.PodSpec) dims {
	d := dims{names: []string{model.CPU, model.Memory, model.Pods}, index: map[string]int{}}
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

// resources writes v as a map without its zeros.
func (d dims) resources(v []int64) model.Resources {
	out := make(model.Resources, len(v))
	for i, name := range d.names {
		if v[i] != 0 {
			out[name] = v[i]
		}
	}
	return out
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
