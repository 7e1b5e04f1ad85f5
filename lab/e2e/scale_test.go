package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/controller"
	"github.com/kerfdev/kerf/lab/world"
)

// A thousand pods that wait for GPUs, given to Karpenter's own provisioner and
// to Kerf, over the same cluster and cloud: the time from a cluster that is
// known, as it is at the end of a batch, until the NodeClaims are there; the
// nodes, and what they cost. The API server shares the processors here, and
// writing the claims is most of its work: what that takes without Kerf, and Kerf
// without that, is measured beside it.
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
	s.unorder()
	alone := s.kerf(unwritten{s.Client})
	ours := s.kerf(s.Client)
	ours.claims = s.ordered()
	s.unorder()
	written := s.write(ours.claims)
	s.price(&ours)
	s.price(&theirs)
	t.Logf("%d pods that wait for GPUs: time, processor time of this process with the control plane in it, nodes\n"+
		"  kerf              %v  %4d  %9.2f $/h  (%s)\n  karpenter v1.15   %v  %4d  %9.2f $/h  (planned for %v)\n"+
		"  kerf, where writing takes no time  %v\n  writing kerf's nodeclaims alone    %v",
		pods, ours.spent, ours.nodes, ours.price, ours.steps, theirs.spent, theirs.nodes, theirs.price, theirs.planned.Round(time.Millisecond), alone.spent, written)
	if alone.took > theirs.planned {
		t.Errorf("kerf took %v without writing, karpenter planned for %v", alone.took, theirs.planned)
	}
	if ours.price > theirs.price+1e-6 {
		t.Errorf("kerf's nodes cost %.2f $/h, karpenter's %.2f", ours.price, theirs.price)
	}
}

// An order is what somebody bought for the pods.
type order struct {
	spent                 // from the end of the batch until the NodeClaims were there
	planned time.Duration // of that, before the first was written; of Karpenter's only
	steps   string        // of Kerf's, as it logs them
	nodes   int
	price   float64 // $/h
	claims  []karpenter.NodeClaim
}

// kerf has Kerf decide on what the cluster holds now.
func (s *scene) kerf(c client.Client) (out order) {
	s.Helper()
	r, err := controller.Once{Client: c, Cloud: s.Cloud}.Read(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	heard := funcr.New(func(_, line string) { out.steps += line }, funcr.Options{RenderBuiltinsHook: func([]any) []any { return nil }})
	out.spent = spend(func() { err = r.Decide(log.IntoContext(s.ctx, heard)) })
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// unwritten is an API server that takes NodeClaims and keeps none.
type unwritten struct{ client.Client }

// Create gives the object what a reader of it may rely on.
func (unwritten) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	o.SetUID(types.UID(o.GetName()))
	return nil
}

// ordered are the NodeClaims, once the cache has some.
func (s *scene) ordered() (claims []karpenter.NodeClaim) {
	s.Helper()
	s.await("nodeclaims", func() error {
		var err error
		claims, err = s.Claims(s.ctx)
		if err == nil && len(claims) == 0 {
			err = errors.New("none")
		}
		return err
	})
	return claims
}

// unorder deletes all NodeClaims.
func (s *scene) unorder() {
	s.Helper()
	if err := s.Client.DeleteAllOf(s.ctx, &karpenter.NodeClaim{}); err != nil {
		s.Fatal(err)
	}
	s.await("the nodeclaims to be gone", func() error { return s.claimsLeft(0) })
}

// write writes NodeClaims by as many writers as Kerf has.
func (s *scene) write(claims []karpenter.NodeClaim) spent {
	s.Helper()
	var bare []*karpenter.NodeClaim
	for i := range claims {
		c := &karpenter.NodeClaim{Spec: claims[i].Spec}
		c.Name, c.Labels, c.Annotations, c.OwnerReferences = claims[i].Name, claims[i].Labels, claims[i].Annotations, claims[i].OwnerReferences
		bare = append(bare, c)
	}
	return spend(func() { s.each(len(bare), 32, func(i int) error { return s.Client.Create(s.ctx, bare[i]) }) })
}

// each runs f for 0 to n-1 on some goroutines.
func (s *scene) each(n, goroutines int, f func(i int) error) {
	s.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n && !s.Failed(); i = int(next.Add(1)) {
				if err := f(i - 1); err != nil {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s.Failed() {
		s.FailNow()
	}
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
