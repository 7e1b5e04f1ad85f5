package nodepool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
	"k8s.io/apimachinery/pkg/util/validation"
)

// awsDomainRule is the message of the rule that only AWS's definitions have.
const awsDomainRule = `label domain "karpenter.k8s.aws" is restricted`

// settle holds the upgraded object against its schema, says what the API server
// would say, and completes the tree from what the words evidently mean.
func (o *object) settle() {
	if o.inline != nil {
		o.inline.settle()
	}
	if o.kind == kindClaim && at(o.doc.Root, "status.providerID") != nil {
		return // it came out of a cluster, which has accepted it
	}
	c := checkers[o.kind]()
	for _, path := range c.unknown(o.object()) {
		o.unknownField(path)
	}
	found := o.located(slices.Concat(o.wrongName(), o.wrongValues(c)))
	o.complete()
	for _, r := range append(found, o.located(o.brokenRules(c))...) {
		o.refused(r)
	}
	o.root = edit(o.root, o.base()+"requirements", dropKeyless)
}

// A refusal is an error with its place in the document.
type refusal struct {
	apiError
	at model.Place
}

func (o *object) located(errs []apiError) []refusal {
	out := make([]refusal, len(errs))
	for i, e := range errs {
		out[i] = refusal{e, o.place(e.path)}
	}
	return out
}

// remaining lists what the API server would still say of the tree.
func (o *object) remaining() []apiError {
	c := checkers[o.kind]()
	return slices.Concat(o.wrongName(), o.wrongValues(c), o.brokenRules(c))
}

// object is the tree as the API server decodes it.
func (o *object) object() map[string]any {
	obj, _ := value(o.root).(map[string]any)
	return obj
}

// wrongValues holds the tree against its schema.
func (o *object) wrongValues(c *checker) []apiError {
	obj := o.object()
	c.unknown(obj)
	return o.own(c.schemaErrors(obj))
}

// brokenRules evaluates the CEL rules where the types let them be evaluated.
func (o *object) brokenRules(c *checker) []apiError {
	obj := o.object()
	c.unknown(obj)
	if blocking(c.schemaErrors(obj)) {
		return nil
	}
	return o.own(c.ruleErrors(obj))
}

// own leaves out errors about what Terraform is yet to fill in, and those of
// AWS's rules in objects of other clouds.
func (o *object) own(errs []apiError) []apiError {
	return slices.DeleteFunc(errs, func(e apiError) bool {
		n, whole := o.root.Find(e.path)
		return (whole && symbolic(n)) || (strings.Contains(e.detail, awsDomainRule) && !o.ofAWS())
	})
}

// symbolic reports whether a value holds an interpolation that Terraform is yet
// to fill in, so that nothing can be said of it.
func symbolic(n *manifest.Node) bool { return strings.Contains(n.Str(), "${") }

// wrongName checks metadata.name, which no schema describes.
func (o *object) wrongName() []apiError {
	n := at(o.root, "metadata.name")
	if n.Str() == "" {
		return []apiError{{path: "metadata.name", detail: "Required value: name or generateName is required"}}
	}
	var out []apiError
	if !symbolic(n) {
		for _, msg := range validation.IsDNS1123Subdomain(n.Str()) {
			out = append(out, apiError{path: "metadata.name", detail: fmt.Sprintf("Invalid value: %q: %s", n.Str(), msg)})
		}
	}
	return out
}

// ofAWS reports whether the object is used with the AWS provider, whose
// definitions have rules of their own. That is so unless it says otherwise.
func (o *object) ofAWS() bool {
	for _, path := range []string{"spec.template.spec.nodeClassRef.group", "spec.nodeClassRef.group"} {
		if g := at(o.root, path).Str(); g != "" {
			return g == awsGroup
		}
	}
	return !slices.ContainsFunc(o.classes, func(c classRef) bool { return c.group != awsGroup })
}

