package solve

import "slices"

const (
	firstWidth = 2
	closer     = 8    // the width up to which it grows while rounds help
	slow       = 2e-4 // where one helps by less than this part
	maxWidth   = 32
	sweeps     = 6
	inARow     = 4
	// worthMore is how much more than its price a column must be worth.
	worthMore = 1 + 1e-7
)

// grow makes columns that are worth more than their price. After each the
// worths of what it holds are lowered until it is worth just that, so that the
// next is another; the round ends with worths at which nothing more is found.
// It reports whether there is a new column.
func (m *choosing) grow() bool {
	before := len(m.p.columns.all)
	worth := slices.Clone(m.p.worth)
	m.p.reorder(bySum, m.counts)
	var open []int
	for o := range m.p.offers {
		if m.p.ledger.room(m.p.a.m, m.p.offers[o].kind, 1) > 0 {
			open = append(open, o)
		}
	}
	for range sweeps {
		// Worths fall, so that an offer without a column has none later either.
		open = slices.DeleteFunc(open, func(o int) bool {
			if m.hopeless(o) {
				return true
			}
			for n := 0; n < inARow && m.press(o); n++ {
			}
			return false
		})
	}
	copy(m.p.worth, worth)
	return len(m.p.columns.all) > before
}

// press makes columns of an offer and lowers the worths of what the best of
// them holds; false when there is none.
func (m *choosing) press(o int) bool {
	p := m.p
	least := p.offers[o].price * worthMore
	s := m.presses[o]
	s.atMost(m.counts)
	r := s.bin.Relax(s.value)
	p.a.steps += int64(len(s.items)) * 2
	if r.Bound <= least {
		return false
	}
	s.sort(r.Price)
	var best filling
	most := least
	try := func(f filling, worth float64) {
		if worth > least {
			p.columns.add(f)
		}
		if worth > most {
			best, most = f, worth
		}
	}
	try(p.fill(o, m.counts))
	p.packing.search(s, r.Price, m.width)
	for i := range p.packing.node.best {
		s.load(p.packing.read(i, s), -1)
		if i < m.width {
			s.swap()
		}
		if s.now.worth > least {
			try(s.filling())
		}
	}
	for _, t := range best.takes {
		p.worth[t.item] *= least / most
	}
	return len(best.takes) > 0
}

// hopeless reports whether no node of an offer can be worth more than its
// price, by what is known of it from before.
func (m *choosing) hopeless(o int) bool {
	p := m.p
	least := p.offers[o].price * worthMore
	if m.wide != nil {
		if m.wide[o] == nil {
			return true
		}
		p.a.steps += int64(len(m.wide[o].items)) / 8
		if m.wide[o].atMost(m.counts) <= least {
			return true
		}
	}
	if m.presses[o] == nil {
		m.presses[o] = p.newPress(o, m.counts)
	}
	p.a.steps += int64(len(m.presses[o].items)) / 8
	return m.presses[o].atMost(m.counts) <= least
}

// atMost bounds what a node can be worth with pods that are left.
func (s *press) atMost(left []int) float64 {
	for k, i := range s.items {
		s.value[k] = 0
		if left[i] > 0 {
			s.value[k] = s.p.worth[i]
		}
	}
	return s.bin.AtMost(s.value)
}
