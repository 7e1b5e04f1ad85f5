package lp_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kerfdev/kerf/internal/glpk"
	"github.com/kerfdev/kerf/internal/lp"
)

// A kind of program that is drawn and given to both solvers.
type kind struct {
	programs      int
	rows, columns int // at most
	draw          func(r *rand.Rand, rows, columns int) ([]lp.Row, []lp.Column)
}

// kinds are programs of every sort, small and of a size that enumeration could
// not check; the planner solves the last two.
var kinds = map[string]kind{
	"any rows, bounds and signs":                      {120, 12, 15, anything},
	"ties: small whole numbers, rows through a point": {120, 14, 14, degenerate},
	"covering by patterns":                            {12, 120, 600, covering},
	"filling a bin":                                   {40, 16, 200, packing},
}

func TestAgreesWithGLPK(t *testing.T) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			ends := map[lp.Status]int{}
			for seed := range uint64(k.programs) {
				r := rand.New(rand.NewPCG(seed, 3))
				rows, columns := k.draw(r, 1+r.IntN(k.rows), 1+r.IntN(k.columns))
				ends[agree(t, seed, rows, columns)]++
			}
			t.Logf("how the programs end: %v", ends)
			if ends[lp.Optimal]*4 < k.programs {
				t.Errorf("%d of %d programs have an optimum: the test says little", ends[lp.Optimal], k.programs)
			}
		})
	}
}

// agree solves a program both ways: they end alike, at the same value, and what
// the row prices of either prove is that value too.
func agree(t *testing.T, seed uint64, rows []lp.Row, columns []lp.Column) lp.Status {
	t.Helper()
	want, err := glpk.Solve(t.Context(), rows, columns)
	if errors.Is(err, glpk.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := lp.NewSolver(rows)
	for _, c := range columns {
		s.Add(c)
	}
	got := s.Solve(1_000_000)
	if got.Status != want.Status {
		t.Errorf("seed %d: %v, glpsol says %v", seed, got.Status, want.Status)
		return got.Status
	}
	if got.Status != lp.Optimal {
		return got.Status
	}
	near := 1e-6 * (1 + math.Abs(want.Value))
	if math.Abs(got.Value-want.Value) > near {
		t.Errorf("seed %d: the optimum is %.9g, glpsol says %.9g", seed, got.Value, want.Value)
	}
	for whose, dual := range map[string][]float64{"kerf": got.Dual, "glpsol": want.Dual} {
		if v := proves(rows, columns, dual); math.Abs(v-want.Value) > near {
			t.Errorf("seed %d: the row prices of %s prove %.9g, the optimum is %.9g", seed, whose, v, want.Value)
		}
	}
	return got.Status
}

// proves is the value that no point goes below by weak duality: each column is
// where its reduced cost likes it best. Prices that are off by rounding move
// open columns by nothing that counts.
func proves(rows []lp.Row, columns []lp.Column, dual []float64) float64 {
	v := 0.0
	for i, r := range rows {
		if (r.Sense == lp.AtLeast && dual[i] < -1e-7) || (r.Sense == lp.AtMost && dual[i] > 1e-7) {
			return math.Inf(-1)
		}
		v += dual[i] * r.RHS
	}
	for _, c := range columns {
		reduced := c.Cost
		for _, e := range c.Entries {
			reduced -= dual[e.Row] * e.Value
		}
		at := c.Lower
		if reduced < 0 {
			at = c.Upper
		}
		if math.Abs(reduced) > 1e-6*(1+math.Abs(c.Cost)) || !math.IsInf(at, 0) {
			v += reduced * at
		}
	}
	return v
}

func anything(r *rand.Rand, rows, columns int) ([]lp.Row, []lp.Column) {
	var rs []lp.Row
	var cs []lp.Column
	for range rows {
		sense := lp.Sense(r.IntN(5) % 3)
		off := [...]float64{0.2, 0.7, 0.5}[sense] // more rows that zeros meet than not
		rs = append(rs, lp.Row{Sense: sense, RHS: math.Round(200*(r.Float64()-off)) / 10})
	}
	for range columns {
		c := lp.Column{Cost: math.Round(100*(r.Float64()-0.2)) / 10, Upper: lp.Inf}
		switch r.IntN(5) {
		case 0:
			c.Lower = -lp.Inf
		case 1:
			c.Lower = float64(r.IntN(7) - 3)
		}
		if r.IntN(4) > 0 {
			c.Upper = math.Max(c.Lower, -5) + float64(r.IntN(12))
		}
		c.Entries = entries(r, rows, 0.6, func() float64 { return math.Round(80*(r.Float64()-0.4)) / 10 })
		cs = append(cs, c)
	}
	return rs, cs
}

// degenerate programs have many rows that meet in one point, the start among
// them, so that most steps move nothing.
func degenerate(r *rand.Rand, rows, columns int) ([]lp.Row, []lp.Column) {
	through := make([]float64, columns)
	for j := range through {
		through[j] = float64(r.IntN(3))
	}
	rs, cs := make([]lp.Row, rows), make([]lp.Column, columns)
	for j := range cs {
		cs[j] = lp.Column{Cost: float64(r.IntN(5) - 1), Upper: lp.Inf, Entries: entries(r, rows, 0.7, func() float64 { return float64(r.IntN(5) - 2) })}
		if r.IntN(3) == 0 {
			cs[j].Upper = 2
		}
		for _, e := range cs[j].Entries {
			rs[e.Row].RHS += e.Value * through[j]
		}
	}
	for i := range rs {
		rs[i].Sense = lp.Sense(r.IntN(3))
	}
	return rs, cs
}

func covering(r *rand.Rand, rows, columns int) ([]lp.Row, []lp.Column) {
	var rs []lp.Row
	var cs []lp.Column
	for i := range rows {
		rs = append(rs, lp.Row{Sense: lp.AtLeast, RHS: float64(1 + r.IntN(900))})
		cs = append(cs, lp.NewColumn(10, lp.Entry{Row: i, Value: 1}))
	}
	for range columns {
		c, total := lp.NewColumn(0), 0.0
		c.Entries = entries(r, rows, 3/float64(rows), func() float64 { n := float64(1 + r.IntN(8)); total += n; return n })
		c.Cost = total * (0.5 + r.Float64())
		cs = append(cs, c)
	}
	return rs, cs
}

func packing(r *rand.Rand, rows, columns int) ([]lp.Row, []lp.Column) {
	var rs []lp.Row
	var cs []lp.Column
	for range rows {
		rs = append(rs, lp.Row{Sense: lp.AtMost, RHS: 1})
	}
	for range columns {
		cs = append(cs, lp.Column{Cost: -r.Float64(), Upper: float64(r.IntN(30)), Entries: entries(r, rows, 0.8, func() float64 { return r.Float64() / 4 })})
	}
	return rs, cs
}

// entries draws the coefficients of a column, each row with a probability.
func entries(r *rand.Rand, rows int, often float64, value func() float64) []lp.Entry {
	var out []lp.Entry
	for i := range rows {
		if r.Float64() < often {
			if v := value(); v != 0 {
				out = append(out, lp.Entry{Row: i, Value: v})
			}
		}
	}
	return out
}
