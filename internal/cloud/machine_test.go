package cloud

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// sliced is a cluster whose config "ten" cuts every GPU into ten.
func sliced() *switchable {
	return &switchable{now: &Installation{Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{
		"whole": {}, "ten": slices10(""), "renamed": slices10("nvidia.com/gpu.shared"),
	}, Default: "whole"}}}
}

func slices10(rename string) deviceconfig.Config {
	return deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{
		FailRequestsGreaterThanOne: true,
		Resources:                  []deviceconfig.Resource{{Name: model.NvidiaGPU, Rename: rename, Replicas: 10}},
	}}
}

// switchable configs change when a test says so.
type switchable struct{ now *Installation }

func (s *switchable) Current(context.Context) (*Installation, error) { return s.now, nil }

func TestAMachineBecomesANode(t *testing.T) {
	w := newWorld(t, sliced(), ec2("default"))
	c := claim("a", kinds("g5.xlarge"))
	c.Labels[model.LabelDeviceConfig] = "ten"
	c.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	c.Spec.StartupTaints = []corev1.Taint{{Key: "example.com/agent", Effect: corev1.TaintEffectNoSchedule}}
	i := w.launch(c)

	if wait := w.after(0, i.ID); wait != defaults.Register || w.node("a") != nil {
		t.Errorf("at once there is a node, or the next step is in %s", wait)
	}
	w.after(defaults.Register, i.ID)
	n := w.node("a")
	if n == nil {
		t.Fatal("no node after the registration delay")
	}
	want := []string{"nvidia.com/gpu", "example.com/agent", karpenter.UnregisteredTaintKey}
	if d := cmp.Diff(want, keys(n.Spec.Taints)); d != "" {
		t.Errorf("taints: %s", d)
	}
	if ready(n) || n.Spec.ProviderID != i.ProviderID || n.Labels[karpenter.NodeRegisteredLabelKey] != "" {
		t.Errorf("a node that has just registered is not ready, and Karpenter has not seen it: %v", n)
	}
	if len(gpus(n.Status.Allocatable)) != 0 {
		t.Errorf("GPUs before any plugin could run: %v", n.Status.Allocatable)
	}
	w.after(defaults.Ready, i.ID)
	if n = w.node("a"); !ready(n) || len(gpus(n.Status.Allocatable)) != 0 {
		t.Errorf("after the ready delay: ready %t, GPUs %v", ready(n), gpus(n.Status.Allocatable))
	}
	w.after(defaults.GPU, i.ID)
	n = w.node("a")
	if d := cmp.Diff(map[string]int64{model.NvidiaGPU: 10}, gpus(n.Status.Allocatable)); d != "" {
		t.Errorf("GPUs: %s", d)
	}
	if got := n.Labels["nvidia.com/gpu.product"]; got != "NVIDIA-A10G-SHARED" {
		t.Errorf("feature discovery labels the node %q", got)
	}
	if d := cmp.Diff([]string{"nvidia.com/gpu", karpenter.UnregisteredTaintKey}, keys(n.Spec.Taints)); d != "" {
		t.Errorf("the startup taint should be gone with the GPUs up: %s", d)
	}
}

func keys(taints []corev1.Taint) (out []string) {
	for _, t := range taints {
		out = append(out, t.Key)
	}
	return out
}

func TestANodeFollowsItsLabelAndTheConfig(t *testing.T) {
	configs := sliced()
	w := newWorld(t, configs, ec2("default"))
	i := w.launch(claim("a", kinds("g5.xlarge")))
	n := w.up(i)
	if d := cmp.Diff(map[string]int64{model.NvidiaGPU: 1}, gpus(n.Status.Allocatable)); d != "" {
		t.Fatal(d)
	}
	n.Labels[model.LabelDeviceConfig] = "renamed"
	if err := w.client.Update(w.ctx, n); err != nil {
		t.Fatal(err)
	}
	w.after(0, i.ID)
	n = w.node("a")
	if d := cmp.Diff(map[string]int64{model.NvidiaGPU: 0, "nvidia.com/gpu.shared": 10}, gpus(n.Status.Allocatable)); d != "" {
		t.Errorf("after the label changed: %s", d)
	}
	changed := *configs.now
	changed.Sharing.Configs = map[string]deviceconfig.Config{"renamed": {TimeSlicing: &deviceconfig.Replicated{
		Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Rename: "nvidia.com/gpu.shared", Replicas: 4}},
	}}}
	configs.now = &changed
	w.after(0, i.ID)
	if d := cmp.Diff(map[string]int64{model.NvidiaGPU: 0, "nvidia.com/gpu.shared": 4}, gpus(w.node("a").Status.Allocatable)); d != "" {
		t.Errorf("after the config changed: %s", d)
	}
}

