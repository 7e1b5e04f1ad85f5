package nodepool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultExpiry is what Karpenter takes where expireAfter is absent.
const defaultExpiry = 720 * time.Hour

// pool reads a settled NodePool.
func (o *object) pool(classes map[string]Class) model.Pool {
	spec, template := o.root.Get("spec"), at(o.root, "spec.template")
	p := model.Pool{
		Name:          o.doc.Name,
		Labels:        o.labels(template.At("metadata", "labels")),
		Annotations:   stringMap(template.At("metadata", "annotations")),
		Requirements:  o.requirements("spec.template.spec.requirements"),
		Taints:        o.taints("spec.template.spec.taints"),
		StartupTaints: o.taints("spec.template.spec.startupTaints"),
		NodeClass:     className(template.At("spec", "nodeClassRef")),
		Disruption: model.Disruption{
			Policy:           orDefault(spec.At("disruption", "consolidationPolicy").Str(), "WhenEmptyOrUnderutilized"),
			ConsolidateAfter: duration(spec.At("disruption", "consolidateAfter"), 0),
			ExpireAfter:      duration(template.At("spec", "expireAfter"), defaultExpiry),
		},
		Place: o.place(""),
	}
	p.CPUOnGPU = at(o.root, "metadata.annotations").Get(AnnotationCPUOnGPU).Str() == "true" || p.Annotations[AnnotationCPUOnGPU] == "true"
	p.Weight = weight(spec.Get("weight"))
	var unread []string
	p.Limits, unread = amounts(spec.Get("limits"))
	for _, name := range unread {
		if n := spec.At("limits", name); symbolic(n) {
			o.noteNode(model.Warning, "unknown-value", n, "", "%s is not known, so the plan has no limit on %s", n.Str(), name)
		}
	}
	if n := spec.Get("replicas"); n != nil && n.Kind != manifest.Null {
		p.Static = true
		p.Weight = 0
		p.Replicas = max(0, integer(n))
		p.Limits = onlyNodes(p.Limits)
	}
	p.Kubelet = classes[p.NodeClass].Kubelet
	if o.kubelet != nil {
		disk := p.Kubelet
		p.Kubelet = o.readKubelet(o.kubelet)
		p.Kubelet.RootBytes, p.Kubelet.LocalDisks = disk.RootBytes, disk.LocalDisks
	}
	o.sameTaint(append(slices.Clone(p.Taints), p.StartupTaints...))
	p.Taints, p.StartupTaints = distinct(p.Taints), distinct(p.StartupTaints)
	o.ready()
	p.Unusable = o.unread
	return p
}

func orDefault(s, absent string) string {
	if s == "" {
		return absent
	}
	return s
}

func integer(n *manifest.Node) int64 {
	v, _ := strconv.ParseInt(n.Str(), 10, 64)
	return v
}

// weight reads spec.weight; what is out of range has been refused and is taken
// as the nearest that is in range.
func weight(n *manifest.Node) int {
	return int(min(max(integer(n), 0), 100))
}

func onlyNodes(limits model.Resources) model.Resources {
	if v, ok := limits[model.Nodes]; ok {
		return model.Resources{model.Nodes: v}
	}
	return nil
}

func className(ref *manifest.Node) string {
	if ref.Get("name").Str() == "" {
		return ""
	}
	return ref.Get("kind").Str() + "/" + ref.Get("name").Str()
}

func stringMap(n *manifest.Node) map[string]string {
	if !isMap(n) || len(n.Fields) == 0 {
		return nil
	}
	out := make(map[string]string, len(n.Fields))
	for _, f := range n.Fields {
		out[f.Name] = f.Value.Str()
	}
	return out
}

// labels reads the labels of the template; those that Karpenter keeps to itself
// have been refused and are left out.
func (o *object) labels(n *manifest.Node) map[string]string {
	out := stringMap(n)
	for key := range out {
		if o.restricted(key) {
			delete(out, key)
		}
	}
	if !isMap(n) {
		return out
	}
	for _, f := range n.Fields {
		for _, msg := range validation.IsQualifiedName(f.Name) {
			o.noteNode(model.Error, "karpenter-refused", f.Value, "rename the label",
				"karpenter does not use the NodePool: invalid key name %q in labels, %q", f.Name, msg)
			o.unusable(f.Name, fmt.Sprintf("invalid key name %q in labels, %q", f.Name, msg))
		}
		o.impossibleValue(f.Value, constraint.Normalize(f.Name), f.Value.Str())
	}
	return out
}

// restricted reports whether Karpenter or its AWS provider keeps a label to
// itself, so that no template may set it.
func (o *object) restricted(key string) bool {
	if _, known := wellKnown[key]; known {
		return false
	}
	domain, _, _ := strings.Cut(key, "/")
	return key == model.LabelHostname || strings.HasSuffix(domain, coreGroup) || (o.ofAWS() && strings.HasSuffix(domain, awsGroup))
}

