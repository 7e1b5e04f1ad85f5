package controller

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/hands"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

func TestABatchEndsWhenNothingHappensOrTimeIsUp(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration // between events; 0 = one only
		want  time.Duration
	}{
		"one event":             {0, 100 * time.Millisecond},
		"events without an end": {50 * time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBatch(100*time.Millisecond, time.Second)
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				defer wg.Wait()
				defer stop()
				b.Trigger()
				if c.every > 0 {
					wg.Go(func() {
						for ctx.Err() == nil {
							time.Sleep(c.every)
							b.Trigger()
						}
					})
				}
				start := time.Now()
				if !b.Wait(ctx, time.Minute) {
					t.Fatal("the batch was called off")
				}
				if took := time.Since(start); took != c.want {
					t.Errorf("the batch took %s, want %s", took, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBatch(100*time.Millisecond, time.Second)
		start := time.Now()
		if !b.Wait(t.Context(), 10*time.Second) || time.Since(start) != 10*time.Second {
			t.Errorf("without an event the wait took %s", time.Since(start))
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if b.Wait(ctx, time.Hour) {
			t.Error("a batch ended after the end")
		}
	})
}

// soldOutCloud has nothing.
type soldOutCloud struct {
	cloudprovider.CloudProvider
	err error
}

func (c soldOutCloud) Create(context.Context, *karpenter.NodeClaim) (*karpenter.NodeClaim, error) {
	return nil, c.err
}

func TestStockIsRememberedForAWhile(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	claim := &karpenter.NodeClaim{}
	for key, values := range map[string][]string{model.LabelInstanceType: {"a", "b"}, model.LabelZone: {"z1"}, model.LabelCapacityType: {"spot"}} {
		claim.Spec.Requirements = append(claim.Spec.Requirements, karpenter.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
	}
	for name, c := range map[string]struct {
		err    error
		reason string
		want   []offer
	}{
		"no capacity":               {cloudprovider.NewInsufficientCapacityError(errors.New("none")), "InsufficientCapacity", []offer{{"a", "z1", "spot"}, {"b", "z1", "spot"}}},
		"a class that is not ready": {cloudprovider.NewNodeClassNotReadyError(errors.New("no subnets")), "NodeClassNotReady", nil},
		"a quota":                   {cloudprovider.NewCreateError(errors.New("quota"), "VcpuLimitExceeded", "quota"), "VcpuLimitExceeded", nil},
		"anything else":             {errors.New("broken"), "LaunchFailed", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var reasons []string
			s := newStock(soldOutCloud{err: c.err}, clk, time.Minute, func(r string) { reasons = append(reasons, r) })
			if _, err := s.Create(t.Context(), claim); !errors.Is(err, c.err) {
				t.Errorf("error %v is not the cloud's", err)
			}
			got, _ := s.soldOut()
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(offer{})); diff != "" {
				t.Errorf("sold out (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{c.reason}, reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			clk.Step(2 * time.Minute)
			if got, _ := s.soldOut(); len(got) > 0 {
				t.Errorf("still sold out after its time: %v", got)
			}
		})
	}
}

// sold is an instance type as a provider describes it.
func sold(name string, zones ...string) *cloudprovider.InstanceType {
	t := &cloudprovider.InstanceType{
		Name:         name,
		Requirements: scheduling.NewRequirements(scheduling.NewRequirement(model.LabelInstanceType, corev1.NodeSelectorOpIn, name)),
		Capacity:     corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("10Gi"), "pods": resource.MustParse("20"), "nvidia.com/gpu": resource.MustParse("40")},
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")}},
	}
	for i, z := range zones {
		t.Offerings = append(t.Offerings, &cloudprovider.Offering{
			Requirements: scheduling.NewRequirements(
				scheduling.NewRequirement(model.LabelZone, corev1.NodeSelectorOpIn, z),
				scheduling.NewRequirement(model.LabelCapacityType, corev1.NodeSelectorOpIn, model.OnDemand),
			),
			Price: 1 + float64(i), Available: true,
		})
	}
	return t
}

func TestAShopFollowsTheProvider(t *testing.T) {
	b := newBench(t, pool("gpu", anyG4))
	pools := []*karpenter.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "wide"}}, {ObjectMeta: metav1.ObjectMeta{Name: "narrow"}}, {ObjectMeta: metav1.ObjectMeta{Name: "broken"}}}
	stock := map[string][]*cloudprovider.InstanceType{
		"wide": {sold("g4dn.xlarge", "z1", "z2"), sold("unheard.of", "z1")}, "narrow": {sold("g4dn.xlarge", "z2")},
	}
	var out []offer
	var avoid []hands.Avoided
	s := newShop(b.brain.observer.shop.book, func(_ context.Context, p *karpenter.NodePool) ([]*cloudprovider.InstanceType, error) {
		if p.Name == "broken" {
			return nil, errors.New("no such node class")
		}
		return stock[p.Name], nil
	}, func() []offer { return out })
	s.avoid = func() []hands.Avoided { return avoid }
	look := func() wares {
		t.Helper()
		w, err := s.look(t.Context(), pools)
		must(t, err)
		return w
	}
	w := look()
	g4dn, _ := w.book.Type("g4dn.xlarge")
	if len(g4dn.GPUs) != 1 || g4dn.Capacity[model.NvidiaGPU] == 40 {
		t.Errorf("a type's GPUs are those of the hardware, not what %v says", g4dn.Capacity)
	}
	if g4dn.Allocatable[model.CPU] != 3900 || g4dn.Allocatable[model.Memory] != 9<<30 || g4dn.Offerings[0].Price != 1 {
		t.Errorf("sizes and prices are the provider's, got %v %v", g4dn.Allocatable, g4dn.Offerings)
	}
	if other, ok := w.book.Type("unheard.of"); !ok || other.Allocatable[model.CPU] != 3900 {
		t.Error("a type that the book does not know is left out")
	}
	if w.closed["broken"] == "" {
		t.Error("a pool that cannot be asked about is not closed")
	}
	want := []model.Requirement{{Key: model.LabelZone, Operator: model.In, Values: []string{"z2"}}, {Key: model.LabelInstanceType, Operator: model.In, Values: []string{"g4dn.xlarge"}}}
	if diff := cmp.Diff(want, w.limits["narrow"]); diff != "" {
		t.Errorf("what the node class leaves to a pool (-want +got):\n%s", diff)
	}
	if look().version != w.version {
		t.Error("nothing changed, and everything was made anew")
	}
	out = []offer{{"g4dn.xlarge", "z1", model.OnDemand}}
	avoid = []hands.Avoided{{Pool: "wide", Type: "unheard.of"}}
	w = look()
	g4dn, _ = w.book.Type("g4dn.xlarge")
	if len(g4dn.Offerings) != 1 || g4dn.Offerings[0].Zone != "z2" {
		t.Errorf("offerings %v hold what is sold out", g4dn.Offerings)
	}
	want = []model.Requirement{{Key: model.LabelInstanceType, Operator: model.NotIn, Values: []string{"unheard.of"}}}
	if diff := cmp.Diff(want, w.limits["wide"]); diff != "" {
		t.Errorf("types whose GPUs failed (-want +got):\n%s", diff)
	}
}

