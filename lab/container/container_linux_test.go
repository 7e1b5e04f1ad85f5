package container

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kerfdev/kerf/internal/discovery"
	"github.com/kerfdev/kerf/internal/health"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/node"
	"github.com/kerfdev/kerf/internal/nvml"
)

const (
	whole = "nvidia.com/gpu"
	slice = "nvidia.com/gpu.shared"
)

// The device configs of the node: the GPUs whole, or one of them in slices.
var configs = map[string]string{
	"default":    "version: v1\nflags: {migStrategy: mixed}\n",
	"shared_gpu": "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, rename: gpu.shared, devices: ['0'], replicas: 10}]}}\n",
}

// A GPU's whole way: from a driver over kerf-node, kubelet, API server and
// scheduler into containers, out of service and back, and through a restart of
// the kubelet.
func TestGPUsReachContainers(t *testing.T) {
	if lacking != "" {
		t.Skip(lacking)
	}
	inv, err := nvml.Recording("mock")
	if err != nil {
		t.Fatal(err)
	}
	m := boot(t)
	for name, text := range configs {
		m.must(os.WriteFile(filepath.Join(dir, "configs", name), []byte(text), 0o600))
	}
	m.create("rights")
	m.startKubelet()
	m.startAgent("mock")
	m.labelled()
	m.sliced()
	m.seedPodSeesItsGPU(inv)
	m.tenPodsShareOneGPU(inv)
	before := m.notebooks()
	m.sickAndWell()
	m.kubeletRestarts(before)
	if err := m.stop("kerf-node"); err != nil {
		t.Error(err)
	}
	m.node("no GPU to have without kerf-node", func(n *corev1.Node) error { return has(n, slice, 10, 0) })
}

// labelled waits for the node with its GPUs, and looks at who keeps its labels.
func (m *machine) labelled() {
	m.Helper()
	m.node("2 GPUs", func(n *corev1.Node) error {
		return errors.Join(has(n, whole, 2, 2), says(n, corev1.NodeReady, true, ""))
	})
	m.node("labels by server-side apply", func(n *corev1.Node) error {
		return carries(n, map[string]string{
			discovery.LabelPresent: "true", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "1", "nvidia.com/mig.strategy": "mixed",
			"nvidia.com/gpu.product": "Mock-NVIDIA-A100-SXM4-40GB", corev1.LabelHostname: nodeName,
		})
	})
	m.node("conditions", func(n *corev1.Node) error {
		return errors.Join(says(n, health.ConditionType, true, "NvidiaAcceleratedHardwareIsReady"), says(n, node.ConfigCondition, true, "DeviceConfigApplied"))
	})
}

// sliced changes the node's config by its label: GPU 0 is in slices then.
func (m *machine) sliced() {
	m.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: "shared_gpu"}}}`, model.LabelDeviceConfig)
	_, err := m.api.CoreV1().Nodes().Patch(m.Context(), nodeName, types.MergePatchType, patch, metav1.PatchOptions{})
	m.must(err)
	m.node("1 GPU and 10 slices", func(n *corev1.Node) error { return errors.Join(has(n, whole, 1, 1), has(n, slice, 10, 10)) })
	m.node("their labels", func(n *corev1.Node) error {
		return carries(n, map[string]string{"nvidia.com/gpu.replicas": "10", "nvidia.com/mig.strategy": "", model.LabelDeviceConfig: "shared_gpu"})
	})
}

// seedPodSeesItsGPU runs a pod on the GPU that is whole, and one on none.
func (m *machine) seedPodSeesItsGPU(inv nvml.Inventory) {
	m.Helper()
	m.create("list-gpus")
	m.create("no-gpu")
	for name, want := range map[string]string{"list-gpus": sees(inv, 1), "no-gpu": "told \n"} {
		if diff := cmp.Diff(want, m.outputOf(name)); diff != "" {
			m.Errorf("the container of %s (-want +saw):\n%s", name, diff)
		}
	}
}

// sees is what a container with one GPU reports: nothing of the other.
func sees(inv nvml.Inventory, i int) string {
	return fmt.Sprintf("told %s\nhas /dev/nvidia%d\nhas /dev/nvidiactl\nmay open %d\nmay open 255\n", inv.GPUs[i].UUID, i, i)
}

// tenPodsShareOneGPU fills the GPU that is in slices.
func (m *machine) tenPodsShareOneGPU(inv nvml.Inventory) {
	m.Helper()
	m.create("notebook")
	m.until("ten notebooks, and one that waits", func() error {
		running, waiting := m.notebooks(), m.waiting()
		if len(running) != 10 || len(waiting) != 1 || !strings.Contains(waiting[0], "Insufficient "+slice) {
			return fmt.Errorf("%d run, and these wait: %q", len(running), waiting)
		}
		return nil
	})
	m.until("what they see", func() error {
		for name := range m.notebooks() {
			saw, err := m.logs(name)
			if diff := cmp.Diff(sees(inv, 0), saw); err == nil && diff != "" {
				err = fmt.Errorf("%s (-want +saw):\n%s", name, diff)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sickAndWell takes the sliced GPU out by an Xid that only a reset ends, and
// resets it. What runs on it goes on.
func (m *machine) sickAndWell() {
	m.Helper()
	before := m.notebooks()
	m.happen("recovery 0 reset", "xid 48 0")
	m.node("a sick GPU", func(n *corev1.Node) error {
		return errors.Join(has(n, slice, 10, 0), has(n, whole, 1, 1), says(n, health.ConditionType, false, "NvidiaXID48Error"))
	})
	m.until("an event that says so", func() error {
		events, err := m.api.CoreV1().Events(corev1.NamespaceDefault).List(m.Context(), metav1.ListOptions{FieldSelector: "reason=GPUHealthChanged,source=" + discovery.Manager})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	m.until("pods that are told so", func() error {
		for _, p := range m.pods() {
			if status := p.Status.ContainerStatuses; len(status) > 0 && !tellsSick(status[0]) {
				return fmt.Errorf("%s has %v", p.Name, status[0].AllocatedResourcesStatus)
			}
		}
		return nil
	})
	m.happen("recovery 0 none")
	m.node("a GPU that was reset", func(n *corev1.Node) error {
		return errors.Join(has(n, slice, 10, 10), says(n, health.ConditionType, true, "NvidiaAcceleratedHardwareIsReady"))
	})
	if diff := cmp.Diff(before, m.notebooks()); diff != "" {
		m.Errorf("containers before and after the GPU was sick (-before +after):\n%s", diff)
	}
}

// kubeletRestarts stops the kubelet and starts it again. Containers go on, and
// when one is deleted, the pod that waits gets its slice: kerf-node has
// registered with the new kubelet, which knows who holds the others.
func (m *machine) kubeletRestarts(before map[string]string) {
	m.Helper()
	m.must(m.stop("kubelet"))
	known := m.registrations()
	m.startKubelet()
	m.until("kerf-node to register again", func() error {
		if n := m.registrations() - known; n < 2 {
			return fmt.Errorf("%d of 2 resources are registered", n)
		}
		return nil
	})
	gone := slices.Sorted(maps.Keys(before))[0]
	m.must(m.api.CoreV1().Pods(corev1.NamespaceDefault).Delete(m.Context(), gone, metav1.DeleteOptions{}))
	delete(before, gone)
	m.until("the notebook that waited", func() error {
		if n := len(m.notebooks()); n != 10 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	after := m.notebooks()
	for name := range after {
		if before[name] == "" {
			delete(after, name)
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		m.Errorf("containers before and after the kubelet's restart (-before +after):\n%s", diff)
	}
}
