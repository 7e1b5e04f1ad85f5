package hands

import (
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// plugin is the device plugin's DaemonSet.
func plugin(alter func(*corev1.PodSpec)) *appsv1.DaemonSet {
	out := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nvidia", Name: "plugin"}}
	out.Spec.Template.Spec.Containers = []corev1.Container{{Name: "ctr", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}}
	if alter != nil {
		alter(&out.Spec.Template.Spec)
	}
	return out
}

// pluginPod is its pod on the node.
func pluginPod(s corev1.PodStatus) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "nvidia", Name: "plugin-x"}, Spec: plugin(nil).Spec.Template.Spec, Status: s}
	out.Spec.NodeName = "a"
	return out
}

// installed is the cluster of four with the plugin's DaemonSet.
func installed() *configs {
	out := four()
	out.now.DaemonSets = []types.NamespacedName{{Namespace: "nvidia", Name: "plugin"}}
	return out
}

var shared = corev1.Taint{Key: "nvidia.com/gpu-shared", Value: "true", Effect: corev1.TaintEffectNoSchedule}

func TestTheCauseOfMissingGPUsIsNamed(t *testing.T) {
	absent := four()
	absent.now.Sharing = model.Sharing{Configs: map[string]deviceconfig.Config{"x": {}, "y": {}}}
	notReady := node(nil)
	notReady.Status.Conditions[0].Status = corev1.ConditionFalse
	renamed := four()
	renamed.now.Sharing.Configs = map[string]deviceconfig.Config{"four": replicas(4, "nvidia.com/gpu.shared")}
	gpuTaint := claim()
	gpuTaint.Spec.Taints = []corev1.Taint{shared}
	for name, c := range map[string]struct {
		configs *configs
		objects []client.Object
		reason  string
		says    []string
		pool    bool // every node of the pool would have it
	}{
		"the plugin does not tolerate the pool's taint": {
			configs: installed(), objects: []client.Object{gpuTaint, node(nil, shared), plugin(nil)},
			reason: "TaintNotTolerated", says: []string{"nvidia/plugin", "nvidia.com/gpu-shared=true:NoSchedule", "add the toleration"}, pool: true,
		},
		"the plugin selects other nodes": {
			configs: installed(), objects: []client.Object{claim(), node(nil), plugin(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"gpu": "true"} })},
			reason: "NotSelected", says: []string{"wants gpu In true", "no such label"}, pool: true,
		},
		"the plugin's affinity is to other nodes": {
			configs: installed(), objects: []client.Object{claim(), node(nil), plugin(func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: "feature.node.kubernetes.io/pci-10de.present", Operator: corev1.NodeSelectorOpIn, Values: []string{"true"}},
					}}},
				}}}
			})},
			reason: "NotSelected", says: []string{"pci-10de.present"}, pool: true,
		},
		"the plugin crashes": {
			configs: installed(), objects: []client.Object{claim(), node(nil), plugin(nil), pluginPod(corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"}},
			}}})},
			reason: "PluginCrashing", says: []string{"nvidia/plugin-x", "CrashLoopBackOff", "ERROR_LIBRARY_NOT_FOUND"},
		},
		"the plugin runs and finds nothing": {
			configs: installed(), objects: []client.Object{claim(), node(nil), plugin(nil), pluginPod(corev1.PodStatus{Phase: corev1.PodRunning})},
			reason: "NothingAdvertised", says: []string{"nvidia/plugin-x runs and advertises nothing"},
		},
		"the plugin has not started": {
			configs: installed(), objects: []client.Object{claim(), node(nil), plugin(nil)}, reason: "PluginStarting", says: []string{"no pod there yet"},
		},
		"there is no plugin": {configs: four(), objects: []client.Object{claim(), node(nil)}, reason: "NoPlugin", says: []string{"no DaemonSet"}, pool: true},
		"the image brings the plugin, as another node shows": {
			configs: four(), objects: []client.Object{claim(), node(nil), another(metav1.ConditionTrue, "GPUsAsPredicted", "default")},
			reason: "NothingAdvertised", says: []string{"node b of the same node class has its GPUs", "no working GPU or driver"},
		},
		"the image brings the plugin, as a node with fewer GPUs shows": {
			configs: four(), objects: []client.Object{claim(), node(nil), another(metav1.ConditionFalse, "FewerGPUs", "default")},
			reason: "NothingAdvertised", says: []string{"node b of the same node class has its GPUs"},
		},
		"another node has none either": {
			configs: four(), objects: []client.Object{claim(), node(nil), another(metav1.ConditionFalse, "NoPlugin", "default")},
			reason: "NoPlugin", says: []string{"no DaemonSet"}, pool: true,
		},
		"another image brings a plugin": {
			configs: four(), objects: []client.Object{claim(), node(nil), another(metav1.ConditionTrue, "GPUsAsPredicted", "bottlerocket")},
			reason: "NoPlugin", says: []string{"no DaemonSet"}, pool: true,
		},
		"the node's config does not exist": {
			configs: absent, objects: []client.Object{claim(), node(nil)}, reason: "NoSuchConfig", says: []string{"none is the default"}, pool: true,
		},
		"the config now gives another name": {
			configs: renamed, objects: []client.Object{claim(), node(nil)}, reason: "ConfigChanged", says: []string{"nvidia.com/gpu.shared and not nvidia.com/gpu"}, pool: true,
		},
		"another vendor's device": {
			configs: installed(), objects: []client.Object{asking("habana.ai/gaudi"), node(nil), plugin(nil)}, reason: "NothingAdvertised", says: []string{"plugin of their vendor"},
		},
		"the node is not ready": {configs: installed(), objects: []client.Object{claim(), notReady, plugin(nil)}, reason: "NodeNotReady", says: []string{"not ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.configs, c.objects...)
			w.look()
			if is, reason := w.condition(ConditionGPUs); is != "False" || reason != c.reason {
				t.Errorf("the claim's condition is %s, %s; want %s", is, reason, c.reason)
			}
			asked := w.stored().Spec.Resources.Requests
			w.clock.Step(DefaultDeadline)
			w.look()
			if w.stored() != nil {
				t.Error("after ten minutes the claim is still there")
			}
			said := w.events.about("GPUsNotRegistered")
			last := strings.Join(said, "\n")
			for name := range asked {
				c.says = append(c.says, "no "+string(name)+" after 10m0s")
			}
			for _, text := range append(c.says, "the node is replaced") {
				if !strings.Contains(last, text) {
					t.Errorf("the events do not say %q: %s", text, last)
				}
			}
			_, other := w.watcher.avoid.Of("gpu", "g5.xlarge")
			if _, this := w.watcher.avoid.Of("gpu", "g4dn.xlarge"); !this || other != c.pool {
				t.Errorf("avoided: this type %t, others of the pool %t; want true, %t", this, other, c.pool)
			}
		})
	}
}

