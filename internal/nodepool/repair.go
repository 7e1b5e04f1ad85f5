package nodepool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// misplacements lists where people put fields of a NodePool and where they
// belong. A structural schema knows none of the first, so kubectl's strict
// validation refuses them and older clients drop them silently.
var misplacements = buildMisplacements()

func buildMisplacements() []struct{ from, to string } {
	var out []struct{ from, to string }
	add := func(from, to string) { out = append(out, struct{ from, to string }{from, to}) }
	for _, name := range []string{"requirements", "taints", "startupTaints", "nodeClassRef", "expireAfter", "terminationGracePeriod", "kubelet"} {
		add("spec."+name, "spec.template.spec."+name)
		add("spec.template."+name, "spec.template.spec."+name)
		add("spec.disruption."+name, "spec.template.spec."+name)
	}
	add("spec.kubeletConfiguration", "spec.template.spec.kubelet")
	for _, name := range []string{"labels", "annotations"} {
		add("spec."+name, "spec.template.metadata."+name)
		add("spec.template."+name, "spec.template.metadata."+name)
		add("spec.template.spec."+name, "spec.template.metadata."+name)
		add("spec.template.spec.metadata."+name, "spec.template.metadata."+name)
	}
	for _, name := range []string{"consolidationPolicy", "consolidateAfter", "budgets"} {
		add("spec."+name, "spec.disruption."+name)
	}
	for _, name := range []string{"limits", "disruption", "weight", "replicas"} {
		add("spec.template."+name, "spec."+name)
		add("spec.template.spec."+name, "spec."+name)
	}
	return out
}

// misplaced moves the fields of a NodePool that stand in the wrong place. Where
// the right place is taken, what stands there counts.
func (o *object) misplaced() {
	for _, m := range misplacements {
		v := at(o.root, m.from)
		if v == nil || (m.from == "spec.disruption.expireAfter" && o.old()) {
			continue
		}
		if at(o.root, m.to) != nil {
			o.note(model.Error, "misplaced-field", m.from, "remove it", "unknown field %q: the API server refuses it, and %s is given as well, which is used", m.from, m.to)
			o.change(m.from, m.from, "removed")
			o.root = drop(o.root, m.from)
			continue
		}
		if m.to != kubeletPath { // takeKubelet has more to say
			o.note(model.Error, "misplaced-field", m.from, "move it to "+m.to, "unknown field %q: the API server refuses it; it belongs to %s and is read as if it stood there", m.from, m.to)
			o.change(m.from, m.from, m.to)
		}
		o.root = drop(set(o.root, m.to, v), m.from)
	}
	o.root = withoutEmpty(o.root, "spec.template.spec.metadata")
	o.leftovers()
	o.limitResources(true)
	o.takeKubelet()
}

// leftovers reads the fields of a v1alpha5 Provisioner that a NodePool still
// carries: their meaning is evident, though no NodePool has them.
func (o *object) leftovers() {
	spec := o.root.Get("spec")
	for _, l := range []struct {
		names []string
		to    string
		build func(spec *manifest.Node, line int) *manifest.Node
	}{
		{[]string{"providerRef", "provider"}, "spec.template.spec.nodeClassRef", o.providerRef},
		{[]string{"ttlSecondsUntilExpired"}, "spec.template.spec.expireAfter", o.expiry},
		{[]string{"consolidation", "ttlSecondsAfterEmpty"}, "spec.disruption", o.disruption},
	} {
		var found []string
		for _, name := range l.names {
			if v := spec.Get(name); v != nil {
				found = append(found, name)
				o.note(model.Error, "misplaced-field", "spec."+name, "write "+l.to+" instead",
					"unknown field %q: it is a field of the v1alpha5 Provisioner; a NodePool has %s", "spec."+name, l.to)
			}
		}
		if len(found) == 0 {
			continue
		}
		if at(o.root, l.to) == nil {
			o.root = set(o.root, l.to, l.build(spec, spec.Get(found[0]).Line))
		}
		for _, name := range found {
			o.root = drop(o.root, "spec."+name)
		}
	}
}

// withoutEmpty drops the map at path when nothing is in it.
func withoutEmpty(n *manifest.Node, path string) *manifest.Node {
	if v := at(n, path); isMap(v) && len(v.Fields) == 0 {
		return drop(n, path)
	}
	return n
}

// limitResources merges limits.resources, the form of v1alpha5, into limits.
func (o *object) limitResources(wrong bool) {
	const from = "spec.limits.resources"
	inner := at(o.root, from)
	if !isMap(inner) {
		return
	}
	limits := drop(at(o.root, "spec.limits"), "resources")
	for _, f := range inner.Fields {
		if limits.Get(f.Name) == nil {
			limits = withField(limits, f)
		}
	}
	if wrong {
		o.note(model.Error, "misplaced-field", from, "write the resources directly under spec.limits",
			"unknown field %q: limits has had no resources below it since v1beta1; it is read as spec.limits", from)
	}
	o.change(from, from, "spec.limits")
	o.root = set(o.root, "spec.limits", limits)
}

