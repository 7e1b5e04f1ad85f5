package workload

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A template is a pod to be, or a pod that is, with the place it was written at.
type template struct {
	object *object
	meta   metav1.ObjectMeta // labels, annotations, and a pod's name
	spec   *corev1.PodSpec   // ours to default
	at     string            // path of the template: "spec.template", "" for a pod
	row    string            // path of the ShapeTable's row that completes it, or ""
	live   bool              // read from a cluster: it has been through admission
}

// base is the path of the template's pod spec.
func (t *template) base() string {
	if t.at == "" {
		return "spec"
	}
	return t.at + ".spec"
}

// path translates a path of the pod to be into one of the document.
func (t *template) path(field string) string {
	switch {
	case t.row != "":
		return t.row
	case t.at == "":
		return field
	default:
		return t.at + "." + field
	}
}

// family names the pods that were written at once, so that what is wrong with
// all of them is said once.
func (t *template) family() string {
	if t.object.pod != nil && t.object.pod.parent != nil {
		return t.object.pod.parent.key()
	}
	return t.object.key()
}

// podSpec makes the model's pod spec: what the API server would store, less all
// that decides nothing about where the pod may run. The faults are why it would
// refuse the object that holds the template.
func (r *reader) podSpec(t *template, owner []fault) *model.PodSpec {
	if t.row == "" {
		r.census(t.object, t.base())
		r.deadLabels(t)
	}
	var verdicts []model.Verdict
	verdicts = append(verdicts, t.object.refused...)
	assumed := map[string]bool{}
	if t.live {
		mergeLabelKeys(t.spec, t.meta.Labels) // servers before 1.34 leave it to the scheduler
	} else {
		r.suffixes(t)
		var pod []fault
		pod, assumed = r.admit(t)
		verdicts = append(verdicts, r.refusals(t, owner, pod)...)
	}
	volumes, missing := r.volumesOf(t)
	verdicts = append(verdicts, missing...)
	out := r.convert(t, assumed)
	out.Volumes = volumes
	out.Refused = verdicts
	return out
}

// refusals turns faults into verdicts and notes. When the API server refuses
// the workload, nobody gets to see what it would say to the pods.
func (r *reader) refusals(t *template, owner, pod []fault) []model.Verdict {
	list, what := owner, "the object"
	if len(owner) == 0 {
		list, what = pod, "its pods"
		if t.at == "" {
			what = "the pod"
		}
	}
	var out []model.Verdict
	for _, f := range list {
		out = append(out, model.Verdict{Code: model.CodeInvalid, Key: f.Field, Detail: f.Body})
		path := f.Field
		if len(owner) == 0 {
			path = t.path(f.Field)
		}
		r.note(t.object, model.Error, "invalid", path, "the API server refuses "+what+": "+f.Field+": "+f.Body, f.Fix)
	}
	return out
}

// convert copies what decides about placement.
func (r *reader) convert(t *template, assumed map[string]bool) *model.PodSpec {
	spec, base, line := t.spec, t.base(), t.object.line
	namespace := t.object.namespace()
	out := &model.PodSpec{
		Labels:       maps.Clone(t.meta.Labels),
		Requests:     resources(podRequests(spec, true)).Clone(),
		NodeSelector: nodeSelector(spec),
		PodAffinity:  r.podTerms(t),
		Spread:       spread(spec.TopologySpreadConstraints, namespace),
		HostPorts:    hostPorts(spec),
		Shares:       shares(spec),
		SafeToMove:   r.safeToMove(t),
		Place:        t.object.place(cmp.Or(t.row, base)),
	}
	maps.DeleteFunc(out.Requests, func(_ string, n int64) bool { return n == 0 })
	out.Requests[model.Pods] = 1
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		path := base + ".affinity.nodeAffinity."
		out.NodeAffinity = nodeTerms(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, path+"requiredDuringSchedulingIgnoredDuringExecution", line)
		out.NodePreferred = nodePreferences(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, path+"preferredDuringSchedulingIgnoredDuringExecution", line)
	}
	for _, tol := range spec.Tolerations {
		exact := tol.Operator == corev1.TolerationOpExists && tol.Effect == corev1.TaintEffectNoSchedule
		out.Tolerations = append(out.Tolerations, model.Toleration{
			Key: tol.Key, Operator: string(tol.Operator), Value: tol.Value, Effect: string(tol.Effect),
			Assumed: exact && assumed[tol.Key],
		})
	}
	if spec.Priority != nil {
		out.Priority = *spec.Priority
	}
	if spec.SchedulerName != corev1.DefaultSchedulerName {
		out.SchedulerName = spec.SchedulerName
	}
	for _, g := range spec.SchedulingGates {
		out.Gates = append(out.Gates, g.Name)
	}
	for _, c := range spec.ResourceClaims {
		out.Claims = append(out.Claims, c.Name)
	}
	out.Containers = containers(t, namespace)
	return out
}

