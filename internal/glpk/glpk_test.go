package glpk

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kerfdev/kerf/internal/lp"
)

func TestSolve(t *testing.T) {
	cover := []lp.Row{{Sense: lp.AtLeast, RHS: 4}, {Sense: lp.AtLeast, RHS: 6}}
	patterns := []lp.Column{
		lp.NewColumn(2, lp.Entry{Row: 0, Value: 1}, lp.Entry{Row: 1, Value: 1}), lp.NewColumn(1, lp.Entry{Row: 1, Value: 2}), lp.NewColumn(1.5, lp.Entry{Row: 0, Value: 1}),
	}
	cases := map[string]struct {
		rows    []lp.Row
		columns []lp.Column
		want    Answer
	}{
		"two patterns cover two rows": {cover, patterns, Answer{lp.Optimal, 9, []float64{1.5, 0.5}}},
		"a bound below zero": {
			[]lp.Row{{Sense: lp.AtMost, RHS: 10}},
			[]lp.Column{{Cost: -1, Lower: -7, Upper: -3, Entries: []lp.Entry{{Row: 0, Value: 1}}}},
			Answer{lp.Optimal, 3, []float64{0}},
		},
		"a column that may be anything": {
			[]lp.Row{{Sense: lp.Equal, RHS: -5}},
			[]lp.Column{{Cost: 2, Lower: -lp.Inf, Upper: lp.Inf, Entries: []lp.Entry{{Row: 0, Value: 1}}}},
			Answer{lp.Optimal, -10, []float64{2}},
		},
		"rows that contradict each other": {
			[]lp.Row{{Sense: lp.AtLeast, RHS: 2}, {Sense: lp.AtMost, RHS: 1}},
			[]lp.Column{lp.NewColumn(1, lp.Entry{Row: 0, Value: 1}, lp.Entry{Row: 1, Value: 1})},
			Answer{Status: lp.Infeasible},
		},
		"a ray that lowers the cost for ever": {
			[]lp.Row{{Sense: lp.AtLeast, RHS: 1}},
			[]lp.Column{lp.NewColumn(-1, lp.Entry{Row: 0, Value: 1})},
			Answer{Status: lp.Unbounded},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Solve(t.Context(), c.rows, c.columns)
			if errors.Is(err, ErrAbsent) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.want.Status != lp.Optimal {
				got.Value, got.Dual = 0, nil
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-5)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMPSIsWhole(t *testing.T) {
	got := string(MPS([]lp.Row{{Sense: lp.AtLeast, RHS: 0.1}}, []lp.Column{{Cost: 1, Lower: -math.Inf(1), Upper: 2, Entries: []lp.Entry{{Row: 0, Value: 1.0 / 3}}}}))
	want := `NAME KERF
ROWS
 N COST
 G R0
COLUMNS
 C0 COST 1
 C0 R0 0.33333333333333331
RHS
 RHS R0 0.10000000000000001
BOUNDS
 MI BND C0
 UP BND C0 2
ENDATA
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAnswersThatMakeNoSenseAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"c nothing\n":              "no status",
		"s bas 1 1 x y 3\n":        `status "xy"`,
		"s bas 1 1 f f z\n":        "invalid syntax",
		"s bas 1 1 f f 3\ni 2 b 1": `row "2"`,
	} {
		if _, err := read([]byte(text), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