const kubeletPath = "spec.template.spec.kubelet"

// takeKubelet takes the kubelet section off a pool: v1 has it on the node class.
func (o *object) takeKubelet() {
	const path = kubeletPath
	v := at(o.root, path)
	if v == nil {
		return
	}
	severity, code := model.Error, "misplaced-field"
	if o.old() {
		severity, code = model.Info, "moved-field"
	}
	o.note(severity, code, path, "write it at spec.kubelet of the EC2NodeClass",
		"kubelet stands on the EC2NodeClass in v1 and is an unknown field here; it is read for this pool as if its class had it")
	o.kubelet = v
	o.root = drop(o.root, path)
}

// classReference completes the reference to the node class: v1 demands group,
// kind and name, and has no apiVersion.
func (o *object) classReference(path string) {
	ref := at(o.root, path)
	if !isMap(ref) {
		return
	}
	next := o.refGroup(path, ref)
	want := o.classNamed(next.Get("name").Str(), next.Get("kind").Str())
	var missing, given []string
	for _, part := range []struct{ name, value string }{{"group", want.group}, {"kind", want.kind}} {
		if next.Get(part.name).Str() != "" {
			continue
		}
		next = withField(next, entry(part.name, text(ref.Line, part.value)))
		missing = append(missing, part.name)
		given = append(given, part.name+": "+part.value)
	}
	if len(missing) > 0 {
		severity := model.Error
		if o.old() {
			severity = model.Info
		}
		o.note(severity, "class-reference", path, "add "+strings.Join(given, ", "),
			"nodeClassRef gives no %s, which v1 demands (%s.%s: Required value); %s is assumed", strings.Join(missing, " and no "), path, missing[0], strings.Join(given, ", "))
		o.change(path, path+" without "+strings.Join(missing, " and "), strings.Join(given, ", "))
	}
	o.root = set(o.root, path, ordered(next, "group", "kind", "name"))
}

// refGroup turns a reference's apiVersion, or a group with a version behind it, into a group.
func (o *object) refGroup(path string, ref *manifest.Node) *manifest.Node {
	next := ref
	if v := ref.Get("apiVersion"); v != nil {
		group, _, _ := strings.Cut(v.Str(), "/")
		if !o.old() {
			o.note(model.Error, "class-reference", path+".apiVersion", "write group: "+group,
				"unknown field %q: v1 has group in its place", path+".apiVersion")
		}
		o.change(path+".apiVersion", "apiVersion: "+v.Str(), "group: "+group)
		next = drop(ref, "apiVersion")
		if ref.Get("group") == nil {
			next = withField(next, entry("group", text(v.Line, group)))
		}
	}
	group, version, found := strings.Cut(next.Get("group").Str(), "/")
	if found {
		g := next.Get("group")
		o.note(model.Error, "class-reference", path+".group", "write group: "+group,
			"Invalid value: %q: the group stands without its version /%s; %s is read", g.Str(), version, group)
		o.change(path+".group", "group: "+g.Str(), "group: "+group)
		next = withField(next, entry("group", text(g.Line, group)))
	}
	return next
}

// classNamed finds the node class of the input that a reference means; AWS's is the default.
func (o *object) classNamed(name, kind string) classRef {
	for _, c := range append(slices.Clone(o.classes), otherClasses...) {
		if (kind == "" && c.name == name) || (kind != "" && c.kind == kind) {
			return c
		}
	}
	return classRef{group: awsGroup, kind: kindClass, name: name}
}

// ordered puts the named fields first.
func ordered(n *manifest.Node, names ...string) *manifest.Node {
	out := *n
	out.Fields = nil
	for _, name := range names {
		if v := n.Get(name); v != nil {
			out.Fields = append(out.Fields, manifest.Field{Name: name, Line: v.Line, Value: v})
		}
	}
	for _, f := range n.Fields {
		if !slices.Contains(names, f.Name) {
			out.Fields = append(out.Fields, f)
		}
	}
	return &out
}

// consolidateAfter writes out the default where only part of disruption is
// given: Karpenter 1.0 demanded the field there, later versions take 0s.
func (o *object) consolidateAfter() {
	const path = "spec.disruption"
	d := at(o.root, path)
	if !isMap(d) || d.Get("consolidateAfter") != nil {
		return
	}
	if !o.old() {
		o.note(model.Info, "consolidate-after", path, "add consolidateAfter: 0s, or how long a node may stand idle",
			"consolidateAfter is not given; karpenter 1.15 takes 0s, karpenter 1.0 refuses the object")
	}
	o.change(path, "no "+path+".consolidateAfter", fmt.Sprintf("%s.consolidateAfter: 0s", path))
	o.root = set(o.root, path+".consolidateAfter", text(d.Line, "0s"))
}
