package lp

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

const eps = 1e-6

func TestSolveSmallPrograms(t *testing.T) {
	tests := map[string]struct {
		rows  []Row
		cols  []Column
		want  Status
		value float64
	}{
		"covering with two patterns": {
			rows:  []Row{{AtLeast, 4}, {AtLeast, 6}},
			cols:  []Column{NewColumn(2, Entry{0, 1}, Entry{1, 1}), NewColumn(1, Entry{1, 2}), NewColumn(1.5, Entry{0, 1})},
			want:  Optimal,
			value: 4*1.5 + 3,
		},
		"a bound that binds without any row": {
			rows:  []Row{{AtMost, 100}},
			cols:  []Column{{Cost: -1, Upper: 3, Entries: []Entry{{0, 1}}}},
			want:  Optimal,
			value: -3,
		},
		"two equations and a free variable": {
			rows: []Row{{Equal, 3}, {Equal, 1}},
			cols: []Column{
				{Cost: 1, Lower: -Inf, Upper: Inf, Entries: []Entry{{0, 1}, {1, 1}}},
				NewColumn(2, Entry{0, 1}, Entry{1, -1}),
			},
			want:  Optimal,
			value: 2 + 2*1,
		},
		"rows that contradict each other": {
			rows: []Row{{AtLeast, 2}, {AtMost, 1}},
			cols: []Column{NewColumn(1, Entry{0, 1}, Entry{1, 1})},
			want: Infeasible,
		},
		"a ray that lowers the cost for ever": {
			rows: []Row{{AtLeast, 1}},
			cols: []Column{NewColumn(-1, Entry{0, 1})},
			want: Unbounded,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSolver(tt.rows)
			for _, c := range tt.cols {
				s.Add(c)
			}
			got := s.Solve(1000)
			if got.Status != tt.want {
				t.Fatalf("status %v, want %v", got.Status, tt.want)
			}
			if tt.want == Optimal && math.Abs(got.Value-tt.value) > eps {
				t.Errorf("value %g, want %g", got.Value, tt.value)
			}
		})
	}
}

// A textbook program on which Dantzig's rule without care cycles for ever.
func TestBealeDoesNotCycle(t *testing.T) {
	s := NewSolver([]Row{{AtMost, 0}, {AtMost, 0}, {AtMost, 1}})
	s.Add(NewColumn(-0.75, Entry{0, 0.25}, Entry{1, 0.5}))
	s.Add(NewColumn(150, Entry{0, -60}, Entry{1, -90}))
	s.Add(NewColumn(-0.02, Entry{0, -0.04}, Entry{1, -0.02}, Entry{2, 1}))
	s.Add(NewColumn(6, Entry{0, 9}, Entry{1, 3}))
	if got := s.Solve(1000); got.Status != Optimal || math.Abs(got.Value+0.05) > eps {
		t.Errorf("got %v %g, want optimal -0.05", got.Status, got.Value)
	}
}

type program struct {
	rows []Row
	cols []Column
}

func draw(t *rapid.T) program {
	var p program
	small := rapid.IntRange(-4, 4)
	m, n := rapid.IntRange(1, 3).Draw(t, "rows"), rapid.IntRange(1, 4).Draw(t, "columns")
	for range m {
		p.rows = append(p.rows, Row{Sense: Sense(rapid.IntRange(0, 2).Draw(t, "sense")), RHS: float64(small.Draw(t, "rhs"))})
	}
	for range n {
		lower := float64(rapid.IntRange(-2, 1).Draw(t, "lower"))
		c := Column{Cost: float64(small.Draw(t, "cost")), Lower: lower, Upper: lower + float64(rapid.IntRange(0, 4).Draw(t, "range"))}
		for i := range m {
			if v := small.Draw(t, "entry"); v != 0 {
				c.Entries = append(c.Entries, Entry{i, float64(v)})
			}
		}
		p.cols = append(p.cols, c)
	}
	return p
}

func (p program) solver() *Solver {
	s := NewSolver(p.rows)
	for _, c := range p.cols {
		s.Add(c)
	}
	return s
}

func (p program) satisfied(x []float64) bool {
	for i, r := range p.rows {
		sum := 0.0
		for j, c := range p.cols {
			for _, e := range c.Entries {
				if e.Row == i {
					sum += e.Value * x[j]
				}
			}
		}
		if r.Sense != AtMost && sum < r.RHS-eps || r.Sense != AtLeast && sum > r.RHS+eps {
			return false
		}
	}
	for j, c := range p.cols {
		if x[j] < c.Lower-eps || x[j] > c.Upper+eps {
			return false
		}
	}
	return true
}

