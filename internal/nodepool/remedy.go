package nodepool

import (
	"regexp"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

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
	{`^spec\.weight$`, `equal to 100$`, "give a weight from 1 to 100, or leave it out for 0", true},
	{`^spec\.weight$`, `equal to 1$`, "leave it out for the lowest", true},
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
