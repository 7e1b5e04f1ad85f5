package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/controller"
	"github.com/kerfdev/kerf/lab/world"
)

// A thousand pods that wait for GPUs, given to Karpenter's own provisioner and
// to Kerf, over the same cluster and cloud: the time until the NodeClaims are
// there, the nodes, and what they cost.
func TestAThousandPodsAreOrderedForAtOnce(t *testing.T) {
	pods := number(t, "KERF_PODS", 1000)
	s := set(t, func(c *world.Config) { c.Terse = true })
	s.apply("scale.yaml")
	s.prepare()
	s.create(crowd(s.Namespace(), pods))
	s.await("the scheduler to have looked at all pods", func() error {
		return s.eachPod(func(p *corev1.Pod) error {
			if !unschedulable(p) {
				return fmt.Errorf("pod %s has not been looked at", p.Name)
			}
			return nil
		})
	})

	theirs := s.karpenter()
	if err := s.Client.DeleteAllOf(t.Context(), &karpenter.NodeClaim{}); err != nil {
		t.Fatal(err)
	}
	s.await("their nodeclaims to be gone", func() error { return s.claimsLeft(0) })

	begin := time.Now()
	if err := (controller.Once{Client: s.Client, Cloud: s.Cloud}).Decide(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := order{took: time.Since(begin).Round(time.Millisecond)}
	s.await("our nodeclaims", func() error {
		var err error
		ours.claims, err = s.Claims(t.Context())
		if err == nil && len(ours.claims) == 0 {
			err = errors.New("none")
		}
		return err
	})
	s.price(&ours)
	s.price(&theirs)
	t.Logf("%d pods that wait for GPUs; time until all nodeclaims were created, kerf's with reading the cluster:\n"+
		"  kerf              %8s   %4d nodes  %9.2f $/h\n  karpenter v1.15   %8s   %4d nodes  %9.2f $/h",
		pods, ours.took, ours.nodes, ours.price, theirs.took, theirs.nodes, theirs.price)
	if ours.price > theirs.price+1e-6 {
		t.Errorf("kerf's nodes cost %.2f $/h, karpenter's %.2f", ours.price, theirs.price)
	}
}

// An order is what somebody bought for the pods.
type order struct {
	took   time.Duration // from the end of the batch until the NodeClaims were there
	nodes  int
	price  float64 // $/h
	claims []karpenter.NodeClaim
}

// prepare has a controller make the pools ready, which Karpenter waits for.
func (s *scene) prepare() {
	s.Helper()
	c := s.control()
	s.await("ready pools", func() error {
		var pools karpenter.NodePoolList
		if err := s.Client.List(s.ctx, &pools); err != nil {
			return err
		}
		for i := range pools.Items {
			if !pools.Items[i].StatusConditions().Root().IsTrue() {
				return fmt.Errorf("nodepool %s is not ready", pools.Items[i].Name)
			}
		}
		return nil
	})
	c.Kill()
}

// crowd makes pods of several sizes.
func crowd(namespace string, n int) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p-%04d", i)}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example.com/work:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    quantity([]string{"1", "2", "3", "500m"}[i%4]),
				corev1.ResourceMemory: quantity([]string{"2Gi", "8Gi", "12Gi"}[i%3]),
			},
			Limits: corev1.ResourceList{"nvidia.com/gpu": quantity([]string{"1", "1", "1", "2", "4"}[i%5])},
		}}}
		out = append(out, p)
	}
	return out
}

func (s *scene) claimsLeft(n int) error {
	claims, err := s.Claims(s.ctx)
	if err == nil && len(claims) != n {
		err = fmt.Errorf("%d nodeclaims", len(claims))
	}
	return err
}

// price has a cloud launch what was ordered, and adds up what that costs.
func (s *scene) price(o *order) {
	s.Helper()
	c, err := cloud.NewSimulated(cloud.Config{Client: s.Client, Book: s.Book}) // nothing runs its machines
	if err != nil {
		s.Fatal(err)
	}
	for i := range o.claims {
		if _, err := c.Create(s.ctx, &o.claims[i]); err != nil {
			s.Fatal(err)
		}
	}
	for _, i := range c.Instances() {
		o.nodes, o.price = o.nodes+1, o.price+i.Price
	}
}
