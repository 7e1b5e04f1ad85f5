// Package lp solves linear programs with a bounded revised simplex method:
// minimise cost over columns with bounds, subject to rows that are at most, at
// least or equal to a right-hand side. Columns are sparse, rows a few hundred.
// It is deterministic, does no I/O, and is made for column generation: columns
// are added to a Solver and the next Solve starts from the last basis.
//
// The inverse of the basis is kept dense and updated by each pivot (product
// form); it is computed anew from the columns after refactorEvery pivots, and
// when an answer that it gives does not agree with the columns, so that errors do
// not add up.
//
// # Tolerances
//
// Callers should scale their data so that typical entries are within a few
// powers of ten of 1. A value within 1e-9 of a bound (relative to 1 + |bound|)
// counts as on it, a reduced cost above -1e-9 (relative to 1 + |cost|) as not
// improving, and a pivot smaller than 1e-9 is not taken. An answer is therefore
// exact to about nine digits; whoever needs a proven bound uses the duals, which
// give one whatever their last digits are.
package lp

import (
	"fmt"
	"math"
)

// Inf is a bound that does not bind.
var Inf = math.Inf(1)

// A Sense relates a row to its right-hand side.
type Sense int8

// The senses of a row.
const (
	AtMost Sense = iota
	AtLeast
	Equal
)

// A Row is one constraint.
type Row struct {
	Sense Sense
	RHS   float64
}

// An Entry is one coefficient of a column.
type Entry struct {
	Row   int
	Value float64
}

// A Column is one variable. Its bounds are Lower and Upper; the zero value of
// Upper would fix it, so use NewColumn or set Upper to Inf.
type Column struct {
	Cost         float64
	Lower, Upper float64
	Entries      []Entry // at most one a row, in any order
}

// NewColumn returns a variable that is at least zero.
func NewColumn(cost float64, entries ...Entry) Column {
	return Column{Cost: cost, Upper: Inf, Entries: entries}
}

// A Status says how a Solve ended.
type Status int8

// The ends of a Solve.
const (
	Optimal Status = iota
	Infeasible
	Unbounded
	StepLimit // the pivots ran out; the solution is feasible only if Feasible says so
)

// String names the status.
func (s Status) String() string {
	return [...]string{"optimal", "infeasible", "unbounded", "step limit"}[s]
}

// A Solution is the answer of one Solve.
type Solution struct {
	Status   Status
	Feasible bool
	Value    float64   // cost of X
	X        []float64 // by column
	// Dual is the price of each row: how much Value would grow per unit of its
	// right-hand side. At an optimum it is >= 0 on AtLeast and <= 0 on AtMost rows.
	Dual  []float64
	Steps int // pivots and bound flips of this Solve
}

// A Solver holds a program and the basis it last ended with.
type Solver struct {
	rows  []Row
	cols  []Column
	basis []int  // by row: column, or len-encoded slack ^row
	at    []side // by column: where a nonbasic one rests
	slack []side // by row, for its slack

	inv   [][]float64 // inverse of the basis matrix, by row
	value []float64   // of the basic variables, by row
	since int         // pivots since inv was computed
	fresh bool        // inv belongs to basis
	full  []int       // scratch: columns in which a row of inv is not zero
}

type side int8

const (
	atLower side = iota
	atUpper
	atZero // free
	basic
)

// NewSolver returns a program with the rows and no column; its first basis is all slack.
func NewSolver(rows []Row) *Solver {
	s := &Solver{rows: append([]Row(nil), rows...), basis: make([]int, len(rows)), slack: make([]side, len(rows))}
	for i := range rows {
		s.basis[i] = ^i
		s.slack[i] = basic
	}
	return s
}

// Add appends a column and returns its index. It panics on a row out of range
// or on bounds that cross, which are errors of the caller's code.
func (s *Solver) Add(c Column) int {
	for _, e := range c.Entries {
		if e.Row < 0 || e.Row >= len(s.rows) {
			panic(fmt.Sprintf("lp: column has row %d of %d", e.Row, len(s.rows)))
		}
	}
	if c.Lower > c.Upper {
		panic(fmt.Sprintf("lp: column has bounds %g > %g", c.Lower, c.Upper))
	}
	s.cols = append(s.cols, c)
	s.at = append(s.at, rest(c.Lower, c.Upper))
	s.fresh = s.fresh && s.at[len(s.at)-1] == atLower && c.Lower == 0
	return len(s.cols) - 1
}

// Start puts columns into the basis, one for each of the first rows; together
// with the slacks of the others they must be independent. From a basis that is
// feasible the first Solve has less to do.
func (s *Solver) Start(columns []int) {
	for i, j := range columns {
		out := s.basis[i]
		*s.side(out) = rest(s.bounds(out))
		s.basis[i], s.at[j] = j, basic
	}
	s.fresh = false
}

// SetCost changes the cost of a column. The last basis stays feasible.
func (s *Solver) SetCost(column int, cost float64) { s.cols[column].Cost = cost }

// Columns returns how many columns there are.
func (s *Solver) Columns() int { return len(s.cols) }

// rest is where a new nonbasic variable starts.
func rest(lower, upper float64) side {
	switch {
	case !math.IsInf(lower, -1):
		return atLower
	case !math.IsInf(upper, 1):
		return atUpper
	default:
		return atZero
	}
}

// bounds returns the bounds of a variable: a column, or the slack that turns
// its row into an equation.
func (s *Solver) bounds(v int) (lower, upper float64) {
	if v >= 0 {
		return s.cols[v].Lower, s.cols[v].Upper
	}
	switch s.rows[^v].Sense {
	case AtMost:
		return 0, Inf
	case AtLeast:
		return -Inf, 0
	default:
		return 0, 0
	}
}

func (s *Solver) side(v int) *side {
	if v >= 0 {
		return &s.at[v]
	}
	return &s.slack[^v]
}

// resting returns the value of a nonbasic variable.
func (s *Solver) resting(v int) float64 {
	lower, upper := s.bounds(v)
	switch *s.side(v) {
	case atLower:
		return lower
	case atUpper:
		return upper
	default:
		return 0
	}
}

func (s *Solver) cost(v int) float64 {
	if v >= 0 {
		return s.cols[v].Cost
	}
	return 0
}
