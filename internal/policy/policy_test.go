package policy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/source"
)

const corpus = "../guard/testdata/corpus/*.yaml"

// An evaluator is a validating policy that the API server's own compiler made.
type evaluator struct {
	Validating
	conditions plugincel.ConditionEvaluator
}

// named is an expression as the compiler wants it.
type named struct {
	name, expression string
	returns          *cel.Type
}

func (n named) GetName() string          { return n.name }
func (n named) GetExpression() string    { return n.expression }
func (n named) ReturnTypes() []*cel.Type { return []*cel.Type{n.returns, cel.DynType} }

// The first release that has validating policies, the first that has mutating
// ones, and the present one.
var (
	oldest   = version.MajorMinor(1, 30)
	mutating = version.MajorMinor(1, 36)
	newest   = version.MajorMinor(1, 37)
)

func compile(t *testing.T, p Validating, release *version.Version) evaluator {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(release))
	if err != nil {
		t.Fatal(err)
	}
	declared := plugincel.OptionalVariableDeclarations{HasAuthorizer: false}
	for _, v := range p.Variables {
		result := compiler.CompileAndStoreVariable(named{v.Name, v.Expression, cel.AnyType}, declared, environment.NewExpressions)
		if result.Error != nil {
			t.Fatalf("%s: variable %s: %v\n%s", p.Name, v.Name, result.Error, v.Expression)
		}
	}
	var list []plugincel.ExpressionAccessor
	for _, v := range p.Validations {
		list = append(list, named{v.Rule, v.Expression, cel.BoolType})
	}
	conditions := compiler.CompileCondition(list, declared, environment.NewExpressions)
	for _, err := range conditions.CompilationErrors() {
		t.Fatalf("%s: %v", p.Name, err)
	}
	return evaluator{p, conditions}
}

// A request is one object on its way into the API server.
type request struct {
	object, old *unstructured.Unstructured
	kind        schema.GroupVersionKind
	resource    schema.GroupVersionResource
	subresource string
	namespace   *corev1.Namespace
}

func (r request) attributes() *admission.VersionedAttributes {
	operation, old := admission.Create, runtime.Object(nil)
	if r.old != nil {
		operation, old = admission.Update, r.old
	}
	a := admission.NewAttributesRecord(r.object, old, r.kind, r.object.GetNamespace(), r.object.GetName(), r.resource, r.subresource, operation,
		nil, false, &user.DefaultInfo{Name: "ana", Groups: []string{"system:authenticated"}})
	return &admission.VersionedAttributes{
		Attributes: a, VersionedKind: r.kind,
		VersionedObject: admission.NewLazyObject(r.object), VersionedOldObject: admission.NewLazyObject(old),
	}
}

// asked reports whether a policy is about a request.
func (r request) asked(resources []Resource, exempt []string) bool {
	if slices.Contains(exempt, r.object.GetNamespace()) {
		return false
	}
	name, operation := r.resource.Resource, "CREATE"
	if r.subresource != "" {
		name += "/" + r.subresource
	}
	if r.old != nil {
		operation = "UPDATE"
	}
	return slices.ContainsFunc(resources, func(m Resource) bool {
		return m.Group == r.resource.Group && slices.Contains(m.Resources, name) && slices.Contains(m.Operations, operation)
	})
}

// evaluate returns the rules that a request breaks, each with the level.
func (e evaluator) evaluate(t *testing.T, r request) []string {
	t.Helper()
	if !r.asked(e.Resources, e.Exempt) {
		return nil
	}
	a := r.attributes()
	review := plugincel.CreateAdmissionRequest(a.Attributes, metav1.GroupVersionResource(r.resource), metav1.GroupVersionKind(r.kind))
	results, left, err := e.conditions.ForInput(context.Background(), a, review, plugincel.OptionalVariableBindings{}, plugincel.CreateNamespaceObject(r.namespace), celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatalf("%s: %v", e.Name, err)
	}
	if spent := celconfig.RuntimeCELCostBudget - left; spent > celconfig.RuntimeCELCostBudget/10 {
		t.Errorf("%s spends %d of the budget of %d", e.Name, spent, int64(celconfig.RuntimeCELCostBudget))
	}
	var broken []string
	for i, result := range results {
		if result.Error != nil {
			t.Fatalf("%s: %s: %v", e.Name, e.Validations[i].Rule, result.Error)
		}
		if result.EvalResult.Value() != true {
			broken = append(broken, e.Validations[i].Rule+" "+string(e.Level))
		}
	}
	return broken
}

