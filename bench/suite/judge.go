package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/glpk"
	"github.com/kerfdev/kerf/internal/lp"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// A Judgement is what GLPK's glpsol, which shares nothing with Kerf, makes of a
// workload's bound. Both programs are written from the Snapshot and from plans
// that plan.Check has passed, not by the solver whose bound is judged.
type Judgement struct {
	// Assignment is the optimum in $/h of handing pods out to types of node in
	// fractions, with the cuts of dual feasible functions. Every plan costs at
	// least that, so a bound below it has been left short.
	Assignment float64
	// Patterns is the optimum of taking the nodes of Kerf's plans in fractions.
	// A bound by linear programming is never above it; one that is, is wrong.
	Patterns float64
	Nodes    int // different nodes among Patterns
	Took     time.Duration
	Absent   string // why nothing was judged, "" when it was
}

// judgeLimit ends glpsol on the programs of one workload.
const judgeLimit = 2 * time.Minute

// judge has glpsol solve the programs around a workload's bound.
func judge(s model.Snapshot, plans ...plan.Plan) Judgement {
	start := time.Now()
	a, err := newAssignment(s)
	if err != nil {
		return Judgement{Absent: err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), judgeLimit)
	defer cancel()
	rows, columns := a.program()
	whole, err := optimum(ctx, rows, columns)
	if err != nil {
		return Judgement{Absent: "the assignment program: " + err.Error()}
	}
	rows, columns = a.patterns(s, plans)
	parts, err := optimum(ctx, rows, columns)
	if err != nil {
		return Judgement{Absent: "the configuration program: " + err.Error()}
	}
	return Judgement{Assignment: whole, Patterns: parts, Nodes: len(columns), Took: time.Since(start)}
}

func optimum(ctx context.Context, rows []lp.Row, columns []lp.Column) (float64, error) {
	a, err := glpk.Solve(ctx, rows, columns)
	if err == nil && a.Status != lp.Optimal {
		err = fmt.Errorf("glpsol says that it is %v", a.Status)
	}
	return a.Value, err
}

// agreement is how near figures must be to count as one, relative: a search for
// the bound ends where so much and no more is to be gained.
const agreement = 1e-5

func (j Judgement) known() bool { return j.Assignment > 0 }

// against says what is wrong with a bound, nil when nothing is.
func (j Judgement) against(bound float64) error {
	if j.known() && bound > j.Patterns*(1+agreement) {
		return fmt.Errorf("the bound of %.4f $/h is above the optimum of the configuration program, %.4f $/h by glpsol", bound, j.Patterns)
	}
	return nil
}

// reaches reports whether a bound is as high as the assignment program's.
func (j Judgement) reaches(bound float64) bool { return bound >= j.Assignment*(1-agreement) }

// An assignment is a Snapshot without nodes, as shapes of pods and what they may
// be put on.
type assignment struct {
	shapes []*model.PodSpec
	count  []int
	of     map[*model.PodSpec]int // spec to shape
	offers []vendor
}

// A vendor is a type at a price in a zone, for the shapes that it admits.
type vendor struct {
	typ    *model.InstanceType
	price  float64
	admits []bool
}

var errLinked = errors.New("pods depend on each other there, or on nodes that exist, which no assignment program says")

func newAssignment(s model.Snapshot) (*assignment, error) {
	a := &assignment{of: map[*model.PodSpec]int{}}
	if len(s.Nodes)+len(s.DaemonSets) > 0 || len(s.Pools) != 1 || len(s.Pools[0].Requirements)+len(s.Pools[0].Taints)+len(s.Pools[0].Labels) > 0 {
		return nil, errLinked
	}
	alike := map[string]int{}
	for _, p := range s.Pods {
		at, known := a.of[p.Spec]
		if !known {
			if len(p.Spec.Spread)+len(p.Spec.PodAffinity)+len(p.Spec.HostPorts)+len(p.Spec.Volumes) > 0 {
				return nil, errLinked
			}
			key := fmt.Sprint(p.Spec.Requests, p.Spec.Shares, p.Spec.NodeSelector, p.Spec.NodeAffinity)
			if at, known = alike[key]; !known {
				at = len(a.shapes)
				alike[key] = at
				a.shapes, a.count = append(a.shapes, p.Spec), append(a.count, 0)
			}
			a.of[p.Spec] = at
		}
		a.count[at]++
	}
	for i := range s.Types {
		for _, o := range s.Types[i].Offerings {
			a.offers = append(a.offers, a.vendor(&s.Types[i], o))
		}
	}
	a.offers = undominated(a.offers)
	return a, nil
}

