package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// noWrites is an API server that takes everything and keeps nothing.
type noWrites struct{ client.Client }

func (noWrites) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	o.SetUID(types.UID("uid-" + o.GetName()))
	return nil
}

func (noWrites) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}

// fleetOf fills a store with nodes and ten pods on each, of a hundred workloads.
func fleetOf(b *bench, nodes int) {
	s := b.brain.observer.store
	for n := range nodes {
		name := fmt.Sprintf("node-%05d", n)
		labels := map[string]string{
			model.LabelNodePool: "gpu", model.LabelInstanceType: "g4dn.12xlarge", model.LabelZone: "us-east-1a", model.LabelCapacityType: "on-demand",
			"nvidia.com/gpu.count": "4", model.LabelHostname: name,
		}
		id := "sim:///us-east-1a/" + name
		claim := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu-" + name, UID: types.UID("claim-" + name), Labels: labels}}
		claim.Status.NodeName, claim.Status.ProviderID = name, id
		for _, c := range []string{karpenter.ConditionTypeLaunched, karpenter.ConditionTypeRegistered, karpenter.ConditionTypeInitialized} {
			claim.StatusConditions().SetTrue(c)
		}
		s.Set(claim)
		s.Set(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels},
			Spec:       corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("47"), "memory": resource.MustParse("180Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("4")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
		for p := range 10 {
			s.Set(member(fmt.Sprintf("pod-%05d-%d", n, p), (n*10+p)%100, name, p < 4))
		}
	}
}

// member is a pod of one of a hundred workloads.
func member(name string, workload int, node string, gpu bool) *corev1.Pod {
	list := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(500+10*workload), resource.DecimalSI), "memory": resource.MustParse("2Gi")}
	if gpu {
		list["nvidia.com/gpu"] = resource.MustParse("1")
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", workload%10), Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{"app": fmt.Sprintf("app-%d", workload)},
		},
		Spec: corev1.PodSpec{
			NodeName: node, SchedulerName: "default-scheduler",
			Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
			Containers:  []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	}
	return p
}

// BenchmarkSteadyState is one decision in a cluster of 2,000 nodes and 20,000
// pods of which ten wait for something that no pool has.
func BenchmarkSteadyState(b *testing.B) {
	t := newBench(b, pool("gpu", in("karpenter.k8s.aws/instance-family", "g4dn", "g5")+onDemand))
	fleetOf(t, 2000)
	for i := range 10 {
		p := member(fmt.Sprintf("waits-%d", i), i, "", true)
		p.Spec.NodeSelector = map[string]string{model.LabelArch: "arm64"}
		t.brain.observer.store.Set(p)
	}
	t.mustDecide()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for b.Loop() {
		t.mustDecide()
	}
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
}

// BenchmarkThousandPods is the decision for 1,000 GPU pods in an empty cluster,
// until every NodeClaim is written to an API server that costs nothing.
func BenchmarkThousandPods(b *testing.B) {
	claims := 0.0
	for b.Loop() {
		b.StopTimer()
		t := newBench(b, pool("gpu", in("karpenter.k8s.aws/instance-category", "g", "p")+bothKinds))
		t.brain.client = noWrites{t.api}
		for i := range 1000 {
			t.brain.observer.store.Set(member(fmt.Sprintf("waits-%d", i), i%100, "", true))
		}
		b.StartTimer()
		t.mustDecide()
		b.StopTimer()
		claims = float64(t.brain.observer.store.claims.len())
		b.StartTimer()
	}
	b.ReportMetric(claims, "claims")
}

// BenchmarkThousandClaims is a thousand pods that each need a node of their own.
func BenchmarkThousandClaims(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		t := newBench(b, pool("gpu", g4dnXLarge+bothKinds))
		t.brain.client = noWrites{t.api}
		for i := range 1000 {
			t.brain.observer.store.Set(member(fmt.Sprintf("waits-%d", i), i%100, "", true))
		}
		b.StartTimer()
		t.mustDecide()
		if n := t.brain.observer.store.claims.len(); n != 1000 {
			b.Fatal(errors.New("claims missing"), n)
		}
	}
}
