package suite

import (
	"math/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kerfdev/kerf/internal/glpk"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/solve"
)

func judgeable(t *testing.T, s model.Snapshot, o solve.Options) (Judgement, float64) {
	t.Helper()
	o.Prove = proveSteps
	p, _ := solve.Solve(s, o)
	j := judge(s, p)
	if j.Absent == glpk.ErrAbsent.Error() || strings.HasSuffix(j.Absent, glpk.ErrAbsent.Error()) {
		t.Skip(j.Absent)
	}
	if !j.known() {
		t.Fatalf("not judged: %s", j.Absent)
	}
	return j, p.Bound
}

// Kerf's bound is that of a solver which shares no code with it: on a fleet as
// large as a trace, and on small ones, where it may be higher but not wrong.
func TestBoundAgreesWithGLPK(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	s, err := openb("default", false, false)()
	if err != nil {
		t.Fatal(err)
	}
	j, bound := judgeable(t, s, solve.Options{CPUOnGPU: true, Steps: quickSteps})
	if !j.reaches(bound) || j.against(bound) != nil {
		t.Errorf("the bound is %.4f $/h, and glpsol says %+v", bound, j)
	}
	types, err := fleetTypes(false)
	if err != nil {
		t.Fatal(err)
	}
	d := draw{rand.New(rand.NewSource(3))}
	for i := range 20 {
		s := d.fleet(types, i%2 == 0)
		j, bound := judgeable(t, s, solve.Options{CPUOnGPU: true})
		best, _ := exact(s)
		if !j.reaches(bound) || bound > best*(1+agreement) || j.Assignment > best*(1+agreement) {
			t.Errorf("fleet %d: the optimum is %.4f $/h, the bound %.4f, and glpsol says %+v", i, best, bound, j)
		}
	}
}

func TestJudgementsTellShortAndWrongBounds(t *testing.T) {
	j := Judgement{Assignment: 100, Patterns: 110, Nodes: 7}
	for name, c := range map[string]struct {
		bound          float64
		reaches, wrong bool
	}{
		"short of the assignment program": {99.9, false, false},
		"equal but for rounding":          {99.9995, true, false},
		"between the two":                 {105, true, false},
		"above what nodes cost":           {110.1, true, true},
	} {
		if got := j.reaches(c.bound); got != c.reaches {
			t.Errorf("%s: reaches is %v", name, got)
		}
		if err := j.against(c.bound); (err != nil) != c.wrong {
			t.Errorf("%s: error %v", name, err)
		}
	}
	r := rows()
	r[0].Judged, r[0].Kerf.Bound = j, 100
	r[1].Judged.Absent = "glpsol is away"
	for name, text := range map[string]string{"text": (Report{Rows: r}).Text(), "markdown": (Report{Rows: r}).Markdown()} {
		for _, want := range []string{"equal", "-9.091 %", "Of 1 bounds 1 are as high", "Not judged: glpsol is away"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in the %s\n%s", want, name, text)
			}
		}
	}
}

func TestPodsThatDependOnEachOtherAreNotJudged(t *testing.T) {
	s, err := diverse(100)()
	if err != nil {
		t.Fatal(err)
	}
	if j := judge(s); j.known() || !strings.Contains(j.Absent, "depend on each other") {
		t.Errorf("judged as %+v", j)
	}
}