func TestGPUsWaitForThePluginsPod(t *testing.T) {
	configs := sliced()
	configs.now.DaemonSets = []types.NamespacedName{{Namespace: "nvidia", Name: "plugin"}}
	w := newWorld(t, configs, ec2("default"))
	i := w.launch(claim("a", kinds("g5.xlarge")))
	if n := w.up(i); !ready(n) || len(gpus(n.Status.Allocatable)) != 0 {
		t.Fatal("GPUs came up although no plugin runs on the node")
	}
	w.run(pluginPod("plugin-x", "a"))
	w.after(defaults.GPU, i.ID)
	if d := cmp.Diff(map[string]int64{model.NvidiaGPU: 1}, gpus(w.node("a").Status.Allocatable)); d != "" {
		t.Error(d)
	}
}

func pluginPod(name, node string) *corev1.Pod {
	p := pod(name, node)
	p.Spec.Containers[0].Image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
	return p
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "main", Image: "example"}}},
	}
}

// run creates a bound pod and lets the kubelet start it.
func (w *world) run(p *corev1.Pod) *corev1.Pod {
	w.Helper()
	if err := w.client.Create(w.ctx, p); err != nil {
		w.Fatal(err)
	}
	w.clock.Step(defaults.Pod)
	w.tick(p.Name)
	return w.pod(p.Name)
}

// tick lets the kubelet look at a pod.
func (w *world) tick(name string) time.Duration {
	w.Helper()
	wait, err := w.sim.run(w.ctx, types.NamespacedName{Namespace: "default", Name: name})
	if err != nil {
		w.Fatal(err)
	}
	return wait
}

// pod returns a pod, nil when there is none.
func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	out := &corev1.Pod{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: name}, out); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		w.Fatal(err)
	}
	return out
}

func TestFates(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		fate Fate
		want map[string]int64 // nil = no node
	}{
		"a launch that never registers":       {"g5.xlarge", Fate{NeverRegisters: true}, nil},
		"GPUs that never come up":             {"g5.12xlarge", Fate{NoGPUs: true}, map[string]int64{}},
		"one GPU fewer than the type has":     {"g5.12xlarge", Fate{MissingGPUs: 1}, map[string]int64{model.NvidiaGPU: 3}},
		"nothing is wrong with other fates":   {"g5.12xlarge", Fate{KeepsTaints: true}, map[string]int64{model.NvidiaGPU: 4}},
		"a type without GPUs advertises none": {"m5.large", Fate{}, map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, ec2("default"))
			w.sim.Faults().Doom(Offering{Type: c.kind}, 1, c.fate)
			n := w.up(w.launch(claim("a", kinds(c.kind))))
			switch {
			case c.want == nil && n != nil:
				t.Error("it registered")
			case c.want != nil && n == nil:
				t.Error("it did not register")
			case c.want != nil:
				if d := cmp.Diff(c.want, gpus(n.Status.Allocatable)); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestGPUsThatBreakAreAdvertisedNoMore(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	i := w.launch(claim("a", kinds("g5.12xlarge")))
	w.up(i)
	for broken, want := range map[int]int64{3: 1, 100: 0, -1: 0} {
		_ = w.sim.change(i.ID, func(m *machine) { m.fate.MissingGPUs = 0 })
		if err := w.sim.Faults().BreakGPUs(i.ID, broken); err != nil {
			t.Fatal(err)
		}
		w.after(0, i.ID)
		if d := cmp.Diff(map[string]int64{model.NvidiaGPU: want}, gpus(w.node("a").Status.Allocatable)); d != "" {
			t.Errorf("%d of four are broken: %s", broken, d)
		}
	}
	if !slices.ContainsFunc(w.node("a").Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == "AcceleratedHardwareReady" && c.Status == corev1.ConditionFalse
	}) {
		t.Error("the node does not say that its GPUs are broken, by which Karpenter repairs it")
	}
}

// What a machine reads may be behind what it wrote: a Node that it made and
// does not see yet is not one that was deleted.
func TestANodeThatIsSeenLateIsNotLost(t *testing.T) {
	for name, unseen := range map[string]time.Duration{"soon": time.Second, "long after": time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, ec2("default"))
			i := w.launch(claim("a", kinds("g5.xlarge")))
			w.after(10*time.Minute, i.ID) // so late it registers
			n := w.node("a")
			if err := w.client.Delete(w.ctx, n.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			w.after(unseen, i.ID)
			n.ResourceVersion = ""
			if err := w.client.Create(w.ctx, n); err != nil {
				t.Fatal(err)
			}
			w.after(defaults.Ready, i.ID)
			w.after(defaults.GPU, i.ID)
			if n = w.node("a"); !ready(n) || len(gpus(n.Status.Allocatable)) == 0 {
				t.Errorf("the node, seen %s after it was made, stays without its kubelet", unseen)
			}
		})
	}
}