// plurals are the resources of the kinds in the corpus.
var plurals = map[string]string{
	"Pod": "pods", "Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets", "DaemonSet": "daemonsets", "Job": "jobs", "CronJob": "cronjobs",
	"ResourceQuota": "resourcequotas", "LimitRange": "limitranges", "ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates",
}

// A claim is a file of the corpus, as policies see it.
type claim struct {
	name      string
	policy    []string // rules that policies find
	differs   bool     // from what the guard finds
	requests  []request
	exempt    guard.Exemptions
	inventory guard.Inventory
}

// identities tells exemptions apart.
func (c claim) identities() string {
	var out []string
	for _, e := range c.exempt {
		out = append(out, e.String())
	}
	return strings.Join(out, " ")
}

func readClaim(t *testing.T, file string) claim {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs, _ := source.Parse(source.File{Name: file, Data: data})
	c := claim{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), exempt: guard.DefaultExemptions(), inventory: guard.Read(docs)}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "# policy: "); ok {
			c.policy, c.differs = strings.Fields(strings.TrimPrefix(strings.TrimSpace(rest), "none")), true
		}
		if rest, ok := strings.CutPrefix(line, "# exempt: "); ok {
			e, err := guard.ParseExemption(strings.TrimSpace(rest))
			if err != nil {
				t.Fatal(err)
			}
			c.exempt = append(c.exempt, e)
		}
	}
	namespaces := map[string]*corev1.Namespace{}
	for _, d := range docs {
		if d.Kind == "Namespace" {
			ns := &corev1.Namespace{}
			if err := json.Unmarshal(d.Root.JSON(), ns); err != nil {
				t.Fatal(err)
			}
			namespaces[d.Name] = ns
		}
	}
	for _, d := range docs {
		if plurals[d.Kind] != "" {
			c.requests = append(c.requests, requestOf(t, d, namespaces[d.Namespace]))
		}
	}
	return c
}

// requestOf creates an object; a pod with debug containers is one to which they are added.
func requestOf(t *testing.T, d manifest.Document, ns *corev1.Namespace) request {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(d.Root.JSON(), &object.Object); err != nil {
		t.Fatal(err)
	}
	gv, err := schema.ParseGroupVersion(d.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	if ns == nil {
		ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace}}
	}
	r := request{object: object, kind: gv.WithKind(d.Kind), resource: gv.WithResource(plurals[d.Kind]), namespace: ns}
	if d.Root.At("spec", "ephemeralContainers") != nil {
		r.old = object.DeepCopy()
		unstructured.RemoveNestedField(r.old.Object, "spec", "ephemeralContainers")
		r.subresource = "ephemeralcontainers"
	}
	return r
}

// TestPoliciesAgreeWithTheGuard evaluates every object of the corpus with the API
// server's own compiler, and with guard.Scan.
func TestPoliciesAgreeWithTheGuard(t *testing.T) {
	files, err := filepath.Glob(corpus)
	if err != nil || len(files) < 150 {
		t.Fatalf("the corpus has %d files: %v", len(files), err)
	}
	compiled := map[string][]evaluator{}
	for _, file := range files {
		c := readClaim(t, file)
		if len(c.requests) == 0 {
			continue
		}
		if compiled[c.identities()] == nil {
			for _, p := range Policies(Options{Exemptions: c.exempt}) {
				compiled[c.identities()] = append(compiled[c.identities()], compile(t, p, newest))
			}
		}
		agree(t, c, compiled[c.identities()])
	}
}

// TestPoliciesCompileOnTheOldestRelease holds that they use nothing that came later.
func TestPoliciesCompileOnTheOldestRelease(t *testing.T) {
	for _, p := range Policies(Options{Exemptions: guard.DefaultExemptions()}) {
		compile(t, p, oldest)
	}
}

func agree(t *testing.T, c claim, policies []evaluator) {
	t.Helper()
	var got []string
	template := false
	for _, r := range c.requests {
		for _, p := range policies {
			template = template || (p.Name == "kerf-guard-templates" && r.asked(p.Resources, p.Exempt))
			got = append(got, p.evaluate(t, r)...)
		}
	}
	var want []string
	for _, f := range guard.Scan(c.inventory, c.exempt).Findings {
		rule, _ := guard.Named(f.Rule)
		level := map[string]Level{"error": Deny, "warning": Warn, "info": Audit}[f.Severity.String()]
		switch {
		case rule.Sees != guard.ByPolicy:
			continue
		case template && level == Audit:
			continue // templates are only warned of
		case template:
			level = Warn
		}
		want = append(want, f.Rule+" "+string(level))
	}
	if c.differs {
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], " ")
		}
		want = c.policy
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(slices.Compact(want), slices.Compact(got)); d != "" && len(want)+len(got) > 0 {
		t.Errorf("%s: guard and policies differ (-guard +policies):\n%s", c.name, d)
	}
}

