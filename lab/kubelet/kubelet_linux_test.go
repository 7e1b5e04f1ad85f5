package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

const gpu = "nvidia.com/gpu"

func TestMain(m *testing.M) {
	code, err := Private(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "skipped:", err)
	}
	os.Exit(code)
}

func TestDevicesOfAPluginAreCountedAndGranted(t *testing.T) {
	m := start(t)
	p := register(t, "GPU-0", "GPU-1", "GPU-2")
	waitFor(t, m, 3, 3)
	devices := devices("GPU-0", "GPU-1", "GPU-2")
	devices[1].Health = pluginapi.Unhealthy
	p.Update(devices)
	waitFor(t, m, 3, 2)

	got, err := m.Allocate(t.Context(), pod("a", "2"), "c")
	if err != nil {
		t.Fatal(err)
	}
	want := Grant{
		Devices: map[string][]string{gpu: {"GPU-0", "GPU-2"}},
		Env:     map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-2"},
		Nodes:   map[string]string{}, Mounts: map[string]string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("grant (-want +got):\n%s", diff)
	}
}

func TestDevicesAreFreeOnlyOnceThePodIsGone(t *testing.T) {
	m := start(t)
	register(t, "GPU-0")
	waitFor(t, m, 1, 1)
	first, second := pod("first", "1"), pod("second", "1")
	if _, err := m.Allocate(t.Context(), first, "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Allocate(t.Context(), second, "c"); err == nil || !strings.Contains(err.Error(), "requested number of devices unavailable for nvidia.com/gpu") {
		t.Errorf("a second pod on one GPU: got error %v", err)
	}
	m.Remove(first)
	if _, err := m.Allocate(t.Context(), second, "c"); err != nil {
		t.Error(err)
	}
}

func TestARestartKeepsPodsAndForgetsPlugins(t *testing.T) {
	m := start(t)
	register(t, "GPU-0", "GPU-1")
	waitFor(t, m, 2, 2)
	a := pod("a", "1")
	before, err := m.Allocate(t.Context(), a, "c")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, m, 0, 0)
	if _, err := m.Allocate(t.Context(), pod("b", "1"), "c"); err == nil {
		t.Error("a device was given before the plugin registered again")
	}
	register(t, "GPU-0", "GPU-1")
	waitFor(t, m, 2, 2)
	after, err := m.Allocate(t.Context(), a, "c")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("grant (-before the restart +after):\n%s", diff)
	}
}

func start(t *testing.T) *Manager {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(Dir, "kubelet_internal_checkpoint")); err != nil {
		t.Fatal(err)
	}
	m, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// register starts a plugin whose devices are healthy at first.
func register(t *testing.T, ids ...string) *plugin.Stub {
	t.Helper()
	log := klog.Background()
	s := plugin.NewDevicePluginStub(log, devices(ids...), filepath.Join(Dir, "test.sock"), gpu, false, false)
	s.SetAllocFunc(func(r *pluginapi.AllocateRequest, _ map[string]*pluginapi.Device) (*pluginapi.AllocateResponse, error) {
		out := &pluginapi.AllocateResponse{}
		for _, c := range r.ContainerRequests {
			given := slices.Sorted(slices.Values(c.DevicesIds))
			out.ContainerResponses = append(out.ContainerResponses, &pluginapi.ContainerAllocateResponse{
				Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(given, ",")},
			})
		}
		return out, nil
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(log); err != nil {
			t.Error(err)
		}
	})
	if err := s.Register(t.Context(), Socket, gpu, Dir); err != nil {
		t.Fatal(err)
	}
	return s
}

func devices(ids ...string) []*pluginapi.Device {
	var out []*pluginapi.Device
	for _, id := range ids {
		out = append(out, &pluginapi.Device{ID: id, Health: pluginapi.Healthy})
	}
	return out
}

// waitFor waits until the manager counts so many devices.
func waitFor(t *testing.T, m *Manager, capacity, allocatable int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c, a := m.Capacity(gpu)
		if c == capacity && a == allocatable {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("capacity %d, allocatable %d; want %d and %d", c, a, capacity, allocatable)
		}
	}
}

func pod(name, gpus string) *corev1.Pod {
	limits := corev1.ResourceList{gpu: resource.MustParse(gpus)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: limits}}}},
	}
}
