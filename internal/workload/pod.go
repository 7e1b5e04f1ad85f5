package workload

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// A running is a Pod of the input.
type running struct {
	spec   *corev1.PodSpec // nil until emitPod when only the document's head is held
	phase  corev1.PodPhase
	reason string
	live   bool // a cluster has stored it
	leaves bool // it is being deleted
	parent *object
}

// finished reports whether the pod has ended and takes nothing any more.
func (p *running) finished() bool {
	return p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed
}

// stays reports whether the pod counts as one that its owner wants.
func (p *running) stays() bool { return !p.finished() && !p.leaves }

func (r *reader) pod(o *object) {
	var v corev1.Pod
	spec := &v.Spec
	if o.doc.Again == nil {
		r.decode(o, &v)
	} else {
		r.decoder.decode(o.doc.Root, &v) // what it says is said when the whole is read
		o.meta, spec = metaOf(&v), nil
	}
	status := o.doc.Root.Get("status")
	o.pod = &running{
		spec:   spec,
		phase:  corev1.PodPhase(status.Get("phase").Str()),
		reason: status.Get("reason").Str(),
		leaves: v.DeletionTimestamp != nil,
	}
	o.pod.live = v.UID != "" || o.pod.phase != ""
}

// emitPod adds a pod, bound or pending, unless it takes nothing.
func (r *reader) emitPod(o *object) {
	p := o.pod
	if p.spec == nil {
		var v corev1.Pod
		r.decode(o, &v)
		p.spec = &v.Spec
	}
	switch {
	case p.phase == corev1.PodFailed && p.reason == "UnexpectedAdmissionError":
		r.noteOnce("admission", o, model.Warning, "admission-error", "status.reason",
			"its node refused the pod (UnexpectedAdmissionError), which holds no device and is left out", "delete the pod; its owner makes another")
		return
	case p.finished():
		r.noteOnce("finished", o, model.Info, "finished", "status.phase", "the pod has ended ("+string(p.phase)+") and is left out", "")
		return
	case p.leaves && p.spec.NodeName == "":
		r.noteOnce("leaving", o, model.Info, "terminating", "metadata.deletionTimestamp", "the pod is being deleted before it ran, and is left out", "")
		return
	case p.leaves:
		r.noteOnce("leaves", o, model.Info, "terminating", "metadata.deletionTimestamp", "the pod is being deleted; until then it keeps its place", "")
	}
	node, ok := r.nodeOf(o)
	if !ok {
		return
	}
	r.bareEvidence(o)
	meta := o.meta
	name := o.doc.Name
	if name == "" {
		name = meta.GenerateName + strconv.Itoa(r.minted[meta.GenerateName])
		r.minted[meta.GenerateName]++
	}
	spec := r.podSpec(&template{object: o, meta: meta, spec: p.spec, live: p.live}, nil)
	r.out.Pods = append(r.out.Pods, model.Pod{Namespace: o.namespace(), Name: name, Owner: r.ownerOf(o), Node: node, Spec: spec})
	o.value, o.pod.spec = nil, nil // large, and of no use to other objects
}

// nodeOf is the node that the pod is bound to. An input without nodes wants
// them planned, so that every pod is pending; a pod on a node that is missing
// among others is out of reach.
func (r *reader) nodeOf(o *object) (name string, ok bool) {
	name = o.pod.spec.NodeName
	switch {
	case name == "" || r.cluster.nodes[name]:
		return name, true
	case len(r.cluster.nodes) == 0:
		r.noteOnce("no nodes", o, model.Info, "no-nodes", "spec.nodeName", "the pod is bound to node "+name+", but the input has no nodes: it is planned as if it were pending", "give the nodes too")
		return "", true
	default:
		r.noteOnce("node "+name, o, model.Warning, "unknown-node", "spec.nodeName", "the pod is bound to node "+name+", which the input does not have: it is left out", "give the node too")
		return "", false
	}
}

// bareEvidence notes a live pod that asks for a device without the toleration
// that the admission plugin would have given it.
func (r *reader) bareEvidence(o *object) {
	if r.options.NoExtendedResourceToleration || !o.pod.live {
		return
	}
	for _, c := range containersOf(o.pod.spec) {
		for _, name := range sortedNames(c.Resources.Requests) {
			want := corev1.Toleration{Key: string(name), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
			tolerated := false
			for _, have := range o.pod.spec.Tolerations {
				tolerated = tolerated || sameToleration(have, want)
			}
			if isExtended(string(name)) && !tolerated {
				r.noteOnce("bare", o, model.Warning, "no-extended-toleration", "spec.tolerations",
					"this pod asks for "+string(name)+" and was not given a toleration for it: the cluster seems not to run ExtendedResourceToleration", "plan with --no-extended-resource-toleration")
				return
			}
		}
	}
}

// title names an object as the owner of pods.
func (r *reader) title(o *object) string {
	for o.work != nil && o.work.parent != nil {
		o = o.work.parent
	}
	return o.doc.Title()
}

// ownerOf names the topmost owner of a pod. A ReplicaSet that is not in the
// input betrays its Deployment by its name: it ends in the hash that the pods
// are labelled with. A DaemonSet is named with its namespace always, by which a
// plan knows that its pod is on a node already.
func (r *reader) ownerOf(o *object) string {
	ref := controller(o.meta.OwnerReferences)
	if ref != nil && ref.Kind == "DaemonSet" {
		return joinTitle(ref.Kind, o.namespace(), ref.Name)
	}
	if o.pod.parent != nil {
		return r.title(o.pod.parent)
	}
	if ref == nil {
		return ""
	}
	hash := o.meta.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if name, ok := strings.CutSuffix(ref.Name, "-"+hash); ok && hash != "" && ref.Kind == "ReplicaSet" {
		return joinTitle("Deployment", o.doc.Namespace, name)
	}
	if ref.Kind == "Node" {
		return "Node " + ref.Name
	}
	return joinTitle(ref.Kind, o.doc.Namespace, ref.Name)
}