func (a *assignment) vendor(t *model.InstanceType, o model.Offering) vendor {
	labels := map[string]string{model.LabelZone: o.Zone, model.LabelCapacityType: o.CapacityType}
	for k, v := range t.Labels {
		labels[k] = v
	}
	v := vendor{typ: t, price: o.Price, admits: make([]bool, len(a.shapes))}
	for i, p := range a.shapes {
		if t.Allocatable.Lacking(needs(p)) == "" {
			_, v.admits[i] = constraint.MatchNode(p, labels)
		}
	}
	return v
}

// undominated drops the vendors that another is as good as in every way.
func undominated(all []vendor) []vendor {
	slices.SortStableFunc(all, func(x, y vendor) int { return cmp.Compare(x.price, y.price) })
	var out []vendor
	for _, v := range all {
		if slices.Contains(v.admits, true) && !slices.ContainsFunc(out, func(o vendor) bool { return o.covers(v) }) {
			out = append(out, v)
		}
	}
	return out
}

// covers reports whether what fits on the other, which is no cheaper, fits here.
func (v vendor) covers(other vendor) bool {
	for i, yes := range other.admits {
		if yes && !v.admits[i] {
			return false
		}
	}
	for _, name := range counted {
		if v.typ.Allocatable[name] < other.typ.Allocatable[name] {
			return false
		}
	}
	return true
}

// counted are the resources that the pods of the workloads ask.
var counted = []string{model.CPU, model.Memory, model.Pods, model.NvidiaGPU}

// program writes the assignment program: for every vendor a column of nodes and
// one for each shape that it admits; rows that give every pod a place, and rows
// by which so many nodes hold what they are given.
func (a *assignment) program() ([]lp.Row, []lp.Column) {
	rows := make([]lp.Row, len(a.shapes))
	for i, n := range a.count {
		rows[i] = lp.Row{Sense: lp.AtLeast, RHS: float64(n)}
	}
	var columns []lp.Column
	row := func() int {
		rows = append(rows, lp.Row{Sense: lp.AtMost})
		return len(rows) - 1
	}
	for _, v := range a.offers {
		node, cuts := lp.NewColumn(v.price), a.cuts(v)
		first := len(rows)
		for _, c := range cuts {
			node.Entries = append(node.Entries, lp.Entry{Row: row(), Value: -c.capacity})
		}
		for i, yes := range v.admits {
			if !yes {
				continue
			}
			given, most := lp.NewColumn(0, lp.Entry{Row: i, Value: 1}), math.Inf(1)
			for k, c := range cuts {
				if w := c.weight[i]; w > 0 {
					given.Entries = append(given.Entries, lp.Entry{Row: first + k, Value: w})
					most = math.Min(most, c.capacity/w)
				}
			}
			if n := math.Min(math.Floor(most+1e-9), float64(a.count[i])); n < most-1e-9 {
				at := row() // a node holds whole pods
				node.Entries = append(node.Entries, lp.Entry{Row: at, Value: -n})
				given.Entries = append(given.Entries, lp.Entry{Row: at, Value: 1})
			}
			columns = append(columns, given)
		}
		columns = append(columns, node)
	}
	return rows, columns
}

// A cut says that what a node is given weighs no more than its capacity.
type cut struct {
	capacity float64
	weight   []float64 // by shape
}

