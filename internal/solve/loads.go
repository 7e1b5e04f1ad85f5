package solve

import "math"

// A packing finds the most valuable nodes of an offer at given worths. Nodes
// whose devices are shared are filled in two storeys: first what one device may
// hold is listed, the best loads, and then the node is filled with loads and
// with pods that need no device.
type packing struct {
	loads  ladder // one device
	node   ladder
	loadOf []int   // by step of loads: position in the press
	of     [][]int // by step of node: positions in the press that it holds
	count  []int
	arena  []int64 // vectors of the steps
	held   []int   // what of points into
}

const (
	maxLoads  = 160 // loads of one device that a node is filled with
	maxNodes  = 4   // nodes kept of a search
	loadWidth = 4   // of the search for loads
)

// search fills the press's offer at prices of the dimensions of its bin; read
// returns what was found.
func (b *packing) search(s *press, price []float64, width int) {
	plain := make([]float64, len(price))
	b.node.total, b.node.special = 0, 0
	for d, y := range price {
		b.node.total += y * s.capacity[d]
		if s.special[d] {
			b.node.special += y * s.capacity[d]
		} else {
			plain[d] = y
		}
	}
	of := &s.p.offers[s.offer]
	b.node.capacity = append(b.node.capacity[:0], of.alloc...)
	b.node.steps, b.of, b.arena, b.held = b.node.steps[:0], b.of[:0], b.arena[:0], b.held[:0]
	b.node.width, b.node.keep = width, maxNodes
	first := 0
	if s.asks != nil {
		b.deviceSteps(s, plain)
		first = s.plain
		s.p.a.steps += int64(len(b.loads.states))
	}
	for _, k := range s.large[first:s.plain] {
		b.podStep(s, k, price, plain)
	}
	b.node.plain = len(b.node.steps)
	for _, k := range s.large[s.plain:] {
		b.podStep(s, k, price, plain)
	}
	b.node.climb(of.cells)
	s.p.a.steps += int64(len(b.node.states))
}

// podStep adds one pod of the item at position k.
func (b *packing) podStep(s *press, k int, price, plain []float64) {
	w := s.bin.Price(k, price)
	b.held = append(b.held, k)
	b.step(step{vec: s.p.items[s.items[k]].vec, at: s.at[k], most: s.most[k], value: s.value[k], weight: w, special: w - s.bin.Price(k, plain)}, len(b.held)-1)
}

// step adds a step that holds what b.held has from first on.
func (b *packing) step(st step, first int) {
	b.node.steps = append(b.node.steps, st)
	b.of = append(b.of, b.held[first:len(b.held):len(b.held)])
}

// vector is one of zeros; those handed out before stay where they are.
func (b *packing) vector(n int) []int64 {
	if len(b.arena)+n > cap(b.arena) {
		b.arena = make([]int64, 0, 2*cap(b.arena)+64*n)
	}
	at := len(b.arena)
	b.arena = b.arena[:at+n]
	clear(b.arena[at:])
	return b.arena[at:]
}

// deviceSteps adds as steps what goes on devices, and makes devices a dimension
// of the node, each worth as much as the best use of one.
func (b *packing) deviceSteps(s *press, plain []float64) {
	c := s.p.a.m.kinds[s.p.offers[s.offer].kind].chassis
	b.node.capacity = append(b.node.capacity, int64(len(c.devices)))
	b.listLoads(s, c, plain)
	b.loadSteps(s, plain)
	b.wideSteps(s, plain)
	best, last := 0.0, len(b.node.capacity)-1
	for i := range b.node.steps {
		st := &b.node.steps[i]
		best = math.Max(best, (st.value-st.weight)/float64(st.vec[last]))
	}
	for i := range b.node.steps {
		st := &b.node.steps[i]
		st.special = best * float64(st.vec[last])
		st.weight += st.special
	}
	b.node.total += best*float64(len(c.devices)) - b.node.special
	b.node.special = best * float64(len(c.devices))
}

// loadSteps adds the loads of one device.
func (b *packing) loadSteps(s *press, plain []float64) {
	last := len(b.node.capacity) - 1
	for _, id := range b.loads.best {
		next := step{at: b.loads.states[id].at, most: int(b.node.capacity[last]), vec: b.vector(last + 1)}
		first := len(b.held)
		b.loads.walk(id, func(i int) {
			k := b.loadOf[i]
			b.held = append(b.held, k)
			add(next.vec, s.p.items[s.items[k]].vec, 1)
			next.value += s.value[k]
			next.weight += s.bin.Price(k, plain)
			next.most = min(next.most, s.most[k])
		})
		next.vec[last] = 1
		b.step(next, first)
	}
}

// wideSteps adds the pods that take several devices.
func (b *packing) wideSteps(s *press, plain []float64) {
	last := len(b.node.capacity) - 1
	for _, k := range s.large[:s.plain] {
		n := int64(0)
		for _, w := range s.asks[k].whole {
			n += w.need
		}
		for i := range s.asks[k].parts {
			n += int64(s.asks[k].parts[i].count)
		}
		if n < 2 {
			continue
		}
		next := step{at: s.at[k], most: s.most[k], value: s.value[k], weight: s.bin.Price(k, plain), vec: b.vector(last + 1)}
		add(next.vec, s.p.items[s.items[k]].vec, 1)
		next.vec[last] = n
		b.held = append(b.held, k)
		b.step(next, len(b.held)-1)
	}
}

// listLoads searches for the best loads of one device of the chassis.
func (b *packing) listLoads(s *press, c *chassis, plain []float64) {
	names := len(c.names)
	b.loads.capacity = append(b.loads.capacity[:0], c.all[:names]...)
	b.loads.steps, b.loadOf = b.loads.steps[:0], b.loadOf[:0]
	b.loads.width, b.loads.keep, b.loads.total = loadWidth, min(24*b.node.width, maxLoads), 1e-9
	for _, k := range s.large[:s.plain] {
		a, worth := s.asks[k], s.value[k]-s.bin.Price(k, plain)
		var vec []int64
		switch {
		case worth <= 0:
			continue
		case len(a.parts) == 1 && a.parts[0].count == 1 && a.parts[0].backs[0] > 0:
			vec = a.parts[0].took[:names]
		case len(a.whole) == 1 && a.whole[0].need == 1:
			vec = c.all[:names]
		default:
			continue
		}
		size := dominant(vec, b.loads.capacity)
		b.loads.total = math.Max(b.loads.total, worth/math.Max(size, 1e-3))
		b.loads.steps = append(b.loads.steps, step{vec: vec, at: s.at[k], most: s.most[k], value: worth, weight: size})
		b.loadOf = append(b.loadOf, k)
	}
	for i := range b.loads.steps {
		b.loads.steps[i].weight *= b.loads.total
	}
	b.loads.plain = len(b.loads.steps)
	b.loads.climb(s.p.offers[s.offer].cells)
}

// read counts what the i-th best filling holds, by position in the press.
func (b *packing) read(i int, s *press) []int {
	b.count = append(b.count[:0], make([]int, len(s.items))...)
	b.node.walk(b.node.best[i], func(step int) {
		for _, k := range b.of[step] {
			b.count[k]++
		}
	})
	return b.count
}
