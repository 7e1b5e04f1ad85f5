package controller

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

// pool is a NodePool of GPU nodes with its usual taint.
func pool(name, requirements string) string {
	return `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ` + name + `, uid: pool-` + name + `}
spec:
  template:
    metadata: {labels: {team: gpu}, annotations: {note: kept}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 24h
      terminationGracePeriod: 1h
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      startupTaints: [{key: warm, effect: NoSchedule}]
      requirements:
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-east-1b]}
` + requirements
}

func in(key string, values ...string) string {
	return "      - {key: " + key + ", operator: In, values: [" + strings.Join(values, ", ") + "]}\n"
}

var (
	onlySpot   = in("karpenter.sh/capacity-type", "spot")
	bothKinds  = in("karpenter.sh/capacity-type", "spot", "on-demand")
	onDemand   = in("karpenter.sh/capacity-type", "on-demand")
	anyG4      = in("karpenter.k8s.aws/instance-family", "g4dn")
	g4dnXLarge = in("node.kubernetes.io/instance-type", "g4dn.xlarge")
	oneGPU     = map[string]string{"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1"}
)

func TestAClaimIsWhatKarpentersControllersExpect(t *testing.T) {
	b := newBench(t, pool("gpu", anyG4+onlySpot))
	b.pods("train", 1, oneGPU)
	b.mustDecide()
	claims := b.claims()
	if len(claims) != 1 {
		t.Fatalf("%d claims, want 1", len(claims))
	}
	c := claims[0]
	var np karpenter.NodePool
	must(t, b.api.Get(t.Context(), client.ObjectKey{Name: "gpu"}, &np))
	yes := true
	want := metav1.ObjectMeta{
		Labels: map[string]string{"team": "gpu", "karpenter.sh/nodepool": "gpu", "karpenter.k8s.aws/ec2nodeclass": "default"},
		Annotations: map[string]string{
			"note": "kept", karpenter.NodePoolHashAnnotationKey: np.Hash(), karpenter.NodePoolHashVersionAnnotationKey: karpenter.NodePoolHashVersion,
			nodepool.AnnotationPods: "default/train-0",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "gpu", UID: "pool-gpu", BlockOwnerDeletion: &yes}},
	}
	got := metav1.ObjectMeta{Labels: c.Labels, Annotations: c.Annotations, OwnerReferences: c.OwnerReferences}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if got := asked(&c, model.LabelInstanceType); got[0] != "g4dn.xlarge" || len(got) > 60 {
		t.Errorf("types %q do not begin with the cheapest", got)
	}
	if got := asked(&c, model.LabelCapacityType); !slices.Equal(got, []string{"spot"}) {
		t.Errorf("capacity types %q", got)
	}
	if c.Spec.Resources.Requests.Name("nvidia.com/gpu", "").Value() != 1 || c.Spec.Resources.Requests.Cpu().MilliValue() != 1000 || c.Spec.Resources.Requests.Pods().Value() != 1 {
		t.Errorf("requests %v", c.Spec.Resources.Requests)
	}
	if diff := cmp.Diff(np.Spec.Template.Spec.Taints, c.Spec.Taints); diff != "" {
		t.Errorf("taints (-pool +claim):\n%s", diff)
	}
	if diff := cmp.Diff(np.Spec.Template.Spec.StartupTaints, c.Spec.StartupTaints); diff != "" {
		t.Errorf("startup taints (-pool +claim):\n%s", diff)
	}
	if c.Spec.NodeClassRef.Name != "default" || c.Spec.ExpireAfter.Duration == nil || *c.Spec.ExpireAfter.Duration != 24*time.Hour || c.Spec.TerminationGracePeriod.Duration != time.Hour {
		t.Errorf("spec %+v does not follow the template", c.Spec)
	}
}