// cuts are what holds on every node of a vendor: that it has so much of each
// resource, and the same seen through functions f with f(x) + f(y) + ... <= 1
// wherever x + y + ... <= 1 (Fekete and Schepers, Math. Programming 91, 2001).
func (a *assignment) cuts(v vendor) []cut {
	var out []cut
	for _, name := range counted {
		have := v.typ.Allocatable[name]
		if have <= 0 || !slices.ContainsFunc(a.shapes, func(p *model.PodSpec) bool { return p.Requests[name] > 0 }) {
			continue
		}
		functions := []func(float64) float64{itself}
		if name == model.CPU || name == model.Memory {
			functions = append(functions, roundings(3)...)
		}
		for _, f := range functions {
			c := cut{capacity: 1, weight: make([]float64, len(a.shapes))}
			for i, p := range a.shapes {
				if v.admits[i] {
					c.weight[i] = f(float64(p.Requests[name]) / float64(have))
				}
			}
			out = append(out, c)
		}
	}
	gpus := v.typ.Allocatable[model.NvidiaGPU]
	if gpus == 0 || !slices.ContainsFunc(a.shapes, func(p *model.PodSpec) bool { return len(p.Shares) > 0 }) {
		return out
	}
	for _, f := range append(append([]func(float64) float64{itself}, roundings(4)...), a.thresholds(v)...) {
		c := cut{capacity: float64(gpus), weight: make([]float64, len(a.shapes))}
		for i, p := range a.shapes {
			c.weight[i] = float64(p.Requests[model.NvidiaGPU])
			for _, d := range p.Shares {
				c.weight[i] += float64(d.Count) * f(float64(d.PerDevice[model.ShareMilli])/1000)
			}
		}
		out = append(out, c)
	}
	return out
}

func itself(x float64) float64 { return x }

// roundings round down to whole parts of a half, a third and so on; what is a
// whole number of parts already stays as it is.
func roundings(n int) []func(float64) float64 {
	var out []func(float64) float64
	for k := 1; k <= n; k++ {
		out = append(out, func(x float64) float64 {
			parts := x * float64(k+1)
			if math.Abs(parts-math.Round(parts)) < 1e-9 {
				return x
			}
			return math.Floor(parts) / float64(k)
		})
	}
	return out
}

// thresholds count parts of a GPU above some size as a whole one and what fits
// beside them as nothing, for the eight commonest sizes above a half.
func (a *assignment) thresholds(v vendor) []func(float64) float64 {
	pods := map[int64]int{}
	for i, p := range a.shapes {
		for _, d := range p.Shares {
			if part := d.PerDevice[model.ShareMilli]; v.admits[i] && part > 500 && part < 1000 {
				pods[part] += a.count[i]
			}
		}
	}
	var sizes []int64
	for size := range pods {
		sizes = append(sizes, size)
	}
	slices.SortFunc(sizes, func(x, y int64) int { return cmp.Or(cmp.Compare(pods[y], pods[x]), cmp.Compare(x, y)) })
	var out []func(float64) float64
	for _, size := range sizes[:min(8, len(sizes))] {
		beside := math.Min(0.5, 1-float64(size)/1000+1e-7)
		out = append(out, func(x float64) float64 {
			switch {
			case x > 1-beside:
				return 1
			case x < beside:
				return 0
			}
			return x
		})
	}
	return out
}

// patterns writes the configuration program over the nodes that plans launch.
// Pods that a plan leaves out are left out.
func (a *assignment) patterns(s model.Snapshot, plans []plan.Plan) ([]lp.Row, []lp.Column) {
	rows := make([]lp.Row, len(a.shapes))
	var columns []lp.Column
	seen := map[string]bool{}
	for _, p := range plans {
		for _, l := range p.Launches {
			pods := make([]float64, len(a.shapes))
			for _, at := range l.Pods {
				pods[a.of[s.Pods[at].Spec]]++
			}
			c := lp.NewColumn(l.Price)
			for i, n := range pods {
				if n > 0 {
					c.Entries = append(c.Entries, lp.Entry{Row: i, Value: n})
				}
			}
			if key := fmt.Sprint(c.Cost, c.Entries); !seen[key] {
				seen[key] = true
				columns = append(columns, c)
			}
		}
	}
	for i, n := range a.count {
		rows[i] = lp.Row{Sense: lp.AtLeast, RHS: float64(n)}
	}
	return rows, columns
}
