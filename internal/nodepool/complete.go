package nodepool

import (
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

var (
	operators = []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"}
	effects   = []string{model.NoSchedule, model.PreferNoSchedule, model.NoExecute}
)

// complete rewrites what is written wrongly and can mean only one thing:
// unquoted values, a single value instead of a list, operators and effects in
// the wrong case, the old name of a policy, a weight above the highest.
func (o *object) complete() {
	for _, path := range []string{"spec.template.metadata.labels", "spec.template.metadata.annotations"} {
		if v := at(o.root, path); isMap(v) {
			o.root = set(o.root, path, textValues(v))
		}
	}
	o.root = edit(o.root, o.base()+"requirements", completeRequirement)
	for _, name := range []string{"taints", "startupTaints"} {
		o.root = edit(o.root, o.base()+name, func(taint *manifest.Node) *manifest.Node {
			if v := taint.Get("value"); v != nil {
				taint = set(taint, "value", asText(v))
			}
			return recase(taint, "effect", effects)
		})
	}
	const policy = "spec.disruption.consolidationPolicy"
	if v := at(o.root, policy); v.Str() == "WhenUnderutilized" {
		o.root = set(o.root, policy, text(v.Line, "WhenEmptyOrUnderutilized"))
	}
	const weight = "spec.weight"
	if v := at(o.root, weight); o.kind == kindPool && v != nil && v.Kind == manifest.Number && integer(v) > 100 {
		o.root = set(o.root, weight, number(v.Line, "100"))
	}
}

// base is the path of what describes a node.
func (o *object) base() string {
	if o.kind == kindPool {
		return "spec.template.spec."
	}
	return "spec."
}

// dropKeyless leaves nothing of a requirement that keyFix took out.
func dropKeyless(r *manifest.Node) *manifest.Node {
	if isMap(r) && r.Get("key") == removed {
		return nil
	}
	return r
}

// removed stands for the key of a requirement that is to be left out.
var removed = &manifest.Node{Kind: manifest.String}

func completeRequirement(r *manifest.Node) *manifest.Node {
	if !isMap(r) {
		return r
	}
	r = recase(r, "operator", operators)
	v := r.Get("values")
	switch {
	case v == nil || v.Kind == manifest.Null || v.Kind == manifest.Map:
		return r
	case v.Kind != manifest.List:
		return set(r, "values", list(v.Line, asText(v)))
	}
	return edit(r, "values", func(item *manifest.Node) *manifest.Node { return asText(item) })
}

// recase sets the field right when it differs from one of the allowed values only in case.
func recase(n *manifest.Node, name string, allowed []string) *manifest.Node {
	v := n.Get(name)
	for _, a := range allowed {
		if v != nil && v.Str() != a && strings.EqualFold(v.Str(), a) {
			return set(n, name, text(v.Line, a))
		}
	}
	return n
}