// requirements reads a list of requirements.
func (o *object) requirements(path string) []model.Requirement {
	n := at(o.root, path)
	if n == nil || n.Kind != manifest.List {
		return nil
	}
	if len(n.Items) == 0 && o.kind == kindPool {
		o.note(model.Info, "no-requirements", path, "name at least the instance categories or types that are meant",
			"no requirement is given, so the pool may launch every instance type at spot and on-demand prices")
	}
	var out []model.Requirement
	for _, item := range n.Items {
		r := model.Requirement{
			Key:       constraint.Normalize(item.Get("key").Str()),
			Operator:  model.Operator(item.Get("operator").Str()),
			MinValues: int(integer(item.Get("minValues"))),
			Line:      item.LineOf(),
		}
		if r.Key == "" {
			continue // refused
		}
		if values := item.Get("values"); values != nil {
			for _, v := range values.Items {
				r.Values = append(r.Values, v.Str())
			}
		}
		if values := item.Get("values"); values != nil && slices.ContainsFunc(values.Items, symbolic) {
			o.noteItem(model.Warning, "unknown-value", values, item, "", "the values of %s are not known, so the plan leaves the requirement out", r.Key)
			continue
		}
		o.checkValues(r, item)
		out = append(out, r)
	}
	return out
}

// checkValues says which values no node can have, and which Karpenter refuses
// when it looks at the object (the API server does not look at values).
func (o *object) checkValues(r model.Requirement, item *manifest.Node) {
	values := item.Get("values")
	possible := slices.ContainsFunc(r.Values, func(v string) bool { why, _ := impossible(r.Key, v); return why == "" })
	severity := model.Warning
	if !possible {
		severity = model.Error
	}
	for i, v := range r.Values {
		n := values.Items[i]
		if msgs := validation.IsValidLabelValue(v); len(msgs) > 0 {
			detail := fmt.Sprintf("invalid value %s for key %s, %s", v, r.Key, strings.Join(msgs, ", "))
			o.noteItem(model.Error, "karpenter-refused", n, item, "write a value that a label can have", "karpenter does not use the %s: %s", o.kind, detail)
			o.unusable(r.Key, detail)
		} else if why, meant := impossible(r.Key, v); why != "" && r.Operator == model.In {
			o.noteItem(severity, "impossible-value", n, item, meantFix(meant), "no node has %s=%s: %s", r.Key, v, why)
		}
	}
	if r.Operator == model.In && !possible && len(r.Values) > 0 && slices.Contains(refusedValues, r.Key) {
		o.unusable(r.Key, fmt.Sprintf("no valid values found in %v for %s, expected one of: %v", r.Values, r.Key, wellKnown[r.Key].set))
	}
}

// refusedValues are the labels for which Karpenter refuses a requirement that
// has none of the known values; of others it just finds no match.
var refusedValues = []string{model.LabelCapacityType, "karpenter.k8s.aws/instance-tenancy"}

// noteItem is noteNode for a value, or for the requirement around it where the
// value was completed.
func (o *object) noteItem(severity model.Severity, code string, n, item *manifest.Node, fix, format string, args ...any) {
	for _, candidate := range []*manifest.Node{n, item.Get("values"), item.Get("key")} {
		if _, known := o.origin[candidate]; known {
			o.noteNode(severity, code, candidate, fix, format, args...)
			return
		}
	}
	o.noteNode(severity, code, n, fix, format, args...)
}

func (o *object) impossibleValue(n *manifest.Node, key, v string) {
	if why, meant := impossible(key, v); why != "" {
		o.noteNode(model.Warning, "impossible-value", n, meantFix(meant), "no node has %s=%s: %s", key, v, why)
	}
}

func meantFix(meant string) string {
	if meant == "" {
		return "remove it"
	}
	return "write " + meant
}

// taints reads a list of taints; those without a key have been refused.
func (o *object) taints(path string) []model.Taint {
	n := at(o.root, path)
	if n == nil {
		return nil
	}
	var out []model.Taint
	for _, item := range n.Items {
		t := model.Taint{Key: item.Get("key").Str(), Value: item.Get("value").Str(), Effect: item.Get("effect").Str()}
		if t.Key != "" {
			out = append(out, t)
		}
	}
	return out
}

// sameTaint says that a taint is given twice, which Karpenter refuses when it looks at the pool.
func (o *object) sameTaint(taints []model.Taint) {
	type id struct{ key, effect string }
	seen := map[id]bool{}
	for _, t := range taints {
		if at := (id{t.Key, t.Effect}); seen[at] {
			o.note(model.Error, "karpenter-refused", "spec.template.spec.taints", "remove one of the two",
				"karpenter does not use the NodePool: duplicate taint Key/Effect pair %s=%s", t.Key, t.Effect)
		} else {
			seen[at] = true
		}
	}
}

// distinct keeps the first taint of each key and effect.
func distinct(taints []model.Taint) []model.Taint {
	var out []model.Taint
	for _, t := range taints {
		if !slices.ContainsFunc(out, func(u model.Taint) bool { return u.Key == t.Key && u.Effect == t.Effect }) {
			out = append(out, t)
		}
	}
	return out
}
