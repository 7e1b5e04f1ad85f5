package solve

import (
	"math"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// hosts is what the pods of one node forbid or demand of each other:
// anti-affinity and spread by host, host ports, affinity by host.
type hosts struct {
	blocks  []set        // by item: items that cannot be on a node with it; nil = none
	counts  [][]hostSlot // by item: crowds that one of it adds to
	limits  [][]hostSlot // by item: crowds that it wants no larger than n
	near    [][]int      // by item: crowds of which a node must hold one
	slots   map[int]int  // crowd to index in hostState.count
	touches set          // items for which any of this matters
}

// A hostSlot is an amount in one crowd's slot.
type hostSlot struct{ slot, n int }

// A hostState is what one node holds so far.
type hostState struct {
	present   set // items
	forbidden set // items that what was there before keeps out; may be nil
	count     []int
	limit     []int
}

// newHosts returns nil when no rule by host concerns the items.
func (a *attempt) newHosts(items []item) *hosts {
	h := &hosts{
		blocks: make([]set, len(items)), counts: make([][]hostSlot, len(items)), limits: make([][]hostSlot, len(items)),
		near: make([][]int, len(items)), slots: map[int]int{}, touches: newSet(len(items)),
	}
	for c := range a.topo.crowds {
		if a.topo.crowds[c].key == model.LabelHostname {
			h.slots[c] = len(h.slots)
		}
	}
	for i := range items {
		a.hostCounts(h, items, i)
	}
	var touchy []int
	for i := range items {
		if a.touchy(&items[i]) {
			touchy = append(touchy, i)
		}
	}
	for _, i := range touchy {
		for _, j := range touchy {
			if a.clashing(&items[i], &items[j]) {
				h.block(i, j, len(items))
			}
		}
	}
	if h.touches.empty() {
		return nil
	}
	return h
}

func (h *hosts) block(i, j, n int) {
	if h.blocks[i] == nil {
		h.blocks[i] = newSet(n)
	}
	h.blocks[i].add(j)
	h.touches.add(i)
}

func (a *attempt) hostCounts(h *hosts, items []item, i int) {
	it := &items[i]
	inside := map[int]int{}
	for _, p := range it.parts {
		for _, c := range a.topo.in[p.shape] {
			if _, ok := h.slots[c]; ok {
				inside[c] += p.n
			}
		}
	}
	for c := range a.topo.crowds {
		if n := inside[c]; n > 0 {
			h.counts[i] = append(h.counts[i], hostSlot{h.slots[c], n})
			h.touches.add(i)
		}
	}
	for _, p := range it.parts {
		for _, r := range a.topo.rules[p.shape] {
			slot, ok := h.slots[r.crowd]
			switch {
			case !ok:
			case r.relation == spread:
				h.limits[i] = append(h.limits[i], hostSlot{slot, r.maxSkew})
				h.touches.add(i)
			case r.relation == near && inside[r.crowd]-selfCount(r) <= 0 && it.byHand:
				h.near[i] = append(h.near[i], slot)
				h.touches.add(i)
			}
		}
	}
}

// selfCount is 1 where a pod alone does not make its own company.
func selfCount(r rule) int {
	if r.self {
		return 1
	}
	return 0
}

// touchy reports whether an item has host ports, or rules or admirers that keep apart.
func (a *attempt) touchy(it *item) bool {
	for _, p := range it.parts {
		if len(a.g.shapes[p.shape].spec.HostPorts) > 0 {
			return true
		}
		for _, r := range a.topo.rules[p.shape] {
			if r.relation == apart && a.topo.crowds[r.crowd].key == model.LabelHostname {
				return true
			}
		}
		for _, c := range a.topo.in[p.shape] {
			if a.topo.crowds[c].key == model.LabelHostname {
				return true
			}
		}
	}
	return false
}

func (a *attempt) clashing(x, y *item) bool {
	for _, p := range x.parts {
		for _, q := range y.parts {
			if a.clash(p.shape, q.shape) {
				return true
			}
		}
	}
	return false
}

// clash reports whether pods of two shapes cannot share a node.
func (a *attempt) clash(s, t int) bool {
	return a.shuns(s, t) || a.shuns(t, s) || constraint.PortsConflict(a.g.shapes[s].spec.HostPorts, a.g.shapes[t].spec.HostPorts)
}

func (a *attempt) shuns(s, t int) bool {
	for _, r := range a.topo.rules[s] {
		if r.relation == apart && a.topo.crowds[r.crowd].key == model.LabelHostname && a.topo.crowds[r.crowd].members[t] {
			return true
		}
	}
	return false
}

func (h *hosts) state() *hostState {
	st := &hostState{present: newSet(len(h.blocks)), count: make([]int, len(h.slots)), limit: make([]int, len(h.slots))}
	st.clear()
	return st
}

// clear makes the state that of a node without pods.
func (st *hostState) clear() {
	clear(st.present)
	clear(st.count)
	for i := range st.limit {
		st.limit[i] = math.MaxInt
	}
}

// room returns how many of an item, at most n, the pods of a node allow.
func (h *hosts) room(st *hostState, i, n int) int {
	if !h.touches.has(i) {
		return n
	}
	if st.forbidden != nil && st.forbidden.has(i) {
		return 0
	}
	if b := h.blocks[i]; b != nil {
		if b.meets(st.present) {
			return 0
		}
		if b.has(i) {
			n = min(n, 1)
		}
	}
	for _, slot := range h.near[i] {
		if st.count[slot] == 0 {
			return 0
		}
	}
	for _, l := range h.limits[i] {
		n = h.below(st, i, l.slot, l.n, n)
	}
	for _, c := range h.counts[i] {
		n = h.below(st, i, c.slot, st.limit[c.slot], n)
	}
	return n
}

// below returns how many of an item, at most n, keep a slot at or below limit.
func (h *hosts) below(st *hostState, i, slot, limit, n int) int {
	if st.count[slot] > limit {
		return 0
	}
	for _, c := range h.counts[i] {
		if c.slot == slot {
			n = min(n, (limit-st.count[slot])/c.n)
		}
	}
	return n
}

func (h *hosts) take(st *hostState, i, n int) {
	if !h.touches.has(i) {
		return
	}
	st.present.add(i)
	for _, c := range h.counts[i] {
		st.count[c.slot] += c.n * n
	}
	for _, l := range h.limits[i] {
		st.limit[l.slot] = min(st.limit[l.slot], l.n)
	}
}

// onHost is the state of a node that exists, from the pods that stay there.
func (a *attempt) onHost(h *hosts, n int, items []item) *hostState {
	st := h.state()
	st.forbidden = newSet(len(items))
	for _, s := range a.g.residents[n] {
		for _, c := range a.topo.in[s] {
			if slot, ok := h.slots[c]; ok {
				st.count[slot]++
			}
		}
		h.touches.each(func(i int) {
			for _, p := range items[i].parts {
				if a.clash(s, p.shape) {
					st.forbidden.add(i)
				}
			}
		})
	}
	return st
}
