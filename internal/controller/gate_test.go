package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// node is a node as the API server has it, which the brain sees.
func (b *bench) node(name string, change ...func(*corev1.Node)) *corev1.Node {
	b.t.Helper()
	n := &corev1.Node{}
	must(b.t, b.api.Get(b.t.Context(), client.ObjectKey{Name: name}, n))
	if len(change) > 0 {
		for _, f := range change {
			f(n)
		}
		status := n.DeepCopy()
		must(b.t, b.api.Update(b.t.Context(), n))
		n.Status = status.Status
		must(b.t, b.api.Status().Update(b.t.Context(), n))
	}
	b.brain.observer.store.Set(n)
	return n
}

// registers asks the gate as Karpenter does, and lets Kubernetes taint a node
// that is cordoned then.
func (b *bench) registers(c karpenter.NodeClaim, name string) *corev1.Node {
	b.t.Helper()
	if result, err := b.brain.gate.Registered(b.t.Context(), &c); err != nil || result.Requeue {
		b.t.Fatalf("the node is held back: %+v, %v", result, err)
	}
	if n := b.node(name); n.Spec.Unschedulable {
		return b.node(name, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		})
	}
	return b.node(name)
}

// ticks has the gate open what is complete.
func (b *bench) ticks() {
	b.t.Helper()
	b.brain.gate.open(b.t.Context())
}

func withoutGPUs(n *corev1.Node) { delete(n.Status.Allocatable, "nvidia.com/gpu") }

func withGPUs(n *corev1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1") }

func TestANodeOpensWhenItIsWhatWasOrdered(t *testing.T) {
	startup := corev1.Taint{Key: "warm", Effect: corev1.TaintEffectNoSchedule} // of the pool
	for name, c := range map[string]struct {
		lacks, gets func(*corev1.Node)
		why         string
	}{
		"GPUs": {withoutGPUs, withGPUs, "its GPUs have not come up"},
		"a kubelet that is ready": {
			func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse },
			func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }, "its kubelet is not ready",
		},
		"nothing": {func(*corev1.Node) {}, func(*corev1.Node) {}, "it opens in its turn"},
		"a startup taint less": {
			func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{startup} },
			func(n *corev1.Node) {
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "warm" })
			}, "the taint warm:NoSchedule is still on it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
			b.pods("p", 1, oneGPU)
			b.mustDecide()
			claim := b.arrives(b.claims()[0], "node-1", c.lacks)
			n := b.registers(claim, "node-1")
			if !n.Spec.Unschedulable || n.Annotations[model.AnnotationHeld] != c.why {
				t.Fatalf("the node is open, or closed because %q; want %q", n.Annotations[model.AnnotationHeld], c.why)
			}
			b.ticks()
			b.mustDecide()
			if n := len(b.claims()); n != 1 {
				t.Errorf("%d nodeclaims: a node that is closed was bought again", n)
			}
			b.node("node-1", c.gets)
			b.ticks()
			n = b.node("node-1")
			if n.Spec.Unschedulable || n.Annotations[model.AnnotationHeld] != "" || len(n.Spec.Taints) > 0 {
				t.Errorf("the node is still closed: %+v %v", n.Spec, n.Annotations)
			}
			if got := b.nominated("p-0"); got != "node-1" {
				t.Errorf("the pod is nominated to %q", got)
			}
		})
	}
}

func TestNodesThatNeedNoGateHaveNone(t *testing.T) {
	t.Run("no pods wait for it", func(t *testing.T) {
		b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
		b.pods("p", 1, oneGPU)
		b.mustDecide()
		must(t, b.api.Delete(t.Context(), b.pod("p-0")))
		claim := b.arrives(b.claims()[0], "node-1", withoutGPUs)
		b.restart()
		if n := b.registers(claim, "node-1"); n.Spec.Unschedulable {
			t.Error("it was closed")
		}
	})
	t.Run("cordoned by a person", func(t *testing.T) {
		b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
		b.pods("p", 1, oneGPU)
		b.mustDecide()
		claim := b.arrives(b.claims()[0], "node-1", withoutGPUs, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		b.registers(claim, "node-1")
		b.node("node-1", withGPUs)
		b.ticks()
		if n := b.node("node-1"); !n.Spec.Unschedulable || n.Annotations[model.AnnotationHeld] != "" {
			t.Error("it is not as that person left it")
		}
	})
}

func TestGPUsThatNeverComeDoNotKeepANodeClosed(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("p", 1, oneGPU)
	b.mustDecide()
	b.registers(b.arrives(b.claims()[0], "node-1", withoutGPUs), "node-1")
	b.clock.Step(11 * time.Minute)
	await(t, func() bool {
		b.ticks()
		return !b.node("node-1").Spec.Unschedulable
	})
}

// Pods that are spread over zones count those that are bound. A node that has
// room for one more than it is to have waits until the nodes of the others are up.
func TestANodeWaitsForThoseOfPodsThatWouldGoAstray(t *testing.T) {
	small := map[string]string{"cpu": "500m", "memory": "1Gi"}
	inZone := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{model.LabelZone: "us-east-1b"} }
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: model.LabelZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "group"}},
		}}
	}
	for name, late := range map[string]bool{"they come": false, "one does not come": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, strings.Replace(pool("cpu", in("node.kubernetes.io/instance-type", "g4dn.xlarge")+onDemand), "taints: [{key: nvidia.com/gpu, effect: NoSchedule}]", "", 1))
			b.pods("other", 1, small, inZone)
			b.pods("group", 2, small, spread)
			b.mustDecide()
			claims := b.claims()
			if len(claims) != 2 {
				t.Fatalf("%d nodeclaims, want one in each zone", len(claims))
			}
			slices.SortFunc(claims, func(a, b karpenter.NodeClaim) int {
				return strings.Compare(asked(&b, model.LabelZone)[0], asked(&a, model.LabelZone)[0])
			})
			n := b.registers(b.arrives(claims[0], "zone-b"), "zone-b")
			if got := n.Annotations[model.AnnotationHeld]; !n.Spec.Unschedulable || !strings.Contains(got, claims[1].Name) {
				t.Fatalf("the node is open, or closed because %q", got)
			}
			b.ticks()
			if !b.node("zone-b").Spec.Unschedulable {
				t.Fatal("the node did not wait")
			}
			if late {
				b.clock.Step(companionship)
			} else {
				b.registers(b.arrives(claims[1], "zone-a"), "zone-a")
			}
			await(t, func() bool {
				b.node("zone-b")
				b.ticks()
				return !b.node("zone-b").Spec.Unschedulable
			})
		})
	}
}