// another is the claim of another node, with what was found of its GPUs.
func another(is metav1.ConditionStatus, reason, class string) *karpenter.NodeClaim {
	out := initialized(claim())
	out.Name, out.Status.NodeName, out.Status.ProviderID, out.Spec.NodeClassRef.Name = "b", "b", "sim:///us-east-1a/i-b", class
	out.Status.Conditions = append(out.Status.Conditions, status.Condition{Type: ConditionGPUs, Status: is, Reason: reason, LastTransitionTime: metav1.NewTime(start)})
	return out
}

// asking is the claim of a node for something else.
func asking(name corev1.ResourceName) *karpenter.NodeClaim {
	out := claim()
	out.Spec.Resources.Requests = corev1.ResourceList{name: amount(1)}
	return out
}

func TestHowLongGPUsMayTake(t *testing.T) {
	says := func(text string) map[string]string { return map[string]string{TimeoutAnnotation: text} }
	patient, hasty, wrong := pending("patient", says("30m")), pending("hasty", says("3m")), pending("wrong", says("soon"))
	other := pending("other", says("1m"))
	other.Spec.Containers[0].Resources.Limits = nil
	pool := claim()
	pool.Annotations = says("2m")
	for name, c := range map[string]struct {
		claim client.Object
		pods  []client.Object
		want  time.Duration
	}{
		"ten minutes":                                     {claim(), nil, 10 * time.Minute},
		"what a waiting pod says":                         {claim(), []client.Object{patient}, 30 * time.Minute},
		"of several pods the shortest":                    {claim(), []client.Object{patient, hasty}, 3 * time.Minute},
		"what a pod that asks for no GPU says has no say": {claim(), []client.Object{other}, 10 * time.Minute},
		"what is no duration is passed over":              {claim(), []client.Object{wrong}, 10 * time.Minute},
		"what the pool's template says":                   {pool, nil, 2 * time.Minute},
		"a pod before the pool":                           {pool, []client.Object{hasty}, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, o := range append(c.pods, c.claim, node(nil)) {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			w := newWorld(t, installed(), append(objects, plugin(nil))...)
			w.clock.Step(c.want - time.Second)
			if wait := w.look(); w.stored() == nil || wait != time.Second {
				t.Fatalf("a second before, the claim is gone or looked at in %s", wait)
			}
			w.clock.Step(time.Second)
			w.look()
			if w.stored() != nil {
				t.Errorf("after %s it is still there", c.want)
			}
		})
	}
}

