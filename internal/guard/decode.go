package guard

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A template is where in an object a pod spec is written.
type template struct {
	path       string // of the spec: "spec", "spec.template.spec"
	line       int    // of its key
	spec, meta *manifest.Node
}

// Pods reads the pod of a document, or the pods of its templates: one for the
// kinds of Kubernetes, any number for others, such as a RayCluster, whose
// templates are found wherever there is a list of containers. What does not have
// the shape of a pod spec is left out.
func Pods(d manifest.Document) []Pod {
	if d.Root == nil || d.APIVersion == "" {
		return nil
	}
	root := d.Tree()
	var out []Pod
	for _, t := range templates(d.Kind, root) {
		out = append(out, decode(d, root, t))
	}
	return out
}

func templates(kind string, root *manifest.Node) []template {
	switch kind {
	case "Pod":
		return []template{{"spec", lineOf(root, "spec"), root.Get("spec"), root.Get("metadata")}}
	case "ConfigMap", "Secret", "CustomResourceDefinition":
		return nil
	}
	var out []template
	find(root, "", 0, &out)
	return out
}

// deepest is how far down templates are looked for; a RayJob's are six levels deep.
const deepest = 12

// find looks for pod specs below a node.
func find(n *manifest.Node, path string, depth int, out *[]template) {
	if n == nil || depth > deepest {
		return
	}
	for _, f := range n.Fields {
		at := manifest.Join(path, f.Name)
		if list := items(f.Value.Get("containers")); len(list) > 0 && (list[0].Get("name") != nil || list[0].Get("image") != nil) {
			t := template{path: at, line: f.Line, spec: f.Value}
			if f.Name == "spec" {
				t.meta = n.Get("metadata")
			}
			*out = append(*out, t)
			continue
		}
		find(f.Value, at, depth+1, out)
	}
	for i, item := range n.Items {
		find(item, path+"["+strconv.Itoa(i)+"]", depth+1, out)
	}
}

func decode(d manifest.Document, root *manifest.Node, t template) Pod {
	spec, owner := t.spec, controller(root)
	p := Pod{
		Namespace: cmp.Or(d.Namespace, "default"), Name: d.Name, Kind: d.Kind,
		ServiceAccount: cmp.Or(spec.Get("serviceAccountName").Str(), spec.Get("serviceAccount").Str(), "default"),
		DaemonSet:      d.Kind == "DaemonSet" || owner.Get("kind").Str() == "DaemonSet",
		Live:           d.Kind == "Pod" && live(d),
		RuntimeClass:   spec.Get("runtimeClassName").Str(),
		NodeName:       spec.Get("nodeName").Str(),
		HostPID:        spec.Get("hostPID").Str() == "true",
		HostIPC:        spec.Get("hostIPC").Str() == "true",
		Resources:      amounts(spec.At("resources", "limits")),
		Claims:         len(items(spec.Get("resourceClaims"))) > 0,
		PlacedBy:       placedBy(spec),
		Place:          model.Place{File: d.File, Object: d.Title(), Field: t.path, Line: t.line},
		tree:           d.Tree,
	}
	for _, f := range fields(t.meta.Get("annotations")) {
		p.Annotations = append(p.Annotations, Annotation{f.Name, f.Value.Str()})
		p.Static = p.Static || f.Name == "kubernetes.io/config.mirror"
	}
	for _, n := range items(spec.Get("tolerations")) {
		p.Tolerations = append(p.Tolerations, model.Toleration{
			Key: n.Get("key").Str(), Operator: n.Get("operator").Str(), Value: n.Get("value").Str(), Effect: n.Get("effect").Str(),
		})
	}
	for _, n := range items(spec.Get("volumes")) {
		p.Volumes = append(p.Volumes, volume(n))
	}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		p.Containers = slices.Grow(p.Containers, len(items(spec.Get(list))))
		for i, n := range items(spec.Get(list)) {
			p.Containers = append(p.Containers, container(n, list, i))
		}
	}
	return p
}

