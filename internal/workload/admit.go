package workload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kerfdev/kerf/internal/model"
)

// admit does to a pod what the API server does at its creation: its defaults,
// the admission plugins LimitRanger, Priority, ExtendedResourceToleration and
// RuntimeClass in that order, and validation. It returns what the server
// refuses, and the keys of the tolerations that were added on the assumption
// that the cluster runs the third of them.
func (r *reader) admit(t *template) ([]fault, map[string]bool) {
	spec := t.spec
	defaultRequests(spec)
	defaultHostPorts(spec)
	ranges := r.cluster.ranges[t.object.namespace()]
	r.noteInjected(t, ranges)
	injectLimits(spec, ranges)
	out := r.prioritize(t)
	assumed := map[string]bool{}
	if !r.options.NoExtendedResourceToleration {
		assumed = tolerateExtended(spec)
	}
	out = append(out, r.runtime(t)...)
	mergeLabelKeys(spec, t.meta.Labels)
	defaultPodLevel(spec)
	out = append(out, faults(validatePod(&t.meta, spec))...)
	if len(out) == 0 {
		out = checkLimits(spec, "spec", ranges)
	}
	return out, assumed
}

// defaultRequests fills a container's requests from its limits, name by name.
func defaultRequests(spec *corev1.PodSpec) {
	for _, c := range containersOf(spec) {
		c.Resources.Requests = filled(c.Resources.Requests, c.Resources.Limits)
	}
}

