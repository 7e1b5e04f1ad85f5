package solve

// A ladder is a beam search for the most valuable way to fill a space: step by
// step, keeping on every rung, which is a level of fullness, only the few
// fillings that have lost the least on the way there.
type ladder struct {
	capacity []int64
	total    float64 // what the space is worth, full
	special  float64 // part of total: what only the steps before plain can use
	plain    int
	steps    []step
	width    int // fillings kept on a rung
	keep     int // best fillings kept

	states []partial
	left   []int64 // by state: what is left of the capacity
	rungs  [rungs][]int32
	best   []int32 // states, the most valuable first
}

const rungs = 32

// A step adds something to a filling. Steps are taken in their order, so that
// every filling is reached in one way.
type step struct {
	vec     []int64
	at      cells
	most    int     // how often it may be taken
	value   float64 // what it adds
	weight  float64 // what the space that it takes is worth
	special float64 // part of weight
}

// A partial filling.
type partial struct {
	from, step, run        int32 // the state that it extends, by which step, how often in a row
	at                     cells
	value, weight, special float64
}

// climb searches from an empty space in the cells.
func (l *ladder) climb(at cells) {
	l.total = max(l.total, 1e-9)
	l.states = append(l.states[:0], partial{from: -1, at: at})
	l.left = append(l.left[:0], l.capacity...)
	l.best = l.best[:0]
	for r := range l.rungs {
		l.rungs[r] = l.rungs[r][:0]
	}
	l.rungs[0] = append(l.rungs[0], 0)
	for r := range l.rungs {
		for i := 0; i < len(l.rungs[r]); i++ {
			l.expand(int(l.rungs[r][i]), r, i+1)
		}
	}
}

func (l *ladder) leftOf(s int) []int64 {
	n := len(l.capacity)
	return l.left[s*n : (s+1)*n]
}

// expand tries every step from a state on a rung; the states of that rung
// before fixed have been expanded already.
func (l *ladder) expand(s, rung, fixed int) {
	st := l.states[s]
	for i := int(st.step); i < len(l.steps); i++ {
		p := &l.steps[i]
		next := partial{from: int32(s), step: int32(i), run: 1, at: st.at & p.at}
		if i == int(st.step) && st.from >= 0 {
			next.run = st.run + 1
		}
		if int(next.run) > p.most || next.at == 0 || !within(p.vec, l.leftOf(s)) {
			continue
		}
		next.value, next.weight, next.special = st.value+p.value, st.weight+p.weight, st.special+p.special
		if wasted := l.special - next.special; i >= l.plain && wasted > 0 {
			next.weight, next.special = next.weight+wasted, l.special
		}
		l.offer(&next, p.vec, rung, fixed)
	}
}

// offer keeps a filling if it is among the best of its rung or of all.
func (l *ladder) offer(next *partial, vec []int64, rung, fixed int) {
	to := max(rung, min(int(next.weight/l.total*rungs), rungs-1))
	if to > rung {
		fixed = 0
	}
	on := l.rungs[to]
	place := len(on)
	if place >= l.width {
		place = -1
		least := next.value - next.weight
		for i := fixed; i < len(on); i++ {
			if o := &l.states[on[i]]; o.value-o.weight < least {
				place, least = i, o.value-o.weight
			}
		}
	}
	good := len(l.best) < l.keep || next.value > l.states[l.best[len(l.best)-1]].value+1e-12
	if place < 0 && !good {
		return
	}
	id := int32(len(l.states))
	l.states = append(l.states, *next)
	l.left = append(l.left, l.leftOf(int(next.from))...)
	left := l.leftOf(int(id))
	for d, v := range vec {
		left[d] -= v
	}
	switch {
	case place == len(on):
		l.rungs[to] = append(on, id)
	case place >= 0:
		on[place] = id
	}
	if good {
		l.note(id)
	}
}

func (l *ladder) note(id int32) {
	if len(l.best) < l.keep {
		l.best = append(l.best, id)
	}
	i := len(l.best) - 1
	for ; i > 0 && l.states[l.best[i-1]].value < l.states[id].value; i-- {
		l.best[i] = l.best[i-1]
	}
	l.best[i] = id
}

// walk calls f with the steps that lead to a state, the last first.
func (l *ladder) walk(s int32, f func(step int)) {
	for ; l.states[s].from >= 0; s = l.states[s].from {
		f(int(l.states[s].step))
	}
}
