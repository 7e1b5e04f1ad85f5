package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// An Inquiry is the whole reasoning about one pod, or about pods of one owner.
type Inquiry struct {
	Report
	Pods   []int // indexes into Snapshot.Pods; what the first one asks is shown
	Trials []Trial
	// Instead is what the pool would launch for all pods of the first node that
	// these pods are launched on, were the types before it not to be had.
	Instead []Instead
}

// An Instead is the next best plan for the pods of one node.
type Instead struct {
	Nodes string // "g4dn.2xlarge", "2 × c6i.large"
	Price float64
}

// First returns the first launch with any of the pods, or nil.
func (q Inquiry) First() *plan.Launch {
	mine := q.mine()
	for i, l := range q.Plan.Launches {
		if among(l.Pods, mine) > 0 {
			return &q.Plan.Launches[i]
		}
	}
	return nil
}

// A Trial is what came of the pod when it was planned alone: on one pool, or on
// the nodes that exist when Pool is "".
type Trial struct {
	Pool     string
	Launch   *plan.Launch // nil when refused, or placed on a node that exists
	Node     string
	Verdicts []model.Verdict
}

// Anywhere reports whether the pod was refused for what it is, wherever it
// would go.
func (t Trial) Anywhere() bool {
	return len(t.Verdicts) > 0 && t.Verdicts[0].Pool == "" && t.Verdicts[0].Node == ""
}

// Explain writes an inquiry for a terminal.
func Explain(w io.Writer, q Inquiry, o Options) error {
	p := newPage(o)
	f := newFleet(q.Report)
	pod := q.Snapshot.Pods[q.Pods[0]]
	p.line()
	p.who(q, pod)
	p.asks(pod.Spec)
	p.fate(q, f)
	p.trials(q)
	p.notes(q.about(pod))
	return p.flush(w)
}

// about keeps the notes on the object that a pod comes from.
func (q Inquiry) about(pod model.Pod) []model.Note {
	from := placeOf(pod)
	return slices.DeleteFunc(slices.Clone(q.Notes), func(n model.Note) bool {
		return n.Place.Object == "" || n.Place.File != from.File || n.Place.Object != from.Object
	})
}

const labelColumn = 16

// item writes one labelled fact.
func (p *page) item(label, text string) {
	if text != "" {
		p.para("  "+p.paint(dim, pad(label, labelColumn)), text)
	}
}

func (p *page) who(q Inquiry, pod model.Pod) {
	title := p.paint(bold, pod.Namespace+"/"+pod.Name)
	if len(q.Pods) > 1 {
		title = p.paint(bold, strings.TrimPrefix(workloadName(pod), "default/")) + fmt.Sprintf("  %s alike", count(len(q.Pods), "pod"))
	}
	p.line("  ", p.say(title))
	p.item("from", strings.Trim(pod.Owner+", "+placeOf(pod).String(), ", "))
}

func placeOf(pod model.Pod) model.Place {
	if pod.Spec == nil {
		return model.Place{}
	}
	return pod.Spec.Place
}

// fate writes where the pods went: nodes to launch, nodes that exist, or nowhere.
func (p *page) fate(q Inquiry, f fleet) {
	mine := q.mine()
	p.line()
	p.launched(q, f, mine)
	for _, n := range standing(q, mine) {
		p.item("sits on", n)
	}
	for _, u := range q.Plan.Unplaced {
		if n := among(u.Pods, mine); n > 0 {
			p.item(p.paint(red, "not placed"), count(n, "pod")+": the reasons are below")
		}
	}
	for _, x := range q.Trace.Relaxed {
		if n := among(x.Pods, mine); n > 0 {
			p.item("gave up", relaxation(x)+fmt.Sprintf(" (%s)", count(n, "pod")))
		}
	}
}

func (q Inquiry) mine() map[int]bool {
	mine := map[int]bool{}
	for _, i := range q.Pods {
		mine[i] = true
	}
	return mine
}

