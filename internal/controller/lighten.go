package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lastApplied is kubectl's copy of an object in the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// light is how objects are kept in memory: without what neither Kerf nor
// Karpenter's library (v1.15) reads, which is most of a pod and of a node.
// Whatever is written back is written as a patch, so nothing is lost.
func light() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Transform: lightPod},
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

func lightPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
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
	return p, nil
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
