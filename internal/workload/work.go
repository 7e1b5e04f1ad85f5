package workload

import (
	"cmp"
	"hash/fnv"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// A work is an object that makes pods from a template.
type work struct {
	object   *object
	template *corev1.PodTemplateSpec
	at       string // path of the template
	count    int64  // pods that it wants at once
	first    int64  // number of the first pod
	selector *metav1.LabelSelector
	selects  bool // the API server demands a selector
	finishes bool // its pods end: they may not restart always
	claims   []corev1.PersistentVolumeClaim
	idle     bool // it makes no pods now, as was noted
	parent   *object
	names    map[string]bool // its pods in the input that are there to stay
	runs     int             // of a CronJob: jobs in the input that are not done
	hash     string          // of a Deployment: the label of its newest ReplicaSet's pods
	revision int
}

// mostPods is how many pods one input may ask for; it keeps a typing error from
// taking all memory.
const mostPods = 1 << 20

func (r *reader) deployment(o *object) {
	var v appsv1.Deployment
	r.decode(o, &v)
	o.work = &work{object: o, template: &v.Spec.Template, at: "spec.template", count: orOne(v.Spec.Replicas), selector: v.Spec.Selector, selects: r.current(o)}
}

func (r *reader) replicaSet(o *object) {
	var v appsv1.ReplicaSet
	r.decode(o, &v)
	o.work = &work{object: o, template: &v.Spec.Template, at: "spec.template", count: orOne(v.Spec.Replicas), selector: v.Spec.Selector, selects: r.current(o)}
}

func (r *reader) statefulSet(o *object) {
	var v appsv1.StatefulSet
	r.decode(o, &v)
	o.work = &work{
		object: o, template: &v.Spec.Template, at: "spec.template", count: orOne(v.Spec.Replicas),
		selector: v.Spec.Selector, selects: r.current(o), claims: v.Spec.VolumeClaimTemplates,
	}
	if v.Spec.Ordinals != nil {
		o.work.first = int64(v.Spec.Ordinals.Start)
	}
}

func (r *reader) daemonSet(o *object) {
	var v appsv1.DaemonSet
	r.decode(o, &v)
	o.work = &work{object: o, template: &v.Spec.Template, at: "spec.template", selector: v.Spec.Selector, selects: r.current(o)}
}

func (r *reader) replicationController(o *object) {
	var v corev1.ReplicationController
	r.decode(o, &v)
	if v.Spec.Template == nil {
		v.Spec.Template = &corev1.PodTemplateSpec{}
	}
	o.work = &work{object: o, template: v.Spec.Template, at: "spec.template", count: orOne(v.Spec.Replicas)}
	if len(v.Spec.Selector) > 0 {
		o.work.selector = &metav1.LabelSelector{MatchLabels: v.Spec.Selector}
	}
}

func (r *reader) job(o *object) {
	var v batchv1.Job
	r.decode(o, &v)
	o.work = &work{object: o, template: &v.Spec.Template, at: "spec.template", count: atOnce(&v.Spec, succeeded(o)), finishes: true}
	label(o.work.template, "job-name", v.Name)
	label(o.work.template, batchv1.JobNameLabel, v.Name)
	switch {
	case done(o):
		o.work.idle = true
		r.noteOnce("done", o, model.Info, "finished", "status.conditions", "the job is done: it makes no more pods", "")
	case v.Spec.Suspend != nil && *v.Spec.Suspend:
		o.work.idle = true
		r.note(o, model.Info, "suspended", "spec.suspend", "the job is suspended: it makes no pods until it is resumed", "set spec.suspend: false to plan for it")
	}
}

func (r *reader) cronJob(o *object) {
	var v batchv1.CronJob
	r.decode(o, &v)
	job := &v.Spec.JobTemplate.Spec
	o.work = &work{object: o, template: &job.Template, at: "spec.jobTemplate.spec.template", count: atOnce(job, 0), finishes: true}
	if v.Spec.Suspend != nil && *v.Spec.Suspend {
		o.work.idle = true
		r.note(o, model.Info, "suspended", "spec.suspend", "it is suspended: no job is started until it is resumed", "set spec.suspend: false to plan for it")
		return
	}
	r.note(o, model.Info, "scheduled", "spec.schedule", "its job runs on the schedule "+strconv.Quote(v.Spec.Schedule)+"; the plan holds room for one run of "+counted(int(o.work.count), "pod"), "")
}

// atOnce is how many pods of a job run together.
func atOnce(spec *batchv1.JobSpec, succeeded int64) int64 {
	n := orOne(spec.Parallelism)
	if spec.Completions != nil {
		n = min(n, max(0, int64(*spec.Completions)-succeeded))
	}
	return n
}

func succeeded(o *object) int64 {
	n, err := strconv.ParseInt(o.tree().At("status", "succeeded").Str(), 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// done reports whether a job's status says that it is over.
func done(o *object) bool {
	conditions := o.tree().At("status", "conditions")
	if conditions == nil {
		return false
	}
	for _, c := range conditions.Items {
		kind := batchv1.JobConditionType(c.Get("type").Str())
		if (kind == batchv1.JobComplete || kind == batchv1.JobFailed) && c.Get("status").Str() == "True" {
			return true
		}
	}
	return false
}

// label gives the pods of a template one more label, unless they have it.
func label(t *corev1.PodTemplateSpec, key, value string) {
	if _, ok := t.Labels[key]; ok || value == "" {
		return
	}
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	t.Labels = labels
}

func orOne(n *int32) int64 {
	if n == nil {
		return 1
	}
	return int64(*n)
}

// current reports whether the object is written in the version that is served:
// only that one demands a selector.
func (r *reader) current(o *object) bool { return o.doc.APIVersion == o.kind.serves }

// emitWorkload adds the pods that a workload wants and that are not there yet.
// They share one spec, unless volumes of a StatefulSet tell them apart.
func (r *reader) emitWorkload(o *object) {
	w := o.work
	if w.idle || w.runs > 0 || w.parent != nil && o.kind.name != "Job" {
		return
	}
	missing := w.count - int64(len(w.names))
	if missing <= 0 && w.count >= 0 {
		return
	}
	spec := r.specOf(w)
	if missing > mostPods-int64(len(r.out.Pods)) {
		missing = max(0, mostPods-int64(len(r.out.Pods)))
		r.note(o, model.Error, "too-many", w.at, "more than "+strconv.Itoa(mostPods)+" pods in all: only the first are planned", "check the number of replicas")
	}
	owner := r.title(o)
	specs := r.perOrdinal(w, spec)
	for i := w.first; missing > 0; i++ {
		name := o.doc.Name + "-" + strconv.FormatInt(i, 10)
		if w.names[name] {
			continue
		}
		r.out.Pods = append(r.out.Pods, model.Pod{Namespace: o.namespace(), Name: name, Owner: owner, Spec: specs(name)})
		missing--
	}
}

// specOf makes the spec of a workload's pods.
func (r *reader) specOf(w *work) *model.PodSpec {
	o := w.object
	if usesLabelKey(&w.template.Spec, appsv1.DefaultDeploymentUniqueLabelKey) && o.kind.name == "Deployment" {
		label(w.template, appsv1.DefaultDeploymentUniqueLabelKey, cmp.Or(w.hash, hashOf(o.tree().At("spec", "template").JSON())))
	}
	owner := faults(validateOwner(w, w.template))
	meta := w.template.ObjectMeta
	meta.Name = cmp.Or(o.doc.Name, o.kind.name)
	return r.podSpec(&template{object: o, meta: meta, spec: &w.template.Spec, at: w.at}, owner)
}

// hashOf stands for the label that a Deployment would give its pods.
func hashOf(data []byte) string {
	h := fnv.New32a()
	h.Write(data)
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}

// perOrdinal returns the spec of a pod by its name: pods whose claims are bound
// to volumes elsewhere have specs of their own.
func (r *reader) perOrdinal(w *work, spec *model.PodSpec) func(name string) *model.PodSpec {
	if len(w.claims) == 0 {
		return func(string) *model.PodSpec { return spec }
	}
	fresh := *spec
	for i := range w.claims {
		c := &w.claims[i]
		fresh.Volumes = restrict(fresh.Volumes, c.Name, r.classTerms(w.object, c.Spec.StorageClassName, "spec.volumeClaimTemplates"+indexText(i)))
	}
	return func(name string) *model.PodSpec {
		own := *spec
		bound := false
		for i := range w.claims {
			c := &w.claims[i]
			path := "spec.volumeClaimTemplates" + indexText(i)
			claim := r.cluster.claims[w.object.namespace()+"/"+c.Name+"-"+name]
			if claim != nil && claim.Spec.VolumeName != "" {
				bound = true
				own.Volumes = restrict(own.Volumes, claim.Name, r.volumeTerms(w.object, claim.Spec.VolumeName, path))
				continue
			}
			own.Volumes = restrict(own.Volumes, c.Name, r.classTerms(w.object, c.Spec.StorageClassName, path))
		}
		if !bound {
			return &fresh
		}
		return &own
	}
}

// emitDaemonSet adds a daemonset, with the tolerations that its controller adds.
func (r *reader) emitDaemonSet(o *object) {
	w := o.work
	owner := faults(validateOwner(w, w.template))
	tolerateDaemon(&w.template.Spec)
	meta := w.template.ObjectMeta
	meta.Name = cmp.Or(o.doc.Name, o.kind.name)
	spec := r.podSpec(&template{object: o, meta: meta, spec: &w.template.Spec, at: w.at}, owner)
	r.out.DaemonSets = append(r.out.DaemonSets, model.DaemonSet{Namespace: o.namespace(), Name: o.doc.Name, Spec: spec, Place: o.place("")})
}

// tolerateDaemon adds what the daemonset controller of Kubernetes 1.37 adds.
func tolerateDaemon(spec *corev1.PodSpec) {
	add := func(key string, effect corev1.TaintEffect) {
		want := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		for i := range spec.Tolerations {
			if sameToleration(spec.Tolerations[i], want) {
				spec.Tolerations[i] = want
				return
			}
		}
		spec.Tolerations = append(spec.Tolerations, want)
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	for _, key := range []string{corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable} {
		add(key, corev1.TaintEffectNoSchedule)
	}
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
}
