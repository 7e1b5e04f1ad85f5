package workload

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// A cluster is what pods refer to, by name.
type cluster struct {
	namespaces map[string]map[string]string // labels
	described  map[string]bool              // namespaces that were given as objects
	priorities map[string]int32
	fallback   *int32 // priority of pods that name no class
	runtimes   map[string]*nodev1.RuntimeClass
	ranges     map[string][]limitsInForce // by namespace, in the order read
	claims     map[string]*corev1.PersistentVolumeClaim
	claimants  map[string]bool // namespaces of which the input gives claims
	volumes    map[string]*corev1.PersistentVolume
	classes    map[string]*storagev1.StorageClass
	class      *storagev1.StorageClass // the default one
	nodes      map[string]bool
}

func newCluster() cluster {
	return cluster{
		namespaces: map[string]map[string]string{},
		described:  map[string]bool{},
		// Kubernetes creates these two by itself.
		priorities: map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000},
		runtimes:   map[string]*nodev1.RuntimeClass{},
		ranges:     map[string][]limitsInForce{},
		claims:     map[string]*corev1.PersistentVolumeClaim{},
		claimants:  map[string]bool{},
		volumes:    map[string]*corev1.PersistentVolume{},
		classes:    map[string]*storagev1.StorageClass{},
		nodes:      map[string]bool{},
	}
}

// inhabit takes note of a namespace that some pod lives in. The API server labels every
// namespace with its name.
func (c *cluster) inhabit(namespace string) {
	if c.namespaces[namespace] == nil {
		c.namespaces[namespace] = map[string]string{corev1.LabelMetadataName: namespace}
	}
}

func (r *reader) namespace(o *object) {
	var v corev1.Namespace
	r.decode(o, &v)
	r.cluster.describe(&v)
}

// describe takes the labels of a namespace from its object.
func (c *cluster) describe(v *corev1.Namespace) {
	labels := map[string]string{}
	for k, value := range v.Labels {
		labels[k] = value
	}
	labels[corev1.LabelMetadataName] = v.Name
	c.namespaces[v.Name] = labels
	c.described[v.Name] = true
}

func (r *reader) priorityClass(o *object) {
	var v schedulingv1.PriorityClass
	r.decode(o, &v)
	r.cluster.priorities[v.Name] = v.Value
	if !v.GlobalDefault {
		return
	}
	if r.cluster.fallback != nil {
		r.note(o, model.Error, "global-default", "globalDefault",
			"another PriorityClass is already marked as default; the API server refuses a second one", "set it in one class only")
		return
	}
	r.cluster.fallback = &v.Value
}

func (r *reader) runtimeClass(o *object) {
	var v nodev1.RuntimeClass
	r.decode(o, &v)
	r.cluster.runtimes[v.Name] = &v
}

func (r *reader) storageClass(o *object) {
	var v storagev1.StorageClass
	r.decode(o, &v)
	r.cluster.keepClass(&v)
}

func (c *cluster) keepClass(v *storagev1.StorageClass) {
	c.classes[v.Name] = v
	if v.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
		c.class = v
	}
}

func (r *reader) volume(o *object) {
	var v corev1.PersistentVolume
	r.decode(o, &v)
	r.cluster.volumes[v.Name] = &v
}

func (r *reader) claim(o *object) {
	var v corev1.PersistentVolumeClaim
	r.decode(o, &v)
	r.cluster.claims[o.namespace()+"/"+v.Name] = &v
	r.cluster.claimants[o.namespace()] = true
}

func (r *reader) quota(o *object) {
	var v corev1.ResourceQuota
	r.decode(o, &v)
	hard := map[string]string{}
	for name, amount := range v.Spec.Hard {
		hard[string(name)] = amount.String()
	}
	if written := o.tree().At("spec", "hard"); written != nil {
		for _, f := range written.Fields {
			hard[f.Name] = f.Value.Str()
		}
	}
	r.out.Quotas = append(r.out.Quotas, model.Quota{Namespace: o.namespace(), Name: v.Name, Hard: hard, Place: o.place("spec.hard")})
	r.refuse(o, validateQuota(&v))
	if len(v.Spec.Scopes) > 0 || v.Spec.ScopeSelector != nil {
		r.note(o, model.Warning, "not-modelled", "spec.scopes",
			"scopes are not modelled: the quota is taken to count every pod of the namespace", "")
	}
}

func (r *reader) budget(o *object) {
	var v policyv1.PodDisruptionBudget
	r.decode(o, &v)
	b := model.Budget{Namespace: o.namespace(), Name: v.Name, Selector: selector(v.Spec.Selector), Place: o.place("spec")}
	if v.Spec.MinAvailable != nil {
		b.MinAvailable = v.Spec.MinAvailable.String()
	}
	if v.Spec.MaxUnavailable != nil {
		b.MaxUnavailable = v.Spec.MaxUnavailable.String()
	}
	r.out.Budgets = append(r.out.Budgets, b)
}

// autoscaler says what the plan makes of a HorizontalPodAutoscaler: nothing.
func (r *reader) autoscaler(o *object) {
	spec := o.tree().Get("spec")
	least := spec.Get("minReplicas").Str()
	if least == "" {
		least = "1"
	}
	target := spec.At("scaleTargetRef", "kind").Str() + " " + spec.At("scaleTargetRef", "name").Str()
	r.note(o, model.Info, "autoscaler", "spec",
		"it scales "+target+" between "+least+" and "+spec.Get("maxReplicas").Str()+" replicas; the plan counts the replicas that "+target+" names", "")
}

func (r *reader) podTemplate(o *object) {
	r.note(o, model.Info, "no-pods", "", "a PodTemplate by itself makes no pods", "")
}

func (r *reader) dynamic(o *object) {
	r.noteOnce("dynamic", o, model.Info, "not-modelled", "spec",
		"dynamic resource allocation is not modelled: a pod that uses a resource claim is not planned", "")
}

// refuse notes what the API server objects to in an object that is not a pod.
func (r *reader) refuse(o *object, errs []fault) {
	for _, f := range errs {
		r.note(o, model.Error, "invalid", f.Field, "the API server refuses it: "+f.Body, f.Fix)
	}
}
