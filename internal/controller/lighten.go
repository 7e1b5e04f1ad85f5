package controller

import (
	"crypto/sha256"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lastApplied is kubectl's copy of an object in the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// light is how objects are kept in memory: without what neither Kerf nor
// Karpenter's library (v1.15) reads, which is most of a pod and of a node.
// Whatever is written back is written as a patch, so nothing is lost. Pods are not
// copied for readers, none of which writes to one: every look of the disruption
// controller at all nodes lists all pods.
func light() map[client.Object]cache.ByObject {
	pods := &alike{specs: map[digest]*corev1.PodSpec{}, metas: map[digest]*metav1.ObjectMeta{}}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Transform: pods.light, UnsafeDisableDeepCopy: ptr.To(true)},
		&corev1.Node{}: {Transform: lightNode},
	}
}

// lightAny strips what no object needs.
func lightAny(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		if a := m.GetAnnotations(); a[lastApplied] != "" {
			delete(a, lastApplied)
		}
	}
	return o, nil
}

// An alike has pods of one workload share what they have in common, which is nearly
// all that is kept of them.
type alike struct {
	mu    sync.Mutex
	specs map[digest]*corev1.PodSpec
	metas map[digest]*metav1.ObjectMeta
}

type digest [sha256.Size]byte

// workloads is how many kinds of pods are remembered; then it begins anew, and
// those that come share with those that come.
const workloads = 20_000

// light is the transform of pods.
func (a *alike) light(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	lightPod(p)
	own := p.Spec
	shared := own
	shared.NodeName, shared.Hostname, shared.Volumes = "", "", nil
	if text, err := shared.Marshal(); err == nil { // a spec that was read can be written
		p.Spec = *share(&a.mu, a.specs, text, &shared)
		p.Spec.NodeName, p.Spec.Hostname, p.Spec.Volumes = own.NodeName, own.Hostname, own.Volumes
	}
	group := metav1.ObjectMeta{Labels: p.Labels, OwnerReferences: p.OwnerReferences}
	if text, err := group.Marshal(); err == nil {
		group = *share(&a.mu, a.metas, text, &group)
		p.Labels, p.OwnerReferences = group.Labels, group.OwnerReferences
	}
	return p, nil
}

// share returns the first of all that are written alike.
func share[T any](mu *sync.Mutex, known map[digest]*T, text []byte, one *T) *T {
	key := sha256.Sum256(text)
	mu.Lock()
	defer mu.Unlock()
	if have, ok := known[key]; ok {
		return have
	}
	if len(known) >= workloads {
		clear(known)
	}
	known[key] = one
	return one
}

func lightPod(p *corev1.Pod) {
	_, _ = lightAny(p)
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			lightContainer(&list[i])
		}
	}
	p.Spec.EphemeralContainers = nil
	kept := p.Spec.Volumes[:0]
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil || inTree(&v) {
			kept = append(kept, v)
		}
	}
	p.Spec.Volumes = append([]corev1.Volume(nil), kept...)
	p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses = nil, nil, nil
	p.Status.PodIPs, p.Status.HostIPs = nil, nil
}

// inTree reports whether a volume is a disk of a kind that counts against what
// a node may attach, though no claim stands for it.
func inTree(v *corev1.Volume) bool {
	return v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.Cinder != nil || v.VsphereVolume != nil
}

func lightContainer(c *corev1.Container) {
	c.Env, c.EnvFrom, c.VolumeMounts, c.VolumeDevices = nil, nil, nil, nil
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
	c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy, c.WorkingDir = "", "", "", ""
	if c.SecurityContext != nil && c.SecurityContext.Privileged == nil {
		c.SecurityContext = nil
	}
}

func lightNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	_, _ = lightAny(n)
	n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached, n.Status.DaemonEndpoints = nil, nil, nil, corev1.NodeDaemonEndpoints{}
	return n, nil
}
