package solve

import "math"

// An item is what packing moves: a pod of a shape, kept to a domain where the
// shape is spread or drawn to other pods, or several pods that must share a
// node.
type item struct {
	parts []part
	count int
	vec   []int64
	dom   *domain // nil = anywhere
	// byHand items depend on which pods a node holds already: they need one
	// of a group there.
	byHand bool
}

// A part is n pods of one shape.
type part struct {
	shape int
	n     int
}

func (a *attempt) newItem(shape, count int, dom *domain) item {
	return item{parts: []part{{shape, 1}}, count: count, vec: a.g.shapes[shape].vec, dom: dom}
}

// where returns the cells of kind k in which an item may run; 0 if it does not fit.
func (a *attempt) where(it *item, k int) cells {
	out := ^cells(0)
	for _, p := range it.parts {
		if !a.fits[p.shape].has(k) {
			return 0
		}
		out &= a.classes[p.shape].where[k]
	}
	if it.dom != nil {
		out &= it.dom.cellsOf(k)
	}
	if len(it.parts) > 1 && !within(it.vec, a.m.kinds[k].alloc) {
		return 0
	}
	return out
}

// onNode reports whether an item may run on a node that exists, free space apart.
func (a *attempt) onNode(it *item, n int) bool {
	for _, p := range it.parts {
		if !a.classes[p.shape].nodes.has(n) {
			return false
		}
	}
	return it.dom == nil || it.dom.nodes.has(n)
}

func (a *attempt) wantsGPU(it *item) bool {
	for _, p := range it.parts {
		if a.g.shapes[p.shape].gpu {
			return true
		}
	}
	return false
}

func (a *attempt) priority(it *item) int32 {
	out := int32(math.MinInt32)
	for _, p := range it.parts {
		out = max(out, a.g.shapes[p.shape].spec.Priority)
	}
	return out
}

// dominant is the largest share that ask takes of have in any dimension.
func dominant(ask, have []int64) float64 {
	out := 0.0
	for i, v := range ask {
		if v > 0 && have[i] > 0 {
			out = max(out, float64(v)/float64(have[i]))
		}
	}
	return out
}
