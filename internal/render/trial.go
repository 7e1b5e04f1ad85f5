package render

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/explain"
	"github.com/kerfdev/kerf/internal/model"
)

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
	if !q.Trials[0].Anywhere() {
		p.line()
		p.line("  ", p.paint(bold, "every pool, with this pod alone"))
	}
	for _, t := range q.Trials {
		p.line()
		p.line("  ", p.paint(cyan, t.title()))
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

func (t Trial) title() string {
	switch {
	case t.Pool != "":
		return t.Pool
	case t.Anywhere():
		return "anywhere"
	}
	return "nodes that exist"
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