// unknownField names a field that the kind does not have.
func (o *object) unknownField(path string) {
	fix := "remove it"
	parent, name := parentOf(path)
	if near := nearest(name, o.siblings(parent)); near != "" {
		fix = "write " + near
	}
	o.note(model.Error, "unknown-field", path, fix, "unknown field %q: the API server refuses it, or drops it without a word", path)
	o.blockQuietly(path, fix, "unknown field %q is left out", path)
	o.root = dropAt(o.root, path)
}

// dropAt drops the field at a path with indexes.
func dropAt(n *manifest.Node, path string) *manifest.Node {
	parent, name := parentOf(path)
	target, whole := n.Find(parent)
	if !whole || !isMap(target) {
		return n
	}
	slim := *target
	slim.Fields = slices.DeleteFunc(slices.Clone(target.Fields), func(f manifest.Field) bool { return f.Name == name })
	return swap(n, target, &slim)
}

// swap returns the tree n with the node old replaced.
func swap(n, old, next *manifest.Node) *manifest.Node {
	if n == old {
		return next
	}
	if n == nil {
		return nil
	}
	for i, f := range n.Fields {
		if v := swap(f.Value, old, next); v != f.Value {
			out := *n
			out.Fields = slices.Clone(n.Fields)
			out.Fields[i].Value = v
			return &out
		}
	}
	for i, item := range n.Items {
		if v := swap(item, old, next); v != item {
			out := *n
			out.Items = slices.Clone(n.Items)
			out.Items[i] = v
			return &out
		}
	}
	return n
}

// parentOf splits a field path at its last element.
func parentOf(path string) (parent, name string) {
	if before, ok := strings.CutSuffix(path, "]"); ok {
		i := strings.LastIndexByte(before, '[')
		return before[:max(i, 0)], before[i+1:]
	}
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}

var index = regexp.MustCompile(`\[\d+\]`)

