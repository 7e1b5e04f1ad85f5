package guard

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// Sight says who can tell whether a rule is broken.
type Sight uint8

// The sights, each including those before it: a policy sees the object alone, a
// webhook also what the object refers to, a scan also what no admission is
// asked about.
const (
	ByPolicy Sight = iota
	ByWebhook
	ByScan
)

// String names the sight: "policy", "webhook", "scan".
func (s Sight) String() string { return [...]string{"policy", "webhook", "scan"}[s] }

// A Rule is one way to GPUs that are not counted, or one way to count them wrongly.
type Rule struct {
	Name     string         // kebab-case, stable: it is in labels, exemptions and reports
	Severity model.Severity // Error = refused, Warning = warned of, Info = recorded
	Title    string         // what is wrong, in one line
	Doc      string         // what happens and why it matters
	Fix      string         // the next step
	Row      int            // of the list of bypasses in the package comment; 0 = an accounting trap
	Source   string         // where the fact was read or run, with versions
	Except   string         // who may need it, "" for nobody
	Sees     Sight
	// PodSecurity says that the Pod Security standard "baseline" refuses it too,
	// in namespaces where that is enforced.
	PodSecurity bool

	pod   func(*review) // nil for rules about other objects
	label string        // LabelPrefix and Name
}

// Rules lists all rules in the order of the package's table. The slice is the
// caller's.
func Rules() []Rule {
	out := slices.Concat(envRules, privilegeRules, volumeRules, podRules, resourceRules, objectRules)
	for i := range out {
		out[i].label = LabelPrefix + out[i].Name
	}
	return out
}

// Named finds a rule.
func Named(name string) (Rule, bool) {
	r, ok := byName[name]
	return r, ok
}

var byName = func() map[string]Rule {
	out := map[string]Rule{}
	for _, r := range Rules() {
		out[r.Name] = r
	}
	return out
}()

// Facts is what a pod refers to, and what its namespace and cluster are like.
// The zero value knows nothing.
type Facts struct {
	// Labels of the pod's namespace; those that start with LabelPrefix choose
	// how strict the guard is.
	Labels map[string]string
	// ConfigMaps and Secrets of the pod's namespace that are known, by name,
	// with their keys and values.
	ConfigMaps, Secrets map[string]map[string]string
	// Handlers of the runtime classes that are known, by the class's name.
	Handlers map[string]string
	// MaxRequest is the largest amount of a resource that the device plugin
	// grants one container, for resources where it has such a limit everywhere.
	MaxRequest map[string]int64
	// Offered are the GPU resources that nodes have or will have; nil = unknown.
	Offered map[string]bool
}

// data returns what an envFrom stands for; known is false when the facts do not
// have it.
func (f *Facts) data(e EnvFrom) (data map[string]string, known bool) {
	if f == nil {
		return nil, false
	}
	from := f.ConfigMaps
	if e.Kind == "Secret" {
		from = f.Secrets
	}
	data, known = from[e.Name]
	return data, known
}

// A Finding is what one rule says of one place.
type Finding struct {
	Rule string
	// Severity is the rule's, or what the namespace's labels make of it.
	Severity  model.Severity
	Place     model.Place
	Container string // "" when it is about the pod or another object
	Identity  string // "namespace/service-account", "" for objects that are no pods
	Text, Fix string
}

// Note is the finding as notes of other checks are.
func (f Finding) Note() model.Note {
	return model.Note{Code: f.Rule, Severity: f.Severity, Place: f.Place, Text: f.Text, Fix: f.Fix}
}

// Namespace is that of the finding's object, or the one that it is.
func (f Finding) Namespace() string {
	if ns, _, ok := strings.Cut(f.Identity, "/"); ok {
		return ns
	}
	kind, name, _ := strings.Cut(f.Place.Object, " ")
	if ns, _, ok := strings.Cut(name, "/"); ok || kind == "Namespace" {
		return ns
	}
	return "default"
}

// checked lists the rules on pods; it is made once, as Review runs for every
// pod that a cluster creates.
var checked = onPods()

func onPods() []Rule {
	return slices.DeleteFunc(Rules(), func(r Rule) bool { return r.pod == nil })
}

// Review applies the rules to one pod, in their order. Rules from which the
// pod's identity is exempt are left out, and so are those that a label of its
// namespace turns off; others have the severity that the label sets. The pod
// and the facts are not written to, so that reviews may run at once.
func Review(p *Pod, f *Facts, ex Exemptions) []Finding {
	if f == nil {
		f = &Facts{}
	}
	r := review{pod: p, facts: f, gpu: p.asksGPU()}
	r.aims = r.gpu || r.goesToGPUs()
	skip := ex.of(p.Namespace, p.ServiceAccount)
	if skip.covers("") { // every rule
		return nil
	}
	for i := range checked {
		rule := &checked[i]
		severity, on := modeOf(f.Labels, rule)
		if !on || skip.covers(rule.Name) {
			continue
		}
		r.rule, r.severity = rule, severity
		rule.pod(&r)
	}
	return r.found
}

