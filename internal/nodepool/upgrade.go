package nodepool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// upgrade brings the tree to the shape of karpenter.sh/v1 and moves what stands
// in the wrong place.
func (o *object) upgrade() {
	switch {
	case o.doc.Kind == "Provisioner":
		o.provisioner()
	case o.kind == kindPool:
		o.misplaced()
		if o.old() {
			o.betaPool()
		}
		o.classReference("spec.template.spec.nodeClassRef")
		o.consolidateAfter()
	case o.kind == kindClaim:
		o.oldClaim()
	case o.doc.Kind == "AWSNodeTemplate":
		o.nodeTemplate()
		o.betaClass()
	case o.kind == kindClass && o.old():
		o.betaClass()
	}
	o.compatibility()
	if o.old() {
		o.change("apiVersion", o.doc.APIVersion+" "+o.doc.Kind, o.version()+" "+o.kind)
	}
	o.stamp()
}

// compatibility names the kubelet settings that the conversion of Karpenter 1.0
// left in an annotation, which later versions do not read.
func (o *object) compatibility() {
	const name = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
	v := at(o.root, "metadata.annotations").Get(name)
	if v == nil {
		return
	}
	n := model.Note{
		Code: "not-convertible", Severity: model.Warning, Place: o.placeOf(v),
		Text: "kubelet settings in the annotation " + name + " have not been read since karpenter 1.1, nor are they here",
		Fix:  "write them at spec.kubelet of the EC2NodeClass",
	}
	o.blocked = append(o.blocked, n)
}

// version is the apiVersion that the tree gets.
func (o *object) version() string {
	switch o.kind {
	case kindClass:
		return awsGroup + "/v1"
	case kindOverlay:
		return coreGroup + "/v1alpha1"
	}
	return coreGroup + "/v1"
}

// stamp writes the version that the tree now has and leaves out the status,
// which is the cluster's.
func (o *object) stamp() {
	line := o.root.LineOf()
	out := mapping(line, entry("apiVersion", text(lineOr(o.root.Get("apiVersion"), line), o.version())),
		entry("kind", text(lineOr(o.root.Get("kind"), line), o.kind)))
	for _, f := range o.root.Fields {
		if f.Name != "apiVersion" && f.Name != "kind" && f.Name != "status" {
			out.Fields = append(out.Fields, f)
		}
	}
	o.root = out
}

func lineOr(n *manifest.Node, line int) int {
	if n == nil {
		return line
	}
	return n.Line
}

// provisionerHomes says where the fields of a v1alpha5 Provisioner's spec stand in a v1 NodePool.
var provisionerHomes = []struct{ from, to string }{
	{"labels", "spec.template.metadata.labels"},
	{"annotations", "spec.template.metadata.annotations"},
	{"requirements", "spec.template.spec.requirements"},
	{"taints", "spec.template.spec.taints"},
	{"startupTaints", "spec.template.spec.startupTaints"},
	{"limits", "spec.limits"},
	{"weight", "spec.weight"},
}

// provisioner upgrades a v1alpha5 Provisioner.
func (o *object) provisioner() {
	spec := o.root.Get("spec")
	line := lineOr(spec, o.root.LineOf())
	out := mapping(o.root.LineOf(), entry("metadata", o.root.Get("metadata")))
	for _, home := range provisionerHomes {
		if v := spec.Get(home.from); v != nil {
			out = set(out, home.to, v)
			o.moved("spec."+home.from, home.to)
		}
	}
	o.kubelet = spec.Get("kubeletConfiguration")
	out = set(out, "spec.template.spec.nodeClassRef", o.providerRef(spec, line))
	out = set(out, "spec.template.spec.requirements", o.defaulted(at(out, "spec.template.spec.requirements"), line))
	out = set(out, "spec.template.spec.expireAfter", o.expiry(spec, line))
	out = set(out, "spec.disruption", o.disruption(spec, line))
	o.unknownFields(spec, "spec", []string{
		"kubeletConfiguration", "providerRef", "provider", "ttlSecondsAfterEmpty",
		"ttlSecondsUntilExpired", "consolidation", "labels", "annotations", "requirements", "taints", "startupTaints", "limits", "weight",
	})
	o.bareLimits(spec.Get("limits"))
	o.root = out
	o.limitResources(false)
	o.renamedKeys()
}