// A cloud that ends an instance before it has seen its Node finds the Node later.
func TestANodeWithoutAnInstanceIsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		claim bool // there still is one that knows of the instance
		want  bool // the node stays
	}{"and without a claim": {false, false}, "whose claim Karpenter removes": {true, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, ec2("default"))
			i := w.launch(claim("a", kinds("g5.xlarge")))
			n := w.up(i)
			if err := w.client.Delete(w.ctx, n.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			w.sim.end(i.ID)
			w.after(0, i.ID)
			n.ResourceVersion = ""
			if err := w.client.Create(w.ctx, n); err != nil {
				t.Fatal(err)
			}
			other := w.up(w.launch(claim("b", kinds("g5.xlarge"))))
			foreign := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-1"}}
			if err := w.client.Create(w.ctx, foreign); err != nil {
				t.Fatal(err)
			}
			if !c.claim {
				if err := w.client.Delete(w.ctx, w.claim("a")); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.sim.collect(w.ctx); err != nil {
				t.Fatal(err)
			}
			if got := w.node("a") != nil; got != c.want {
				t.Errorf("the node is there: %t, want %t", got, c.want)
			}
			if w.node(other.Name) == nil || w.node("foreign") == nil {
				t.Error("a node with an instance, or of another cloud, was removed")
			}
		})
	}
}

func TestAMachineDoesNotMakeItsNodeAnew(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	i := w.launch(claim("a", kinds("g5.xlarge")))
	if err := w.client.Delete(w.ctx, w.up(i)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.after(time.Minute, i.ID)
	}
	if w.node("a") != nil {
		t.Error("the node was deleted, and is there again")
	}
}

func TestADoomIsForSoManyLaunches(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	w.sim.Faults().Doom(Offering{}, 1, Fate{NeverRegisters: true})
	first, second := w.launch(claim("a", kinds("g5.xlarge"))), w.launch(claim("b", kinds("g5.xlarge")))
	if w.up(first) != nil || w.up(second) == nil {
		t.Error("the first launch should fail to register, and only that")
	}
}

func TestASpotInterruption(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	i := w.launch(claim("a", kinds("g5.xlarge")))
	w.up(i)
	if err := w.sim.Faults().Interrupt(i.ID); err != nil {
		t.Fatal(err)
	}
	w.after(0, i.ID)
	n := w.node("a")
	if !has(n.Spec.Taints, InterruptionTaint) || !ready(n) {
		t.Errorf("at the notice the node is tainted and still runs: %v", n.Spec.Taints)
	}
	c := &karpenter.NodeClaim{}
	if err := w.client.Get(w.ctx, clientKey("a"), c); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the claim should be deleted, so that its pods are drained: %v", err)
	}
	if wait := w.after(time.Minute, i.ID); wait != time.Minute {
		t.Errorf("it goes in %s, want the second minute", wait)
	}
	w.after(time.Minute, i.ID)
	if w.node("a") != nil || len(w.sim.Instances()) != 0 {
		t.Error("after two minutes the machine and its node should be gone")
	}
	if err := w.sim.Faults().Interrupt(i.ID); err == nil {
		t.Error("a machine that is gone cannot be interrupted")
	}
}