// TestMutationAgreesWithTheGuard holds that the mutating policy sets the variable
// for exactly those containers that guard.Voids lists.
func TestMutationAgreesWithTheGuard(t *testing.T) {
	files, err := filepath.Glob(corpus)
	if err != nil {
		t.Fatal(err)
	}
	changed, compiled := 0, map[string]mutator{}
	for _, file := range files {
		c := readClaim(t, file)
		if _, ok := compiled[c.identities()]; !ok {
			compiled[c.identities()] = compileMutation(t, Mutation(Options{Exemptions: c.exempt}))
		}
		for i := range c.inventory.Pods {
			p := &c.inventory.Pods[i]
			if p.Kind != "Pod" {
				continue
			}
			var want []string
			for _, v := range guard.Voids(p, c.inventory.Facts(p.Namespace), c.exempt) {
				if at := strings.Join([]string{v.List, v.Name}, " "); c.requests[0].subresource == "" || v.List == "ephemeralContainers" {
					want = append(want, at)
				}
			}
			got := compiled[c.identities()].mutated(t, c.requests[0])
			slices.Sort(want)
			if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
				t.Errorf("%s: containers that are set to void (-guard +policy):\n%s", c.name, d)
			}
			changed += len(got)
		}
	}
	if changed < 50 {
		t.Errorf("%d containers were changed, want 50 or more", changed)
	}
}

// A mutator is a mutating policy that the API server's own compiler made.
type mutator struct {
	Mutating
	compiler *plugincel.CompositedCompiler
	patcher  patch.Patcher
}

func compileMutation(t *testing.T, m Mutating) mutator {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(mutating))
	if err != nil {
		t.Fatal(err)
	}
	declared := plugincel.OptionalVariableDeclarations{HasPatchTypes: true}
	for _, v := range m.Variables {
		if result := compiler.CompileAndStoreVariable(named{v.Name, v.Expression, cel.AnyType}, declared, environment.NewExpressions); result.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, result.Error)
		}
	}
	evaluator := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.Expression}, declared, environment.NewExpressions)
	return mutator{m, compiler, patch.NewJSONPatcher(evaluator)}
}

// mutated lists the containers that the policy gives the variable.
func (m mutator) mutated(t *testing.T, r request) []string {
	t.Helper()
	if !r.asked(m.Resources, m.Exempt) {
		return nil
	}
	after, err := m.patcher.Patch(m.compiler.CreateContext(context.Background()), patch.Request{
		MatchedResource: r.resource, VersionedAttributes: r.attributes(), Namespace: r.namespace, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(runtime.NewScheme()),
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatalf("%s: %v", r.object.GetName(), err)
	}
	return newVoids(r.object, after.(*unstructured.Unstructured))
}

// newVoids lists the containers that have the variable after and not before.
func newVoids(before, after *unstructured.Unstructured) []string {
	var out []string
	for _, list := range []string{"containers", "ephemeralContainers", "initContainers"} {
		old, _, _ := unstructured.NestedSlice(before.Object, "spec", list)
		now, _, _ := unstructured.NestedSlice(after.Object, "spec", list)
		for i := range now {
			name, _, _ := unstructured.NestedString(now[i].(map[string]any), "name")
			if voided(now[i].(map[string]any)) && !voided(old[i].(map[string]any)) {
				out = append(out, list+" "+name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func voided(container map[string]any) bool {
	env, _, _ := unstructured.NestedSlice(container, "env")
	if len(env) == 0 {
		return false
	}
	last, _ := env[len(env)-1].(map[string]any)
	return last["name"] == guard.VisibleDevices && last["value"] == "void"
}

// TestUpdatesOfPodsAreLeftAlone holds that a pod which was let in can be labelled
// and deleted, and that annotations which show GPUs cannot be added later.
func TestUpdatesOfPodsAreLeftAlone(t *testing.T) {
	var policies []evaluator
	for _, p := range Policies(Options{Exemptions: guard.DefaultExemptions()}) {
		policies = append(policies, compile(t, p, newest))
	}
	tests := map[string]struct {
		file   string
		change func(*unstructured.Unstructured)
		want   []string
	}{
		"a label on a pod that breaks rules": {
			"06-privileged-with-gpu-devices", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }, nil,
		},
		"a label on a pod with the annotation": {
			"13-nri-annotation", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }, nil,
		},
		"the annotation on a pod that waits": {
			"01-a-plain-pod", func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all"})
			}, []string{"nri-annotation deny"},
		},
		"another value of the annotation": {
			"13-nri-annotation", func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"nvidia.cdi.k8s.io": "nvidia.com/gpu=0"})
			}, []string{"nri-annotation deny"},
		},
		"the scheduler's annotation, by the scheduler": {
			"24-gpu-memory-by-the-book", func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"ALIYUN_COM_GPU_MEM_IDX": "0"})
			}, nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := readClaim(t, filepath.Join(filepath.Dir(corpus), tc.file+".yaml")).requests[0]
			r.old = r.object.DeepCopy()
			tc.change(r.object)
			var got []string
			for _, p := range policies {
				got = append(got, p.evaluate(t, r)...)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("rules (-want +got):\n%s", d)
			}
		})
	}
}