func TestAClaimThatCameAndWentStaysGone(t *testing.T) {
	b := newBench(t, pool("gpu", anyG4))
	s := b.brain.observer.store
	claim := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", UID: "u1"}}
	s.Set(claim)
	s.Delete(claim)
	s.Assume(claim)
	if s.claims.len() != 0 {
		t.Error("the answer to a create brought back a claim that was deleted in the meantime")
	}
	s.Assume(&karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", UID: "u2"}})
	if s.claims.len() != 1 {
		t.Error("another claim of the same name is not taken in")
	}
}

// A node that lost a taint only in the hands' opinion is there for its pods.
func TestAnUndeclaredTaintIsHeld(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onDemand))
	taint := corev1.Taint{Key: "security/scan", Effect: corev1.TaintEffectNoSchedule}
	b.brain.observer.held = func(*corev1.Node, []corev1.Taint) []corev1.Taint { return []corev1.Taint{taint} }
	b.pods("p", 1, oneGPU)
	b.mustDecide()
	c := b.claims()[0]
	c.Labels[model.LabelInstanceType], c.Labels[model.LabelZone], c.Labels[model.LabelCapacityType] = "g4dn.xlarge", "us-east-1a", "on-demand"
	c.Status.ProviderID, c.Status.NodeName = "sim:///us-east-1a/i-1", "node-1"
	c.StatusConditions().SetTrue(karpenter.ConditionTypeInitialized)
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(b.clock.Now().Add(-5 * time.Minute))
	}
	c.Annotations[nodepool.AnnotationPods] = ""
	b.brain.observer.store.Set(&c)
	b.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: c.Labels}, Spec: corev1.NodeSpec{ProviderID: c.Status.ProviderID, Taints: []corev1.Taint{taint}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("14Gi"), "pods": resource.MustParse("29"), "nvidia.com/gpu": resource.MustParse("1")}},
	})
	b.mustDecide()
	if n := len(b.claims()); n != 1 {
		t.Errorf("%d claims: the taint was bought around", n)
	}
}

