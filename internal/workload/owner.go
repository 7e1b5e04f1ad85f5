package workload

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makes names the workloads that make other workloads. Only these count as
// parents, so that no chain of owners goes round.
var makes = map[string]string{"Deployment": "ReplicaSet", "CronJob": "Job"}

// settle finds out who owns whom.
func (r *reader) settle() {
	byKey := map[string]*object{}
	for _, o := range r.objects {
		if o.work != nil {
			byKey[o.key()] = o
		}
	}
	for _, o := range r.objects {
		owner := controller(o.meta.OwnerReferences)
		if o.makesPods() {
			r.cluster.inhabit(o.namespace())
		}
		if owner == nil || (o.work == nil && o.pod == nil) {
			continue
		}
		parent := byKey[keyOf(owner.Kind, o.namespace(), owner.Name)]
		switch {
		case parent == nil:
		case o.pod != nil:
			o.pod.parent = parent
		case makes[parent.kind.name] == o.kind.name:
			o.work.parent = parent
			parent.work.adopt(o)
		}
	}
	for _, o := range r.objects {
		if o.pod == nil || !o.pod.stays() {
			continue
		}
		for p := o.pod.parent; p != nil; p = p.work.parent {
			if p.work.names == nil {
				p.work.names = map[string]bool{}
			}
			p.work.names[o.doc.Name] = true
		}
	}
}

// adopt takes note of a ReplicaSet of a Deployment or a Job of a CronJob.
func (w *work) adopt(child *object) {
	if child.kind.name == "Job" && !done(child) {
		w.runs++
	}
	revision, _ := strconv.Atoi(child.meta.Annotations["deployment.kubernetes.io/revision"])
	if hash := child.meta.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && revision >= w.revision {
		w.revision, w.hash = revision, hash
	}
}

// controller is the owner that manages an object.
func controller(owners []metav1.OwnerReference) *metav1.OwnerReference {
	for i := range owners {
		if owners[i].Controller != nil && *owners[i].Controller {
			return &owners[i]
		}
	}
	return nil
}