// nodeSelector is the pod's, with dead labels renamed and the system that the
// kubelet will ask for.
func nodeSelector(spec *corev1.PodSpec) map[string]string {
	var out map[string]string
	set := func(key, value string) {
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		set(model.LabelOS, string(corev1.Windows))
	}
	for _, key := range sortedKeys(spec.NodeSelector) {
		if now := liveLabel(key); now == key || spec.NodeSelector[now] == "" {
			set(now, spec.NodeSelector[key])
		}
	}
	return out
}

// hostPorts lists the ports that the scheduler keeps apart: those of containers
// and sidecars.
func hostPorts(spec *corev1.PodSpec) []model.HostPort {
	var out []model.HostPort
	for i, c := range containersOf(spec) {
		if i >= len(spec.Containers) && !isSidecar(c) {
			continue
		}
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				out = append(out, model.HostPort{IP: p.HostIP, Port: p.HostPort, Protocol: string(protocol(p))})
			}
		}
	}
	return out
}

func containers(t *template, namespace string) []model.Container {
	written, _ := t.object.tree().Find(t.base())
	var out []model.Container
	for i, c := range containersOf(t.spec) {
		init := i >= len(t.spec.Containers)
		m := model.Container{
			Name: c.Name, Init: init, Sidecar: init && isSidecar(c), Image: c.Image,
			Requests: resources(c.Resources.Requests), Limits: resources(c.Resources.Limits),
		}
		if s := c.SecurityContext; s != nil {
			m.Privileged = s.Privileged != nil && *s.Privileged
			if s.Capabilities != nil {
				for _, cap := range s.Capabilities.Add {
					m.Caps = append(m.Caps, string(cap))
				}
			}
		}
		m.Env = environment(c, writtenEnv(written, i, len(t.spec.Containers)))
		m.EnvFrom = environmentFrom(c, namespace)
		out = append(out, m)
	}
	return out
}

// writtenEnv finds the env list of the i-th of containersOf in a document.
func writtenEnv(spec *manifest.Node, i, regular int) *manifest.Node {
	list := "containers"
	if i >= regular {
		list, i = "initContainers", i-regular
	}
	if n := spec.Get(list); n != nil && i < len(n.Items) {
		return n.Items[i].Get("env")
	}
	return nil
}

func environment(c *corev1.Container, written *manifest.Node) []model.Env {
	var out []model.Env
	for i, e := range c.Env {
		env := model.Env{Name: e.Name, Value: e.Value}
		if s := e.ValueFrom; s != nil {
			switch {
			case s.ConfigMapKeyRef != nil:
				env.From = "configMapKeyRef"
			case s.SecretKeyRef != nil:
				env.From = "secretKeyRef"
			case s.ResourceFieldRef != nil:
				env.From = "resourceFieldRef"
			case s.FileKeyRef != nil:
				env.From = "fileKeyRef"
			default:
				env.From = "fieldRef"
			}
		}
		if written != nil && i < len(written.Items) {
			env.Line = written.Items[i].LineOf()
		}
		out = append(out, env)
	}
	return out
}

func environmentFrom(c *corev1.Container, namespace string) []string {
	var out []string
	for _, e := range c.EnvFrom {
		switch {
		case e.ConfigMapRef != nil:
			out = append(out, "ConfigMap "+namespace+"/"+e.ConfigMapRef.Name)
		case e.SecretRef != nil:
			out = append(out, "Secret "+namespace+"/"+e.SecretRef.Name)
		}
	}
	return out
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func labelSet(m map[string]string) labels.Set { return labels.Set(m) }

// joinTitle writes an object as messages do.
func joinTitle(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + strings.Join([]string{namespace, name}, "/")
}