// pending is a pod without a node that asks for a GPU.
func pending(name string, annotations map[string]string) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations}}
	out.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{model.NvidiaGPU: amount(1)}}}}
	return out
}

func TestWhatWillNotPassIsSaidBeforeTheDeadline(t *testing.T) {
	c := claim()
	c.Spec.Taints = []corev1.Taint{shared}
	w := newWorld(t, installed(), c, node(nil, shared), plugin(nil))
	if wait := w.look(); wait != 30*time.Second || len(w.events.about("GPUsNotRegistered")) != 0 {
		t.Errorf("a node that has just registered is given 30 s, not %s", wait)
	}
	w.clock.Step(30 * time.Second)
	w.look()
	if len(w.events.about("GPUsNotRegistered")) != 1 || w.stored() == nil {
		t.Error("the cause should be said now, and the node kept until the deadline")
	}
}

func TestGPUsThatComeUpAreInOrder(t *testing.T) {
	w := newWorld(t, installed(), claim(), node(nil), plugin(nil))
	w.look()
	w.watcher.avoid.Failed("gpu", "g4dn.xlarge", "earlier", start)
	w.advertise(map[corev1.ResourceName]int64{model.NvidiaGPU: 4})
	if wait := w.look(); wait != 0 {
		t.Errorf("there is nothing more to wait for, and it looks again in %s", wait)
	}
	if is, _ := w.condition(ConditionGPUs); is != "True" {
		t.Errorf("the condition is %s", is)
	}
	w.clock.Step(time.Hour)
	w.look()
	if w.stored() == nil {
		t.Error("a node with its GPUs was replaced")
	}
	if got := w.watcher.avoid.List(); len(got) != 0 {
		t.Errorf("after a success the type is still avoided: %v", got)
	}
}

func TestGPUsOtherThanPredicted(t *testing.T) {
	for name, c := range map[string]struct {
		have   map[corev1.ResourceName]int64
		reason string
		text   string
	}{
		"fewer": {map[corev1.ResourceName]int64{model.NvidiaGPU: 3}, "FewerGPUs", "nvidia.com/gpu: 3, predicted 4"},
		"more":  {map[corev1.ResourceName]int64{model.NvidiaGPU: 8}, "MoreGPUs", "nvidia.com/gpu: 8, predicted 4"},
		"both names at once, as MIG leaves it (gpu-operator#637)": {
			map[corev1.ResourceName]int64{model.NvidiaGPU: 4, "nvidia.com/mig-1g.10gb": 6}, "MoreGPUs", "nvidia.com/mig-1g.10gb: 6, predicted 0",
		},
		"another name instead": {
			map[corev1.ResourceName]int64{"nvidia.com/gpu.shared": 4}, "FewerGPUs", "nvidia.com/gpu: 0, predicted 4; nvidia.com/gpu.shared: 4, predicted 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, installed(), initialized(claim()), node(c.have), plugin(nil))
			w.look()
			if len(w.events.about(c.reason)) != 0 {
				t.Error("it is said aloud before the plugin could have done with registering")
			}
			w.clock.Step(settling)
			w.look()
			is, reason := w.condition(ConditionGPUs)
			if d := cmp.Diff([]string{"False", c.reason, c.text}, []string{is, reason, w.stored().Annotations[MismatchAnnotation]}); d != "" {
				t.Error(d)
			}
			if said := w.events.about(c.reason); len(said) != 1 || !strings.Contains(said[0], c.text) {
				t.Errorf("events: %v", said)
			}
			w.advertise(map[corev1.ResourceName]int64{model.NvidiaGPU: 4})
			w.look()
			if is, _ := w.condition(ConditionGPUs); is != "True" || w.stored().Annotations[MismatchAnnotation] != "" {
				t.Error("it is put right, and the claim does not say so")
			}
		})
	}
}

