package solve

import (
	"cmp"
	"slices"

	"github.com/kerfdev/kerf/internal/knapsack"
	"github.com/kerfdev/kerf/internal/model"
)

// A press makes columns of one offer: nodes whose pods are worth more than they
// cost. It knows space, devices and zones; what else pods demand of each other
// is seen to when its answer is put on a node.
type press struct {
	p     *packer
	offer int
	items []int // by position
	most  []int
	at    []cells
	asks  []*deviceAsk // nil where devices are not shared
	large []int        // positions, those that take the most of devices first
	plain int          // from here on in large they need nothing but cpu and memory

	bin      *knapsack.Bin
	capacity []float64
	special  []bool // by dimension of the bin: only the items before plain need it

	value []float64
	order []int // positions by worth for size
	now   pressed
	was   pressed
}

// newPress prepares the filling of an offer.
func (p *packer) newPress(o int, counts []int) *press {
	of := &p.offers[o]
	k := &p.a.m.kinds[of.kind]
	s := &press{p: p, offer: o}
	var vecs [][]int64
	var specs []*model.PodSpec
	for i, n := range counts {
		it := &p.items[i]
		single := len(it.parts) == 1 && it.parts[0].n == 1
		if n == 0 || !of.fits.has(i) || !within(it.vec, of.alloc) || k.shared && !single {
			continue
		}
		spec := p.a.g.shapes[it.parts[0].shape].spec
		s.items, s.most, s.at = append(s.items, i), append(s.most, n), append(s.at, p.a.where(it, of.kind))
		vecs, specs = append(vecs, it.vec), append(specs, spec)
		if k.shared {
			s.asks = append(s.asks, k.chassis.ask(spec))
		}
	}
	s.value = make([]float64, len(s.items))
	p.a.steps += int64(len(s.items)) * 5
	s.sizes(vecs, specs)
	return s
}

// sizes makes the bin, and sorts the items by what they take of devices.
func (s *press) sizes(vecs [][]int64, specs []*model.PodSpec) {
	of := &s.p.offers[s.offer]
	weights, capacity := fractions(vecs, of.alloc, 0)
	for d, have := range of.alloc {
		if countable(vecs, d, have) {
			s.special = append(s.special, d > dimPods)
		}
	}
	if s.asks != nil {
		devices := s.p.a.m.kinds[of.kind].adv.Devices
		for _, rows := range s.p.shareWeights(devices) {
			capacity = append(capacity, float64(len(devices)))
			for k, i := range s.items {
				weights[k] = append(weights[k], rows[i])
			}
		}
	}
	for len(s.special) < len(capacity) {
		s.special = append(s.special, true)
	}
	s.bin, s.capacity = knapsack.New(weights, capacity, s.most), capacity
	isPlain := func(k int) bool {
		return deviceUse(specs[k]) == 0 && !slices.ContainsFunc(vecs[k][dimPods+1:], func(v int64) bool { return v > 0 })
	}
	for k := range s.items {
		s.order, s.large = append(s.order, k), append(s.large, k)
	}
	slices.SortStableFunc(s.large, func(x, y int) int {
		return cmp.Or(cmp.Compare(deviceUse(specs[y]), deviceUse(specs[x])), cmp.Compare(b2i(isPlain(x)), b2i(isPlain(y))))
	})
	for s.plain = len(s.large); s.plain > 0 && isPlain(s.large[s.plain-1]); {
		s.plain--
	}
}

// pressed is a node on the way.
type pressed struct {
	at    cells
	free  []int64
	rack  rack
	count []int // by position
	worth float64
}

func (s *press) clear() {
	of := &s.p.offers[s.offer]
	s.now.at, s.now.worth = of.cells, 0
	s.now.free = append(s.now.free[:0], of.alloc...)
	s.now.count = append(s.now.count[:0], make([]int, len(s.items))...)
	if s.asks != nil {
		s.now.rack.empty(s.p.a.m.kinds[of.kind].chassis)
	}
}

// put places up to n of the item at position k.
func (s *press) put(k, n int) {
	at := s.now.at & s.at[k]
	if at == 0 {
		return
	}
	vec := s.p.items[s.items[k]].vec
	n = times(vec, s.now.free, min(n, s.most[k]-s.now.count[k]))
	if n > 0 && s.asks != nil {
		done := 0
		for done < n && s.now.rack.put(s.asks[k]) {
			done++
		}
		n = done
	}
	if n <= 0 {
		return
	}
	s.now.at = at
	sub(s.now.free, vec, int64(n))
	s.now.count[k] += n
	s.now.worth += float64(n) * s.value[k]
}

// load builds the node that holds so many of each item, and tops it up.
func (s *press) load(count []int, last int) {
	s.clear()
	for _, k := range s.large {
		if count[k] > 0 {
			s.put(k, count[k])
		}
	}
	for _, k := range s.order {
		if k != last {
			s.put(k, s.most[k])
		}
	}
	if last >= 0 {
		s.put(last, s.most[last])
	}
}

// sort orders positions by worth for size at prices of the bin's dimensions.
func (s *press) sort(price []float64) {
	density := make([]float64, len(s.items))
	for k := range s.items {
		density[k] = s.value[k] / (s.bin.Price(k, price) + 1e-9)
	}
	slices.SortFunc(s.order, func(x, y int) int {
		return cmp.Or(cmp.Compare(density[y], density[x]), cmp.Compare(x, y))
	})
}

// swap takes one item at a time off the node and adds what else fits, as long
// as that makes it more valuable.
func (s *press) swap() {
	for improved := true; improved; {
		improved = false
		for _, k := range s.large {
			if s.now.count[k] == 0 {
				continue
			}
			s.now, s.was = s.was, s.now
			s.was.count[k]--
			s.load(s.was.count, k)
			s.was.count[k]++
			s.p.a.steps += int64(len(s.items)) / 16
			if s.now.worth > s.was.worth+1e-9 {
				improved = true
			} else {
				s.now, s.was = s.was, s.now
			}
		}
	}
}

// filling is the node as one of the offer.
func (s *press) filling() (f filling, worth float64) {
	p := s.p
	of := &p.offers[s.offer]
	n := p.bench.empty(of.kind, of.cells)
	for _, k := range s.large {
		if s.now.count[k] > 0 {
			worth += s.value[k] * float64(n.put(p.items, s.items[k], s.now.count[k]))
		}
	}
	if p.a.demandsChoice(of.kind) {
		worth -= p.loosen(n)
	}
	return n.filling(of.price), worth
}

// shareWeights are the dimensions that withDevices adds for devices like these,
// each by item.
func (p *packer) shareWeights(devices []model.Device) [][]float64 {
	shares := sameShares(devices)
	var out [][]float64
	for _, name := range shares.Names() {
		key := ask{name, shares[name]}
		if _, ok := p.weights[key]; !ok {
			p.weights[key] = p.weigh(key)
		}
		out = append(out, p.weights[key]...)
	}
	return out
}

func (p *packer) weigh(share ask) [][]float64 {
	specs, counts := make([]*model.PodSpec, len(p.items)), make([]int, len(p.items))
	for i := range p.items {
		specs[i], counts[i] = p.a.g.shapes[p.items[i].parts[0].shape].spec, p.items[i].count
	}
	var out [][]float64
	for _, f := range feasible(specs, counts, share.name, share.amount) {
		row := make([]float64, len(specs))
		for i, spec := range specs {
			row[i] = onDevices(spec, share.name, share.amount, f)
		}
		out = append(out, row)
	}
	return out
}