// TestYAMLIsWhatWasTested reads the files back, strictly, and compares expressions.
func TestYAMLIsWhatWasTested(t *testing.T) {
	ex := append(guard.DefaultExemptions(), guard.Exemption{Namespace: "monitoring", ServiceAccount: "dcgm-exporter"})
	policies := Policies(Options{Exemptions: ex})
	docs := strings.Split(string(YAML(policies)), "\n---\n")[1:]
	if len(docs) != 2*len(policies) {
		t.Fatalf("%d documents, want %d", len(docs), 2*len(policies))
	}
	for i, p := range policies {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		if err := yaml.UnmarshalStrict([]byte(docs[2*i]), &policy); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, docs[2*i])
		}
		var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
		if err := yaml.UnmarshalStrict([]byte(docs[2*i+1]), &binding); err != nil {
			t.Fatal(err)
		}
		if policy.Name != p.Name || binding.Spec.PolicyName != p.Name || len(binding.Spec.ValidationActions) != 1 || string(binding.Spec.ValidationActions[0]) != p.Level.action() {
			t.Errorf("%s: policy %s, binding %+v", p.Name, policy.Name, binding.Spec)
		}
		if len(policy.Spec.Validations) != len(p.Validations) || len(policy.Spec.Variables) != len(p.Variables) {
			t.Fatalf("%s: %d validations and %d variables", p.Name, len(policy.Spec.Validations), len(policy.Spec.Variables))
		}
		for j, v := range p.Validations {
			if got := policy.Spec.Validations[j]; flat(got.Expression) != flat(v.Expression) || got.Message != v.Message {
				t.Errorf("%s: %s reads %q", p.Name, v.Rule, got.Expression)
			}
		}
	}
	var mutation admissionregistrationv1.MutatingAdmissionPolicy
	written := strings.Split(string(Mutation(Options{Exemptions: ex}).YAML()), "\n---\n")[1:]
	if err := yaml.UnmarshalStrict([]byte(written[0]), &mutation); err != nil {
		t.Fatal(err)
	}
	if got := mutation.Spec.Mutations[0].JSONPatch.Expression; flat(got) != flat(Mutation(Options{Exemptions: ex}).Expression) {
		t.Errorf("the mutation reads %q", got)
	}
}

// flat leaves out what wrapping lines adds.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestEveryRuleIsSeenOrExplained keeps the table of what policies cannot see whole.
func TestEveryRuleIsSeenOrExplained(t *testing.T) {
	unseen := map[string]string{}
	for _, u := range UnseenRules() {
		unseen[u.Rule] = u.Why
	}
	expressions := broken()
	for _, r := range guard.Rules() {
		_, seen := expressions[r.Name]
		if why, listed := unseen[r.Name]; seen != (r.Sees == guard.ByPolicy) || (!seen && (!listed || why == "")) {
			t.Errorf("%s is seen by %s, has an expression: %v, is explained: %q", r.Name, r.Sees, seen, why)
		}
		delete(expressions, r.Name)
	}
	for name := range expressions {
		t.Errorf("an expression is for %s, which is no rule", name)
	}
}