func has(taints []corev1.Taint, t corev1.Taint) bool {
	for i := range taints {
		if taints[i].MatchTaint(&t) {
			return true
		}
	}
	return false
}

func TestADeadMachineStopsItsHeartbeats(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	dead, alive := w.launch(claim("a", kinds("g5.xlarge"))), w.launch(claim("b", kinds("g5.xlarge")))
	w.up(dead)
	w.up(alive)
	w.beatAll()
	if err := w.sim.Faults().Kill(dead.ID); err != nil {
		t.Fatal(err)
	}
	before := w.clock.Now()
	w.clock.Step(renewEvery)
	w.beatAll()
	if at := w.renewed("a"); !at.Equal(before) {
		t.Errorf("the dead machine's lease was renewed at %s", at)
	}
	if at := w.renewed("b"); !at.Equal(w.clock.Now()) {
		t.Errorf("the living machine's lease was renewed last at %s", at)
	}
	if len(w.sim.Instances()) != 2 {
		t.Error("EC2 goes on listing a machine whose kubelet is dead")
	}
}

// beatAll is one round of heartbeats.
func (w *world) beatAll() {
	for part := range uint32(beats) {
		w.sim.renew(w.ctx, part)
	}
}

func (w *world) renewed(node string) time.Time {
	w.Helper()
	l := &coordinationv1.Lease{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, l); err != nil {
		w.Fatal(err)
	}
	return l.Spec.RenewTime.Time
}

func TestATerminatedMachineTakesItsNodeAlong(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	i := w.launch(claim("a", kinds("g5.xlarge")))
	n := w.up(i)
	n.Finalizers = []string{karpenter.TerminationFinalizer}
	if err := w.client.Update(w.ctx, n); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.Delete(w.ctx, w.claim("a")); err != nil {
		t.Fatal(err)
	}
	w.after(defaults.Terminate, i.ID)
	n = w.node("a")
	if n == nil || n.DeletionTimestamp == nil || ready(n) {
		t.Errorf("the node should be not ready and about to go, for Karpenter to finish: %v", n)
	}
}

func TestAnInstanceWithoutAClaimIsEnded(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	if _, err := w.sim.Create(w.ctx, claim("lost", kinds("g5.xlarge"))); err != nil {
		t.Fatal(err)
	}
	kept := w.launch(claim("kept", kinds("g5.xlarge")))
	if err := w.sim.collect(w.ctx); err != nil || len(w.sim.Instances()) != 2 {
		t.Fatalf("an instance that has just been launched was ended: %v", err)
	}
	w.clock.Step(unowned)
	if err := w.sim.collect(w.ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.sim.Instances(); len(got) != 1 || got[0].ID != kept.ID {
		t.Errorf("left are %v", got)
	}
}

func TestSpeedDividesDelays(t *testing.T) {
	got := Delays{Run: -1, Pod: time.Minute}.scaled(60)
	want := Delays{
		Register: 25 * time.Second / 60, Ready: 5 * time.Second / 60, GPU: 15 * time.Second / 60, Pod: time.Second,
		Terminate: 5 * time.Second / 60, Notice: 2 * time.Second, Stock: 3 * time.Second,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func BenchmarkHeartbeats(b *testing.B) {
	registerOnce()
	w := &world{ctx: b.Context()}
	for name, nodes := range map[string]int{"2000 nodes, a round of ten seconds": 2000} {
		b.Run(name, func(b *testing.B) {
			sim := &Simulated{machines: map[string]*machine{}, client: nothing{}, clock: realClock}
			for i := range nodes {
				id := idOf(types.UID(rune(i + 1)))
				sim.machines[id] = &machine{Instance: Instance{ID: id, Node: id, State: Running}, node: "uid"}
			}
			for b.Loop() {
				for part := range uint32(beats) {
					sim.renew(w.ctx, part)
				}
			}
		})
	}
}
