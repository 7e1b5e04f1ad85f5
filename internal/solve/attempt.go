package solve

import (
	"iter"
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// An attempt is one try at a plan, with some preferences taken as demands.
type attempt struct {
	opts       Options
	m          *market
	g          *group
	classifier *classifier
	specs      []*model.PodSpec // by shape, with the preferences of this attempt
	classes    []*class         // by shape
	fits       []set            // by shape: kinds
	topo       *topology
	hosts      *hosts
	bins       []bin
	ledger     *ledger
	caps       map[capKey]int
	stuck      []stuck
	steps      int64
	budget     int64
	loose      bool  // minValues do not count
	spare      *node // what repacks fills
	trials     int   // changed pools tried for remedies

	items    []item
	launches []filling
	paid     []float64 // by item: worth of one when its tier was bought
	left     []int     // by item
	cost     float64
}

// A capKey names a domain of a shape, for which less room was found than the
// split had counted on.
type capKey struct {
	shape  int
	domain string
}

// stuck is n pods of a shape that a rule keeps out everywhere.
type stuck struct {
	shape int
	n     int
	why   model.Verdict
}

// maxSplits is how often shapes are split anew when a domain turned out to
// have too little room.
const maxSplits = 4

func (w *world) attempt(specs []*model.PodSpec, strict []bool) *attempt {
	a := &attempt{opts: w.opts, m: w.market, g: &w.group, classifier: w.classifier, specs: specs, caps: map[capKey]int{}, budget: w.opts.Steps}
	a.topo = newTopology(a.g, specs)
	a.classes = make([]*class, len(specs))
	a.fits = make([]set, len(specs))
	for s := range specs {
		if len(a.g.shapes[s].pods) > 0 {
			a.classes[s] = a.classifier.class(specs[s], strict[s])
			a.fits[s] = a.fitKinds(s)
		}
	}
	for range maxSplits {
		a.run()
		if !a.overfull() {
			break
		}
	}
	return a
}

// run splits, fills what exists and buys the rest.
func (a *attempt) run() {
	a.stuck, a.launches, a.cost = nil, nil, 0
	a.ledger = newLedger(a.m)
	a.bins = newBins(a.m, a.g, a.classifier)
	a.items = a.bundle(a.split())
	a.hosts = a.newHosts(a.items)
	a.left = make([]int, len(a.items))
	a.paid = make([]float64, len(a.items))
	for i := range a.items {
		a.left[i] = a.items[i].count
	}
	var worth []float64
	if len(a.bins) > 0 {
		worth = a.launchWorth(a.items)
		for n := range a.bins {
			if a.hosts != nil {
				a.bins[n].host = a.onHost(a.hosts, n, a.items)
			}
		}
		a.fillBins(a.items, a.left, worth, false)
	}
	a.buy()
	if len(a.bins) > 0 {
		a.fillBins(a.items, a.left, worth, true)
	}
}

// buy launches nodes, the heaviest pools first.
func (a *attempt) buy() {
	for tier := range a.tiers() {
		if slices.ContainsFunc(a.left, func(n int) bool { return n > 0 }) {
			a.buyTier(tier)
		}
	}
}

// tiers is the number of different weights that pools have.
func (a *attempt) tiers() int {
	out := 0
	for i := range a.m.pools {
		out = max(out, a.m.pools[i].tier+1)
	}
	return out
}

func (a *attempt) buyTier(tier int) {
	open := slices.Clone(a.items)
	for i := range open {
		open[i].count = a.left[i]
	}
	all := a.offersOf(tier, open)
	if len(all) == 0 {
		return
	}
	p := a.newPacker(undominated(all, a.beats))
	c := p.rounds(a.left)
	if p.short(c.left) {
		c = p.scarce(c, all)
	}
	c = p.choose(c, a.left)
	for i, n := range a.left {
		if n > c.left[i] {
			a.paid[i] = p.worth[i]
		}
	}
	p.improve(&c)
	for i := range c.nodes {
		a.ledger.take(a.m, c.nodes[i].kind, c.nodes[i].copies)
	}
	a.left = c.left
	a.launches = append(a.launches, c.nodes...)
	a.cost += c.cost
}

// worths returns by shape what one pod of it was worth where it was launched for.
func (a *attempt) worths() []float64 {
	out := make([]float64, len(a.g.shapes))
	for i := range a.items {
		pods := 0
		for _, p := range a.items[i].parts {
			pods += p.n
		}
		for _, p := range a.items[i].parts {
			out[p.shape] = max(out[p.shape], a.paid[i]/float64(pods))
		}
	}
	return out
}

// compareLeft compares what two covers leave: the one that leaves fewer of the
// most important pods is less.
func (a *attempt) compareLeft(items []item, x, y []int) int {
	worst, by := int32(math.MinInt32), 0
	for i := range items {
		if x[i] == y[i] {
			continue
		}
		n := 0
		for _, p := range items[i].parts {
			n += p.n
		}
		switch pr := a.priority(&items[i]); {
		case pr > worst:
			worst, by = pr, (x[i]-y[i])*n
		case pr == worst:
			by += (x[i] - y[i]) * n
		}
	}
	return by
}

// overfull looks for domains in which pods were left over although the split
// had given them a place there, and caps them for the next try.
func (a *attempt) overfull() bool {
	found := false
	for i := range a.items {
		it := &a.items[i]
		if a.left[i] == 0 || it.dom == nil || len(it.parts) != 1 || len(a.topo.rules[it.parts[0].shape]) == 0 {
			continue
		}
		key := capKey{it.parts[0].shape, it.dom.name}
		limit := it.count - a.left[i]
		if old, ok := a.caps[key]; !ok || limit < old {
			a.caps[key] = limit
			found = true
		}
	}
	return found
}

// flexibility of pools with minValues.

// demandsChoice reports whether a kind's pool has minValues that count.
func (a *attempt) demandsChoice(k int) bool {
	return !a.loose && len(a.m.pools[a.m.kinds[k].pool].set.Demanding()) > 0
}

// flexible reports whether enough of a pool's types hold the same pods for its
// minValues (Karpenter 1.15, policy Strict).
func (a *attempt) flexible(k int, at cells, items []item, takes []take) bool {
	set := a.m.pools[a.m.kinds[k].pool].set
	enough := func(kinds []int) bool {
		_, _, _, ok := set.Flexible(func(key string) []string { return a.valuesAmong(kinds, at, key) })
		return ok
	}
	var holding []int
	ask := 8 // look at the values now and then, not at every step
	for o := range a.holders(k, at, items, takes, math.Inf(1)) {
		if holding = append(holding, o); len(holding) == ask {
			if enough(holding) {
				return true
			}
			ask *= 4
		}
	}
	return enough(holding)
}

// valuesAmong lists the values of a label over kinds and the cells.
func (a *attempt) valuesAmong(kinds []int, at cells, key string) []string {
	var out []string
	for _, k := range kinds {
		kd := &a.m.kinds[k]
		switch key {
		case model.LabelZone, model.LabelCapacityType:
			for i, c := range a.m.cells {
				if (kd.cells&at)&(1<<i) == 0 {
					continue
				}
				if key == model.LabelZone {
					out = append(out, c.zone)
				} else {
					out = append(out, c.capacityType)
				}
			}
		default:
			if v, ok := a.m.label(kd, key); ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// holders yields the kinds of k's pool, with its labels, that hold the same
// pods in one of the cells at no more than a price; k is among them.
func (a *attempt) holders(k int, at cells, items []item, takes []take, most float64) iter.Seq[int] {
	need := make([]int64, len(a.m.dims.names))
	for _, t := range takes {
		add(need, items[t.item].vec, int64(t.n))
	}
	return func(yield func(int) bool) {
		kd := &a.m.kinds[k]
		for o := range a.m.kinds {
			od := &a.m.kinds[o]
			if od.pool != kd.pool || od.variant != kd.variant || od.cells&at == 0 || !within(need, od.alloc) {
				continue
			}
			if price, _, _ := od.cheapest(at, a.m.cells); price > most {
				continue
			}
			where := at
			for _, t := range takes {
				where &= a.where(&items[t.item], o)
			}
			if where != 0 && (o == k || !od.shared || a.repacks(o, where, items, takes)) && !yield(o) {
				return
			}
		}
	}
}

// repacks reports whether the devices of another kind hold the same pods.
func (a *attempt) repacks(o int, at cells, items []item, takes []take) bool {
	if a.spare == nil {
		a.spare = &node{a: a, free: make([]int64, len(a.m.dims.names))}
	}
	n := a.spare.empty(o, at)
	for _, t := range takes {
		if n.put(items, t.item, t.n) < t.n {
			return false
		}
	}
	return true
}
