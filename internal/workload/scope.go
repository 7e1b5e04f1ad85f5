package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A Scope is what pods of a running cluster refer to: namespaces, volumes,
// claims and storage classes. Against it, pods and nodes are read one at a time
// as Read would read them, for whoever watches a cluster and cannot afford to
// read it all again at every change. The API server has admitted such objects,
// so nothing is defaulted or validated and there are no notes.
//
// Objects given to a Scope are kept and never written to. A Scope is not safe
// for use by several goroutines at once.
type Scope struct{ r *reader }

// NewScope returns an empty Scope.
func NewScope() *Scope {
	return &Scope{r: &reader{cluster: newCluster(), once: map[string]int{}, more: map[int]int{}, minted: map[string]int{}}}
}

// Set adds or replaces a Namespace, PersistentVolume, PersistentVolumeClaim or
// StorageClass; other objects are passed over.
func (s *Scope) Set(object any) {
	c := &s.r.cluster
	switch v := object.(type) {
	case *corev1.Namespace:
		c.describe(v)
	case *corev1.PersistentVolume:
		c.volumes[v.Name] = v
	case *corev1.PersistentVolumeClaim:
		c.claims[v.Namespace+"/"+v.Name] = v
	case *storagev1.StorageClass:
		c.keepClass(v)
	}
}

// Delete takes away what Set added.
func (s *Scope) Delete(object any) {
	c := &s.r.cluster
	switch v := object.(type) {
	case *corev1.Namespace:
		delete(c.namespaces, v.Name)
		delete(c.described, v.Name)
	case *corev1.PersistentVolume:
		delete(c.volumes, v.Name)
	case *corev1.PersistentVolumeClaim:
		delete(c.claims, v.Namespace+"/"+v.Name)
	case *storagev1.StorageClass:
		delete(c.classes, v.Name)
		if c.class != nil && c.class.Name == v.Name {
			c.class = nil
		}
	}
}

// Depends reports whether what a pod becomes in the model hangs on the Scope,
// so that it is to be read again when the Scope changes.
func Depends(p *corev1.Pod) bool {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return slices.ContainsFunc(podAffinityTerms(p.Spec.Affinity), func(t *corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil })
}

// Pod reads a pod. It is bound when it names a node, whether or not that node
// is known. One that has ended, or that was deleted before it ran, takes
// nothing: ok is then false.
func (s *Scope) Pod(p *corev1.Pod) (pod model.Pod, ok bool) {
	o := &object{doc: live("Pod", p.Namespace, p.Name), kind: kindsByName()["/Pod"], meta: p.ObjectMeta}
	o.pod = &running{spec: ownSpec(p), phase: p.Status.Phase, reason: p.Status.Reason, live: true, leaves: p.DeletionTimestamp != nil}
	if o.pod.finished() || o.pod.leaves && p.Spec.NodeName == "" {
		return model.Pod{}, false
	}
	r := s.r
	r.cluster.claimants[p.Namespace] = true // a cluster lists all its claims
	r.cluster.inhabit(p.Namespace)
	r.notes = r.notes[:0]
	clear(r.once)
	clear(r.more)
	spec := r.podSpec(&template{object: o, meta: o.meta, spec: o.pod.spec, live: true}, nil)
	return model.Pod{Namespace: p.Namespace, Name: p.Name, Owner: r.ownerOf(o), Node: p.Spec.NodeName, Spec: spec}, true
}

// ownSpec is the pod's spec in a form that reading it may write to.
func ownSpec(p *corev1.Pod) *corev1.PodSpec {
	for i := range p.Spec.TopologySpreadConstraints {
		if len(p.Spec.TopologySpreadConstraints[i].MatchLabelKeys) > 0 {
			return p.Spec.DeepCopy()
		}
	}
	for _, t := range podAffinityTerms(p.Spec.Affinity) {
		if len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) > 0 {
			return p.Spec.DeepCopy()
		}
	}
	return &p.Spec
}

// Node reads a node as it reports itself.
func (s *Scope) Node(n *corev1.Node) model.Node {
	return modelNode(n, model.Place{File: live("Node", "", n.Name).File, Object: "Node " + n.Name})
}

// live names an object that stands in no file.
func live(kind, namespace, name string) manifest.Document {
	d := manifest.Document{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}
	d.File = d.Title()
	return d
}