// Voids lists the containers that ask for no GPU and say nothing of
// NVIDIA_VISIBLE_DEVICES. Where their image names GPUs they are shown them, unless
// the variable is added with the value void. Pods of identities that are exempt
// from all rules, and of namespaces where the guard is off, have none.
func Voids(p *Pod, f *Facts, ex Exemptions) []*Container {
	if ex.Exempt(p.Namespace, p.ServiceAccount) || (f != nil && f.Labels[LabelMode] == ModeOff) {
		return nil
	}
	var out []*Container
	for i := range p.Containers {
		c := &p.Containers[i]
		if _, _, set := c.env(VisibleDevices); !set && !c.asksGPU() {
			out = append(out, c)
		}
	}
	return out
}

// Refused lists the findings for which the guard keeps the pod out.
func Refused(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Severity < model.Error })
}

// A review is one pod under review.
type review struct {
	pod      *Pod
	facts    *Facts
	gpu      bool // it asks for GPUs or claims
	aims     bool // it asks for GPUs, or is written to land on GPU nodes
	rule     *Rule
	severity model.Severity
	vars     map[*Container]map[string]setting // made when first asked for
	root     *manifest.Node                    // the object; read when first asked for
	mounted  map[string]access                 // by the name of a volume; made when first asked for
	specials map[string]bool                   // likewise
	found    []Finding
}

// at is the place of a field of the object. A field that is not there has the
// line of the deepest part of it that is.
func (r *review) at(field string, line int) model.Place {
	place := r.pod.Place
	place.Field = field
	if line > 0 {
		place.Line = line
		return place
	}
	if r.root == nil && r.pod.tree != nil {
		r.root = r.pod.tree()
	}
	if r.root != nil {
		place.Line = lineOf(r.root, field)
	}
	return place
}

// say adds a finding about the pod at a path below its spec.
func (r *review) say(field, text string) {
	r.add(Finding{Place: r.at(r.pod.Place.Field+"."+field, 0), Text: text, Fix: r.rule.Fix})
}

// sayOf adds a finding about a container at a path below it.
func (r *review) sayOf(c *Container, field string, line int, text string) {
	r.add(Finding{Place: r.at(r.pod.path(c)+field, line), Container: c.Name, Text: "container " + c.Name + " " + text, Fix: r.rule.Fix})
}

func (r *review) add(f Finding) {
	f.Rule, f.Severity, f.Identity = r.rule.Name, r.severity, r.pod.identity()
	r.found = append(r.found, f)
}

// fix puts another next step on the last finding.
func (r *review) fix(text string) { r.found[len(r.found)-1].Fix = text }

// each calls ask for every container.
func (r *review) each(ask func(*Container)) {
	for i := range r.pod.Containers {
		ask(&r.pod.Containers[i])
	}
}

// environment returns the variables of a container that rules are about, nil
// where none is there. The others are not held on to: they may be many.
func (r *review) environment(c *Container) map[string]setting {
	if !watched(c) {
		return nil
	}
	set, ok := r.vars[c]
	if !ok {
		if r.vars == nil {
			r.vars = map[*Container]map[string]setting{}
		}
		set = map[string]setting{}
		all, _ := environment(c, r.facts)
		for _, name := range [...]string{VisibleDevices, cudaVersion, requireCUDA} {
			if s, ok := all[name]; ok {
				set[name] = s
			}
		}
		r.vars[c] = set
	}
	return set
}

// goesToGPUs reports whether the pod is written to land on GPU nodes: it
// tolerates their taint, selects them, takes their runtime, names its node, or
// mounts what only they have.
func (r *review) goesToGPUs() bool {
	p := r.pod
	return tolerated(p.Tolerations) != "" || slices.ContainsFunc(p.PlacedBy, gpuLabel) || r.nvidiaRuntime() || (p.NodeName != "" && !p.Live) ||
		slices.ContainsFunc(p.Volumes, func(v Volume) bool { return v.Kind == "hostPath" && reachOf(v.HostPath, false) == "host-devices" })
}

// gpuLabel reports whether a label key tells GPU nodes from others.
func gpuLabel(key string) bool {
	return strings.Contains(key, "nvidia") || strings.Contains(key, "gpu") || strings.Contains(key, "accelerator")
}

// tolerated says which taint of GPU nodes a pod tolerates: its key, "every
// taint", or "" for none.
func tolerated(list []model.Toleration) string {
	for _, t := range list {
		switch {
		case t.Assumed || t.Effect == model.NoExecute || t.Effect == model.PreferNoSchedule:
		case t.Key == "" && t.Operator == "Exists":
			return "every taint"
		case model.IsGPU(t.Key):
			return t.Key
		}
	}
	return ""
}

// nvidiaRuntime reports whether the pod names a runtime class of NVIDIA's, by
// its name or by the handler behind it.
func (r *review) nvidiaRuntime() bool {
	name := r.pod.RuntimeClass
	return name != "" && (strings.HasPrefix(name, "nvidia") || strings.HasPrefix(r.facts.Handlers[name], "nvidia"))
}
