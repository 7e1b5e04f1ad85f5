package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// Table writes the report for a terminal: the answer, the nodes with what is in
// them, what was not placed and why, the notes.
func Table(w io.Writer, r Report, o Options) error {
	p := newPage(o)
	f := newFleet(r)
	p.headline(r, f)
	p.kinds(f, f.launches)
	if len(f.existing) > 0 {
		p.line()
		p.split("  "+p.paint(bold, "on existing nodes"), p.say(standingLine(f)))
		p.kinds(f, f.existing)
	}
	p.unplaced(r)
	p.relaxed(r, f)
	p.notes(r.Notes)
	return p.flush(w)
}

// headline says what a reader who stops after two lines should know.
func (p *page) headline(r Report, f fleet) {
	p.line()
	t := f.total
	if t.nodes == 0 {
		p.split("  "+p.paint(bold, "nothing to launch"), p.paint(dim, p.say(basis(r, t))))
	} else {
		parts := []string{count(t.nodes, "node")}
		if t.gpus > 0 {
			parts = append(parts, gpusLine(t))
		}
		parts = append(parts, hourly(t.cost)+" $/h", monthly(t.cost)+" $/month")
		lines := p.wrap(p.say(strings.Join(parts, " · ")), 2)
		last := len(lines) - 1
		for _, l := range lines[:last] {
			p.line("  ", p.paint(bold, l))
		}
		p.split("  "+p.paint(bold, lines[last]), p.paint(dim, p.say(basis(r, t))))
	}
	if s := boundLine(r.Plan); s != "" {
		p.line("  ", p.say(s))
	}
	p.line("  ", p.say(placedLine(r, f)))
}

// boundLine says what is proven about cheaper plans.
func boundLine(p plan.Plan) string {
	gap, known := p.Gap()
	if !known || p.Bound <= 0 {
		return ""
	}
	return fmt.Sprintf("at least %s $/h for any plan · gap %.1f %%", hourly(p.Bound), 100*gap)
}

// gpusLine counts whole GPUs, or GPUs and slices apart.
func gpusLine(t tally) string {
	if t.sliced {
		return fmt.Sprintf("%s as %s, %s in use", count(t.gpus, "GPU"), count(t.slices, "slice"), number(t.used))
	}
	return fmt.Sprintf("%s, %s in use", count(t.gpus, "GPU"), number(t.busy))
}

// basis says how the nodes are bought and where their prices come from.
func basis(r Report, t tally) string {
	return strings.Join(slices.DeleteFunc([]string{t.bought(), origin(r)}, func(s string) bool { return s == "" }), ", ")
}

// bought names the capacity types: "spot", or "3 on-demand, 2 spot".
func (t tally) bought() string {
	caps := slices.Sorted(maps.Keys(t.byCap))
	if len(caps) == 1 {
		return caps[0]
	}
	var parts []string
	for _, c := range caps {
		if c != "" {
			parts = append(parts, fmt.Sprintf("%s %s", number(t.byCap[c]), c))
		}
	}
	return strings.Join(parts, ", ")
}

// origin says where prices come from.
func origin(r Report) string {
	basis := r.Snapshot.PriceBasis
	if basis != "" {
		basis = "prices " + basis
	}
	return strings.Join(slices.DeleteFunc([]string{r.Snapshot.Region, basis}, func(s string) bool { return s == "" }), ", ")
}

func placedLine(r Report, f fleet) string {
	n, all := f.placed, len(r.Snapshot.Pods)
	var s string
	switch {
	case all == 0:
		return "no pods found in the input"
	case n == all && n == 1:
		s = "the pod is placed"
	case n == all:
		s = fmt.Sprintf("all %s pods are placed", number(n))
	default:
		s = fmt.Sprintf("%s of %s pods placed, %s not (reasons below)", number(n), number(all), number(all-n))
	}
	if f.rebound > 0 {
		s += fmt.Sprintf(", %s of them on existing nodes", number(f.rebound))
	}
	return s
}

func standingLine(f fleet) string {
	t := f.standing
	parts := []string{count(t.nodes, "node")}
	if t.gpus > 0 {
		parts = append(parts, gpusLine(t))
	}
	if t.cost > 0 {
		parts = append(parts, hourly(t.cost)+" $/h")
	}
	return strings.Join(parts, " · ")
}

// relaxed names the preferences that were given up.
func (p *page) relaxed(r Report, f fleet) {
	if len(r.Trace.Relaxed) == 0 {
		return
	}
	p.line()
	p.line("  ", p.paint(bold, "preferences given up"))
	for _, x := range r.Trace.Relaxed {
		p.para("  ", f.list(x.Pods)+": "+relaxation(x))
	}
}

func relaxation(x model.Relaxation) string {
	s := "preferred " + x.What
	if x.Key != "" {
		s += " on " + x.Key
	}
	return s
}

// list names pods by workload: "web ×3, team-a/trainer".
func (f fleet) list(pods []int) string {
	var parts []string
	for _, t := range f.tenants(pods) {
		name := f.workloads[t.workload].name
		if t.count > 1 {
			name += fmt.Sprintf(" ×%d", t.count)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}
