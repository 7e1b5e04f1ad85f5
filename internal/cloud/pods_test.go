package cloud

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kerfdev/kerf/internal/model"
)

// cluster is a world with a node "a" whose GPUs are up.
func cluster(t *testing.T, configs Configs, config string) *world {
	t.Helper()
	w := newWorld(t, configs, ec2("default"))
	c := claim("a", kinds("g5.xlarge"))
	if config != "" {
		c.Labels[model.LabelDeviceConfig] = config
	}
	w.up(w.launch(c))
	return w
}

func TestAPodRunsAndEnds(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*corev1.Pod)
		want  time.Duration // how long it runs; 0 = for ever
	}{
		"a pod that is always restarted runs for ever": {func(*corev1.Pod) {}, 0},
		"one that may end does so after a while": {
			func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, defaults.Run,
		},
		"by its annotation": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations = map[string]string{RunForAnnotation: "45s"}
		}, 45 * time.Second},
		"by its annotation, for ever": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations = map[string]string{RunForAnnotation: "forever"}
		}, 0},
		"as long as its command sleeps": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Command = []string{"sh", "-c", "nvidia-smi; sleep 90"}
		}, 90 * time.Second},
		"with a unit, in words of their own": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Command, p.Spec.Containers[0].Args = []string{"sleep"}, []string{"2m"}
		}, 2 * time.Minute},
		"sleep infinity does not end": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Command = []string{"sleep", "infinity"}
		}, 0},
		"a loop around a sleep does not end": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Command = []string{"sh", "-c", "while true; do nvidia-smi; sleep 5; done"}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t, nil, "")
			p := pod("p", "a")
			c.alter(p)
			if p = w.run(p); p.Status.Phase != corev1.PodRunning || !p.Status.ContainerStatuses[0].Ready || p.Status.PodIP == "" {
				t.Fatalf("it does not run: %v", p.Status)
			}
			if wait := w.tick("p"); wait != c.want {
				t.Errorf("it ends in %s, want %s", wait, c.want)
			}
			w.clock.Step(c.want)
			w.tick("p")
			want := corev1.PodSucceeded
			if c.want == 0 {
				want = corev1.PodRunning
			}
			if got := w.pod("p").Status.Phase; got != want {
				t.Errorf("then it is %s, want %s", got, want)
			}
		})
	}
}

func TestAPodStartsOnlyAfterAWhile(t *testing.T) {
	w := cluster(t, nil, "")
	if err := w.client.Create(w.ctx, pod("p", "a")); err != nil {
		t.Fatal(err)
	}
	if wait := w.tick("p"); wait != defaults.Pod || w.pod("p").Status.Phase == corev1.PodRunning {
		t.Errorf("it starts in %s and is %s", wait, w.pod("p").Status.Phase)
	}
}

func TestADeletedPodEndsWithItsGracePeriod(t *testing.T) {
	w := newWorldWith(t, Config{Speed: 10}, ec2("default"))
	i := w.launch(claim("a", kinds("g5.xlarge")))
	w.up(i)
	p := pod("p", "a")
	p.Finalizers = []string{"kerf.dev/test"} // the test's API server deletes at once otherwise
	w.run(p)
	if err := w.client.Delete(w.ctx, w.pod("p")); err != nil {
		t.Fatal(err)
	}
	p = w.pod("p")
	grace := int64(30)
	p.DeletionGracePeriodSeconds = &grace
	deletion := w.clock.Now().Add(30 * time.Second)
	p.DeletionTimestamp.Time = deletion
	wait, err := w.sim.stop(w.ctx, p, w.clock.Now())
	if err != nil || wait != 3*time.Second {
		t.Errorf("it ends in %s at tenfold speed, want 3s: %v", wait, err)
	}
}

func TestThePluginRefusesMoreThanOneSlice(t *testing.T) {
	for name, c := range map[string]struct {
		asks int64
		want corev1.PodPhase
	}{
		"one slice runs":          {1, corev1.PodRunning},
		"two slices are an error": {2, corev1.PodFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t, sliced(), "ten")
			p := pod("p", "a")
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{model.NvidiaGPU: amount(c.asks)}
			p = w.run(p)
			if p.Status.Phase != c.want {
				t.Errorf("the pod is %s: %s", p.Status.Phase, p.Status.Message)
			}
			if c.want == corev1.PodFailed && !strings.Contains(p.Status.Message, "maximum request size for shared resources is 1") {
				t.Errorf("the message is %q, want the plugin's own", p.Status.Message)
			}
		})
	}
}

func TestAPluginUnderAConfigThatDoesNotExistCrashes(t *testing.T) {
	configs := sliced()
	configs.now.DaemonSets = []types.NamespacedName{{Namespace: "default", Name: "plugin"}}
	w := cluster(t, configs, "absent")
	p := w.run(pluginPod("plugin-x", "a"))
	s := p.Status.ContainerStatuses[0]
	if p.Status.Phase == corev1.PodRunning || s.State.Waiting == nil || !strings.Contains(s.State.Waiting.Message, `"absent"`) {
		t.Errorf("the plugin's pod: %v", p.Status)
	}
	if wait := w.tick("plugin-x"); wait <= 0 {
		t.Error("a crashed pod is started again at once, for ever")
	}
	n := w.node("a")
	n.Labels[model.LabelDeviceConfig] = "whole"
	if err := w.client.Update(w.ctx, n); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(10 * time.Second)
	w.tick("plugin-x")
	if got := w.pod("plugin-x").Status.Phase; got != corev1.PodRunning {
		t.Errorf("with the label put right the plugin is %s", got)
	}
}

func TestPodsOfADeadMachineStayAsTheyAre(t *testing.T) {
	w := cluster(t, nil, "")
	i := w.sim.Instances()[0]
	if err := w.sim.Faults().Kill(i.ID); err != nil {
		t.Fatal(err)
	}
	w.run(pod("p", "a"))
	got := w.pod("p").Status.Phase
	if d := cmp.Diff(corev1.PodPhase(""), got); d != "" {
		t.Error(d)
	}
	var _ client.Object = w.pod("p")
}
