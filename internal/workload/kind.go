package workload

import (
	"slices"
	"sync"

	"github.com/kerfdev/kerf/api/manifest"
)

// A kind is one kind of object that Read uses.
type kind struct {
	name    string
	serves  string            // apiVersion that Kubernetes 1.37 serves and that it is read as
	also    []string          // further apiVersions that it serves
	removed map[string]string // apiVersions that it served once, and the release that dropped them
	global  bool              // without a namespace
	index   func(*reader, *object)
	emit    func(*reader, *object)
}

// kinds is every kind that Read uses. Objects are first indexed, all of them,
// and then emitted in the order in which they were read.
var kinds = []kind{
	{name: "Namespace", serves: "v1", global: true, index: (*reader).namespace},
	{name: "Node", serves: "v1", global: true, index: (*reader).node, emit: (*reader).emitNode},
	{name: "Pod", serves: "v1", index: (*reader).pod, emit: (*reader).emitPod},
	{name: "PodTemplate", serves: "v1", emit: (*reader).podTemplate},
	{name: "ReplicationController", serves: "v1", index: (*reader).replicationController, emit: (*reader).emitWorkload},
	{name: "LimitRange", serves: "v1", index: (*reader).limitRange},
	{name: "ResourceQuota", serves: "v1", index: (*reader).quota},
	{name: "PersistentVolume", serves: "v1", global: true, index: (*reader).volume},
	{name: "PersistentVolumeClaim", serves: "v1", index: (*reader).claim},
	{name: "Deployment", serves: "apps/v1", removed: apps, index: (*reader).deployment, emit: (*reader).emitWorkload},
	{name: "StatefulSet", serves: "apps/v1", removed: apps, index: (*reader).statefulSet, emit: (*reader).emitWorkload},
	{name: "ReplicaSet", serves: "apps/v1", removed: apps, index: (*reader).replicaSet, emit: (*reader).emitWorkload},
	{name: "DaemonSet", serves: "apps/v1", removed: apps, index: (*reader).daemonSet, emit: (*reader).emitDaemonSet},
	{name: "Job", serves: "batch/v1", index: (*reader).job, emit: (*reader).emitWorkload},
	{
		name: "CronJob", serves: "batch/v1", index: (*reader).cronJob, emit: (*reader).emitWorkload,
		removed: map[string]string{"batch/v1beta1": "1.25", "batch/v2alpha1": "1.21"},
	},
	{
		name: "PodDisruptionBudget", serves: "policy/v1", index: (*reader).budget,
		removed: map[string]string{"policy/v1beta1": "1.25"},
	},
	{
		name: "PriorityClass", serves: "scheduling.k8s.io/v1", global: true, index: (*reader).priorityClass,
		removed: map[string]string{"scheduling.k8s.io/v1beta1": "1.22", "scheduling.k8s.io/v1alpha1": "1.22"},
	},
	{
		name: "StorageClass", serves: "storage.k8s.io/v1", global: true, index: (*reader).storageClass,
		removed: map[string]string{"storage.k8s.io/v1beta1": "1.22"},
	},
	{
		name: "RuntimeClass", serves: "node.k8s.io/v1", global: true, index: (*reader).runtimeClass,
		removed: map[string]string{"node.k8s.io/v1beta1": "1.25", "node.k8s.io/v1alpha1": "1.22"},
	},
	{
		name: "HorizontalPodAutoscaler", serves: "autoscaling/v2", also: []string{"autoscaling/v1"}, emit: (*reader).autoscaler,
		removed: map[string]string{"autoscaling/v2beta2": "1.26", "autoscaling/v2beta1": "1.25"},
	},
	{name: "ResourceClaim", serves: "resource.k8s.io/v1", also: dra, emit: (*reader).dynamic},
	{name: "ResourceClaimTemplate", serves: "resource.k8s.io/v1", also: dra, emit: (*reader).dynamic},
	{name: "DeviceClass", serves: "resource.k8s.io/v1", also: dra, global: true, emit: (*reader).dynamic},
	{name: "ShapeTable", serves: "kerf.dev/v1alpha1", emit: (*reader).shapeTable},
}

var (
	apps = map[string]string{"extensions/v1beta1": "1.16", "apps/v1beta1": "1.16", "apps/v1beta2": "1.16"}
	dra  = []string{"resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"}
)

// Kinds lists the kinds that Read uses, as "group/Kind" with the groups that
// once served them too; the core group is "".
func Kinds() []string {
	var out []string
	for i := range kinds {
		for _, group := range kinds[i].groups() {
			out = append(out, group+"/"+kinds[i].name)
		}
	}
	slices.Sort(out)
	return out
}

// groups lists the API groups of a kind: the one that serves it, those that
// once did, and the core group, under which people write it by mistake.
func (k *kind) groups() []string {
	out := []string{groupOf(k.serves), ""}
	for version := range k.removed {
		out = append(out, groupOf(version))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func groupOf(apiVersion string) string {
	return manifest.Document{APIVersion: apiVersion}.Group()
}

// kindOf finds the kind of a document, nil when Read does not use it.
func kindOf(d manifest.Document) *kind { return kindsByName()[d.Group()+"/"+d.Kind] }

var kindsByName = sync.OnceValue(func() map[string]*kind {
	out := map[string]*kind{}
	for i := range kinds {
		for _, group := range kinds[i].groups() {
			out[group+"/"+kinds[i].name] = &kinds[i]
		}
	}
	return out
})

// served reports whether Kubernetes 1.37 serves the kind under apiVersion, and
// if it does not, the release that dropped it, "" when none ever served it.
func (k *kind) served(apiVersion string) (ok bool, dropped string) {
	if apiVersion == k.serves || slices.Contains(k.also, apiVersion) {
		return true, ""
	}
	return false, k.removed[apiVersion]
}
