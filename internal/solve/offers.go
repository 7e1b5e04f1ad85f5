package solve

import (
	"cmp"
	"iter"
	"slices"
)

// An offer is a kind in the cells where it has one price.
type offer struct {
	kind      int
	cells     cells
	price     float64
	estimated bool
	alloc     []int64
	fits      set // items
}

// offersOf lists what a tier of pools offers to the items: every kind at the
// lowest price for each set of cells that some item is kept to.
func (a *attempt) offersOf(tier int, items []item) []offer {
	var out []offer
	masks := make([]cells, len(items))
	for k := range a.m.kinds {
		kd := &a.m.kinds[k]
		if a.m.pools[kd.pool].tier != tier {
			continue
		}
		for i := range items {
			masks[i] = 0
			if items[i].count > 0 {
				masks[i] = a.where(&items[i], k)
			}
		}
		out = a.offersOfKind(out, k, masks)
	}
	return out
}

func (a *attempt) offersOfKind(out []offer, k int, masks []cells) []offer {
	kd := &a.m.kinds[k]
	first := len(out)
	var done cells // the last mask that was looked up
	for _, mask := range masks {
		if mask == 0 || mask == done {
			continue
		}
		done = mask
		for price, at := range a.prices(k, mask) {
			if !slices.ContainsFunc(out[first:], func(o offer) bool { return o.cells == at }) {
				out = append(out, offer{kind: k, cells: at, price: price, estimated: kd.estimated(at), alloc: kd.alloc, fits: newSet(len(masks))})
			}
		}
	}
	for i := range out[first:] {
		o := &out[first+i]
		for j, mask := range masks {
			if mask&o.cells != 0 {
				o.fits.add(j)
			}
		}
	}
	return out
}

// prices yields the lowest price of a kind in the cells, and where its pool
// has minValues the higher ones too: more types may be sold there.
func (a *attempt) prices(k int, in cells) iter.Seq2[float64, cells] {
	return func(yield func(float64, cells) bool) {
		for in != 0 {
			price, at, ok := a.m.kinds[k].cheapest(in, a.m.cells)
			if !ok || !yield(price, at) || !a.demandsChoice(k) {
				return
			}
			in &^= at
		}
	}
}

func (k *kind) estimated(at cells) bool {
	for _, l := range k.market {
		if at&(1<<l.cell) != 0 {
			return l.estimated
		}
	}
	return false
}

// undominated drops offers that another beats. Where a limit makes a smaller
// node worth having the dropped ones are asked again.
func undominated(offers []offer, beats func(x, y *offer) bool) []offer {
	order := make([]*offer, len(offers))
	for i := range offers {
		order[i] = &offers[i]
	}
	slices.SortStableFunc(order, func(x, y *offer) int {
		return cmp.Or(cmp.Compare(x.price, y.price), cmp.Compare(y.size(), x.size()))
	})
	var best []*offer
	for _, o := range order {
		if !slices.ContainsFunc(best, func(b *offer) bool { return beats(b, o) }) {
			best = append(best, o)
		}
	}
	out := make([]offer, len(best))
	for i, o := range best {
		out[i] = *o
	}
	return out
}

// size orders offers of one price: the roomier first.
func (o *offer) size() float64 {
	sum := 0.0
	for _, v := range o.alloc {
		sum += float64(min(v, plenty/1024))
	}
	return sum
}

// beats reports whether x makes y of the same pool needless. Where the pool
// has minValues x must be sold wherever y is, so that it has as many others
// beside it.
func (a *attempt) beats(x, y *offer) bool {
	kx, ky := &a.m.kinds[x.kind], &a.m.kinds[y.kind]
	if kx.pool != ky.pool || !a.noWorse(x, y) {
		return false
	}
	return !a.demandsChoice(x.kind) || (kx.variant == ky.variant && y.cells&^x.cells == 0)
}

// noWorse reports whether x is no dearer than y, no smaller in any dimension,
// and open to the same items.
func (a *attempt) noWorse(x, y *offer) bool {
	return !a.m.kinds[x.kind].shared && !a.m.kinds[y.kind].shared && x.price <= y.price && within(y.alloc, x.alloc) && x.fits.covers(y.fits)
}
