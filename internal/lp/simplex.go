package lp

import "math"

const (
	tolerance = 1e-9
	// stallLimit is how many steps without progress are taken before entering
	// and leaving variables are chosen by lowest index (Bland), which cannot cycle.
	stallLimit = 50
)

// A run is the state of one Solve.
type run struct {
	*Solver
	dual  []float64
	dir   []float64
	due   bool    // dual has to be computed anew
	gain  float64 // reduced cost of the entering variable
	stall int
	steps int
	short []int // variables that improved at the last look at all of them
}

// Solve minimises within a number of steps, starting from the last basis.
func (s *Solver) Solve(maxSteps int) Solution {
	if !s.fresh {
		s.refactor()
	}
	r := &run{Solver: s, dual: make([]float64, len(s.rows)), dir: make([]float64, len(s.rows))}
	status := r.phase(true, maxSteps)
	if status == Optimal {
		status = r.phase(false, maxSteps)
	}
	return r.solution(status)
}

// phase runs the simplex method to the end of one phase. In the first, the sum
// of bound violations of the basic variables is minimised instead of the cost.
func (r *run) phase(first bool, maxSteps int) Status {
	r.due = true
	for {
		if r.since >= refactorEvery {
			r.refactor()
			r.due = true
		}
		if first && r.feasible() {
			return Optimal
		}
		if first || r.due {
			r.prices(first)
			r.due = false
		}
		v, grow := r.enter(first)
		if v == none {
			switch {
			case r.since > 0 && !r.accurate(first): // do not trust a worn inverse with the verdict
				r.refactor()
				r.due = true
				if !first && !r.feasible() {
					if st := r.phase(true, maxSteps); st != Optimal {
						return st
					}
				}
				continue
			case first:
				return Infeasible
			default:
				return Optimal
			}
		}
		if r.steps >= maxSteps {
			return StepLimit
		}
		r.steps++
		if !r.step(v, grow, first) {
			return Unbounded
		}
	}
}

const none = math.MinInt

// slackOf is how far x may pass a bound and still count as on it.
func slackOf(bound float64) float64 { return tolerance * (1 + math.Abs(bound)) }

// violation returns -1 below the lower bound, 1 above the upper, 0 within.
func (r *run) violation(i int) int {
	lower, upper := r.bounds(r.basis[i])
	switch x := r.value[i]; {
	case x < lower-slackOf(lower):
		return -1
	case x > upper+slackOf(upper):
		return 1
	}
	return 0
}

func (r *run) feasible() bool {
	for i := range r.basis {
		if r.violation(i) != 0 {
			return false
		}
	}
	return true
}

// prices sets dual to (cost of the basis) times inverse.
func (r *run) prices(first bool) {
	clear(r.dual)
	for i, v := range r.basis {
		c := r.cost(v)
		if first {
			c = float64(r.violation(i))
		}
		if c != 0 {
			axpy(r.dual, r.inv[i], c)
		}
	}
}

// enter chooses a nonbasic variable whose change lowers the objective, and
// whether it grows; none if there is no such variable. It looks at the short
// list of those that did lately, and at all when none of them does any more.
func (r *run) enter(first bool) (v int, grow bool) {
	bland := r.stall > stallLimit
	if !bland {
		if v, grow = r.enterFrom(r.short, first); v != none {
			return v, grow
		}
	}
	best := 0.0
	v = none
	r.short = r.short[:0]
	look := func(j int) bool {
		reduced, ok := r.improves(j, first)
		if !ok {
			return false
		}
		if math.Abs(reduced) > best {
			best, v, grow, r.gain = math.Abs(reduced), j, reduced < 0, reduced
		}
		if math.Abs(reduced) > best*shortPart {
			r.short = append(r.short, j)
		}
		return bland
	}
	for j := range r.cols {
		if look(j) {
			return v, grow
		}
	}
	for i := range r.rows {
		if look(^i) {
			return v, grow
		}
	}
	return v, grow
}

// shortPart is what part of the best improvement gets on the short list.
const shortPart = 0.3

func (r *run) enterFrom(list []int, first bool) (v int, grow bool) {
	best := 0.0
	v = none
	for _, j := range list {
		if reduced, ok := r.improves(j, first); ok && math.Abs(reduced) > best {
			best, v, grow, r.gain = math.Abs(reduced), j, reduced < 0, reduced
		}
	}
	return v, grow
}

