package deviceplugin

import "math/bits"

// Links says how well two GPUs are linked, by their UUIDs: the score of
// go-gpuallocator, which grows from 10 for a path across CPUs to 60 for one
// board, plus 100 for each NVLink. A pair is given once, in either order; one
// that is not known counts 0.
type Links map[[2]string]int

// Between returns the score of two GPUs.
func (l Links) Between(a, b string) int {
	if v, ok := l[[2]string{a, b}]; ok {
		return v
	}
	return l[[2]string{b, a}]
}

// maxExact is the number of free GPUs up to which every division into sets is
// looked at; beyond it only the sets themselves are.
const maxExact = 12

// maxBits is the number of GPUs that a set can hold.
const maxBits = 64

// align chooses size whole GPUs by NVIDIA's best-effort policy: it looks for
// the division of all free GPUs into sets of that size of which the links
// within the sets score highest together, so that the next request finds good
// links too, and returns the best set of it. All required GPUs are in the set.
//
// Nothing is returned when that is impossible. Without links the first free
// GPUs are taken: a topology that cannot be read must not cost a pod its GPU.
func align(free, must []Device, size int, links Links) []Device {
	if size <= 0 || size > len(free) || len(must) > size || len(minus(must, free)) > 0 {
		return nil
	}
	if size == len(free) {
		return free
	}
	if len(links) == 0 || size == 1 || len(free) > maxBits {
		return append(append([]Device{}, must...), minus(free, must)...)[:size]
	}
	a := &aligner{size: size, n: len(free), memo: map[uint64]*division{}}
	a.score = make([][]int, len(free))
	for i := range free {
		a.score[i] = make([]int, len(free))
		for j := range free {
			a.score[i][j] = links.Between(free[i].GPU, free[j].GPU)
		}
		for _, m := range must {
			if m.ID == free[i].ID {
				a.must |= 1 << i
			}
		}
	}
	var set uint64
	if a.n <= maxExact {
		set = a.best()
	} else {
		set = a.single()
	}
	var out []Device
	for i := range free {
		if set&(1<<i) != 0 {
			out = append(out, free[i])
		}
	}
	return out
}

// An aligner searches sets of GPUs, held as bits of their position.
type aligner struct {
	size, n int
	score   [][]int
	must    uint64
	memo    map[uint64]*division
}

// A division is the best way to part a set of GPUs: one set that holds the
// first of them, and the division of the rest.
type division struct {
	set   uint64
	total int
	rest  *division
	ok    bool
}

// best returns the highest-scoring full set of the best division; of equals the
// first.
func (a *aligner) best() uint64 {
	var set uint64
	top := -1
	for d := a.divide(1<<a.n - 1); d != nil; d = d.rest {
		full := bits.OnesCount64(d.set) == a.size
		if s := a.within(d.set); d.ok && full && d.set&a.must == a.must && s > top {
			set, top = d.set, s
		}
	}
	return set
}

// divide finds the best division of a set. When the sizes do not come out even,
// one set is smaller; it must not hold a required GPU.
func (a *aligner) divide(left uint64) *division {
	if left == 0 {
		return nil
	}
	if d := a.memo[left]; d != nil {
		return d
	}
	d := &division{}
	a.memo[left] = d
	small := bits.OnesCount64(left) % a.size
	first := left & -left
	a.subsets(left&^first, a.size-1, small-1, first, func(set uint64) {
		if part := set & a.must; part != 0 && (part != a.must || bits.OnesCount64(set) < a.size) {
			return
		}
		rest := a.divide(left &^ set)
		if rest != nil && !rest.ok {
			return
		}
		total := a.within(set)
		if rest != nil {
			total += rest.total
		}
		if !d.ok || total > d.total {
			*d = division{set: set, total: total, rest: rest, ok: true}
		}
	})
	return d
}

// subsets yields the sets that begin with set and add more of from, in the
// order of their positions: those with want members added, and after those that
// they begin those with small added, unless small is negative.
func (a *aligner) subsets(from uint64, want, small int, set uint64, yield func(uint64)) {
	if want == 0 {
		yield(set)
		return
	}
	for rest := from; rest != 0; rest &= rest - 1 {
		next := rest & -rest
		a.subsets(rest&^next, want-1, small-1, set|next, yield)
	}
	if small == 0 {
		yield(set)
	}
}

// within adds up the scores of all pairs of a set.
func (a *aligner) within(set uint64) int {
	total := 0
	for rest := set; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		for others := rest & (rest - 1); others != 0; others &= others - 1 {
			total += a.score[i][bits.TrailingZeros64(others)]
		}
	}
	return total
}

// single grows a set for machines on which all divisions are too many: from
// each GPU on, always the one that adds most.
func (a *aligner) single() uint64 {
	var best uint64
	top := -1
	for start := range a.n {
		set := a.must | 1<<start
		if bits.OnesCount64(set) > a.size {
			continue
		}
		for bits.OnesCount64(set) < a.size {
			set |= 1 << a.nearest(set)
		}
		if s := a.within(set); s > top {
			best, top = set, s
		}
	}
	return best
}

// nearest is the GPU outside set that is linked best to those inside.
func (a *aligner) nearest(set uint64) int {
	at, top := 0, -1
	for i := range a.n {
		if set&(1<<i) != 0 {
			continue
		}
		sum := 0
		for rest := set; rest != 0; rest &= rest - 1 {
			sum += a.score[i][bits.TrailingZeros64(rest)]
		}
		if sum > top {
			at, top = i, sum
		}
	}
	return at
}
