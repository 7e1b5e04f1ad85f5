package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// What a kubelet does by default (Kubernetes 1.37): it renews a Lease of 40 s
// every 10 s. The API server's clock is the real one, so neither follows Speed.
const (
	leaseSeconds = 40
	renewEvery   = 10 * time.Second
	beats        = 20 // parts of renewEvery, over which the nodes are spread
)

// beat renews the Leases of living machines, makes node classes ready and ends
// instances that nobody owns any more, until the context ends.
func (s *Simulated) beat(ctx context.Context) error {
	for n := uint32(0); ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(renewEvery / beats):
		}
		s.renew(ctx, n%beats)
		if n%2 == 0 {
			if err := s.readyClasses(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "node classes are not made ready")
			}
		}
		if n%beats == 0 {
			if err := s.collect(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "orphaned instances are not ended")
			}
		}
	}
}

// renew renews the Leases of one part of the machines, a few at a time.
func (s *Simulated) renew(ctx context.Context, part uint32) {
	queue := make(chan machine)
	var busy sync.WaitGroup
	for range workers / 2 {
		busy.Go(func() {
			for m := range queue {
				if err := s.renewLease(ctx, &m); err != nil && ctx.Err() == nil {
					log.FromContext(ctx).Error(err, "lease is not renewed", "node", m.Node)
				}
			}
		})
	}
	for _, m := range s.beating(part) {
		queue <- m
	}
	close(queue)
	busy.Wait()
}

// beating lists the machines of a part whose kubelets run.
func (s *Simulated) beating(part uint32) []machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []machine
	for id, m := range s.machines {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id)) // a hash never fails
		if h.Sum32()%beats == part && m.alive() && m.node != "" && !m.forgotten {
			out = append(out, *m)
		}
	}
	return out
}

// renewLease writes the time into a node's Lease, without reading it first.
func (s *Simulated) renewLease(ctx context.Context, m *machine) error {
	now := metav1.NewMicroTime(s.clock.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: m.Node}}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": now}})
	if err != nil {
		return fmt.Errorf("encode a lease: %w", err)
	}
	if err = s.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch)); !apierrors.IsNotFound(err) {
		return err
	}
	seconds := int32(leaseSeconds)
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &m.Node, LeaseDurationSeconds: &seconds, RenewTime: &now}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: m.Node, UID: m.node}}
	return s.client.Create(ctx, lease)
}

// unowned is how old an instance is before it may be taken for an orphan: a
// claim needs this time to learn of its instance (AWS provider v1.15).
const unowned = 30 * time.Second

// collect ends the instances without a NodeClaim, as the AWS provider's garbage
// collection does: their claim was deleted before it knew of them. Then it
// removes the Nodes that nothing is behind.
func (s *Simulated) collect(ctx context.Context) error {
	if err := s.recover(ctx); err != nil {
		return err
	}
	var claims karpenter.NodeClaimList
	if err := s.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("list nodeclaims: %w", err)
	}
	owned, known := map[types.UID]bool{}, map[string]bool{}
	for i := range claims.Items {
		owned[claims.Items[i].UID], known[claims.Items[i].Status.ProviderID] = true, true
	}
	now := s.clock.Now()
	for _, i := range s.Instances() {
		m, ok := s.look(i.ID)
		if !ok || m.State != Running || owned[m.uid] || now.Sub(m.Launched) < unowned {
			continue
		}
		log.FromContext(ctx).Info("ending an instance without a nodeclaim", "instance", m.ID, "nodeclaim", m.Claim)
		s.end(m.ID)
	}
	return s.sweep(ctx, known)
}

// sweep removes the Nodes of this cloud that have no instance any more, as the
// cloud controller manager does: an instance that ended before its Node was seen
// has left it behind. Those of NodeClaims, by their provider ids, are
// Karpenter's to remove.
func (s *Simulated) sweep(ctx context.Context, known map[string]bool) error {
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		id, ok := idIn(n.Spec.ProviderID)
		if !ok || known[n.Spec.ProviderID] {
			continue
		}
		if _, there := s.look(id); there {
			continue
		}
		if err := s.remove(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
