package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/explain"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// An Inquiry is the whole reasoning about one pod, or about pods of one owner.
type Inquiry struct {
	Report
	Pods   []int // indexes into Snapshot.Pods; what the first one asks is shown
	Trials []Trial
}

// A Trial is what came of the pod when it was planned alone: on one pool, or on
// the nodes that exist when Pool is "".
type Trial struct {
	Pool     string
	Launch   *plan.Launch // nil when refused, or placed on a node that exists
	Node     string
	Verdicts []model.Verdict
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
	p.item("from", strings.TrimSuffix(pod.Owner+", "+placeOf(pod).String(), ", "))
}

func placeOf(pod model.Pod) model.Place {
	if pod.Spec == nil {
		return model.Place{}
	}
	return pod.Spec.Place
}

// asks writes what decides where the pod may run, after the API server's defaulting.
func (p *page) asks(s *model.PodSpec) {
	if s == nil {
		return
	}
	p.item("asks", resources(s.Requests)+" (after defaulting)")
	for _, c := range s.Containers {
		if len(s.Containers) > 1 {
			p.item("  "+c.Name, strings.TrimSpace(containerRole(c)+" "+resources(c.Requests)))
		}
	}
	for _, d := range s.Shares {
		p.item("shares", fmt.Sprintf("%d × %s, of each %s", d.Count, shortResource(d.Resource), resources(d.PerDevice)))
	}
	p.item("node selector", pairs(s.NodeSelector))
	for i, t := range s.NodeAffinity {
		label := "node affinity"
		if i > 0 {
			label = "  or"
		}
		p.item(label, termText(t))
	}
	for _, t := range s.NodePreferred {
		p.item("prefers", fmt.Sprintf("%s (weight %d)", termText(t.Term), t.Weight))
	}
	for _, t := range s.Tolerations {
		p.item("tolerates", tolerationText(t))
	}
	for _, t := range s.Spread {
		p.item("spreads", spreadText(t))
	}
	for _, t := range s.PodAffinity {
		p.item("pod affinity", podTermText(t))
	}
	for _, h := range s.HostPorts {
		p.item("host port", fmt.Sprintf("%d/%s", h.Port, h.Protocol))
	}
	for _, v := range s.Volumes {
		p.item("volume", volumeText(v))
	}
	if s.Priority != 0 {
		p.item("priority", strconv.Itoa(int(s.Priority)))
	}
	p.item("waits for", strings.Join(s.Gates, ", "))
	p.item("claims", strings.Join(s.Claims, ", "))
}

func containerRole(c model.Container) string {
	switch {
	case c.Sidecar:
		return "(sidecar)"
	case c.Init:
		return "(init)"
	}
	return ""
}

// resources writes amounts, GPUs first, without the pod itself.
func resources(r model.Resources) string {
	var gpus, rest []string
	for _, name := range r.Names() {
		switch {
		case name == model.Pods || r[name] == 0:
		case model.IsGPU(name):
			gpus = append(gpus, name+" "+amount(name, r[name]))
		default:
			rest = append(rest, name+" "+amount(name, r[name]))
		}
	}
	if len(gpus)+len(rest) == 0 {
		return "nothing"
	}
	return strings.Join(append(gpus, rest...), ", ")
}

func pairs(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+" = "+m[k])
	}
	return strings.Join(parts, ", ")
}

func termText(t model.Term) string {
	var parts []string
	for _, r := range t {
		parts = append(parts, strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+valuesText(r.Values)))
	}
	return strings.Join(parts, " and ")
}

func valuesText(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case len(values) > 8:
		return fmt.Sprintf("[%s … %d more]", strings.Join(values[:6], ", "), len(values)-6)
	}
	return "[" + strings.Join(values, ", ") + "]"
}

func tolerationText(t model.Toleration) string {
	key := t.Key
	if key == "" {
		key = "every taint"
	}
	if t.Operator != "Exists" && t.Key != "" {
		key += "=" + t.Value
	}
	if t.Effect != "" {
		key += ":" + t.Effect
	}
	if t.Assumed {
		key += " (assumed: the ExtendedResourceToleration admission plugin adds it)"
	}
	return key
}

func spreadText(s model.Spread) string {
	text := fmt.Sprintf("over %s, at most %d apart", s.TopologyKey, s.MaxSkew)
	if s.Soft {
		text += ", if possible"
	}
	return text
}

func podTermText(t model.PodTerm) string {
	text := "with"
	if t.Anti {
		text = "away from"
	}
	text += " pods that match " + selectorText(t.Selector) + " per " + t.TopologyKey
	if t.Weight > 0 {
		text += fmt.Sprintf(", if possible (weight %d)", t.Weight)
	}
	return text
}

func selectorText(s model.Selector) string {
	switch {
	case len(s.Term) > 0:
		return termText(s.Term)
	case s.All:
		return "anything"
	}
	return "nothing"
}

func volumeText(v model.Volume) string {
	var parts []string
	for _, t := range v.Terms {
		parts = append(parts, termText(t))
	}
	return strings.TrimSuffix(v.Claim+", only where "+strings.Join(parts, ", or "), ", only where ")
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
		text string
		pods int
	}
	var sites []site
	var why *plan.Launch
	for i, l := range q.Plan.Launches {
		n := among(l.Pods, mine)
		if n == 0 {
			continue
		}
		if why == nil {
			why = &q.Plan.Launches[i]
		}
		text := f.siteText(l, mine)
		at := slices.IndexFunc(sites, func(s site) bool { return s.text == text })
		if at < 0 {
			sites, at = append(sites, site{text: text}), len(sites)
		}
		sites[at].pods += n
	}
	for i, s := range sites {
		if i == 6 && !p.Wide && len(sites) > 7 {
			p.item("", fmt.Sprintf("… and %d more such places", len(sites)-i))
			break
		}
		text := s.text
		if len(q.Pods) > 1 {
			text = count(s.pods, "pod") + " on " + text
		}
		p.item("goes on", text)
	}
	if why != nil {
		p.choice(q, *why)
	}
}