func (o *object) moved(from, to string) {
	if from != to {
		o.change(from, from, to)
	}
}

// unknownFields names the fields of an old object's map that its version does not have.
func (o *object) unknownFields(n *manifest.Node, path string, known []string) {
	if !isMap(n) {
		return
	}
	for _, f := range n.Fields {
		if slices.Contains(known, f.Name) {
			continue
		}
		at := manifest.Join(path, f.Name)
		fix := "remove it"
		if near := manifest.Nearest(f.Name, known); near != "" {
			fix = "write " + near
		}
		o.note(model.Error, "unknown-field", at, fix, "unknown field %q in %s %s; it is not used", at, o.doc.APIVersion, o.doc.Kind)
		o.blockQuietly(at, fix, "unknown field %q", at)
	}
}

// bareLimits names limits that stand where v1 has them and v1alpha5 does not.
func (o *object) bareLimits(limits *manifest.Node) {
	if !isMap(limits) {
		return
	}
	for _, f := range limits.Fields {
		if f.Name != "resources" {
			o.noteNode(model.Error, "misplaced-field", f.Value, "write it under spec.limits.resources, or migrate",
				"unknown field %q in v1alpha5, which has it under spec.limits.resources; it is read as if it stood there", manifest.Join("spec.limits", f.Name))
		}
	}
}

// providerRef makes the v1 reference to a node class from a Provisioner's
// providerRef or from the class that its provider stands for.
func (o *object) providerRef(spec *manifest.Node, line int) *manifest.Node {
	if ref := spec.Get("providerRef"); ref != nil {
		o.change("spec.providerRef", "spec.providerRef", "spec.template.spec.nodeClassRef")
		return awsRef(ref.Line, asText(ref.Get("name")))
	}
	if p := spec.Get("provider"); p != nil {
		o.inlineClass(p)
		o.change("spec.provider", "spec.provider", "EC2NodeClass "+o.doc.Name)
		return awsRef(p.Line, text(p.Line, o.doc.Name))
	}
	o.block("spec", "write the name of your EC2NodeClass",
		"neither providerRef nor provider is given, and v1 demands a node class: the name default is written")
	return awsRef(line, text(line, "default"))
}

func awsRef(line int, name *manifest.Node) *manifest.Node {
	return mapping(line, entry("group", text(line, awsGroup)), entry("kind", text(line, kindClass)), entry("name", name))
}

// inlineClass makes the node class that spec.provider stands for; it has the Provisioner's name.
func (o *object) inlineClass(provider *manifest.Node) {
	line := provider.Line
	d := o.doc
	d.APIVersion = awsGroup + "/v1alpha1"
	o.inline = &object{doc: d, kind: kindClass, origin: o.origin}
	o.inline.root = mapping(line,
		entry("metadata", mapping(line, entry("name", text(line, d.Name)))),
		entry("spec", drop(drop(provider, "apiVersion"), "kind")))
	o.inline.nodeTemplate()
	o.inline.betaClass()
	o.inline.stamp()
}

// defaulted adds the requirements that v1alpha5 filled in for the user (AWS
// provider v0.31, Provisioner defaulting), since v1 fills in none.
func (o *object) defaulted(reqs *manifest.Node, line int) *manifest.Node {
	out := list(lineOr(reqs, line))
	if reqs != nil && reqs.Kind == manifest.List {
		out.Items = slices.Clone(reqs.Items)
	}
	has := func(keys ...string) bool {
		return slices.ContainsFunc(out.Items, func(r *manifest.Node) bool { return slices.Contains(keys, r.Get("key").Str()) })
	}
	var added []string
	add := func(key, operator string, values ...string) {
		out.Items = append(out.Items, requirement(out.Line, key, operator, values...))
		added = append(added, fmt.Sprintf("%s %s [%s]", key, operator, strings.Join(values, ", ")))
	}
	instance := has(model.LabelInstanceType, labelFamily, labelCategory, labelGeneration)
	if !has(model.LabelOS) {
		add(model.LabelOS, "In", "linux")
	}
	if !has(model.LabelArch) {
		add(model.LabelArch, "In", "amd64")
	}
	if !has(model.LabelCapacityType) {
		add(model.LabelCapacityType, "In", model.OnDemand)
	}
	if !instance {
		add(labelCategory, "In", "c", "m", "r")
		add(labelGeneration, "Gt", "2")
	}
	for _, a := range added {
		o.change("spec.requirements", "default", a)
	}
	if len(added) > 0 {
		o.note(model.Info, "provisioner-defaults", "spec.requirements", "",
			"v1alpha5 adds requirements of its own, which v1 does not: %s", strings.Join(added, ", "))
	}
	return out
}

