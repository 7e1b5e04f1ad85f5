package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// Devices that are packed one by one are more than one large device: two pods
// of 60 % need two. The relaxation learns that from dual feasible functions:
// functions f with f(x1) + ... + f(xn) <= 1 whenever x1 + ... + xn <= 1, so that
// f of all shares on n devices adds up to n at most.

// maxThresholds is how many of the threshold functions are used, those for the
// commonest sizes.
const maxThresholds = 8

// withDevices adds to the dimensions those of devices with shares: for each
// name of a share the shares themselves and functions of them.
func withDevices(weights [][]float64, capacity []float64, specs []*model.PodSpec, counts []int, devices []model.Device) ([][]float64, []float64) {
	shares := sameShares(devices)
	for _, name := range shares.Names() {
		for _, f := range feasible(specs, counts, name, shares[name]) {
			capacity = append(capacity, float64(len(devices)))
			for i, spec := range specs {
				weights[i] = append(weights[i], onDevices(spec, name, shares[name], f))
			}
		}
	}
	return weights, capacity
}

// sameShares returns what each device shares out, when all are alike.
func sameShares(devices []model.Device) model.Resources {
	for i := range devices {
		if !sameResources(devices[i].Shares, devices[0].Shares) {
			return nil
		}
	}
	if len(devices) == 0 {
		return nil
	}
	return devices[0].Shares
}

func sameResources(x, y model.Resources) bool {
	for name, v := range x {
		if y[name] != v {
			return false
		}
	}
	return len(x) == len(y)
}

// onDevices adds up f over the devices that a pod takes; whole ones count 1.
func onDevices(spec *model.PodSpec, name string, all int64, f func(float64) float64) float64 {
	sum := 0.0
	for _, s := range spec.Shares {
		sum += float64(s.Count) * f(math.Min(1, float64(s.PerDevice[name])/float64(all)))
	}
	if len(spec.Shares) == 0 {
		sum += float64(spec.Requests[model.NvidiaGPU])
	}
	return sum
}

// feasible lists dual feasible functions for the shares of one name: the
// identity, the roundings, and for the
// commonest sizes above a half the threshold that counts them whole and what
// fits beside them as nothing.
func feasible(specs []*model.PodSpec, counts []int, name string, all int64) []func(float64) float64 {
	out := append([]func(float64) float64{func(x float64) float64 { return x }}, rounding(4)...)
	for _, eps := range thresholds(specs, counts, name, all) {
		out = append(out, func(x float64) float64 {
			switch {
			case x > 1-eps:
				return 1
			case x < eps:
				return 0
			}
			return x
		})
	}
	return out
}

// rounding returns the functions that round shares to whole parts of a half, a
// third and so on, up to parts+1 of them (Fekete and Schepers 2001).
func rounding(parts int) []func(float64) float64 {
	var out []func(float64) float64
	for k := 1.0; k <= float64(parts); k++ {
		out = append(out, func(x float64) float64 {
			v := (k + 1) * x
			if r := math.Round(v); math.Abs(v-r) < 1e-9 {
				return x
			}
			return math.Floor(v) / k
		})
	}
	return out
}

// thresholds returns, for the commonest sizes above a half, a little more than
// what they leave free.
func thresholds(specs []*model.PodSpec, counts []int, name string, all int64) []float64 {
	seen := map[int64]int{}
	for i, spec := range specs {
		for _, s := range spec.Shares {
			if v := s.PerDevice[name]; 2*v > all && v < all {
				seen[v] += counts[i]
			}
		}
	}
	var sizes []int64
	for v := range seen {
		sizes = append(sizes, v)
	}
	slices.SortFunc(sizes, func(x, y int64) int { return cmp.Or(cmp.Compare(seen[y], seen[x]), cmp.Compare(x, y)) })
	var out []float64
	for _, v := range sizes[:min(len(sizes), maxThresholds)] {
		out = append(out, math.Min(0.5, 1-float64(v)/float64(all)+1e-7))
	}
	return out
}

// whole is the bound from nodes being whole: the exact cover where it is little
// enough, else what covering the units of one resource costs.
func (y *yard) whole() float64 {
	best := 0.0
	if !y.standing() {
		p := &packer{a: y.a, items: y.items, offers: y.offers, bench: y.a.newNode()}
		which, counts := make([]int, len(y.items)), make([]int, len(y.items))
		for i := range y.items {
			which[i], counts[i] = i, y.items[i].count
		}
		if _, cost, ok := p.exact(which, counts, math.Inf(1)); ok {
			return cost
		}
	}
	for d := range y.a.m.dims.names {
		if d >= dimPods {
			best = math.Max(best, y.units(d))
		}
	}
	return best
}

// standing reports whether a node that exists could take some of the items.
func (y *yard) standing() bool {
	return slices.ContainsFunc(y.bays, func(b bay) bool { return b.once })
}

// maxUnits bounds the table of units.
const maxUnits = 1 << 14

// units is the least price of nodes that together hold as many units of a
// countable resource as the items ask.
func (y *yard) units(d int) float64 {
	need := int64(0)
	for i := range y.items {
		need += y.items[i].vec[d] * int64(y.items[i].count)
	}
	type node struct {
		price float64
		holds int64
	}
	var nodes []node
	for b := range y.bays {
		bay := &y.bays[b]
		value := make([]float64, len(bay.items))
		for k, i := range bay.items {
			value[k] = float64(y.items[i].vec[d])
		}
		holds := int64(math.Floor(bay.bin.Relax(value).Bound + 1e-6))
		if bay.once {
			need -= holds
		} else if holds > 0 {
			nodes = append(nodes, node{bay.price, holds})
		}
	}
	if need <= 0 || need > maxUnits || len(nodes) == 0 {
		return 0
	}
	cost := make([]float64, need+1)
	for n := int64(1); n <= need; n++ {
		cost[n] = math.Inf(1)
		for _, k := range nodes {
			cost[n] = math.Min(cost[n], cost[max(0, n-k.holds)]+k.price)
		}
	}
	return cost[need]
}
