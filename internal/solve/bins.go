package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// A bin is a node that exists, with what pending pods may still use of it.
type bin struct {
	free  []int64
	gpu   bool // it has GPUs and is kept for pods that ask for them
	rack  *rack
	host  *hostState
	takes []take
}

// newBins measures the nodes: allocatable, less the pods that stay, less the
// daemons that are to come.
func newBins(m *market, g *group, c *classifier) []bin {
	out := make([]bin, len(m.snap.Nodes))
	open := map[string]bool{}
	for i := range m.pools {
		open[m.pools[i].src.Name] = m.pools[i].src.CPUOnGPU
	}
	for i := range m.snap.Nodes {
		n := &m.snap.Nodes[i]
		b := &out[i]
		b.free = m.dims.vector(n.Allocatable)
		b.gpu = nodeHasGPU(n) && !open[n.Pool]
		shared := slices.ContainsFunc(n.Devices, func(d model.Device) bool { return len(d.Shares) > 0 })
		m.dims.hold(b.free, len(n.Devices), shared)
		if shared {
			b.rack = newRack(m.chassis(n.Devices))
			freeBacked(m.dims, b.free, n.Devices)
		}
		for _, s := range g.residents[i] {
			sub(b.free, g.shapes[s].vec, 1)
			if b.rack != nil {
				b.rack.place(g.shapes[s].spec)
			}
		}
		for d := range m.snap.DaemonSets {
			ds := &m.snap.DaemonSets[d]
			if g.daemons[i]["DaemonSet "+ds.Namespace+"/"+ds.Name] {
				continue
			}
			ask := m.dims.vector(ds.Spec.Requests)
			if c.class(ds.Spec, false).nodes.has(i) && !lacksDevice(m.dims, ask, m.dims.vector(n.Allocatable)) {
				sub(b.free, ask, 1)
			}
		}
	}
	return out
}

func nodeHasGPU(n *model.Node) bool {
	if len(n.Devices) > 0 {
		return true
	}
	for name, v := range n.Allocatable {
		if v > 0 && model.IsGPU(name) {
			return true
		}
	}
	return false
}

// fillBins puts items on nodes that exist and takes them from left. Items that
// nothing can be launched for come first, the more important before the
// others, then those that would cost the most. With gpus, pods without GPUs may
// go on GPU nodes too: it is asked when they have nowhere else to go.
func (a *attempt) fillBins(items []item, left []int, worth []float64, gpus bool) {
	order := a.urgency(items, left, worth)
	for n := range a.bins {
		for _, i := range order {
			if left[i] == 0 || !a.mayUse(&items[i], n, worth[i], gpus) {
				continue
			}
			if k := a.putInBin(items, i, n, left[i]); k > 0 {
				left[i] -= k
			}
		}
		a.steps += int64(len(order))
	}
}

// urgency orders the items that are left: stranded ones first, by priority,
// then by the largest part that they take of a node; the others by their worth.
func (a *attempt) urgency(items []item, left []int, worth []float64) []int {
	var order []int
	bulk := make([]float64, len(items))
	for i := range items {
		if left[i] == 0 {
			continue
		}
		order = append(order, i)
		for n := range a.bins {
			if worth[i] == 0 {
				bulk[i] = max(bulk[i], dominant(items[i].vec, a.bins[n].free))
			}
		}
	}
	slices.SortStableFunc(order, func(x, y int) int {
		if stranded := worth[x] == 0; stranded != (worth[y] == 0) {
			return 1 - 2*b2i(stranded)
		} else if stranded {
			return cmp.Or(cmp.Compare(a.priority(&items[y]), a.priority(&items[x])), cmp.Compare(bulk[y], bulk[x]))
		}
		return cmp.Compare(worth[y], worth[x])
	})
	return order
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mayUse reports whether an item may go on a node at all. Pods without GPUs
// are kept off GPU nodes while they have another place.
func (a *attempt) mayUse(it *item, n int, worth float64, gpus bool) bool {
	if !a.onNode(it, n) {
		return false
	}
	if a.bins[n].gpu && !gpus && !a.opts.CPUOnGPU && !a.wantsGPU(it) {
		return false
	}
	for _, p := range it.parts {
		if exceeds(a.g.shapes[p.shape].asks, a.m.snap.Nodes[n].Limits) {
			return false
		}
	}
	return true
}

func (a *attempt) putInBin(items []item, i, n, limit int) int {
	b := &a.bins[n]
	it := &items[i]
	k := times(it.vec, b.free, limit)
	if k > 0 && a.hosts != nil {
		k = a.hosts.room(b.host, i, k)
	}
	if k == 0 {
		return 0
	}
	if b.rack != nil || a.hasShares(it) {
		if b.rack == nil {
			return 0
		}
		nd := node{a: a, rack: b.rack}
		k = nd.rackPut(it, k)
		b.rack = nd.rack
		if k == 0 {
			return 0
		}
	}
	sub(b.free, it.vec, int64(k))
	if a.hosts != nil {
		a.hosts.take(b.host, i, k)
	}
	b.takes = append(b.takes, take{i, k})
	return k
}

func (a *attempt) hasShares(it *item) bool {
	for _, p := range it.parts {
		if len(a.g.shapes[p.shape].spec.Shares) > 0 {
			return true
		}
	}
	return false
}

// launchWorth is a first estimate of what launching for one of each item
// costs; 0 where nothing can be launched for it.
func (a *attempt) launchWorth(items []item) []float64 {
	out := make([]float64, len(items))
	for i := range items {
		it := &items[i]
		if it.count == 0 {
			continue
		}
		best := math.Inf(1)
		for k := range a.m.kinds {
			if at := a.where(it, k); at != 0 {
				if p, _, ok := a.m.kinds[k].cheapest(at, a.m.cells); ok {
					best = min(best, max(p*dominant(it.vec, a.m.kinds[k].alloc), 1e-9))
				}
			}
		}
		if !math.IsInf(best, 1) {
			out[i] = best
		}
	}
	return out
}