// expiry makes expireAfter of ttlSecondsUntilExpired; without it nodes lived for ever.
func (o *object) expiry(spec *manifest.Node, line int) *manifest.Node {
	const to = "spec.template.spec.expireAfter: "
	ttl := spec.Get("ttlSecondsUntilExpired")
	if ttl == nil {
		o.change("spec", "no ttlSecondsUntilExpired", to+"Never")
		return text(line, "Never")
	}
	d := seconds(ttl.Str())
	o.change("spec.ttlSecondsUntilExpired", "spec.ttlSecondsUntilExpired: "+ttl.Str(), to+d)
	return text(ttl.Line, d)
}

// disruption makes spec.disruption of consolidation and ttlSecondsAfterEmpty;
// with neither, v1alpha5 never removed a node.
func (o *object) disruption(spec *manifest.Node, line int) *manifest.Node {
	policy, after, at := "WhenEmpty", "Never", line
	consolidation, ttl := spec.At("consolidation", "enabled"), spec.Get("ttlSecondsAfterEmpty")
	switch {
	case consolidation.Str() == "true":
		policy, after, at = "WhenEmptyOrUnderutilized", "0s", consolidation.Line
		o.change("spec.consolidation", "spec.consolidation.enabled: true", "spec.disruption.consolidationPolicy: "+policy)
		if ttl != nil {
			o.note(model.Error, "consolidation-twice", "spec.ttlSecondsAfterEmpty", "remove one of the two",
				"ttlSecondsAfterEmpty and consolidation exclude each other in v1alpha5; consolidation is used")
		}
	case ttl != nil:
		after, at = seconds(ttl.Str()), ttl.Line
		o.change("spec.ttlSecondsAfterEmpty", "spec.ttlSecondsAfterEmpty: "+ttl.Str(),
			"spec.disruption.consolidationPolicy: WhenEmpty, consolidateAfter: "+after)
	default:
		o.change("spec", "no consolidation, no ttlSecondsAfterEmpty", "spec.disruption.consolidationPolicy: WhenEmpty, consolidateAfter: Never")
	}
	return mapping(at, entry("consolidationPolicy", text(at, policy)), entry("consolidateAfter", text(at, after)))
}

// betaPool turns a v1beta1 NodePool into v1.
func (o *object) betaPool() {
	const ex, moved = "spec.disruption.expireAfter", "spec.template.spec.expireAfter"
	if v := at(o.root, ex); v != nil && at(o.root, moved) == nil {
		o.note(model.Info, "moved-field", ex, "in v1 write it at "+moved, "expireAfter stands at %s in v1, where it also no longer waits for the disruption budgets", moved)
		o.change(ex, ex+": "+v.Str(), moved+": "+v.Str())
		o.root = drop(set(o.root, moved, v), ex)
	}
	const policy = "spec.disruption.consolidationPolicy"
	if v := at(o.root, policy); v.Str() == "WhenUnderutilized" {
		o.note(model.Info, "renamed-value", policy, "in v1 write WhenEmptyOrUnderutilized", "WhenUnderutilized is called WhenEmptyOrUnderutilized in v1")
		o.change(policy, policy+": WhenUnderutilized", policy+": WhenEmptyOrUnderutilized")
		o.root = set(o.root, policy, text(v.Line, "WhenEmptyOrUnderutilized"))
	}
	o.renamedKeys()
}

// renamedKeys rewrites the annotations of old versions on the node template.
func (o *object) renamedKeys() {
	const path = "spec.template.metadata.annotations"
	annotations := at(o.root, path)
	for _, name := range []string{"karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"} {
		v := annotations.Get(name)
		if v == nil {
			continue
		}
		o.change(path+"["+name+"]", name, "karpenter.sh/do-not-disrupt")
		next := mapping(annotations.Line)
		for _, f := range annotations.Fields {
			if f.Name == name {
				f.Name = "karpenter.sh/do-not-disrupt"
			}
			next = withField(next, f)
		}
		annotations = next
		o.root = set(o.root, path, next)
	}
}
