package cloud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// recover rebuilds, once, what another process had launched: an instance for
// each NodeClaim and each Node with a provider id of this cloud. What that
// process knew of their faults is lost.
func (s *Simulated) recover(ctx context.Context) error {
	s.mu.Lock()
	done := s.recovered
	s.mu.Unlock()
	if done {
		return nil
	}
	var claims karpenter.NodeClaimList
	if err := s.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("rebuild the simulated cloud from nodeclaims: %w", err)
	}
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("rebuild the simulated cloud from nodes: %w", err)
	}
	found := map[string]*machine{}
	for i := range claims.Items {
		s.recoverClaim(found, &claims.Items[i])
	}
	for i := range nodes.Items {
		s.recoverNode(found, &nodes.Items[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recovered {
		return nil
	}
	s.recovered = true
	for _, id := range byAge(found) {
		if s.machines[id] == nil {
			s.add(found[id])
			s.wake(id, 0)
		}
	}
	return nil
}

// byAge lists instance ids in the order of launch.
func byAge(found map[string]*machine) []string {
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(found[a].Launched.Compare(found[b].Launched), strings.Compare(a, b))
	})
}

func (s *Simulated) recoverClaim(found map[string]*machine, claim *karpenter.NodeClaim) {
	id, ok := idIn(claim.Status.ProviderID)
	if !ok || claim.StatusConditions().IsTrue(karpenter.ConditionTypeInstanceTerminating) {
		return
	}
	m := s.remembered(id, claim.Status.ProviderID, claim.ObjectMeta)
	m.Claim, m.Node, m.uid = claim.Name, claim.Name, claim.UID
	m.taints, m.startup = claim.Spec.Taints, claim.Spec.StartupTaints
	m.class = claim.Annotations[ClassHashAnnotation]
	found[id] = m
}

// recoverNode completes an instance with what its Node says.
func (s *Simulated) recoverNode(found map[string]*machine, node *corev1.Node) {
	id, ok := idIn(node.Spec.ProviderID)
	if !ok {
		return
	}
	m := found[id]
	if m == nil {
		m = s.remembered(id, node.Spec.ProviderID, node.ObjectMeta)
		for _, o := range node.OwnerReferences {
			if o.Kind == "NodeClaim" {
				m.Claim, m.uid = o.Name, o.UID
			}
		}
		found[id] = m
	}
	m.Node, m.node = node.Name, node.UID
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			m.readyAt = c.LastTransitionTime.Time
		}
	}
}

// remembered is an instance by its labels.
func (s *Simulated) remembered(id, providerID string, o metav1.ObjectMeta) *machine {
	zone, _, _ := strings.Cut(strings.TrimPrefix(providerID, providerPrefix), "/")
	m := &machine{Instance: Instance{
		ID: id, ProviderID: providerID, Node: o.Name, Pool: o.Labels[model.LabelNodePool], Type: o.Labels[model.LabelInstanceType],
		Zone: zone, CapacityType: o.Labels[model.LabelCapacityType], Launched: o.CreationTimestamp.Time, State: Running,
	}, labels: maps.Clone(o.Labels)}
	if t, ok := s.shelf.book.Type(m.Type); ok {
		for _, offer := range t.Offerings {
			if offer.Zone == m.Zone && offer.CapacityType == m.CapacityType {
				m.Price = offer.Price
			}
		}
	}
	return m
}