// Complaints about Karpenter (the issue is in each name) as a cluster would show them.
func TestWhatIsBought(t *testing.T) {
	config := func(sharing string) string {
		return "\n---\nversion: v1\nsharing:\n  timeSlicing:\n" + sharing
	}
	for name, c := range map[string]struct {
		objects string
		pods    func(*bench)
		want    string
	}{
		"karp#2140: eight pods of one slot share two sliced nodes": {
			pool("gpu", in("node.kubernetes.io/instance-type", "g4dn.xlarge", "g4dn.2xlarge")+onDemand) + config("    resources: [{name: nvidia.com/gpu, replicas: 4}]\n"),
			func(b *bench) {
				b.pods("p", 8, map[string]string{"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "1"})
			},
			"2 x g4dn.xlarge on-demand",
		},
		"karp#729: four slots of one GPU are one node": {
			pool("gpu", in("node.kubernetes.io/instance-type", "g5.xlarge", "g5.2xlarge")+onDemand) + config("    resources: [{name: nvidia.com/gpu, replicas: 4}]\n"),
			func(b *bench) { b.pods("p", 1, map[string]string{"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "4"}) },
			"1 x g5.xlarge on-demand",
		},
		"karp#729: a renamed resource is known before the node exists": {
			pool("gpu", in("karpenter.k8s.aws/instance-family", "g5")+onDemand) + config("    renameByDefault: true\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n"),
			func(b *bench) {
				b.pods("p", 1, map[string]string{"cpu": "1", "nvidia.com/gpu.shared": "1"}, func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				})
			},
			"1 x g5.xlarge on-demand",
		},
		"aws#5379: three pods of one GPU are three small nodes": {
			pool("gpu", in("karpenter.k8s.aws/instance-family", "g5")+onDemand),
			func(b *bench) { b.pods("p", 3, map[string]string{"cpu": "2", "memory": "13Gi", "nvidia.com/gpu": "1"}) },
			"3 x g5.xlarge on-demand",
		},
		"aws#8447: a pod without GPUs does not keep a GPU node alive": {
			pool("mixed", in("karpenter.k8s.aws/instance-category", "g", "p", "c", "m")+onDemand),
			func(b *bench) {
				b.pods("p", 1, map[string]string{"cpu": "1", "memory": "1Gi"}, func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				})
			},
			"1 x c6g.large on-demand",
		},
		"karp#2657: a limit of nodes is kept when pods come together": {
			strings.Replace(pool("gpu", g4dnXLarge+onDemand), "spec:\n", "spec:\n  limits: {nodes: \"3\"}\n", 1),
			func(b *bench) { b.pods("p", 5, oneGPU) },
			"3 x g4dn.xlarge on-demand",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.objects)
			c.pods(b)
			b.mustDecide()
			if got := b.bought(); got != c.want {
				t.Errorf("bought %s, want %s", got, c.want)
			}
			b.mustDecide()
			if got := b.bought(); got != c.want {
				t.Errorf("a second look at the same cluster bought more: %s", got)
			}
		})
	}
}

// A controller that is killed between any two writes and started again launches
// nothing twice.
func TestKilledBetweenAnyTwoWrites(t *testing.T) {
	const pods = 6
	for after := range pods {
		b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
		b.pods("p", pods, oneGPU)
		b.brain.writers = 1
		n := 0
		dead := errors.New("killed")
		b.fail = func(o client.Object) error {
			if _, ok := o.(*karpenter.NodeClaim); !ok {
				return nil
			}
			if n++; n > after {
				return dead
			}
			return nil
		}
		if err := b.decide(); err == nil {
			t.Fatal("the brain did not notice that it was killed")
		}
		b.fail = nil
		b.restart()
		b.mustDecide()
		b.restart()
		b.mustDecide()
		if got, want := b.bought(), "6 x g4dn.xlarge spot"; got != want {
			t.Errorf("killed after %d writes: bought %s, want %s", after, got, want)
		}
	}
}

// The API server wrote the object and its answer was lost.
func TestAnAnswerThatWasLostIsNoSecondNode(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("p", 3, oneGPU)
	b.lost = func(o client.Object) error {
		if _, ok := o.(*karpenter.NodeClaim); ok {
			return errors.New("connection reset")
		}
		return nil
	}
	if err := b.decide(); err == nil {
		t.Fatal("a lost answer is not noticed")
	}
	b.lost = nil
	b.mustDecide()
	if got, want := b.bought(), "3 x g4dn.xlarge spot"; got != want {
		t.Errorf("bought %s, want %s", got, want)
	}
}

// What is out of stock is planned around in the next decision, across capacity
// types and pools.
func TestOutOfStockIsPlannedAround(t *testing.T) {
	b := newBench(t, pool("spot", g4dnXLarge+onlySpot)+"\n---\n"+strings.Replace(pool("fallback", in("node.kubernetes.io/instance-type", "g4dn.xlarge", "g5.xlarge")+bothKinds), "spec:\n", "spec:\n  weight: 1\n", 1))
	provider := newStock(b.cloud, b.clock, 3*time.Minute, func(string) {})
	b.brain.observer.shop.out = func() []offer { o, _ := provider.soldOut(); return o }
	b.pods("p", 1, oneGPU)
	var bought []string
	for range 4 {
		b.mustDecide()
		bought = append(bought, b.bought())
		c := b.claims()[0]
		provider.remember(&c)
		must(t, b.api.Delete(t.Context(), &c))
		b.brain.observer.store.Delete(&c)
	}
	want := []string{"1 x g4dn.xlarge spot", "1 x g5.xlarge spot", "1 x g4dn.xlarge on-demand", "1 x g5.xlarge on-demand"}
	if diff := cmp.Diff(want, bought); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.clock.Step(4 * time.Minute)
	b.mustDecide()
	if got := b.bought(); got != want[0] {
		t.Errorf("when stock may be back: bought %s, want %s", got, want[0])
	}
}

func TestPodsThatGoNowhereAreToldOnce(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onDemand))
	b.pods("big", 1, map[string]string{"cpu": "1", "nvidia.com/gpu": "2"})
	b.pods("fits", 1, oneGPU)
	b.mustDecide()
	if got, want := b.bought(), "1 x g4dn.xlarge on-demand"; got != want {
		t.Errorf("bought %s, want %s: a pod that cannot be placed must not keep others", got, want)
	}
	first := b.told("big-0")
	if !strings.HasPrefix(first, "gpu: ") || !strings.Contains(first, "nvidia.com/gpu") {
		t.Errorf("told %q, which does not say why for the pool", first)
	}
	if got := b.told("fits-0"); got != "" {
		t.Errorf("a pod with a place is told %q", got)
	}
	writes := 0
	b.fail = func(o client.Object) error {
		if _, ok := o.(*corev1.Event); ok {
			writes++
		}
		return nil
	}
	for range 3 {
		b.mustDecide()
		b.told("big-0")
	}
	if writes != 0 {
		t.Errorf("the same words were written %d times more", writes)
	}
	b.apply(pool("other", in("node.kubernetes.io/instance-type", "g5.xlarge")+onDemand))
	b.mustDecide()
	if got := b.told("big-0"); !strings.Contains(got, "other") {
		t.Errorf("told %q after a pool was added", got)
	}
}

