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
	if o.kind == kindClaim && (at(o.doc.Root, "status.providerID") != nil || at(o.doc.Root, "metadata.uid") != nil) {
		return // it came out of a cluster, which has accepted it
	}
	c := checkers[o.kind]()
	seen := o.served(c)
	for _, path := range append(seen.unknown, o.unknownMeta()...) {
		o.unknownField(path)
	}
	found := o.located(slices.Concat(o.wrongName(), o.own(seen.errors)))
	before := o.root
	if o.complete(); o.root != before {
		seen = o.served(c)
	}
	for _, r := range append(found, o.located(o.own(seen.broken(c)))...) {
		o.refused(r)
	}
	o.root = edit(o.root, o.base()+"requirements", dropKeyless)
}

// A served is a tree as the API server has it after decoding, pruning and
// defaulting, and what it holds against it on the way.
type served struct {
	object  map[string]any
	unknown []string // fields that the kind does not have
	errors  []apiError
}

func (o *object) served(c *checker) served {
	obj, _ := value(o.root).(map[string]any)
	s := served{object: obj}
	s.unknown = c.unknown(obj)
	s.errors = c.schemaErrors(obj)
	return s
}

// broken evaluates the CEL rules where the types let them be evaluated.
func (s served) broken(c *checker) []apiError {
	if blocking(s.errors) {
		return nil
	}
	return c.ruleErrors(s.object)
}

// remaining lists what the API server would still say of the tree.
func (o *object) remaining() []apiError {
	c := checkers[o.kind]()
	s := o.served(c)
	return slices.Concat(o.wrongName(), o.own(s.errors), o.own(s.broken(c)))
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
	if near := manifest.Nearest(name, o.siblings(parent)); near != "" {
		fix = "write " + near
	}
	o.note(model.Error, "unknown-field", path, fix, "unknown field %q: the API server refuses it, or drops it without a word", path)
	o.blockQuietly(path, fix, "unknown field %q is left out", path)
	if n, whole := o.root.Find(path); whole && n != o.root {
		o.root = swap(o.root, n, nil)
	}
}

// objectMeta lists the fields of metadata in Kubernetes 1.37.
var objectMeta = []string{
	"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
	"generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// unknownMeta lists the fields of metadata that do not exist.
func (o *object) unknownMeta() []string {
	meta := o.root.Get("metadata")
	if !isMap(meta) {
		return nil
	}
	var out []string
	for _, f := range meta.Fields {
		if path := manifest.Join("metadata", f.Name); !slices.Contains(objectMeta, f.Name) && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
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
	if path == "metadata" {
		return objectMeta
	}
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
