package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// Create launches through the wrapped provider. Of the types that the claim
// lists, those whose nodes will have room for its requests are asked for, and
// the requests reach the provider without GPUs, of which it knows only physical
// ones. The claim that comes back has the capacity that its node will
// advertise. An InsufficientCapacityError says that no listed type has room.
func (s *Shared) Create(ctx context.Context, claim *karpenter.NodeClaim) (*karpenter.NodeClaim, error) {
	asked, err := s.translate(ctx, claim)
	if err != nil {
		return nil, err
	}
	created, err := s.CloudProvider.Create(ctx, asked)
	if err != nil {
		return nil, err
	}
	return s.recount(ctx, created, claim.Labels)
}

// translate is the claim in terms of the wrapped provider.
func (s *Shared) translate(ctx context.Context, claim *karpenter.NodeClaim) (*karpenter.NodeClaim, error) {
	if !counts(claim.Spec.Resources.Requests) {
		return claim, nil
	}
	of := templateOf(claim.Labels, claim.Spec.Requirements)
	types, err := s.CloudProvider.GetInstanceTypes(ctx, poolOf(claim))
	if err != nil {
		return nil, err
	}
	types = slices.DeleteFunc(slices.Clone(types), func(t *cloudprovider.InstanceType) bool { return !listed(of.wants, t.Name) })
	now, err := s.configs.Current(ctx)
	if err != nil {
		return nil, fmt.Errorf("read device configs: %w", err)
	}
	var fitting []string
	for _, t := range s.decorate(ctx, now, types, of) {
		if of.wants.Compatible(t.Requirements, scheduling.AllowUndefinedWellKnownLabels) == nil && resources.Fits(claim.Spec.Resources.Requests, t.Allocatable()) {
			fitting = append(fitting, t.Name)
		}
	}
	if len(fitting) == 0 {
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("no instance type of the claim will advertise %s", text(claim.Spec.Resources.Requests)))
	}
	out := claim.DeepCopy()
	out.Spec.Resources.Requests = WithGPUs(claim.Spec.Resources.Requests, nil)
	out.Spec.Requirements = narrowed(claim.Spec.Requirements, fitting)
	return out, nil
}

// poolOf is a pool whose nodes are what the claim's will be.
func poolOf(claim *karpenter.NodeClaim) *karpenter.NodePool {
	out := &karpenter.NodePool{}
	out.Name = claim.Labels[karpenter.NodePoolLabelKey]
	out.Spec.Template.Labels = claim.Labels
	out.Spec.Template.Spec.NodeClassRef = claim.Spec.NodeClassRef
	out.Spec.Template.Spec.Requirements = claim.Spec.Requirements
	return out
}

// narrowed lets requirements through to the wrapped provider: the types to the
// given ones, and without the labels that it does not know.
func narrowed(all []karpenter.NodeSelectorRequirementWithMinValues, types []string) []karpenter.NodeSelectorRequirementWithMinValues {
	var out []karpenter.NodeSelectorRequirementWithMinValues
	var least *int
	for _, r := range all {
		switch {
		case r.Key == model.LabelInstanceType:
			if r.MinValues != nil {
				least = r.MinValues
			}
		case !slices.Contains(discovery, r.Key):
			out = append(out, r)
		}
	}
	return append(out, karpenter.NodeSelectorRequirementWithMinValues{
		Key: model.LabelInstanceType, Operator: corev1.NodeSelectorOpIn, Values: types, MinValues: least,
	})
}

// text lists what is asked of GPUs.
func text(r corev1.ResourceList) string {
	asked := map[corev1.ResourceName]string{}
	for name, q := range r {
		if Shareable(name) {
			asked[name] = q.String()
		}
	}
	out, err := json.Marshal(asked)
	if err != nil {
		panic("a map of texts: " + err.Error())
	}
	return string(out)
}

// Get returns the instance with the capacity that its node advertises.
func (s *Shared) Get(ctx context.Context, providerID string) (*karpenter.NodeClaim, error) {
	claim, err := s.CloudProvider.Get(ctx, providerID)
	if err != nil {
		return nil, err
	}
	return s.recount(ctx, claim, nil)
}

// recount gives a claim the GPU resources of its node.
func (s *Shared) recount(ctx context.Context, claim *karpenter.NodeClaim, more map[string]string) (*karpenter.NodeClaim, error) {
	out := claim.DeepCopy()
	all := maps.Clone(claim.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	ad, err := s.predict(ctx, all)
	if err != nil {
		return nil, err
	}
	if counts(out.Status.Capacity) || len(ad.Resources) > 0 {
		out.Status.Capacity = WithGPUs(out.Status.Capacity, ad.Resources)
		out.Status.Allocatable = WithGPUs(out.Status.Allocatable, ad.Resources)
	}
	return out, nil
}

// Predict says what the node of a launched claim advertises once its GPUs are
// up. It fails with the errors of gpu.ForNode where the plugin would not start
// under the config that the claim's labels select.
func (s *Shared) Predict(ctx context.Context, claim *karpenter.NodeClaim) (model.Advertisement, error) {
	now, err := s.configs.Current(ctx)
	if err != nil {
		return model.Advertisement{}, fmt.Errorf("read device configs: %w", err)
	}
	return gpu.ForNode(s.byName(claim.Labels), now.Sharing, claim.Labels)
}

// predict is Predict with nothing for a config that is refused.
func (s *Shared) predict(ctx context.Context, labels map[string]string) (model.Advertisement, error) {
	now, err := s.configs.Current(ctx)
	if err != nil {
		return model.Advertisement{}, fmt.Errorf("read device configs: %w", err)
	}
	ad, err := gpu.ForNode(s.byName(labels), now.Sharing, labels)
	if err != nil {
		log.FromContext(ctx).Error(err, "the node will advertise no GPUs", "instance-type", labels[model.LabelInstanceType])
		return model.Advertisement{}, nil
	}
	return ad, nil
}

// byName is the hardware behind a node's labels.
func (s *Shared) byName(labels map[string]string) model.InstanceType {
	return s.hardware(&cloudprovider.InstanceType{Name: labels[model.LabelInstanceType], Requirements: scheduling.NewLabelRequirements(labels)})
}