// Nodes in flight are not bought again, whatever the cloud makes of them.
func TestANodeInFlightIsCountedUntilItIsComplete(t *testing.T) {
	b := newBench(t, pool("gpu", anyG4+onlySpot))
	b.pods("p", 2, oneGPU)
	b.mustDecide()
	bought := b.bought()
	c := b.claims()[0]
	c.Labels[model.LabelInstanceType], c.Labels[model.LabelZone], c.Labels[model.LabelCapacityType] = "g4dn.xlarge", "us-east-1a", "spot"
	must(t, b.api.Update(t.Context(), &c))
	c.Status.ProviderID = "sim:///us-east-1a/i-1"
	c.StatusConditions().SetTrue(karpenter.ConditionTypeLaunched)
	must(t, b.api.Status().Update(t.Context(), &c))
	b.brain.observer.store.Set(&c)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: c.Labels},
		Spec:       corev1.NodeSpec{ProviderID: c.Status.ProviderID, Taints: []corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}},
	}
	b.create(node)
	b.mustDecide()
	if got := b.bought(); got != bought {
		t.Errorf("a node that registers made the brain buy %s, after %s", got, bought)
	}
	v, err := b.brain.observer.look(t.Context())
	must(t, err)
	if len(v.snapshot.Nodes) != 2 {
		t.Fatalf("%d nodes are seen, want the one that registers and the one in flight", len(v.snapshot.Nodes))
	}
	for _, n := range v.snapshot.Nodes {
		if n.Allocatable[model.NvidiaGPU] < 1 || !n.InFlight || n.Unready != "" {
			t.Errorf("node %s is seen as %+v", n.Name, n)
		}
	}
	// The GPU is there: the scheduler gets its time, and then the pod is planned anew.
	c.StatusConditions().SetTrue(karpenter.ConditionTypeRegistered)
	c.StatusConditions().SetTrue(karpenter.ConditionTypeInitialized)
	c.Status.NodeName = "node-1"
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(b.clock.Now())
	}
	c.ResourceVersion = "9999"
	b.brain.observer.store.Set(&c)
	b.mustDecide()
	if got := b.bought(); got != bought {
		t.Errorf("bought %s while the scheduler was at work", got)
	}
}

// The scheduler gives a node to whom it likes: the pod that it was bought for,
// and that finds it full, gets another when it is sure that there is no place
// that this has freed, and no third.
func TestAPodWhoseNodeOthersTookIsOrderedForAgain(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("p", 1, oneGPU)
	b.mustDecide()
	b.arrives(b.claims()[0], "node-1")
	b.pods("other", 1, oneGPU, func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.Conditions = "node-1", corev1.PodRunning, nil
	})
	b.mustDecide()
	if n := len(b.claims()); n != 1 {
		t.Errorf("%d nodeclaims: the pod got another node before all bindings were heard of", n)
	}
	b.brain.gate.places.settle = 0
	for range 2 {
		b.mustDecide()
		if n := len(b.claims()); n != 2 {
			t.Errorf("%d nodeclaims, want the one that others took and one more", n)
		}
	}
}

// Pods of a node that is drained need a place before they are gone; those that
// end with it do not.
func TestPodsOfADrainedNodeMove(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onDemand))
	labels := map[string]string{model.LabelNodePool: "gpu", model.LabelInstanceType: "g4dn.xlarge", model.LabelZone: "us-east-1a", model.LabelCapacityType: "on-demand"}
	b.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "sim:///us-east-1a/i-old", Taints: []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}},
	})
	on := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.Conditions = "old", corev1.PodRunning, nil
	}
	b.pods("moves", 1, oneGPU, on)
	var ends corev1.Pod
	b.pods("ends", 1, oneGPU, on, func(p *corev1.Pod) { p.Finalizers = []string{"test/keep"} })
	must(t, b.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "ends-0"}, &ends))
	must(t, b.api.Delete(t.Context(), &ends))
	must(t, b.api.Get(t.Context(), client.ObjectKeyFromObject(&ends), &ends))
	b.brain.observer.store.Set(&ends)
	b.mustDecide()
	if got, want := b.bought(), "1 x g4dn.xlarge on-demand"; got != want {
		t.Errorf("bought %s, want %s", got, want)
	}
	b.mustDecide()
	if n := len(b.claims()); n != 1 {
		t.Errorf("the move was ordered %d times", n)
	}
}

func TestOneDecisionByItself(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onDemand))
	b.pods("p", 2, oneGPU)
	b.pods("big", 1, map[string]string{"cpu": "1", "nvidia.com/gpu": "2"})
	for range 2 {
		must(t, Once{Client: b.api, Cloud: b.cloud, Clock: b.clock}.Decide(options.ToContext(t.Context(), &options.Options{})))
		if got, want := b.bought(), "2 x g4dn.xlarge on-demand"; got != want {
			t.Errorf("bought %s, want %s", got, want)
		}
	}
	if got := b.told("big-0"); !strings.HasPrefix(got, "gpu: ") {
		t.Errorf("told %q", got)
	}
}

// Some clouds name a node after its claim, and it may be there before the claim
// says so: seen as two, a plan for it would name either.
func TestANodeOfWhichItsClaimDoesNotKnowIsNoSecondOne(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("p", 1, oneGPU)
	b.mustDecide()
	c := b.claims()[0]
	b.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels},
		Spec:       corev1.NodeSpec{ProviderID: "sim:///us-east-1a/i-1", Taints: []corev1.Taint{karpenter.UnregisteredNoExecuteTaint}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	b.pods("small", 1, map[string]string{"cpu": "100m"})
	b.mustDecide()
	if n := len(b.claims()); n != 1 {
		t.Errorf("%d nodeclaims, want the one that has room for both", n)
	}
	v, err := b.brain.observer.look(t.Context())
	must(t, err)
	if len(v.snapshot.Nodes) != 1 {
		t.Errorf("%d nodes are seen, want one", len(v.snapshot.Nodes))
	}
}