func TestGhostsHoldNothingBack(t *testing.T) {
	w := newWorld(t, installed(), claim(), node(map[corev1.ResourceName]int64{model.NvidiaGPU: 4}), plugin(nil))
	w.look()
	w.advertise(map[corev1.ResourceName]int64{model.NvidiaGPU: 0})
	w.look()
	if _, reason := w.condition(ConditionGPUs); reason != "GPUsDied" {
		t.Errorf("the reason is %s", reason)
	}
	c := w.stored()
	w.cluster.UpdateNodeClaim(c)
	var n corev1.Node
	if err := w.client.Get(w.ctx, client.ObjectKey{Name: "a"}, &n); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.UpdateNode(w.ctx, &n); err != nil {
		t.Fatal(err)
	}
	for node := range w.cluster.Nodes() {
		if got := node.Allocatable()[model.NvidiaGPU]; !got.IsZero() {
			t.Errorf("karpenter still counts %s GPUs of the dead node", got.String())
		}
	}
	w.look()
	if _, reason := w.condition(ConditionGPUs); reason != "GPUsDied" {
		t.Errorf("looked at again it is %s", reason)
	}
	w.advertise(map[corev1.ResourceName]int64{model.NvidiaGPU: 4})
	w.look()
	if got := w.stored().Status.Allocatable[model.NvidiaGPU]; got.Value() != 4 {
		t.Errorf("the GPUs are back, and the claim counts %s", got.String())
	}
}

func TestTheClaimFollowsAChangedConfig(t *testing.T) {
	w := newWorld(t, installed(), claim(), node(nil), plugin(nil))
	changed := *w.configs.now
	changed.Sharing.Configs = map[string]deviceconfig.Config{"four": replicas(10, "")}
	w.configs.now = &changed
	w.watcher.avoid.Failed("gpu", "", "the old config", start)
	w.watcher.again()
	w.look()
	if got := w.stored().Status.Capacity[model.NvidiaGPU]; got.Value() != 10 {
		t.Errorf("ten slices are predicted now, and the claim counts %s", got.String())
	}
	if got := w.watcher.avoid.List(); len(got) != 0 {
		t.Errorf("what failed under the old config is still avoided: %v", got)
	}
}

func TestClaimsThatAreNotConcerned(t *testing.T) {
	cpu := claim()
	cpu.Spec.Resources.Requests, cpu.Labels[model.LabelInstanceType] = nil, "m5.large"
	unregistered := claim()
	unregistered.Status.Conditions[1].Status = metav1.ConditionUnknown
	idle := claim()
	idle.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: amount(1)}
	for name, c := range map[string]client.Object{
		"one without GPUs":                          cpu,
		"one whose node has not registered":         unregistered,
		"one with GPUs that nobody has asked for":   idle,
		"one that was initialized before GPUs died": initialized(claim()),
	} {
		t.Run(name, func(t *testing.T) {
			n := node(nil)
			n.Labels = c.GetLabels()
			w := newWorld(t, installed(), c, n, plugin(nil))
			w.clock.Step(time.Hour)
			w.look()
			if w.stored() == nil {
				t.Error("it was replaced")
			}
		})
	}
}
