package controller

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/nodepool"
)

// nominated is the node that a pod is nominated to, as the API server has it.
func (b *bench) nominated(pod string) string {
	b.t.Helper()
	return b.pod(pod).Status.NominatedNodeName
}

func (b *bench) pod(name string) *corev1.Pod {
	b.t.Helper()
	p := &corev1.Pod{}
	must(b.t, b.api.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, p))
	return p
}

// nominates has the scheduler nominate a pod, or take a nomination back.
func (b *bench) nominates(pod, node string) {
	b.t.Helper()
	p := b.pod(pod)
	p.Status.NominatedNodeName = node
	must(b.t, b.api.Status().Update(b.t.Context(), p))
	b.sees(pod)
}

// sees shows the brain a pod as it is.
func (b *bench) sees(pod string) {
	b.t.Helper()
	p := b.pod(pod)
	b.brain.observer.store.Set(p)
	_ = b.brain.gate.places.saw(p)
}

// settles waits until the nominator has nothing more to do.
func (b *bench) settles() {
	b.t.Helper()
	for b.brain.gate.places.queue.Len() > 0 {
		b.brain.gate.places.next(b.t.Context())
	}
}

// A node opens to its own pods, whether its controller has decided on them or
// finds them on the claim.
func TestPodsAreNominatedToTheNodeThatOpens(t *testing.T) {
	for name, restarted := range map[string]bool{"by the controller that bought it": false, "by another": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
			b.pods("p", 2, oneGPU)
			b.mustDecide()
			b.settles()
			c := b.arrives(b.claims()[0], "node-1")
			if restarted {
				b.restart()
			}
			b.registers(c, "node-1")
			b.ticks()
			of := c.Annotations[nodepool.AnnotationPods]
			for _, pod := range []string{"p-0", "p-1"} {
				want := ""
				if of == "default/"+pod {
					want = "node-1"
				}
				if got := b.nominated(pod); got != want {
					t.Errorf("pod %s is nominated to %q, want %q", pod, got, want)
				}
			}
			if b.node("node-1").Spec.Unschedulable {
				t.Error("the node is closed")
			}
		})
	}
}

// The scheduler takes a nomination back when it finds the node not fit yet.
func TestANominationThatIsTakenBackIsRenewed(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("p", 1, oneGPU)
	b.mustDecide()
	b.arrives(b.claims()[0], "node-1")
	b.mustDecide()
	b.settles()
	for range 3 {
		if got := b.nominated("p-0"); got != "node-1" {
			t.Fatalf("nominated to %q", got)
		}
		b.nominates("p-0", "")
		await(t, func() bool { return b.brain.gate.places.queue.Len() > 0 })
		b.settles()
	}
	b.nominates("p-0", "node-2")
	b.settles()
	if got := b.nominated("p-0"); got != "node-2" {
		t.Errorf("what the scheduler nominated is written over: %q", got)
	}
}

func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to hold")
		}
	}
}

// A pod that is nominated waits to the planner, where Karpenter (v1.15) overlooks
// it: it goes where there is room, whoever nominated it, and that is not given to
// another as well.
func TestANominatedPodHasItsPlace(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("seed", 1, oneGPU)
	b.mustDecide()
	c := b.claims()[0]
	c.Annotations[nodepool.AnnotationPods] = ""
	b.arrives(c, "node-1")
	must(t, b.api.Delete(t.Context(), b.pod("seed-0")))
	b.restart()
	b.pods("p", 1, oneGPU, func(p *corev1.Pod) { p.Status.NominatedNodeName = "node-1" })
	b.mustDecide()
	if n := len(b.claims()); n != 1 {
		t.Fatalf("%d nodeclaims for a pod with a place", n)
	}
	b.pods("q", 1, oneGPU)
	b.mustDecide()
	if n := len(b.claims()); n != 2 {
		t.Errorf("%d nodeclaims, want one more for the pod whose place is another's", n)
	}
}

// A pod that preempts others waits for them to end, and no node is bought for it.
// If they are gone and it is not bound, because somebody else was, it waits like
// any other.
func TestAPodThatPreemptsIsLeftToTheScheduler(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("seed", 1, oneGPU)
	b.mustDecide()
	b.arrives(b.claims()[0], "node-1")
	must(t, b.api.Delete(t.Context(), b.pod("seed-0")))
	b.restart()
	runs := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.Conditions = "node-1", corev1.PodRunning, nil
	}
	b.pods("victim", 1, oneGPU, runs, func(p *corev1.Pod) { p.Finalizers = []string{"test/keep"} })
	must(t, b.api.Delete(t.Context(), b.pod("victim-0")))
	b.sees("victim-0")
	high := int32(1000)
	b.pods("urgent", 1, oneGPU, func(p *corev1.Pod) { p.Spec.Priority, p.Status.NominatedNodeName = &high, "node-1" })
	b.mustDecide()
	if n := len(b.claims()); n != 1 {
		t.Fatalf("%d nodeclaims: a node was bought for a pod that preempts", n)
	}
	b.brain.observer.store.Delete(b.pod("victim-0"))
	b.pods("quicker", 1, oneGPU, runs)
	b.mustDecide()
	if n := len(b.claims()); n != 2 {
		t.Errorf("%d nodeclaims, want one for the pod whose place was taken", n)
	}
}

func TestWithoutThePermissionNodesRegisterAllTheSame(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("p", 1, oneGPU)
	b.mustDecide()
	c := b.arrives(b.claims()[0], "node-1")
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p-0", nil)
	b.brain.gate.places.client = interceptor.NewClient(b.api, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return no
		},
	})
	b.registers(c, "node-1")
	b.ticks()
	if b.node("node-1").Spec.Unschedulable {
		t.Error("the node is closed")
	}
	gone := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	if result, err := b.brain.gate.Registered(t.Context(), gone); err != nil || result.Requeue {
		t.Errorf("a claim without a node is held back: %+v, %v", result, err)
	}
}
