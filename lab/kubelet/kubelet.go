// Package kubelet runs the device manager of a real kubelet (Kubernetes 1.37.2)
// inside a test: device plugins register with it over its socket, as they do on
// a node, and pods are given devices without any being started.
//
// The folder of its sockets is a constant of Kubernetes; Private gives a test
// binary one of its own.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Where plugins put their sockets, and where they register.
const (
	Dir    = pluginapi.DevicePluginPath
	Socket = pluginapi.KubeletSocket
)

// A Manager is the device manager with the pods of its node.
type Manager struct {
	mu   sync.Mutex
	impl *devicemanager.ManagerImpl
	pods map[types.UID]*corev1.Pod
}

// A Grant is what a container is started with because of its devices.
type Grant struct {
	Devices    map[string][]string // ids by resource, sorted
	Env        map[string]string
	CDIDevices []string          // fully qualified names
	Nodes      map[string]string // device nodes: path in the container by path on the host
	Mounts     map[string]string // the same for files and folders
}

// Start brings up a device manager on Dir. It removes the sockets that it finds
// there, as a kubelet does.
func Start() (*Manager, error) {
	m := &Manager{pods: map[types.UID]*corev1.Pod{}}
	if err := m.start(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manager) start() error {
	log := klog.Background()
	impl, err := devicemanager.NewManagerImpl(log, nil, topologymanager.NewFakeManager(log))
	if err != nil {
		return fmt.Errorf("making the device manager: %w", err)
	}
	if err := impl.Start(log, m.activePods, ready{}, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return fmt.Errorf("starting the device manager: %w", err)
	}
	m.impl = impl
	return nil
}

// Stop closes the socket and waits for its server.
func (m *Manager) Stop() error { return m.impl.Stop(klog.Background()) }

// Restart does what a restart of the kubelet does to plugins: their sockets are
// removed and they must register again. Which pod has which devices is kept.
func (m *Manager) Restart() error {
	return errors.Join(m.Stop(), m.start())
}

// Capacity is what the node would say of a resource: all devices, and those of
// them that are healthy.
func (m *Manager) Capacity(resource string) (capacity, allocatable int64) {
	c, a, _ := m.impl.GetCapacity(klog.Background())
	all, healthy := c[corev1.ResourceName(resource)], a[corev1.ResourceName(resource)]
	return all.Value(), healthy.Value()
}

// Allocate gives one container of a pod its devices, as the admission of the
// pod and the start of the container do. Init containers come first, in their
// order.
func (m *Manager) Allocate(ctx context.Context, pod *corev1.Pod, container string) (Grant, error) {
	c := find(pod, container)
	if c == nil {
		return Grant{}, fmt.Errorf("pod %s has no container %q", pod.Name, container)
	}
	m.add(pod)
	if err := m.impl.Allocate(ctx, pod, c, lifecycle.AddOperation); err != nil {
		return Grant{}, fmt.Errorf("allocating devices of pod %s, container %s: %w", pod.Name, container, err)
	}
	options, err := m.impl.GetDeviceRunContainerOptions(ctx, pod, c)
	if err != nil {
		return Grant{}, fmt.Errorf("preparing pod %s, container %s: %w", pod.Name, container, err)
	}
	return grant(options, m.impl.GetDevices(string(pod.UID), container)), nil
}

// Remove says that a pod is gone, which frees its devices.
func (m *Manager) Remove(pod *corev1.Pod) {
	m.mu.Lock()
	delete(m.pods, pod.UID)
	m.mu.Unlock()
	m.impl.UpdateAllocatedDevices(klog.Background())
}

func (m *Manager) add(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods[pod.UID] = pod
}

func (m *Manager) activePods() []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var pods []*corev1.Pod
	for _, p := range m.pods {
		pods = append(pods, p)
	}
	return pods
}

func find(pod *corev1.Pod, container string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}

func grant(options *devicemanager.DeviceRunContainerOptions, devices devicemanager.ResourceDeviceInstances) Grant {
	g := Grant{Devices: map[string][]string{}, Env: map[string]string{}, Nodes: map[string]string{}, Mounts: map[string]string{}}
	for resource, instances := range devices {
		for id := range instances {
			g.Devices[resource] = append(g.Devices[resource], id)
		}
		slices.Sort(g.Devices[resource])
	}
	if options == nil { // the container asked for no device
		return g
	}
	for _, e := range options.Envs {
		g.Env[e.Name] = e.Value
	}
	for _, d := range options.CDIDevices {
		g.CDIDevices = append(g.CDIDevices, d.Name)
	}
	for _, d := range options.Devices {
		g.Nodes[d.PathOnHost] = d.PathInContainer
	}
	for _, v := range options.Mounts {
		g.Mounts[v.HostPath] = v.ContainerPath
	}
	return g
}

// ready says that all pods of the node are known.
type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }
