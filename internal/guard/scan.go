package guard

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// An Inventory is what a scan looks at: the pods and templates of some
// documents, the other objects that rules are about, and what they refer to.
type Inventory struct {
	Pods    []Pod
	Objects []manifest.Document
	// MaxRequest and Offered go into the facts of every pod. Read leaves the
	// first empty and takes the second from nodes, nil without any.
	MaxRequest map[string]int64
	Offered    map[string]bool

	labels   map[string]map[string]string            // by namespace
	data     map[string]map[string]map[string]string // by kind and namespace, then name
	handlers map[string]string
	owners   map[string]string // title of an object to that of its controller
}

// Read takes what the rules are about out of documents. Pods that have ended
// are left out.
func Read(docs []manifest.Document) Inventory {
	inv := Inventory{
		labels: map[string]map[string]string{}, data: map[string]map[string]map[string]string{},
		handlers: map[string]string{}, owners: map[string]string{},
	}
	pools := false
	for _, d := range docs {
		if d.Root == nil {
			continue
		}
		inv.read(d)
		pools = pools || d.Kind == "NodePool" || d.Kind == "Provisioner"
		phase := d.Root.At("status", "phase").Str()
		if d.Kind == "Pod" && (phase == "Succeeded" || phase == "Failed") {
			continue
		}
		inv.Pods = append(inv.Pods, Pods(d)...)
		if owner := controller(d.Root); owner != nil {
			inv.owners[d.Title()] = manifest.Document{Kind: owner.Get("kind").Str(), Namespace: d.Namespace, Name: owner.Get("name").Str()}.Title()
		}
	}
	if pools && inv.Offered != nil {
		inv.Offered[model.NvidiaGPU], inv.Offered["amd.com/gpu"] = true, true // on nodes to be launched
	}
	return inv
}

// read keeps an object that is no pod.
func (inv *Inventory) read(d manifest.Document) {
	switch d.Kind {
	case "Namespace":
		labels := map[string]string{}
		for _, f := range fields(d.Root.At("metadata", "labels")) {
			labels[f.Name] = f.Value.Str()
		}
		inv.labels[d.Name] = labels
		inv.Objects = append(inv.Objects, d)
	case "ResourceQuota", "LimitRange", "ResourceClaim", "ResourceClaimTemplate":
		inv.Objects = append(inv.Objects, d)
	case "ConfigMap", "Secret":
		key := d.Kind + " " + cmp.Or(d.Namespace, "default")
		if inv.data[key] == nil {
			inv.data[key] = map[string]map[string]string{}
		}
		inv.data[key][d.Name] = values(d)
	case "RuntimeClass":
		inv.handlers[d.Name] = d.Root.Get("handler").Str()
	case "Node":
		inv.offer(d.Root.At("status", "allocatable"))
	}
}

// offer takes note of the GPU resources of a node. Nodes without a GPU say
// nothing: those with GPUs may be yet to come.
func (inv *Inventory) offer(allocatable *manifest.Node) {
	for _, f := range fields(allocatable) {
		if !model.IsGPU(f.Name) || quantity(f.Value.Str()) <= 0 {
			continue
		}
		if inv.Offered == nil {
			inv.Offered = map[string]bool{}
		}
		inv.Offered[f.Name] = true
	}
}

// values are those of a ConfigMap or Secret.
func values(d manifest.Document) map[string]string {
	out := map[string]string{}
	for _, f := range fields(d.Root.Get("data")) {
		out[f.Name] = f.Value.Str()
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(f.Value.Str())); d.Kind == "Secret" && err == nil {
			out[f.Name] = string(plain)
		}
	}
	for _, f := range fields(d.Root.Get("stringData")) {
		out[f.Name] = f.Value.Str()
	}
	return out
}

// Facts are those of a namespace.
func (inv *Inventory) Facts(namespace string) *Facts {
	return &Facts{
		Labels: inv.labels[namespace], ConfigMaps: inv.data["ConfigMap "+namespace], Secrets: inv.data["Secret "+namespace],
		Handlers: inv.handlers, MaxRequest: inv.MaxRequest, Offered: inv.Offered,
	}
}

// A Report is what a scan found.
type Report struct {
	Findings []Finding // the gravest first, then by place
	// Excused are what exempt identities and namespaces would be refused for.
	Excused    []Finding
	Exemptions Exemptions
	Pods       int // pods and templates that were looked at
	Objects    int // other objects
	Namespaces int
}

// Count is how many findings have a severity.
func (r Report) Count(s model.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Scan reviews everything in an inventory. What is found alike in an object and
// in what it made, as in a Deployment and its pods, is reported once.
func Scan(inv Inventory, ex Exemptions) Report {
	r := Report{Exemptions: ex, Pods: len(inv.Pods), Objects: len(inv.Objects)}
	facts := map[string]*Facts{}
	factsOf := func(namespace string) *Facts {
		if facts[namespace] == nil {
			facts[namespace] = inv.Facts(namespace)
		}
		return facts[namespace]
	}
	for i := range inv.Pods {
		p := &inv.Pods[i]
		found := Review(p, factsOf(p.Namespace), ex)
		r.Findings = append(r.Findings, found...)
		if f := factsOf(p.Namespace); len(ex.of(p.Namespace, p.ServiceAccount)) > 0 || relaxes(f.Labels) {
			r.Excused = append(r.Excused, excused(p, f, found)...)
		}
	}
	for _, d := range inv.Objects {
		namespace := cmp.Or(d.Namespace, "default")
		if d.Kind == "Namespace" {
			namespace = d.Name
		}
		r.Findings = append(r.Findings, ReviewObject(d, factsOf(namespace), ex)...)
	}
	r.Namespaces = len(facts)
	r.Findings, r.Excused = inv.once(r.Findings), inv.once(r.Excused)
	return r
}

// relaxes reports whether labels of a namespace say how strict the guard is.
func relaxes(labels map[string]string) bool {
	for key := range labels {
		if strings.HasPrefix(key, LabelPrefix) {
			return true
		}
	}
	return false
}

// excused lists what a pod is not refused for but would be without exemptions
// and labels.
func excused(p *Pod, f *Facts, found []Finding) []Finding {
	bare := *f
	bare.Labels = nil
	all := Refused(Review(p, &bare, nil))
	return slices.DeleteFunc(all, func(x Finding) bool {
		return slices.ContainsFunc(found, func(y Finding) bool { return x.Rule == y.Rule && x.Place == y.Place && y.Severity == x.Severity })
	})
}

// once sorts findings and drops those that stand in an owner of their object too.
func (inv *Inventory) once(found []Finding) []Finding {
	type saying struct{ object, rule, text string }
	said := map[saying]bool{}
	for _, f := range found {
		said[saying{f.Place.Object, f.Rule, f.Text}] = true
	}
	found = slices.DeleteFunc(found, func(f Finding) bool {
		// Chains are short; the bound keeps owners that go round from hanging.
		owner := inv.owners[f.Place.Object]
		for range 4 {
			if said[saying{owner, f.Rule, f.Text}] {
				return true
			}
			owner = inv.owners[owner]
		}
		return false
	})
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity), strings.Compare(a.Place.File, b.Place.File), cmp.Compare(a.Place.Line, b.Place.Line),
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Text, b.Text),
		)
	})
	return found
}