func TestTheBoardShowsTheCluster(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onDemand)+"\n---\nversion: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n")
	b.pods("p", 3, map[string]string{"cpu": "500m", "nvidia.com/gpu": "1"})
	b.pods("big", 1, map[string]string{"cpu": "1", "nvidia.com/gpu": "8"})
	b.mustDecide()
	b.mustDecide()
	registry := prometheus.NewRegistry()
	registry.MustRegister(fleet)
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"kerf_gpu_allocatable gpu nvidia.com/gpu": 4, "kerf_gpu_devices t4 gpu": 1, "kerf_gpu_requested nvidia.com/gpu pending": 11,
		"kerf_nodepool_price_dollars_per_hour gpu": 0.526, "kerf_pending_pods node-ordered": 3, "kerf_pending_pods too-big": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Pods that hang on volumes and namespaces are read again when those change, and
// only one decision follows from a pod that begins to wait.
func TestTheStoreKeepsUp(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onDemand))
	s := b.brain.observer.store
	p := member("waits", 1, "", true)
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	if !s.Set(p) {
		t.Error("a pod that begins to wait asks for no decision")
	}
	later := p.DeepCopy()
	later.ResourceVersion = "2"
	if s.Set(later) {
		t.Error("a pod that goes on waiting asks for another decision")
	}
	refused := func() int {
		t.Helper()
		v, err := b.brain.observer.look(t.Context())
		must(t, err)
		return len(v.snapshot.Pods[0].Spec.Refused)
	}
	if refused() != 1 {
		t.Error("a pod whose claim does not exist is planned")
	}
	class := "gp3"
	s.Set(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}})
	if refused() != 0 {
		t.Error("the claim exists now, and the pod is still refused")
	}
	twin := member("twin", 1, "node-1", true)
	s.Set(twin)
	s.Set(member("other-twin", 1, "node-1", true))
	one, _ := s.pods.get(keyOf(twin))
	two, _ := s.pods.get("team-1/other-twin")
	if one.read.Spec != two.read.Spec {
		t.Error("pods of equal specs do not share one")
	}
	s.Delete(p)
	if s.pods.len() != 2 {
		t.Errorf("%d pods are left, want 2", s.pods.len())
	}
}

// What twenty thousand pods have in common is held once; what is a pod's own
// stays its own.
func TestPodsOfOneWorkloadShareWhatTheyHaveInCommon(t *testing.T) {
	light := light()
	var transform toolscache.TransformFunc
	for o, by := range light {
		if _, ok := o.(*corev1.Pod); ok {
			transform = by.Transform
		}
	}
	pod := func(name, node, cpu string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "a"}}}
		p.Spec.NodeName, p.Spec.Tolerations = node, []corev1.Toleration{{Key: "nvidia.com/gpu"}}
		p.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "POD", Value: name}}}}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		got, err := transform(p)
		must(t, err)
		return got.(*corev1.Pod)
	}
	a, b, c := pod("a", "node-1", "1"), pod("b", "", "1"), pod("c", "node-1", "2")
	if a.Name != "a" || b.Name != "b" || a.Spec.NodeName != "node-1" || b.Spec.NodeName != "" {
		t.Errorf("pods are mixed up: %s on %q, %s on %q", a.Name, a.Spec.NodeName, b.Name, b.Spec.NodeName)
	}
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] || &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] {
		t.Error("equal pods share nothing")
	}
	if cpu := c.Spec.Containers[0].Resources.Requests["cpu"]; cpu.String() != "2" {
		t.Errorf("a pod that asks for 2 processors has %s", cpu.String())
	}
}