// siteText names a node to launch and who else is on it.
func (f fleet) siteText(l plan.Launch, mine map[int]bool) string {
	text := fmt.Sprintf("a new %s of pool %s, %s", l.Type, l.Pool, l.CapacityType)
	if z := zonesOf(l.Zones); z != "" {
		text += ", " + z
	}
	text += ", " + hourly(l.Price) + " $/h"
	if l.Config != "" {
		text += ", device config " + l.Config
	}
	others := slices.DeleteFunc(slices.Clone(l.Pods), func(i int) bool { return mine[i] })
	if len(others) > 0 {
		text += "; shared with " + clipList(f.list(others), 120)
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

// choice lists the types that hold the same pods with what each costs.
func (p *page) choice(q Inquiry, l plan.Launch) {
	label := "why that type"
	shown := l.Alternatives
	if len(shown) > 6 && !p.Wide {
		shown = shown[:5]
	}
	if len(shown) < 2 {
		p.item(label, "no other type that the pool allows holds the same pods")
		return
	}
	col := 0
	for _, name := range shown {
		col = max(col, len(name))
	}
	for i, name := range shown {
		text := pad(name, col) + "  no price"
		if price, ok := q.cheapest(name, l); ok {
			text = pad(name, col) + "  " + hourly(price) + " $/h"
		}
		if i == 0 {
			text += ", the cheapest that holds what is on it"
		}
		p.line("  ", p.paint(dim, pad(label, labelColumn)), p.say(text))
		label = ""
	}
	if n := len(l.Alternatives) - len(shown); n > 0 {
		p.item("", fmt.Sprintf("… and %s, dearer", count(n, "more type")))
	}
}

// cheapest is the lowest price of a type where the launch may go.
func (q Inquiry) cheapest(name string, l plan.Launch) (float64, bool) {
	best, found := 0.0, false
	if name == l.Type {
		return l.Price, true
	}
	for _, t := range q.Snapshot.Types {
		if t.Name != name {
			continue
		}
		for _, o := range t.Offerings {
			if o.CapacityType == l.CapacityType && (!found || o.Price < best) {
				best, found = o.Price, true
			}
		}
	}
	return best, found
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

// A stage is the name of a check for a reader, in the order of the checks.
type stage struct {
	code model.Code
	name string
}

var stages = []stage{
	{model.CodeUnusable, "usable"},
	{model.CodeTaint, "taints"},
	{model.CodeRequirement, "labels and requirements"},
	{model.CodeNoType, "instance types"},
	{model.CodeNoResource, "advertised resources"},
	{model.CodeFractional, "fractional GPUs"},
	{model.CodeCPUOnGPU, "GPU nodes for GPU pods"},
	{model.CodeMaxRequest, "largest request"},
	{model.CodeTooBig, "size"},
	{model.CodeNoOffering, "zones and capacity types"},
	{model.CodeMinValues, "min values"},
	{model.CodeLimit, "limits"},
	{model.CodeSpread, "topology spread"},
	{model.CodeAffinity, "pod affinity"},
	{model.CodeHostPort, "host ports"},
}

// trials writes per pool which checks the pod passes alone, and which stops it.
func (p *page) trials(q Inquiry) {
	if len(q.Trials) == 0 {
		return
	}
	p.line()
	p.line("  ", p.paint(bold, "every pool, with this pod alone"))
	for _, t := range q.Trials {
		p.line()
		name := t.Pool
		if name == "" {
			name = "nodes that exist"
		}
		p.line("  ", p.paint(cyan, name))
		switch {
		case t.Launch != nil:
			p.outcome(green, "✓", fmt.Sprintf("fits: %s, %s, %s $/h", t.Launch.Type, t.Launch.CapacityType, hourly(t.Launch.Price)))
		case t.Node != "":
			p.outcome(green, "✓", "fits on "+t.Node)
		default:
			p.refused(q, t)
		}
	}
}

func (p *page) outcome(s style, sign, text string) {
	p.para("    "+p.paint(s, p.say(sign))+" ", text)
}

func (p *page) refused(q Inquiry, t Trial) {
	if len(t.Verdicts) == 0 {
		p.outcome(red, "✗", "does not fit")
		return
	}
	if t.Pool != "" {
		if passed := before(t.Verdicts[0].Code); len(passed) > 0 {
			p.outcome(green, "✓", strings.Join(passed, ", "))
		}
	}
	for _, c := range explain.Group(q.Snapshot, []model.Refusal{{Pods: q.Pods[:1], Verdicts: t.Verdicts}}) {
		for _, x := range c.Reasons {
			text := x.Text
			if t.Pool == "" && len(x.Nodes) > 0 {
				text = p.spot(explain.Reason{Nodes: x.Nodes}) + ": " + text
			} else if name := stageName(t.Verdicts[0].Code); name != "" && len(t.Verdicts) == 1 {
				text = name + ": " + text
			}
			p.outcome(red, "✗", text)
			for _, fix := range x.Fixes {
				p.fix(6, fix)
			}
		}
	}
}

func stageName(c model.Code) string {
	for _, s := range stages {
		if s.code == c {
			return s.name
		}
	}
	return ""
}

// before names the checks that come ahead of one: those that were passed.
func before(c model.Code) []string {
	var out []string
	for _, s := range stages {
		if s.code == c {
			return out
		}
		if s.code != model.CodeFractional && s.code != model.CodeCPUOnGPU {
			out = append(out, s.name)
		}
	}
	return nil
}