// live reports whether a cluster has stored an object. The head of a document
// is enough to tell.
func live(d manifest.Document) bool {
	return d.Root.At("metadata", "uid") != nil || d.Root.At("status", "phase") != nil
}

// controller is the owner reference that manages an object.
func controller(root *manifest.Node) *manifest.Node {
	for _, n := range items(root.At("metadata", "ownerReferences")) {
		if n.Get("controller").Str() == "true" {
			return n
		}
	}
	return nil
}

func items(n *manifest.Node) []*manifest.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

func fields(n *manifest.Node) []manifest.Field {
	if n == nil {
		return nil
	}
	return n.Fields
}

// placedBy lists the label keys that a node must have, or have with a value.
func placedBy(spec *manifest.Node) []string {
	var out []string
	for _, f := range fields(spec.Get("nodeSelector")) {
		out = append(out, f.Name)
	}
	required := spec.At("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	for _, term := range items(required) {
		for _, e := range items(term.Get("matchExpressions")) {
			switch e.Get("operator").Str() {
			case "NotIn", "DoesNotExist":
			default:
				out = append(out, e.Get("key").Str())
			}
		}
	}
	return out
}

func volume(n *manifest.Node) Volume {
	v := Volume{Name: n.Get("name").Str(), Kind: "emptyDir", HostPath: n.At("hostPath", "path").Str()}
	for _, f := range fields(n) {
		if f.Name != "name" {
			v.Kind = f.Name
		}
	}
	return v
}

func container(n *manifest.Node, list string, index int) Container {
	c := Container{
		Name: n.Get("name").Str(), List: list, Index: index, Image: n.Get("image").Str(),
		Privileged: n.At("securityContext", "privileged").Str() == "true",
		Limits:     amounts(n.At("resources", "limits")), Requests: amounts(n.At("resources", "requests")),
		Claims: len(items(n.At("resources", "claims"))) > 0,
	}
	for _, name := range items(n.At("securityContext", "capabilities", "add")) {
		c.Caps = append(c.Caps, name.Str())
	}
	c.Env = slices.Grow(c.Env, len(items(n.Get("env"))))
	for _, e := range items(n.Get("env")) {
		env := Env{Name: e.Get("name").Str(), Value: e.Get("value").Str()}
		for _, f := range fields(e.Get("valueFrom")) {
			env.From = f.Name
		}
		c.Env = append(c.Env, env)
	}
	for _, e := range items(n.Get("envFrom")) {
		c.EnvFrom = append(c.EnvFrom, envFrom(e))
	}
	for _, m := range items(n.Get("volumeMounts")) {
		c.Mounts = append(c.Mounts, Mount{Volume: m.Get("name").Str(), Path: m.Get("mountPath").Str(), ReadOnly: m.Get("readOnly").Str() == "true"})
	}
	return c
}

func envFrom(n *manifest.Node) EnvFrom {
	out := EnvFrom{Prefix: n.Get("prefix").Str()}
	if ref := n.Get("configMapRef"); ref != nil {
		out.Kind, out.Name = "ConfigMap", ref.Get("name").Str()
	} else if ref := n.Get("secretRef"); ref != nil {
		out.Kind, out.Name = "Secret", ref.Get("name").Str()
	}
	return out
}

func amounts(n *manifest.Node) []Amount {
	out := slices.Grow([]Amount(nil), len(fields(n)))
	for _, f := range fields(n) {
		text := f.Value.Str()
		out = append(out, Amount{f.Name, text, quantity(text)})
	}
	return out
}

var suffixes = map[string]float64{
	"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// quantity reads a quantity of Kubernetes, NaN when it is none.
func quantity(text string) float64 {
	end := len(text)
	for end > 0 && (text[end-1] < '0' || text[end-1] > '9') && text[end-1] != '.' {
		end--
	}
	factor, ok := suffixes[text[end:]]
	n, err := strconv.ParseFloat(text[:end], 64)
	if !ok || err != nil {
		return math.NaN()
	}
	return n * factor
}
