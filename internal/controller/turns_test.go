package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// A fresh node has so many GPUs, and its pods ask for so many.
type fresh struct {
	name, zone string
	gpus       int
	pods       []int
	family     int // whose pods are spread over zones
}

// arrivals makes nodes that wait to be opened.
func arrivals(b *bench, nodes []fresh) (out []arrival) {
	where, all := places{}, company{families: map[string]int{}}
	for _, f := range nodes {
		quantity := func(n int) corev1.ResourceList {
			return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(fmt.Sprint(n))}
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.name, Labels: map[string]string{model.LabelZone: f.zone}}}
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		n.Status.Allocatable = quantity(f.gpus)
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		c := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
		s := b.brain.observer.store
		s.Set(n)
		for i, gpus := range f.pods {
			b.pods(fmt.Sprintf("%s-%d", f.name, i), 1, nil, func(p *corev1.Pod) {
				p.Labels["app"] = fmt.Sprint(gpus, f.family) // those that ask for the same are of one kind
				if f.family > 0 {
					p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: model.LabelZone, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
					}}
				}
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantity(gpus), Limits: quantity(gpus)}
			})
			where.expect("", f.name, b.pod(fmt.Sprintf("%s-%d-0", f.name, i)))
		}
		all.families[f.name] = f.family
		out = append(out, arrival{node: n, read: s.scope.Node(n), claim: c})
	}
	b.brain.gate.expect(where, all)
	return out
}

func TestTheOrderInWhichNodesOpen(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []fresh
		want  [][]string
	}{
		"small ones first": {
			[]fresh{{name: "large", gpus: 8, pods: []int{8}}, {name: "small", gpus: 1, pods: []int{1}}, {name: "middle", gpus: 4, pods: []int{2, 2}}},
			[][]string{{"small"}, {"middle"}, {"large"}},
		},
		"equal pods are no rivals": {
			[]fresh{{name: "a", gpus: 4, pods: []int{1, 1}}, {name: "b", gpus: 4, pods: []int{1, 2}}, {name: "c", gpus: 4, pods: []int{2, 2}}},
			[][]string{{"b"}, {"a"}, {"c"}},
		},
		"nodes of tied pods last, zone by zone": {
			[]fresh{
				{name: "a1", zone: "a", gpus: 1, pods: []int{1}, family: 1},
				{name: "a2", zone: "a", gpus: 1, pods: []int{1}, family: 1},
				{name: "b1", zone: "b", gpus: 1, pods: []int{1}, family: 1},
				{name: "large", gpus: 4, pods: []int{4}},
			},
			[][]string{{"large"}, {"a1"}, {"b1"}, {"a2"}},
		},
		"what cannot be bound in any order at once": {
			[]fresh{
				{name: "a", zone: "a", gpus: 2, pods: []int{1, 1}, family: 1},
				{name: "b", zone: "b", gpus: 2, pods: []int{1}, family: 1},
				{name: "c", zone: "c", gpus: 2, pods: []int{1, 1}, family: 1},
				{name: "other", zone: "a", gpus: 2, pods: []int{1}, family: 2},
			},
			[][]string{{"b"}, {"a", "c"}, {"other"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
			var got [][]string
			for _, turn := range b.brain.gate.inTurn(arrivals(b, c.nodes)) {
				var names []string
				for _, a := range turn {
					names = append(names, a.node.Name)
				}
				slices.Sort(names)
				got = append(got, names)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A hasty scheduler takes some nominations back as soon as they are given.
type hasty struct {
	client.Client
	b     *bench
	takes int
}

func (h *hasty) Status() client.SubResourceWriter { return hastyStatus{h.Client.Status(), h} }

type hastyStatus struct {
	client.SubResourceWriter
	h *hasty
}

func (s hastyStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	err := s.SubResourceWriter.Patch(ctx, o, p, opts...)
	pod, ok := o.(*corev1.Pod)
	if err != nil || !ok {
		return err
	}
	if s.h.takes--; s.h.takes >= 0 {
		s.h.b.nominates(pod.Name, "")
		return nil
	}
	s.h.b.sees(pod.Name)
	return nil
}

// A node stays closed while the scheduler still takes the nominations of its
// pods back: it would give their room to others.
func TestANodeOpensWhenItsPodsKeepTheirNominations(t *testing.T) {
	b := newBench(t, pool("gpu", g4dnXLarge+onlySpot))
	b.pods("p", 1, oneGPU)
	b.mustDecide()
	b.registers(b.arrives(b.claims()[0], "node-1"), "node-1")
	h := &hasty{Client: b.api, b: b, takes: 2}
	b.brain.gate.client, b.brain.gate.places.client = h, h
	begin := time.Now()
	b.ticks()
	if got := b.nominated("p-0"); got != "node-1" || h.takes != -1 {
		t.Errorf("the pod is nominated to %q after %d nominations; want node-1 after 3", got, 2-h.takes)
	}
	if b.node("node-1").Spec.Unschedulable {
		t.Error("the node is closed")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
