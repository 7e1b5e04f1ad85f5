package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/kerfdev/kerf/internal/model"
)

// Create launches the cheapest offering in stock that the claim's requirements
// and requests allow, and returns what it chose; a claim that has an instance
// gets that one again.
//
// Errors: an InsufficientCapacityError when nothing that is allowed is in stock
// or the node class does not exist, a NodeClassNotReadyError, and whatever
// Faults.FailLaunches or Faults.RateLimit ask for.
func (s *Simulated) Create(ctx context.Context, claim *karpenter.NodeClaim) (*karpenter.NodeClaim, error) {
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	if m, ok := s.look(idOf(claim.UID)); ok && m.State == Running {
		return s.claimOf(&m), nil
	}
	c, err := s.classFor(ctx, claim)
	if err != nil {
		return nil, err
	}
	if err := s.faults.launch(); err != nil {
		return nil, err
	}
	if err := s.pause(ctx); err != nil {
		return nil, err
	}
	offer, err := s.choose(claim, c.kubelet)
	if err != nil {
		return nil, err
	}
	m := s.boot(claim, c, offer)
	return s.claimOf(&m), nil
}

// pause is the time that the cloud's own API takes.
func (s *Simulated) pause(ctx context.Context) error {
	if s.delays.Launch == 0 {
		return nil
	}
	select {
	case <-s.clock.After(s.delays.Launch):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// classFor resolves the claim's node class, with the AWS provider's errors.
func (s *Simulated) classFor(ctx context.Context, claim *karpenter.NodeClaim) (class, error) {
	c, err := s.class(ctx, claim.Spec.NodeClassRef)
	switch {
	case apierrors.IsNotFound(err):
		return class{}, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("resolve node class: %w", err))
	case err != nil:
		return class{}, fmt.Errorf("resolve node class: %w", err)
	case c.unready != "":
		return class{}, cloudprovider.NewNodeClassNotReadyError(errors.New(c.unready))
	}
	return c, nil
}

// A candidate is one offering of one type.
type candidate struct {
	kind     *cloudprovider.InstanceType
	offering *cloudprovider.Offering
}

func (c candidate) match() Offering {
	return Offering{Type: c.kind.Name, Zone: c.offering.Zone(), CapacityType: c.offering.CapacityType()}
}

// choose goes through the offerings by price, as EC2's lowest-price strategy
// does. Those without stock are remembered and shown as unavailable for a while.
func (s *Simulated) choose(claim *karpenter.NodeClaim, k model.Kubelet) (candidate, error) {
	now := s.clock.Now()
	wants := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	var all []candidate
	for _, t := range s.shelf.types(k, now) {
		if !listed(wants, t.Name) || wants.Compatible(t.Requirements, scheduling.AllowUndefinedWellKnownLabels) != nil || !resources.Fits(claim.Spec.Resources.Requests, t.Allocatable()) {
			continue
		}
		for _, o := range t.Offerings.Available().Compatible(wants) {
			all = append(all, candidate{t, o})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.offering.Price, b.offering.Price), strings.Compare(a.kind.Name, b.kind.Name), strings.Compare(a.offering.Zone(), b.offering.Zone()))
	})
	var missing []string
	for _, c := range all {
		if !s.faults.soldOut(c.match(), now) {
			return c, nil
		}
		s.shelf.without(c.match(), now.Add(s.delays.Stock))
		missing = append(missing, c.match().String())
	}
	if len(missing) == 0 {
		return candidate{}, cloudprovider.NewInsufficientCapacityError(errors.New("all requested instance types were unavailable during launch"))
	}
	return candidate{}, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("out of stock: %s", strings.Join(missing, ", ")))
}

// listed reports whether requirements leave a type in, by its name alone.
func listed(wants scheduling.Requirements, name string) bool {
	r, ok := wants[model.LabelInstanceType]
	return !ok || r.Has(name)
}

// boot puts the chosen instance into the books. Of two calls for one claim at
// once the first one's counts.
func (s *Simulated) boot(claim *karpenter.NodeClaim, c class, chosen candidate) machine {
	id := idOf(claim.UID)
	m := &machine{
		Instance: Instance{
			ID: id, ProviderID: providerPrefix + chosen.offering.Zone() + "/" + id, Claim: claim.Name, Node: claim.Name, State: Running,
			Pool: claim.Labels[karpenter.NodePoolLabelKey], Type: chosen.kind.Name, Zone: chosen.offering.Zone(),
			CapacityType: chosen.offering.CapacityType(), Price: chosen.offering.Price, Launched: s.clock.Now(),
		},
		uid: claim.UID, class: c.hash, kubelet: c.kubelet, labels: labelsOf(claim, chosen),
		taints: slices.Clone(claim.Spec.Taints), startup: slices.Clone(claim.Spec.StartupTaints),
	}
	s.mu.Lock()
	if old, ok := s.machines[id]; ok && old.State == Running {
		defer s.mu.Unlock()
		return *old
	}
	s.add(m)
	m.fate = s.faults.fate(m.Instance)
	out, wake := *m, s.wake
	s.mu.Unlock()
	wake(id, s.delays.Register)
	return out
}

// labelsOf are the labels of an instance: the claim's, and what its type and
// offering leave no choice about.
func labelsOf(claim *karpenter.NodeClaim, chosen candidate) map[string]string {
	out := map[string]string{}
	for _, from := range []scheduling.Requirements{chosen.kind.Requirements, chosen.offering.Requirements} {
		for key, r := range from {
			if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
				out[key] = r.Any()
			}
		}
	}
	maps.Copy(out, claim.Labels)
	return out
}
