package solve

import (
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// A ledger holds what each pool may still launch. Limits count the capacity of
// whole nodes, GPUs by the amount that they advertise.
type ledger struct {
	names [][]string // by pool: limited resources, sorted
	left  [][]int64  // by pool, then by name; below zero when exceeded already
	costs [][]int64  // by kind: what one node takes of its pool's names; nil when unlimited
}

func newLedger(m *market) *ledger {
	l := &ledger{names: make([][]string, len(m.pools)), left: make([][]int64, len(m.pools)), costs: make([][]int64, len(m.kinds))}
	byName := map[string]int{}
	for i := range m.pools {
		byName[m.pools[i].src.Name] = i
		l.names[i] = m.pools[i].src.Limits.Names()
		for _, name := range l.names[i] {
			l.left[i] = append(l.left[i], min(m.pools[i].src.Limits[name], plenty))
		}
	}
	types := map[string]*model.InstanceType{}
	for i := range m.snap.Types {
		types[m.snap.Types[i].Name] = &m.snap.Types[i]
	}
	for i := range m.snap.Nodes {
		n := &m.snap.Nodes[i]
		if p, ok := byName[n.Pool]; ok && !n.Leaving {
			sub(l.left[p], limited(nodeCapacity(n, types[n.Type]), l.names[p]), 1)
		}
	}
	for i := range m.kinds {
		k := &m.kinds[i]
		if names := l.names[k.pool]; len(names) > 0 {
			l.costs[i] = limited(launchCapacity(&m.snap.Types[k.typ], k), names)
		}
	}
	return l
}

func limited(capacity model.Resources, names []string) []int64 {
	out := make([]int64, len(names))
	for i, name := range names {
		out[i] = min(max(capacity[name], 0), plenty)
		if name == model.Nodes {
			out[i] = 1
		}
	}
	return out
}

// launchCapacity is what a new node of a kind counts against limits.
func launchCapacity(t *model.InstanceType, k *kind) model.Resources {
	if !k.gpu {
		return t.Capacity
	}
	return withGPUs(t.Capacity, k.adv.Resources)
}

// nodeCapacity is what a node that exists counts: its type's capacity where
// known, with devices as the node reports them.
func nodeCapacity(n *model.Node, t *model.InstanceType) model.Resources {
	if t == nil {
		return n.Allocatable
	}
	devices := model.Resources{}
	for name, v := range n.Allocatable {
		if extended(name) {
			devices[name] = v
		}
	}
	return withGPUs(t.Capacity, devices)
}

// room returns how many nodes of a kind its pool may still launch, at most n.
func (l *ledger) room(m *market, k, n int) int {
	left := l.left[m.kinds[k].pool]
	for i, c := range l.costs[k] {
		if c <= 0 {
			continue
		}
		if left[i] < c {
			return 0
		}
		n = int(min(int64(n), left[i]/c))
	}
	return n
}

func (l *ledger) take(m *market, k, n int) {
	sub(l.left[m.kinds[k].pool], l.costs[k], int64(n))
}

func (l *ledger) giveBack(m *market, k, n int) {
	add(l.left[m.kinds[k].pool], l.costs[k], int64(n))
}

func (l *ledger) clone() *ledger {
	out := &ledger{names: l.names, costs: l.costs, left: make([][]int64, len(l.left))}
	for i := range l.left {
		out.left[i] = slices.Clone(l.left[i])
	}
	return out
}