func among(pods []int, mine map[int]bool) int {
	n := 0
	for _, i := range pods {
		if mine[i] {
			n++
		}
	}
	return n
}

// launched names the kinds of nodes that the plan launches for the pods, and
// for the first kind why its type.
func (p *page) launched(q Inquiry, f fleet, mine map[int]bool) {
	type site struct {
		what, where string
		price       string
		nodes, pods int
	}
	var sites []site
	for _, l := range q.Plan.Launches {
		n := among(l.Pods, mine)
		if n == 0 {
			continue
		}
		s := site{what: l.Type, where: f.siteText(l, mine), price: hourly(l.Price) + " $/h"}
		at := slices.IndexFunc(sites, func(o site) bool { return o.what == s.what && o.where == s.where && o.price == s.price })
		if at < 0 {
			sites, at = append(sites, s), len(sites)
		}
		sites[at].nodes++
		sites[at].pods += n
	}
	for i, s := range sites {
		if i == 6 && !p.Wide && len(sites) > 7 {
			p.item("", fmt.Sprintf("… and %d more such places", len(sites)-i))
			break
		}
		text := "a new " + s.what
		if s.nodes > 1 {
			text = number(s.nodes) + " new " + s.what
			s.price += " each"
		}
		if len(q.Pods) > 1 {
			text = count(s.pods, "pod") + " on " + text
		}
		p.item("goes on", text+s.where+"; "+s.price)
	}
	if l := q.First(); l != nil {
		p.choice(q, *l)
	}
}

// siteText says of a node to launch where it is and who else is on it.
func (f fleet) siteText(l plan.Launch, mine map[int]bool) string {
	text := fmt.Sprintf(" of pool %s, %s", l.Pool, l.CapacityType)
	if z := zonesOf(l.Zones); z != "" {
		text += ", " + z
	}
	if l.Config != "" {
		text += ", device config " + l.Config
	}
	others := slices.DeleteFunc(slices.Clone(l.Pods), func(i int) bool { return mine[i] })
	if len(others) > 0 {
		text += ", shared with " + clipList(f.list(others), 120)
	}
	return text
}

func clipList(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := strings.LastIndex(s[:n], ", ")
	if cut < 0 {
		return s
	}
	return s[:cut] + " …"
}

// choice lists what else could hold the pods of a node, with what each costs.
func (p *page) choice(q Inquiry, l plan.Launch) {
	type row struct{ name, price string }
	rows := []row{{l.Type, hourly(l.Price) + " $/h, chosen for all that is on it"}}
	for _, x := range q.Instead {
		rows = append(rows, row{x.Nodes, hourly(x.Price) + " $/h"})
	}
	col := 0
	for _, r := range rows {
		col = max(col, wide(r.name))
	}
	label := "why that type"
	for _, r := range rows {
		p.line("  ", p.paint(dim, pad(label, labelColumn)), p.say(pad(r.name, col)+"  "+r.price))
		label = ""
	}
	if len(q.Instead) == 0 {
		p.item("", "nothing else that pool "+l.Pool+" allows holds its pods")
	}
}

// standing names the nodes that exist on which the pods sit or will sit.
func standing(q Inquiry, mine map[int]bool) []string {
	var out []string
	for _, n := range q.Snapshot.Nodes {
		bound, soon := q.onNode(n.Name, mine)
		if bound > 0 {
			out = append(out, fmt.Sprintf("%s (%s), %s bound", n.Name, n.Type, count(bound, "pod")))
		}
		if soon > 0 {
			out = append(out, fmt.Sprintf("%s (%s), which has room; %s", n.Name, n.Type, count(soon, "pod")))
		}
	}
	return out
}

// onNode counts the pods that sit on a node and those that the plan puts there.
func (q Inquiry) onNode(node string, mine map[int]bool) (bound, soon int) {
	for _, i := range q.Pods {
		if q.Snapshot.Pods[i].Node == node {
			bound++
		}
	}
	for _, b := range q.Plan.Binds {
		if b.Node == node {
			soon += among(b.Pods, mine)
		}
	}
	return bound, soon
}
