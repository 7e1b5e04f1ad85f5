package solve

import (
	"math"
	"slices"

	"github.com/kerfdev/kerf/internal/knapsack"
	"github.com/kerfdev/kerf/internal/lp"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// bound returns a price, in $/h, that no plan that places the pods that p
// places can go below, whatever it launches. It is never above p.Cost.
//
// It comes from weak duality. Every pod is given a worth; a node of an offer
// can hold pods worth at most as much as the linear relaxation of filling it
// says (dimension by dimension, and by dual feasible functions of cpu, memory
// and the shares of GPUs); if that is never more than the node's price, the
// worth of all pods together is a bound. The worths are the duals of the
// fractional covering problem over such relaxed nodes, found by column
// generation as far as Options.Prove steps allow, from those that the search for
// the plan ended with. Where a few pods can be covered exactly, or counting
// nodes says more than fractions do, the bound is raised to that.
//
// Selectors, affinity to nodes, taints, volumes, daemonsets, what GPUs
// advertise, largest requests, existing nodes (filled once each, at no cost)
// and the rule that keeps pods without GPUs off GPU nodes are counted. Left out,
// so that the true optimum may lie higher: topology spread, affinity between
// pods, host ports, limits and weights of pools, minValues, and that pods are
// not divisible between nodes.
func (w *world) bound(p plan.Plan, worth []float64) float64 {
	if len(p.Launches) == 0 {
		return 0
	}
	y := w.newYard(placed(&w.group, p))
	bound := y.climb(p, worth, w.opts.Prove, p.Cost)
	if bound < p.Cost {
		bound = math.Max(bound, y.whole())
	}
	return math.Min(bound, p.Cost)
}

// placed counts by shape the pending pods that a plan places.
func placed(g *group, p plan.Plan) []int {
	on := map[int]bool{}
	for i := range p.Launches {
		for _, pod := range p.Launches[i].Pods {
			on[pod] = true
		}
	}
	for i := range p.Binds {
		for _, pod := range p.Binds[i].Pods {
			on[pod] = true
		}
	}
	out := make([]int, len(g.shapes))
	for s := range g.shapes {
		for _, pod := range g.shapes[s].pods {
			if on[pod] {
				out[s]++
			}
		}
	}
	return out
}

// A yard is the covering problem without what couples nodes: every item may go
// on every node that admits it.
type yard struct {
	a      *attempt
	items  []item
	offers []offer
	bays   []bay // offers, then nodes that exist
}

// A bay is a place to fill: an offer at its price, any number of times, or a
// node that exists, once and for nothing.
type bay struct {
	price float64
	once  bool  // a node that exists
	items []int // that fit, by position in bin
	bin   *knapsack.Bin
}

func (w *world) newYard(counts []int) *yard {
	a := &attempt{opts: w.opts, m: w.market, g: &w.group, classifier: w.classifier, budget: w.opts.Steps, loose: true}
	a.specs = make([]*model.PodSpec, len(counts))
	a.classes = make([]*class, len(counts))
	a.fits = make([]set, len(counts))
	y := &yard{a: a}
	for s, n := range counts {
		a.specs[s] = w.group.shapes[s].spec
		if n > 0 {
			a.classes[s] = a.classifier.class(a.specs[s], false)
			a.fits[s] = a.fitKinds(s)
			y.items = append(y.items, a.newItem(s, n, nil))
		}
	}
	var all []offer
	for tier := range a.tiers() {
		all = append(all, a.offersOf(tier, y.items)...)
	}
	y.offers = undominated(all, a.noWorse)
	for i := range y.offers {
		y.addOffer(&y.offers[i])
	}
	a.bins = newBins(a.m, a.g, a.classifier)
	for n := range a.bins {
		y.addNode(n)
	}
	return y
}

func (y *yard) addOffer(o *offer) {
	k := &y.a.m.kinds[o.kind]
	var devices []model.Device
	if k.shared {
		devices = k.adv.Devices
	}
	y.add(bay{price: o.price}, o.alloc, devices, o.fits.has)
}

func (y *yard) addNode(n int) {
	b := &y.a.bins[n]
	var devices []model.Device
	if b.rack != nil {
		devices = y.a.m.snap.Nodes[n].Devices
	}
	y.add(bay{once: true}, b.free, devices, func(i int) bool {
		return y.a.mayUse(&y.items[i], n, 0, true)
	})
}

func (y *yard) add(b bay, free []int64, devices []model.Device, admits func(item int) bool) {
	var vecs [][]int64
	var specs []*model.PodSpec
	var most []int
	for i := range y.items {
		if it := &y.items[i]; admits(i) && within(it.vec, free) {
			b.items = append(b.items, i)
			vecs = append(vecs, it.vec)
			specs = append(specs, y.a.g.shapes[it.parts[0].shape].spec)
			most = append(most, it.count)
		}
	}
	if len(b.items) == 0 {
		return
	}
	weights, capacity := fractions(vecs, free, boundParts)
	weights, capacity = withDevices(weights, capacity, specs, most, devices)
	b.bin = knapsack.New(weights, capacity, most)
	y.bays = append(y.bays, b)
}

// boundParts is up to how many parts cpu and memory are rounded to.
const boundParts = 3

// fractions writes requests as parts of what is free, in the dimensions that
// can run out, and for cpu and memory also rounded by dual feasible functions.
func fractions(vecs [][]int64, free []int64, parts int) (weights [][]float64, capacity []float64) {
	weights = make([][]float64, len(vecs))
	for d, have := range free {
		if !countable(vecs, d, have) {
			continue
		}
		capacity = append(capacity, 1)
		for i, v := range vecs {
			weights[i] = append(weights[i], float64(v[d])/float64(have))
		}
		if d > dimMemory {
			continue
		}
		for _, f := range rounding(parts) {
			capacity = append(capacity, 1)
			for i, v := range vecs {
				weights[i] = append(weights[i], f(float64(v[d])/float64(have)))
			}
		}
	}
	return weights, capacity
}

// countable reports whether a dimension can run out.
func countable(vecs [][]int64, d int, have int64) bool {
	return have > 0 && have < plenty && slices.ContainsFunc(vecs, func(v []int64) bool { return v[d] > 0 })
}

// climb runs column generation until the bound meets the ceiling or the
// fractional optimum, or the budget of steps is used up.
func (y *yard) climb(p plan.Plan, worth []float64, budget int64, ceiling float64) float64 {
	m := y.master(ceiling)
	m.start(p, worth)
	return m.run(budget, ceiling)
}

// master sets up the covering problem over a yard, without columns.
func (y *yard) master(ceiling float64) *master {
	rows := make([]lp.Row, len(y.items), len(y.items)+len(y.bays))
	for i := range y.items {
		rows[i] = lp.Row{Sense: lp.AtLeast, RHS: float64(y.items[i].count)}
	}
	once := make([]int, len(y.bays)) // the row that lets a node be filled once
	for b := range y.bays {
		if y.bays[b].once {
			once[b] = len(rows)
			rows = append(rows, lp.Row{Sense: lp.AtMost, RHS: 1})
		}
	}
	m := &master{yard: y, lp: lp.NewSolver(rows), once: once, scale: math.Max(ceiling, 1e-9), value: make([]float64, len(y.items))}
	dearest := 0.0
	for i := range y.bays {
		dearest = math.Max(dearest, y.bays[i].price)
	}
	safe := make([]int, len(y.items))
	for i := range y.items {
		safe[i] = m.lp.Add(lp.NewColumn(2*(dearest+1)/m.scale, lp.Entry{Row: i, Value: 1}))
	}
	m.lp.Start(safe)
	return m
}