// siblings lists the fields that the schema has at a path.
func (o *object) siblings(path string) []string {
	s := checkers[o.kind]().structural
	for _, name := range strings.Split(index.ReplaceAllString(path, ".[]"), ".") {
		switch {
		case s == nil || name == "":
		case name == "[]":
			s = s.Items
		default:
			next, ok := s.Properties[name]
			if !ok {
				return nil
			}
			s = &next
		}
	}
	if s == nil {
		return nil
	}
	var out []string
	for name := range s.Properties {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// refused notes an error of the API server with a fix. An error that leaves no
// evident meaning makes the object unusable.
func (o *object) refused(r refusal) {
	fix, evident := o.remedy(r.apiError)
	words := "the API server refuses it: "
	if o.old() {
		words = "as v1 the API server would refuse it: "
	}
	o.notes = append(o.notes, model.Note{Code: "api-refused", Severity: model.Error, Place: r.at, Text: words + r.detail, Fix: fix})
	if !evident {
		o.unusable(r.path, r.String())
	}
}

// A remedy is what to do about an error of the API server.
type remedy struct {
	path, detail string // patterns; an empty detail matches every error at the path
	fix          string
	evident      bool // the plan goes on as if fixed, or the field is none of its business
}

// remedies are tried in order.
var remedies = []remedy{
	{`consolidationPolicy$`, `WhenUnderutilized`, "write WhenEmptyOrUnderutilized", true},
	{`^spec\.disruption\.budgets`, `schedule`, "give schedule and duration together, or neither", true},
	{`^spec\.disruption|expireAfter$|terminationGracePeriod$`, ``, "write a value of the form that the message names", true},
	{`metadata\.annotations`, ``, "put the value in quotes", true},
	{`^metadata`, ``, "give it a name of lower case letters, digits and -", true},
	{`nodeClassRef`, ``, "write group, kind and name of the node class", true},
	{`^spec\.weight$`, ``, "give a weight from 1 to 100, or leave it out for 0", true},
	{`^spec$`, `weight`, "remove weight: a static pool has none", true},
	{`^spec$`, `limits\.nodes`, "leave only nodes under limits: the pool has replicas", true},
	{`^spec\.replicas$`, ``, "give a whole number of 0 or more", true},
	{`labels`, `of type string`, "put the value in quotes", true},
	{`metadata\.labels$`, `restricted`, "remove the label: Karpenter sets labels of its own domain itself", true},
	{`values(\[\d+\])?$`, `of type (string|array)`, "write the values as a list of strings in quotes", true},
	{`(taints|startupTaints)\[\d+\]\.value$`, `of type string`, "put the value in quotes", true},
	{`template\.spec\.requirements$`, `Required value`, "add requirements; [] allows every instance type", true},
	{`requirements$`, `'(Not)?In' must have a value|no such key: values`, "list at least one value under values", false},
	{`requirements$`, `single positive integer`, `give one whole number in quotes, for example values: ["2"]`, false},
	{`requirements$`, `minValues`, "lower minValues, or list more values", false},
	{`^spec\.(limits|capacity)\b.`, ``, "write a quantity such as 100, 1k or 500Gi", false},
	{`^spec(\.template)?(\.spec)?$`, `Required value`, "write it: karpenter.sh/v1 keeps what describes a node under spec.template.spec", false},
	{`capacity$`, `restricted`, "remove cpu, memory, ephemeral-storage and pods: an overlay adds extended resources only", false},
	{`^spec$`, `price`, "keep one of price and priceAdjustment", false},
	{`^spec$`, `'role', 'instanceProfile'`, "give a role or an instanceProfile, and only one of them", true},
	{`^spec\.amiSelectorTerms$`, `Required value`, "add amiSelectorTerms, for example [{alias: al2023@latest}]", true},
	{`^spec\.(subnet|securityGroup)SelectorTerms$`, `Required value`, "add it, for example [{tags: {karpenter.sh/discovery: my-cluster}}]", true},
}

func (r remedy) cures(e apiError) bool {
	return regexp.MustCompile(r.path).MatchString(e.path) && regexp.MustCompile(r.detail).MatchString(e.detail)
}

// remedy finds the next step for an error, and whether its meaning is evident all the same.
func (o *object) remedy(e apiError) (string, bool) {
	n, whole := o.root.Find(e.path)
	if strings.HasSuffix(e.path, ".operator") || strings.HasSuffix(e.path, ".effect") {
		return enumFix(e.path, n, whole)
	}
	if strings.HasSuffix(e.path, ".key") && strings.Contains(e.detail, "restricted") {
		return o.keyFix(e.path, n)
	}
	for _, r := range remedies {
		if r.cures(e) {
			return r.fix, r.evident
		}
	}
	return plainFix(e), o.kind == kindClass || o.kind == kindClaim
}

// plainFix says what the words of an error ask for.
func plainFix(e apiError) string {
	_, name := parentOf(e.path)
	for _, f := range []struct{ word, fix string }{
		{"Required value", "add " + name},
		{"Unsupported value", "write one of the supported values"},
		{"Too many", "leave out what is not needed"},
		{"should match", "write a value of that form"},
		{"than or equal to", "write a number within that bound"},
		{"must be of type", "write a value of that type"},
	} {
		if strings.Contains(e.detail, f.word) {
			return f.fix
		}
	}
	return "correct " + name
}

// enumFix is called after complete, which has set operators and effects right where only the case was wrong.
func enumFix(path string, n *manifest.Node, whole bool) (string, bool) {
	allowed := operators
	if strings.HasSuffix(path, ".effect") {
		allowed = effects
	}
	if whole && slices.Contains(allowed, n.Str()) {
		return "write " + n.Str(), true
	}
	return "write one of " + strings.Join(allowed, ", "), false
}

// keyFix deals with a requirement on a label that Karpenter keeps to itself: a
// misspelt one is read as the nearest, one that only says the pool's own name is
// dropped, and others leave nothing to go on from.
func (o *object) keyFix(path string, n *manifest.Node) (string, bool) {
	key := n.Str()
	if near := nearestLabel(key); near != "" {
		o.change(path, key, near)
		o.root = swap(o.root, n, text(n.Line, near))
		return "write " + near, true
	}
	if key == model.LabelNodePool || key == "karpenter.sh/provisioner-name" {
		o.change(path, key, "removed")
		o.root = swap(o.root, n, removed)
		return "remove the requirement: every node of the pool has the label " + model.LabelNodePool, true
	}
	return "remove the requirement, or use a label of a domain of your own", false
}

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
