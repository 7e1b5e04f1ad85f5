package cloud

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

const replicas4 = `version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
`

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

// plugin is the DaemonSet of the plugin's chart with a config manager.
func plugin(namespace, configs string) *appsv1.DaemonSet {
	out := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nvidia-device-plugin"}}
	mount := []corev1.VolumeMount{{Name: "available-configs", MountPath: "/available-configs"}}
	out.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{
			{Name: "sidecar", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", Command: []string{"config-manager"}, VolumeMounts: mount, Env: []corev1.EnvVar{{Name: "DEFAULT_CONFIG", Value: "four"}}},
			{Name: "ctr", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", Env: []corev1.EnvVar{{Name: "CONFIG_FILE", Value: "/config/config.yaml"}}, VolumeMounts: mount},
		},
		Volumes: []corev1.Volume{{Name: "available-configs", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configs}}}}},
	}
	return out
}

// replicasOf is what a T4 node without labels advertises under an installation.
func replicasOf(t *testing.T, i *Installation) int64 {
	t.Helper()
	kind, _ := book().Type("g4dn.xlarge")
	ad, err := gpu.ForNode(kind, i.Sharing, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ad.Resources[model.NvidiaGPU]
}

func TestConfigsAreReadFromTheCluster(t *testing.T) {
	w := newWorld(t, nil,
		plugin("gpu-things", "configs"),
		configMap("gpu-things", "configs", map[string]string{"four": replicas4, "whole": "version: v1\n"}),
		configMap("default", "unrelated", map[string]string{"four": "nonsense: ["}),
	)
	c := NewClusterConfigs(w.client)
	told := 0
	c.OnChange(func() { told++ })
	first, err := c.Current(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]types.NamespacedName{{Namespace: "gpu-things", Name: "nvidia-device-plugin"}}, first.DaemonSets); d != "" {
		t.Error(d)
	}
	if first.Sharing.Default != "four" || len(first.Sharing.Configs) != 2 || replicasOf(t, first) != 4 {
		t.Errorf("read %v with the default %q; notes %v", first.Sharing.Configs, first.Sharing.Default, first.Notes)
	}
	if changed, err := c.Refresh(w.ctx); changed || err != nil {
		t.Errorf("nothing has changed, and Refresh says %t, %v", changed, err)
	}
	if again, _ := c.Current(w.ctx); again != first {
		t.Error("the same installation comes back under another pointer")
	}
	now := configMap("gpu-things", "configs", map[string]string{"four": replicas4 + "    - name: nvidia.com/mig-1g.5gb\n      replicas: 2\n"})
	if err := w.client.Update(w.ctx, now); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.Refresh(w.ctx); !changed || err != nil {
		t.Errorf("a ConfigMap has changed, and Refresh says %t, %v", changed, err)
	}
	if second, _ := c.Current(w.ctx); second == first || len(second.Sharing.Configs) != 1 {
		t.Errorf("the changed configs are %v", second.Sharing.Configs)
	}
	if told != 2 {
		t.Errorf("the followers were told %d times, want once at first and once of the change", told)
	}
}

func TestKerfNodeIsAPluginToo(t *testing.T) {
	d := plugin("kerf-system", "configs")
	d.Spec.Template.Spec.Containers = d.Spec.Template.Spec.Containers[1:]
	d.Spec.Template.Spec.Containers[0].Image = "ghcr.io/kerfdev/kerf-node:v1"
	d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CONFIG_FILE", Value: "/available-configs/four"}}
	w := newWorld(t, nil, d, configMap("kerf-system", "configs", map[string]string{"four": replicas4, "whole": "version: v1\n"}))
	got, err := NewClusterConfigs(w.client).Current(w.ctx)
	if err != nil || len(got.DaemonSets) != 1 || len(got.Plugins) != 1 || replicasOf(t, got) != 4 {
		t.Errorf("read %v, %v; notes %v", got, err, got.Notes)
	}
}

func TestAConfigThatIsWrongIsNamed(t *testing.T) {
	w := newWorld(t, nil, plugin("gpu-things", "configs"), configMap("gpu-things", "configs", map[string]string{"four": "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: none\n"}))
	got, err := NewClusterConfigs(w.client).Current(w.ctx)
	if err != nil || len(got.Notes) == 0 {
		t.Errorf("notes %v, %v", got.Notes, err)
	}
}

func TestAClusterWithoutAPlugin(t *testing.T) {
	w := newWorld(t, nil, configMap("nvidia-device-plugin", "configs", map[string]string{"only": replicas4}))
	got, err := NewClusterConfigs(w.client).Current(w.ctx)
	if err != nil || len(got.DaemonSets) != 0 || replicasOf(t, got) != 4 {
		t.Errorf("a config in the chart's namespace counts until the plugin is there: %v, %v", got, err)
	}
}

func TestWhichPodsRunThePlugin(t *testing.T) {
	for name, c := range map[string]struct {
		container corev1.Container
		want      bool
	}{
		"the plugin": {corev1.Container{Image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}, true},
		"kerf's own": {corev1.Container{Image: "ghcr.io/kerfdev/kerf-node:v1"}, true},
		"feature discovery in the plugin's image": {corev1.Container{Image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", Command: []string{"/usr/bin/gpu-feature-discovery"}}, false},
		"the MPS daemon in the plugin's image":    {corev1.Container{Image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", Command: []string{"mps-control-daemon"}}, false},
		"something else":                          {corev1.Container{Image: "nvidia/cuda:12.0.0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RunsPlugin(&corev1.PodSpec{Containers: []corev1.Container{c.container}}); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestWhatFailsForLongIsStillTriedAgain(t *testing.T) {
	l := BackOff(time.Minute)
	first, last := l.When(requestFor("a")), time.Duration(0)
	for range 40 {
		last = l.When(requestFor("a"))
	}
	if first != 5*time.Millisecond || last != time.Minute {
		t.Errorf("tried again after %s at first and %s at last; want 5ms and 1m0s", first, last)
	}
}

// heldReader counts the lists that it is asked for, and answers when it is let.
type heldReader struct {
	client.Reader
	lists atomic.Int64
	let   chan struct{}
}

// List waits to be let.
func (r *heldReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.lists.Add(1)
	select {
	case <-r.let:
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.Reader.List(ctx, list, opts...)
}

func TestManyThatAskAtOnceReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &heldReader{Reader: newWorld(t, nil).client, let: make(chan struct{})}
		c := NewClusterConfigs(r)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if now, err := c.Current(t.Context()); now == nil || err != nil {
					t.Errorf("the installation is %v, %v", now, err)
				}
			})
		}
		synctest.Wait()
		hurried, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Current(hurried); !errors.Is(err, context.Canceled) {
			t.Errorf("one that cannot wait is told %v", err)
		}
		close(r.let)
		all.Wait()
		if n := r.lists.Load(); n != int64(1+len(homes)) {
			t.Errorf("twenty that asked at once made %d lists; want one of DaemonSets and one of each namespace's ConfigMaps", n)
		}
	})
}
