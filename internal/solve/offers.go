package solve

import (
	"cmp"
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
		price, at, ok := kd.cheapest(mask, a.m.cells)
		if !ok || slices.ContainsFunc(out[first:], func(o offer) bool { return o.cells == at }) {
			continue
		}
		out = append(out, offer{kind: k, cells: at, price: price, estimated: kd.estimated(at), alloc: kd.alloc, fits: newSet(len(masks))})
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

func (k *kind) estimated(at cells) bool {
	for _, l := range k.market {
		if at&(1<<l.cell) != 0 {
			return l.estimated
		}
	}
	return false
}

// undominated drops offers that another of the same pool beats: no dearer, no
// smaller in any dimension, and open to the same items. Where a limit makes a
// smaller node worth having the dropped ones are asked again.
func (a *attempt) undominated(offers []offer) []offer {
	order := slices.Clone(offers)
	slices.SortStableFunc(order, func(x, y offer) int {
		return cmp.Or(cmp.Compare(x.price, y.price), cmp.Compare(y.size(), x.size()))
	})
	var keep []offer
	for i := range order {
		if !slices.ContainsFunc(keep, func(k offer) bool { return a.beats(&k, &order[i]) }) {
			keep = append(keep, order[i])
		}
	}
	return keep
}

// size orders offers of one price: the roomier first.
func (o *offer) size() float64 {
	sum := 0.0
	for _, v := range o.alloc {
		sum += float64(min(v, plenty/1024))
	}
	return sum
}

func (a *attempt) beats(x, y *offer) bool {
	kx, ky := &a.m.kinds[x.kind], &a.m.kinds[y.kind]
	return kx.pool == ky.pool && !kx.shared && !ky.shared && x.price <= y.price && within(y.alloc, x.alloc) && x.fits.covers(y.fits)
}