// defaultHostPorts makes the ports of a pod on its node's network host ports.
func defaultHostPorts(spec *corev1.PodSpec) {
	if !spec.HostNetwork {
		return
	}
	for _, c := range containersOf(spec) {
		for i := range c.Ports {
			c.Ports[i].HostPort = cmp.Or(c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
}

// defaultPodLevel completes resources that are given for the pod as a whole, as
// Kubernetes 1.37 does after admission: hugepage limits from the containers;
// requests from the containers, else from the limits; limits from the
// containers where all of them have one.
func defaultPodLevel(spec *corev1.PodSpec) {
	if spec.Resources == nil || len(spec.Resources.Limits)+len(spec.Resources.Requests) == 0 {
		return
	}
	rr := spec.Resources.DeepCopy()
	limits, requests := limitsOf(spec), requestsOf(spec)
	for name, q := range limits {
		if _, asked := rr.Requests[name]; isHugePage(string(name)) && !asked {
			rr.Limits = filled(rr.Limits, corev1.ResourceList{name: q})
		}
	}
	maps.DeleteFunc(requests, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return !podLevel(name) || isHugePage(string(name))
	})
	whole := maps.Clone(rr.Limits)
	maps.DeleteFunc(whole, func(name corev1.ResourceName, _ resource.Quantity) bool { return !podLevel(name) })
	rr.Requests = filled(filled(rr.Requests, requests), whole)
	for name, request := range rr.Requests {
		if _, limited := rr.Limits[name]; limited || !podLevel(name) || !allLimited(spec, name) {
			continue
		}
		limit := limits[name]
		if request.Cmp(limit) > 0 {
			limit = request
		}
		rr.Limits = filled(rr.Limits, corev1.ResourceList{name: limit})
	}
	spec.Resources = rr
}

func allLimited(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	for _, c := range containersOf(spec) {
		if _, ok := c.Resources.Limits[name]; !ok {
			return false
		}
	}
	return len(containersOf(spec)) > 0
}

// noteInjected says when a limit range makes a pod ask for GPUs that it does
// not ask for itself.
func (r *reader) noteInjected(t *template, ranges []limitsInForce) {
	for i, c := range containersOf(t.spec) {
		name, from := injected(c, ranges)
		if from == nil {
			continue
		}
		r.noteOnce("injected "+from.key()+string(name), t.object, model.Warning, "limit-range-injects", t.path(containerPath(t.spec, "spec", i)+".resources"),
			"container "+c.Name+" asks for no "+string(name)+" and is given some by "+from.doc.Title()+" at "+from.place("spec.limits").String(),
			"cap it with a ResourceQuota on requests."+string(name)+" and remove it from the LimitRange")
	}
}

// prioritize sets the priority of the pod's class.
func (r *reader) prioritize(t *template) []fault {
	spec := t.spec
	given := spec.Priority
	priority := int32(0)
	if r.cluster.fallback != nil {
		priority = *r.cluster.fallback
	}
	if name := spec.PriorityClassName; name != "" {
		value, ok := r.cluster.priorities[name]
		if !ok {
			r.noteOnce("priority "+name, t.object, model.Warning, "missing-class", t.path("spec.priorityClassName"),
				"the input has no PriorityClass "+name+": its priority is taken to be that of pods without a class", "give the PriorityClass too")
			return nil
		}
		priority = value
	}
	spec.Priority = &priority
	if given != nil && *given != priority {
		return []fault{{
			Field: "spec.priority", Body: fmt.Sprintf(
				"the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *given, priority),
			Fix: "remove it",
		}}
	}
	return nil
}

// tolerateExtended does what the admission plugin ExtendedResourceToleration of
// Kubernetes 1.37 does: for every extended resource that a container requests,
// in whatever amount, it tolerates the taint of that name. A toleration that is
// the same but for its seconds is replaced. It returns the names that it added.
func tolerateExtended(spec *corev1.PodSpec) map[string]bool {
	names := map[corev1.ResourceName]bool{}
	for _, c := range containersOf(spec) {
		for name := range c.Resources.Requests {
			if isExtended(string(name)) {
				names[name] = true
			}
		}
	}
	added := map[string]bool{}
	for _, name := range sortedSet(names) {
		want := corev1.Toleration{Key: string(name), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
		found := false
		for i := range spec.Tolerations {
			if have := &spec.Tolerations[i]; sameToleration(*have, want) {
				*have, found = want, true
			}
		}
		if !found {
			spec.Tolerations = append(spec.Tolerations, want)
			added[string(name)] = true
		}
	}
	return added
}

func sameToleration(a, b corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect
}

func sortedSet(set map[corev1.ResourceName]bool) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// runtime applies the pod's RuntimeClass: overhead, node selector, tolerations.
func (r *reader) runtime(t *template) []fault {
	spec := t.spec
	if spec.RuntimeClassName == nil {
		if spec.Overhead != nil {
			return []fault{{Field: "spec.overhead", Body: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead", Fix: "remove it"}}
		}
		return nil
	}
	class := r.cluster.runtimes[*spec.RuntimeClassName]
	if class == nil {
		r.noteOnce("runtime "+*spec.RuntimeClassName, t.object, model.Info, "missing-class", t.path("spec.runtimeClassName"),
			"the input has no RuntimeClass "+*spec.RuntimeClassName+": no overhead and no constraint of it is counted", "give the RuntimeClass too")
		return nil
	}
	var out []fault
	if class.Overhead != nil {
		if len(spec.Overhead) > 0 && !equality.Semantic.DeepEqual(spec.Overhead, class.Overhead.PodFixed) {
			out = append(out, fault{Field: "spec.overhead", Body: "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead", Fix: "remove it"})
		}
		spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling == nil {
		return out
	}
	selector := map[string]string{}
	for k, v := range spec.NodeSelector {
		selector[k] = v
	}
	for _, k := range sortedKeys(class.Scheduling.NodeSelector) {
		want := class.Scheduling.NodeSelector[k]
		if have, ok := selector[k]; ok && have != want {
			out = append(out, fault{Field: "spec.nodeSelector", Body: fmt.Sprintf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", k, want, k, have)})
		}
		selector[k] = want
	}
	spec.NodeSelector = selector
	for _, tol := range class.Scheduling.Tolerations {
		if !slices.ContainsFunc(spec.Tolerations, func(have corev1.Toleration) bool { return sameToleration(have, tol) }) {
			spec.Tolerations = append(spec.Tolerations, tol)
		}
	}
	return out
}

// suffixes names amounts of a device that carry a suffix of bytes or thousands:
// the API server takes "1Gi" GPUs for 1073741824 of them.
func (r *reader) suffixes(t *template) {
	for i, c := range containersOf(t.spec) {
		for _, list := range []struct {
			name   string
			values corev1.ResourceList
		}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
			for _, name := range sortedNames(list.values) {
				q := list.values[name]
				if n := q.Value(); !isExtended(string(name)) || n < 1000 || name == model.ShareMemory || !strings.ContainsAny(q.String(), "kMGTPEi") {
					continue
				}
				r.note(t.object, model.Warning, "amount", t.path(containerPath(t.spec, "spec", i)+".resources."+list.name+"["+string(name)+"]"),
					fmt.Sprintf("%s of %s is %d of them: no node has so many", q.String(), name, q.Value()), "write the number of devices without a suffix")
			}
		}
	}
}

// Annotations by which a pod asks Karpenter to leave its node alone.
const (
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
	doNotEvict   = "karpenter.sh/do-not-evict"
)

// safeToMove reads the pod's wish not to be moved: "true", or a duration since
// its start (Karpenter 1.15), which counts in full because no plan knows its end.
func (r *reader) safeToMove(t *template) bool {
	path := func(key string) string { return t.path("metadata.annotations") + "[" + key + "]" }
	if value, ok := t.meta.Annotations[doNotEvict]; ok {
		r.noteOnce("annotation "+doNotEvict, t.object, model.Warning, "dead-annotation", path(doNotEvict),
			"Karpenter reads "+doNotEvict+" no more since v1beta1; it is read as "+doNotDisrupt, "write "+doNotDisrupt+`: "true"`)
		if value == "true" {
			return false
		}
	}
	value, ok := t.meta.Annotations[doNotDisrupt]
	if !ok {
		return true
	}
	if value == "true" {
		return false
	}
	if d, err := time.ParseDuration(value); err == nil && d > 0 {
		return false
	}
	if value != "false" {
		r.noteOnce("annotation "+value, t.object, model.Warning, "annotation", path(doNotDisrupt),
			"Karpenter understands true or a duration here, not "+value+", and ignores it", `write "true"`)
	}
	return true
}
