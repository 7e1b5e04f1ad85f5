package nodepool

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// ClassSchema returns what the CRD of EC2NodeClass (karpenter.k8s.aws/v1, AWS
// provider v1.15) allows, for clusters that are to take node classes without
// the provider.
func ClassSchema() (*apiextensionsv1.JSONSchemaProps, error) {
	data, err := schemaFiles.ReadFile("schemas/ec2nodeclasses.json")
	if err != nil {
		return nil, fmt.Errorf("read the schema of EC2NodeClass: %w", err)
	}
	out := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("decode the schema of EC2NodeClass: %w", err)
	}
	return out, nil
}

// A checker holds one kind's schema and compiled rules. Building one costs
// tens of milliseconds, nearly all of it CEL, so it is built when the first
// object of its kind comes.
type checker struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      func() *cel.Validator
}

var checkers = map[string]func() *checker{
	kindPool:    sync.OnceValue(func() *checker { return mustChecker("nodepools") }),
	kindClaim:   sync.OnceValue(func() *checker { return mustChecker("nodeclaims") }),
	kindOverlay: sync.OnceValue(func() *checker { return mustChecker("nodeoverlays") }),
	kindClass:   sync.OnceValue(func() *checker { return mustChecker("ec2nodeclasses") }),
}

// mustChecker builds a checker from an embedded schema; that one is sound is
// the business of TestSchemas.
func mustChecker(name string) *checker {
	c, err := newChecker(name)
	if err != nil {
		panic("nodepool: schema of " + name + ": " + err.Error())
	}
	return c
}

func newChecker(name string) (*checker, error) {
	data, err := schemaFiles.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, err
	}
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(data, &props); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	openAPI, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &checker{structural: structural, openAPI: openAPI, rules: sync.OnceValue(func() *cel.Validator {
		return cel.NewValidator(structural, true, celconfig.PerCallLimit)
	})}, nil
}

// An apiError is one refusal in the API server's words.
type apiError struct {
	path   string
	kind   field.ErrorType
	detail string // with the value, without the path
}

// unknown lists the fields that the kind does not have, as kubectl's strict
// validation would. It prunes them from obj, as the API server would.
func (c *checker) unknown(obj map[string]any) []string {
	return pruning.PruneWithOptions(obj, c.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

// schemaErrors defaults obj as the API server does on creation and holds it
// against the schema.
func (c *checker) schemaErrors(obj map[string]any) []apiError {
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, c.structural)
	defaulting.Default(obj, c.structural)
	return plain(validation.ValidateCustomResource(nil, obj, c.openAPI))
}

// ruleErrors evaluates the CEL rules; it is to be called when the types are right.
func (c *checker) ruleErrors(obj map[string]any) []apiError {
	rules := c.rules()
	if rules == nil {
		return nil
	}
	errs, _ := rules.Validate(context.Background(), nil, c.structural, obj, nil, celconfig.RuntimeCELCostBudget)
	return plain(errs)
}

// quotedPath finds the field of a message that came without a path.
var quotedPath = regexp.MustCompile(`^"([^"]+)" must validate`)

// plain turns field errors into apiErrors sorted by path: the validator walks
// maps in any order. Of a schema with alternatives, which says the same thing
// several times over, the first of a path is kept.
func plain(errs field.ErrorList) []apiError {
	var out []apiError
	for _, e := range errs {
		path := strings.TrimPrefix(e.Field, "<nil>")
		if m := quotedPath.FindStringSubmatch(e.Detail); m != nil {
			path = m[1]
		}
		out = append(out, apiError{path: path, kind: e.Type, detail: e.ErrorBody()})
	}
	slices.SortFunc(out, func(a, b apiError) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.detail, b.detail)) })
	choice := func(e apiError) bool {
		return strings.Contains(e.detail, "must validate at least one schema") || e.kind == field.ErrorTypeTypeInvalid
	}
	return slices.CompactFunc(out, func(a, b apiError) bool {
		return a.path == b.path && (a.detail == b.detail || (choice(a) && choice(b)))
	})
}

// blocking reports whether errs keep the rules from being evaluated, as in the API server.
func blocking(errs []apiError) bool {
	for _, e := range errs {
		switch e.kind {
		case field.ErrorTypeRequired, field.ErrorTypeTypeInvalid, field.ErrorTypeTooLong, field.ErrorTypeTooMany:
			return true
		}
	}
	return false
}

// String is the error as kubectl prints it.
func (e apiError) String() string {
	if e.path == "" {
		return e.detail
	}
	return fmt.Sprintf("%s: %s", e.path, e.detail)
}