// brute finds the best vertex: every choice of which constraints are tight.
// All columns have finite bounds, so an optimum is at a vertex.
func (p program) brute() (float64, bool) {
	n := len(p.cols)
	type plane struct {
		a []float64
		b float64
	}
	var planes []plane
	for i, r := range p.rows {
		a := make([]float64, n)
		for j, c := range p.cols {
			for _, e := range c.Entries {
				if e.Row == i {
					a[j] += e.Value
				}
			}
		}
		planes = append(planes, plane{a, r.RHS})
	}
	for j, c := range p.cols {
		a := make([]float64, n)
		a[j] = 1
		planes = append(planes, plane{a, c.Lower}, plane{a, c.Upper})
	}
	best, found := Inf, false
	var pick []int
	var choose func(from int)
	choose = func(from int) {
		if len(pick) == n {
			a, b := square(n), make([]float64, n)
			for i, k := range pick {
				copy(a[i], planes[k].a)
				b[i] = planes[k].b
			}
			if x, ok := gauss(a, b); ok && p.satisfied(x) {
				v := 0.0
				for j, c := range p.cols {
					v += c.Cost * x[j]
				}
				best, found = math.Min(best, v), true
			}
			return
		}
		for k := from; k < len(planes); k++ {
			pick = append(pick, k)
			choose(k + 1)
			pick = pick[:len(pick)-1]
		}
	}
	choose(0)
	return best, found
}

func gauss(a [][]float64, b []float64) ([]float64, bool) {
	n := len(b)
	for k := range n {
		r := k
		for i := k; i < n; i++ {
			if math.Abs(a[i][k]) > math.Abs(a[r][k]) {
				r = i
			}
		}
		if math.Abs(a[r][k]) < 1e-9 {
			return nil, false
		}
		a[k], a[r], b[k], b[r] = a[r], a[k], b[r], b[k]
		for i := range n {
			if f := a[i][k] / a[k][k]; i != k && f != 0 {
				axpy(a[i], a[k], -f)
				b[i] -= f * b[k]
			}
		}
	}
	for k := range n {
		b[k] /= a[k][k]
	}
	return b, true
}

// bound is what weak duality proves from row prices alone: each column at
// whichever bound its reduced cost likes.
func (p program) bound(dual []float64) float64 {
	v := 0.0
	for i, r := range p.rows {
		v += dual[i] * r.RHS
	}
	for _, c := range p.cols {
		reduced := c.Cost
		for _, e := range c.Entries {
			reduced -= dual[e.Row] * e.Value
		}
		v += math.Min(reduced*c.Lower, reduced*c.Upper)
	}
	return v
}

func (p program) agrees(t *rapid.T, got Solution) {
	want, feasible := p.brute()
	switch {
	case !feasible:
		if got.Status != Infeasible {
			t.Fatalf("got %v, want infeasible", got.Status)
		}
	case got.Status != Optimal:
		t.Fatalf("got %v, want optimal %g", got.Status, want)
	case math.Abs(got.Value-want) > eps || !p.satisfied(got.X):
		t.Fatalf("got %g at %v, want %g", got.Value, got.X, want)
	case math.Abs(p.bound(got.Dual)-want) > eps:
		t.Fatalf("duals %v prove %g, want %g", got.Dual, p.bound(got.Dual), want)
	}
}

func TestAgreesWithEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		p.agrees(t, p.solver().Solve(10_000))
	})
}

func TestWarmStartAfterNewColumnsAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		s := NewSolver(p.rows)
		for i, c := range p.cols {
			s.Add(c)
			if i%2 == 0 {
				s.Solve(10_000)
			}
		}
		p.agrees(t, s.Solve(10_000))
	})
}

func TestSameProgramGivesTheSameAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		a, b := p.solver().Solve(10_000), p.solver().Solve(10_000)
		for j := range a.X {
			if a.X[j] != b.X[j] {
				t.Fatalf("column %d: %g and %g", j, a.X[j], b.X[j])
			}
		}
	})
}

// A cutting-stock master with hundreds of rows: the shape that the planner solves.
func BenchmarkCoveringMaster(b *testing.B) {
	const rows, patterns = 150, 2500
	build := func() *Solver {
		seed := uint64(1)
		next := func(n int) int { seed = seed*6364136223846793005 + 1442695040888963407; return int(seed>>33) % n }
		rs := make([]Row, rows)
		for i := range rs {
			rs[i] = Row{AtLeast, float64(1 + next(900))}
		}
		s := NewSolver(rs)
		for i := range rows {
			s.Add(NewColumn(10, Entry{i, 1}))
		}
		for range patterns {
			c, total := Column{Upper: Inf}, 0
			for _, i := range []int{next(50), 50 + next(50), 100 + next(50)} {
				n := 1 + next(8)
				total += n
				c.Entries = append(c.Entries, Entry{i, float64(n)})
			}
			c.Cost = float64(total) * (0.5 + float64(next(100))/100)
			s.Add(c)
		}
		return s
	}
	for b.Loop() {
		if got := build().Solve(1_000_000); got.Status != Optimal {
			b.Fatal(got.Status)
		}
	}
}

func TestAnotherStartGivesTheSameAnswer(t *testing.T) {
	s := NewSolver([]Row{{AtLeast, 4}, {AtLeast, 2}, {AtMost, 10}})
	dear := []int{s.Add(NewColumn(9, Entry{0, 1})), s.Add(NewColumn(9, Entry{1, 1}))}
	s.Add(NewColumn(3, Entry{0, 2}, Entry{1, 1}, Entry{2, 1}))
	s.Start(dear)
	if got := s.Solve(100); got.Status != Optimal || math.Abs(got.Value-6) > 1e-9 {
		t.Errorf("from the dear columns: %s at %g, want 6", got.Status, got.Value)
	}
}