// improves returns the reduced cost of a variable and whether moving it in the
// direction that it is free to move in lowers the objective.
func (r *run) improves(j int, first bool) (reduced float64, ok bool) {
	where := *r.side(j)
	if where == basic {
		return 0, false
	}
	tol := tolerance
	if j >= 0 {
		c := &r.cols[j]
		if !first {
			reduced = c.Cost
			tol *= 1 + math.Abs(c.Cost)
		}
		for _, e := range c.Entries {
			reduced -= r.dual[e.Row] * e.Value
		}
	} else {
		reduced = -r.dual[^j]
	}
	if !(reduced < -tol && where != atUpper) && !(reduced > tol && where != atLower) {
		return 0, false
	}
	lower, upper := r.bounds(j)
	return reduced, lower != upper
}

// step moves variable v until something stops it: its own other bound, or a
// basic variable that reaches a bound and leaves. It reports false when
// nothing does.
func (r *run) step(v int, grow, first bool) bool {
	r.direction(v, r.dir)
	sign := 1.0
	if !grow {
		sign = -1
	}
	lower, upper := r.bounds(v)
	limit, row, to := upper-lower, -1, atLower // its own range; Inf when open
	for i := range r.basis {
		rate := -sign * r.dir[i] // change of basic i per unit
		if math.Abs(rate) < tinyPivot {
			continue
		}
		room, side := r.room(i, rate, first)
		room = math.Max(0, room) // a little beyond a bound is on it
		if r.better(room, limit, row, i) {
			limit, row, to = room, i, side
		}
	}
	if math.IsInf(limit, 1) {
		return false
	}
	r.move(v, sign*limit, row, to)
	return true
}

// room is how far the entering variable can go before basic i, changing at
// rate, meets a bound that it respects, and which.
func (r *run) room(i int, rate float64, first bool) (float64, side) {
	lower, upper := r.bounds(r.basis[i])
	x := r.value[i]
	out := 0
	if first {
		out = r.violation(i)
	}
	switch {
	case rate > 0 && out < 0:
		return (lower - x) / rate, atLower // becomes feasible there
	case rate < 0 && out > 0:
		return (upper - x) / rate, atUpper
	case rate > 0 && out == 0:
		return (upper - x) / rate, atUpper
	case rate < 0 && out == 0:
		return (lower - x) / rate, atLower
	}
	return Inf, atLower
}

// better prefers the tighter row; within the tolerance the larger pivot, or the
// lower variable when stalling.
func (r *run) better(room, limit float64, row, i int) bool {
	if math.IsInf(room, 1) {
		return false
	}
	tie := tolerance * (1 + math.Abs(limit))
	if room < limit-tie || math.IsInf(limit, 1) {
		return true
	}
	if room > limit+tie || row < 0 {
		return room < limit
	}
	if r.stall > stallLimit {
		return order(r.basis[i]) < order(r.basis[row])
	}
	return math.Abs(r.dir[i]) > math.Abs(r.dir[row])
}

// order ranks variables for Bland's rule: columns, then slacks.
func order(v int) int {
	if v >= 0 {
		return v
	}
	return math.MaxInt + v
}

// move changes v by delta; with a row, v takes that row's place in the basis.
func (r *run) move(v int, delta float64, row int, to side) {
	if math.Abs(delta) > tolerance {
		r.stall = 0
	} else {
		r.stall++
	}
	from := r.resting(v)
	for i := range r.value {
		r.value[i] -= delta * r.dir[i]
	}
	if row < 0 {
		at := r.side(v)
		if *at == atLower {
			*at = atUpper
		} else {
			*at = atLower
		}
		return
	}
	*r.side(r.basis[row]) = to
	r.pivot(row, v, r.dir)
	r.value[row] = from + delta
	axpy(r.dual, r.inv[row], r.gain) // as prices would compute it in the second phase
}

// solution reads the answer off the basis.
func (r *run) solution(status Status) Solution {
	out := Solution{Status: status, Feasible: r.feasible(), X: make([]float64, len(r.cols)), Steps: r.steps}
	for j := range r.cols {
		if r.at[j] != basic {
			out.X[j] = r.resting(j)
		}
	}
	for i, v := range r.basis {
		if v >= 0 {
			lower, upper := r.bounds(v)
			out.X[v] = math.Min(math.Max(r.value[i], lower), upper)
		}
	}
	for j, c := range r.cols {
		out.Value += c.Cost * out.X[j]
	}
	r.prices(false)
	out.Dual = append([]float64(nil), r.dual...)
	return out
}
