package policy

import (
	"slices"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// Options say for whom the policies are.
type Options struct {
	// Exemptions that the policies grant. Namespaces that are exempt as a whole
	// are not matched at all.
	Exemptions guard.Exemptions
	// Open lets objects in when a policy cannot be evaluated. By default they
	// are refused then.
	Open bool
}

// A Level is what is done about a broken rule.
type Level string

// The levels.
const (
	Deny  Level = "deny"
	Warn  Level = "warn"
	Audit Level = "audit"
)

// severity is what a finding of the level has.
func (l Level) severity() model.Severity {
	return map[Level]model.Severity{Deny: model.Error, Warn: model.Warning, Audit: model.Info}[l]
}

// action is what a binding calls the level.
func (l Level) action() string {
	return map[Level]string{Deny: "Deny", Warn: "Warn", Audit: "Audit"}[l]
}

// when says for which modes a rule is of the level; mode is an expression. It
// mirrors guard's own reading of the labels.
func (l Level) when(rule guard.Rule, mode string) string {
	if l == Audit {
		if rule.Severity == model.Info {
			return mode + " != 'off'"
		}
		return mode + " == 'audit'"
	}
	switch {
	case rule.Severity == model.Error && l == Deny:
		return "!(" + mode + " in ['warn', 'audit', 'off'])"
	case rule.Severity == model.Error:
		return mode + " == 'warn'"
	default: // a warning's, at level warn
		return "!(" + mode + " in ['audit', 'off'])"
	}
}

// has reports whether a rule can ever be of the level.
func (l Level) has(rule guard.Rule) bool { return rule.Severity >= l.severity() }

// A Resource is what a policy is asked about.
type Resource struct {
	Group      string
	Versions   []string
	Resources  []string
	Operations []string
}

// A Validation is one rule in a policy.
type Validation struct {
	Rule       string
	Expression string // true when all is well
	Message    string
}

// A Validating is a ValidatingAdmissionPolicy with its binding.
type Validating struct {
	Name        string
	Level       Level
	What        string // for the comment above it
	Resources   []Resource
	Exempt      []string // namespaces that are not matched
	Open        bool
	Variables   []Variable
	Validations []Validation
}

var (
	pods = []Resource{
		{"", []string{"v1"}, []string{"pods"}, []string{"CREATE", "UPDATE"}},
		{"", []string{"v1"}, []string{"pods/ephemeralcontainers"}, []string{"UPDATE"}},
	}
	templates = []Resource{
		{"apps", []string{"v1"}, []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, []string{"CREATE", "UPDATE"}},
		{"batch", []string{"v1"}, []string{"cronjobs", "jobs"}, []string{"CREATE", "UPDATE"}},
	}
	objects = []Resource{
		{"", []string{"v1"}, []string{"limitranges", "resourcequotas"}, []string{"CREATE", "UPDATE"}},
		{"resource.k8s.io", []string{"*"}, []string{"resourceclaims", "resourceclaimtemplates"}, []string{"CREATE"}},
	}
)

// objectRules are those about objects that are no pods.
var objectRules = []string{"dra-admin-access", "limit-range-gpu", "quota-key"}

// Policies returns the policies, in the order in which they are written.
func Policies(o Options) []Validating {
	var out []Validating
	for _, level := range []Level{Deny, Warn, Audit} {
		out = append(out, build(o, level, "kerf-guard-pods-"+string(level), pods, inPod))
	}
	out[0].What = "Pods and debug containers that get at GPUs past the device plugin are refused."
	out[1].What = "Pods that may get at GPUs, or that look like a mistake, are warned of."
	out[2].What = "What is worth knowing about pods goes into the audit log."
	early := build(o, Warn, "kerf-guard-templates", templates, inTemplate)
	early.What = "Workloads are warned of already when their pods would be refused or warned of."
	counting := build(o, Deny, "kerf-guard-objects", objects, "")
	counting.What = "Quotas and limit ranges that count GPUs wrongly, and claims with admin access, are refused."
	return append(out, early, counting)
}

// build makes one policy of the rules that policies can see; pod is where the
// pod stands in the object, "" for objects without one.
func build(o Options, level Level, name string, resources []Resource, pod string) Validating {
	p := Validating{Name: name, Level: level, Resources: resources, Exempt: Namespaces(o.Exemptions), Open: o.Open}
	if pod == "" {
		p.Variables = ruling(Options{})
	} else {
		p.Variables = slices.Concat(podVariables(pod), []Variable{identity}, ruling(o))
	}
	expressions := broken()
	for _, rule := range guard.Rules() {
		expression, seen := expressions[rule.Name]
		if !seen || (pod == "") != slices.Contains(objectRules, rule.Name) || !level.has(rule) {
			continue
		}
		force := inForce(rule, level, o)
		if pod == inTemplate && rule.Severity == model.Error {
			// Templates are warned of, whether their pods are refused or warned of.
			force = "(" + inForce(rule, Deny, o) + " || " + inForce(rule, Warn, o) + ")"
		}
		if pod == "" {
			force = inForce(rule, level, Options{Exemptions: wholeNamespaces(o.Exemptions)})
		}
		p.Validations = append(p.Validations, Validation{Rule: rule.Name, Expression: "!(" + force + ") || !(" + expression + ")", Message: message(rule)})
	}
	return p
}

// Namespaces lists the namespaces that are exempt from all rules.
func Namespaces(ex guard.Exemptions) []string {
	var out []string
	for _, e := range ex {
		if e.ServiceAccount == "" && len(e.Rules) == 0 && !slices.Contains(out, e.Namespace) {
			out = append(out, e.Namespace)
		}
	}
	slices.Sort(out)
	return out
}

// wholeNamespaces keeps the exemptions that are not about a service account, as
// objects that are no pods have none.
func wholeNamespaces(ex guard.Exemptions) guard.Exemptions {
	return slices.DeleteFunc(slices.Clone(ex), func(e guard.Exemption) bool { return e.ServiceAccount != "" })
}

// A Mutating is the MutatingAdmissionPolicy with its binding: containers that
// ask for no GPU and say nothing of NVIDIA_VISIBLE_DEVICES are given it with the
// value void, so that an image that names GPUs is shown none.
type Mutating struct {
	Name       string
	Resources  []Resource
	Exempt     []string
	Variables  []Variable
	Expression string // a list of JSONPatch
}

// Mutation returns that policy. It fails open: what it could not change is still
// judged by the other policies.
func Mutation(o Options) Mutating {
	needs := "!" + asks + " && !" + sets(guard.VisibleDevices)
	patch := func(name, list, where string) string {
		with := func(test, path, value string) string {
			return list + ".transformList(i, c, " + test + " && " + where + ", JSONPatch{op: 'add', path: '/spec/" + name + "/' + string(i) + '/" + path + "', value: " + value + "})"
		}
		entry := "{'name': '" + guard.VisibleDevices + "', 'value': 'void'}"
		has := "size(" + env + ") > 0"
		return with(has, "env/-", entry) + " +\n" + with("!("+has+")", "env", "["+entry+"]")
	}
	added := "!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name) && " + needs
	m := Mutating{
		Name: "kerf-guard-void", Resources: []Resource{{"", []string{"v1"}, []string{"pods"}, []string{"CREATE"}}, pods[1]}, Exempt: Namespaces(o.Exemptions),
		Variables: slices.Concat([]Variable{{"spec", "object.spec"}, identity}, ruling(o)),
	}
	m.Expression = "variables.excused || variables.mode == 'off' ? [] : request.?subResource.orValue('') == 'ephemeralcontainers' ?\n" +
		"(" + patch("ephemeralContainers", "object.spec.?ephemeralContainers.orValue([])", added) + ") :\n" +
		"(" + patch("containers", "object.spec.containers", needs) + " +\n" + patch("initContainers", "object.spec.?initContainers.orValue([])", needs) + ")"
	return m
}

// An Unseen is a rule that policies cannot see, or not all of.
type Unseen struct {
	Rule string
	Who  guard.Sight
	Why  string
}

// UnseenRules lists what only the webhook or a scan can see, in the order of the rules.
func UnseenRules() []Unseen {
	why := map[string]string{
		"env-from-devices":       "a policy cannot read the ConfigMap or Secret behind envFrom",
		"gpu-above-one":          "a policy cannot read the device plugin's config",
		"gpu-not-offered":        "a policy knows neither nodes nor device configs",
		"static-pod":             "no admission is asked about a static pod",
		"admin-access-namespace": "it is a fact about a cluster, not a fault of a request",
	}
	var out []Unseen
	for _, r := range guard.Rules() {
		if r.Sees != guard.ByPolicy {
			out = append(out, Unseen{r.Name, r.Sees, why[r.Name]})
		}
	}
	return append(out,
		Unseen{"env-visible-devices-from", guard.ByWebhook, "a policy cannot put $(NAME) together: it refuses a value that turns out to be void"},
		Unseen{"env-cuda-version", guard.ByWebhook, "a policy does not see that a ConfigMap behind envFrom sets NVIDIA_VISIBLE_DEVICES: it refuses"},
		Unseen{"runtime-class", guard.ByWebhook, "a policy goes by the name of the runtime class, not by its handler"},
		Unseen{"gpu-image", guard.ByScan, "nobody sees the environment of an image from the cluster's objects; names of images are all there is"},
	)
}
