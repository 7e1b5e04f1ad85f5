package lp

import "math"

const (
	refactorEvery = 100
	tinyPivot     = 1e-9
)

// refactor computes the inverse of the basis from its columns by Gauss-Jordan
// elimination with row pivoting, and the basic values from it. A column that
// turns out to depend on others is replaced by the slack of a row left over, so
// it always ends with a usable basis.
func (s *Solver) refactor() {
	m := len(s.rows)
	work := square(m) // the basis matrix, eliminated to a permutation
	s.inv = square(m)
	for r := range m {
		s.inv[r][r] = 1
	}
	for k, v := range s.basis {
		if v < 0 {
			work[^v][k] = 1
			continue
		}
		for _, e := range s.cols[v].Entries {
			work[e.Row][k] += e.Value
		}
	}
	owner := make([]int, m) // row that column k pivoted on
	taken := make([]bool, m)
	var lost []int
	for k := range m {
		r := largest(work, taken, k)
		if r < 0 {
			lost = append(lost, k)
			continue
		}
		owner[k], taken[r] = r, true
		eliminate(work, s.inv, r, k)
	}
	for _, k := range lost {
		s.replaceLost(work, taken, owner, k)
	}
	ordered := make([][]float64, m)
	for k, r := range owner {
		ordered[k] = s.inv[r]
	}
	s.inv, s.since, s.fresh = ordered, 0, true
	s.recompute()
}

// replaceLost puts a slack in the place of basis column k. The slack of a row
// that no column pivoted on is independent of the rest.
func (s *Solver) replaceLost(work [][]float64, taken []bool, owner []int, k int) {
	for r := range taken {
		if taken[r] || s.slack[r] == basic {
			continue
		}
		out := s.basis[k]
		*s.side(out) = rest(s.bounds(out))
		s.basis[k], s.slack[r] = ^r, basic
		for i := range work {
			work[i][k] = s.inv[i][r]
		}
		owner[k], taken[r] = r, true
		eliminate(work, s.inv, r, k)
		return
	}
}

// largest returns the free row with the largest entry in column k, or -1.
func largest(work [][]float64, taken []bool, k int) int {
	best, at := tinyPivot, -1
	for r := range work {
		if v := math.Abs(work[r][k]); !taken[r] && v > best {
			best, at = v, r
		}
	}
	return at
}

// eliminate clears column k of work but for row r, and does the same to inv.
func eliminate(work, inv [][]float64, r, k int) {
	p := 1 / work[r][k]
	scale(work[r], p)
	scale(inv[r], p)
	for i := range work {
		if f := work[i][k]; i != r && f != 0 {
			axpy(work[i], work[r], -f)
			axpy(inv[i], inv[r], -f)
		}
	}
}

// recompute derives the basic values: inverse times (right-hand side less what
// the nonbasic variables take).
func (s *Solver) recompute() {
	left := make([]float64, len(s.rows))
	for i, r := range s.rows {
		left[i] = r.RHS
		if s.slack[i] != basic {
			left[i] -= s.resting(^i)
		}
	}
	for j, c := range s.cols {
		if s.at[j] == basic {
			continue
		}
		if x := s.resting(j); x != 0 {
			for _, e := range c.Entries {
				left[e.Row] -= e.Value * x
			}
		}
	}
	s.value = make([]float64, len(s.rows))
	for i, row := range s.inv {
		s.value[i] = dot(row, left)
	}
}

// accurate reports whether the basic values meet the rows, and the duals the
// costs of the basic variables, as exactly as the tolerance asks.
func (r *run) accurate(first bool) bool {
	left := make([]float64, len(r.rows))
	for i, row := range r.rows {
		left[i] = row.RHS
	}
	take := func(v int, x float64) {
		if v < 0 {
			left[^v] -= x
			return
		}
		for _, e := range r.cols[v].Entries {
			left[e.Row] -= e.Value * x
		}
	}
	for i, v := range r.basis {
		take(v, r.value[i])
		cost, priced := r.cost(v), 0.0
		if first {
			cost = float64(r.violation(i))
		}
		if v < 0 {
			priced = r.dual[^v]
		} else {
			for _, e := range r.cols[v].Entries {
				priced += r.dual[e.Row] * e.Value
			}
		}
		if math.Abs(cost-priced) > tolerance*(1+math.Abs(cost)) {
			return false
		}
	}
	for j := range r.cols {
		if x := r.resting(j); r.at[j] != basic && x != 0 {
			take(j, x)
		}
	}
	for i := range r.rows {
		if x := r.resting(^i); r.slack[i] != basic && x != 0 {
			take(^i, x)
		}
	}
	for i, d := range left {
		if math.Abs(d) > tolerance*(1+math.Abs(r.rows[i].RHS)) {
			return false
		}
	}
	return true
}

// direction returns inverse times the column of v: how the basic variables
// fall as v grows.
func (s *Solver) direction(v int, out []float64) {
	if v < 0 {
		for i, row := range s.inv {
			out[i] = row[^v]
		}
		return
	}
	for i, row := range s.inv {
		sum := 0.0
		for _, e := range s.cols[v].Entries {
			sum += row[e.Row] * e.Value
		}
		out[i] = sum
	}
}

// pivot makes v basic in row r, given its direction.
func (s *Solver) pivot(r, v int, dir []float64) {
	scale(s.inv[r], 1/dir[r])
	s.full = s.full[:0]
	for j, x := range s.inv[r] {
		if x != 0 {
			s.full = append(s.full, j)
		}
	}
	sparse := len(s.full) < len(s.rows)/3
	for i, row := range s.inv {
		switch f := dir[i]; {
		case i == r || f == 0:
		case sparse:
			for _, j := range s.full {
				row[j] -= f * s.inv[r][j]
			}
		default:
			axpy(row, s.inv[r], -f)
		}
	}
	s.basis[r] = v
	*s.side(v) = basic
	s.since++
}

func square(m int) [][]float64 {
	flat := make([]float64, m*m)
	out := make([][]float64, m)
	for i := range out {
		out[i] = flat[i*m : (i+1)*m]
	}
	return out
}

func scale(x []float64, f float64) {
	for i := range x {
		x[i] *= f
	}
}

// axpy adds f times x to y.
func axpy(y, x []float64, f float64) {
	x = x[:len(y)]
	for ; len(y) >= 4 && len(x) >= 4; x, y = x[4:], y[4:] {
		y[0] += f * x[0]
		y[1] += f * x[1]
		y[2] += f * x[2]
		y[3] += f * x[3]
	}
	for i := range y {
		y[i] += f * x[i]
	}
}

func dot(x, y []float64) float64 {
	sum := 0.0
	y = y[:len(x)]
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}
