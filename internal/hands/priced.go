package hands

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	disruptionevents "sigs.k8s.io/karpenter/pkg/controllers/disruption/events"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// priced is a disruption method of Karpenter's that buys nothing dearer than
// what it replaces. It stands between the method and the controller, which the
// library allows for (disruption.WithMethods), so everything else stays the
// library's: candidates, budgets, simulation, validation, the queue.
//
// Of each command, the replacements may cost together what the replaced nodes
// cost, at the prices of the provider's types, which count slices. Each
// replacement keeps the instance types within its part of that; a command that
// cannot do so is dropped with an event, and where the method would come back
// with the same candidate for ever, it is asked again without it.
//
// Three cases are not held to it. A broken node is replaced whatever it costs.
// A node that its pool would not allow any more, since the pool's requirements
// have changed, is replaced by what the pool now asks for: that price is its
// owner's wish. A static pool's replacement follows from its template.
type priced struct {
	disruption.Method
	provider cloudprovider.CloudProvider
	recorder events.Recorder
}

func priceAll(methods []disruption.Method, provider cloudprovider.CloudProvider, recorder events.Recorder) []disruption.Method {
	out := make([]disruption.Method, len(methods))
	for i, m := range methods {
		p := &priced{m, provider, recorder}
		out[i] = p
		if setter, ok := m.(disruption.NodePoolTotalsSetter); ok {
			out[i] = &pricedByTotals{p, setter}
		}
	}
	return out
}

// pricedByTotals is priced for a method that scores by its pool's totals, which
// the controller finds out by asking.
type pricedByTotals struct {
	*priced
	disruption.NodePoolTotalsSetter
}

// ComputeCommands returns the method's commands within their price.
func (p *priced) ComputeCommands(ctx context.Context, budgets map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	left := slices.Clone(candidates)
	for len(left) > 0 {
		commands, err := p.Method.ComputeCommands(ctx, maps.Clone(budgets), left...)
		if err != nil || len(commands) == 0 {
			return commands, err
		}
		kept, refused := p.within(ctx, commands)
		if len(kept) > 0 || p.Reason() != karpenter.DisruptionReasonDrifted {
			return kept, nil
		}
		left = slices.DeleteFunc(left, func(c *disruption.Candidate) bool { return slices.Contains(refused, c) })
	}
	return nil, nil
}

// within cuts commands down to their price, and returns the candidates of
// those that cannot be.
func (p *priced) within(ctx context.Context, commands []disruption.Command) (kept []disruption.Command, refused []*disruption.Candidate) {
	for _, cmd := range commands {
		cmd.Replacements = ours(&cmd)
		why := p.limit(ctx, &cmd)
		if why == "" {
			kept = append(kept, cmd)
			continue
		}
		refused = append(refused, cmd.Candidates...)
		for _, c := range cmd.Candidates {
			p.recorder.Publish(disruptionevents.Blocked(c.Node, c.NodeClaim, why)...)
		}
	}
	return kept, refused
}

// ours leaves out the replacements that hold none of the candidates' pods. The
// simulation also packs the pods that are pending in the cluster, and new nodes
// for those are the brain's to buy.
func ours(cmd *disruption.Command) []*disruption.Replacement {
	nodes := map[string]bool{}
	for _, c := range cmd.Candidates {
		nodes[c.Name()] = true
	}
	var out []*disruption.Replacement
	for _, r := range cmd.Replacements {
		if r.IsStaticNodeClaim || slices.ContainsFunc(r.Pods, func(pod *corev1.Pod) bool { return nodes[pod.Spec.NodeName] }) {
			out = append(out, r)
		}
	}
	return out
}

// limit takes the types that are too dear away from a command's replacements,
// or says why it must not be carried out.
func (p *priced) limit(ctx context.Context, cmd *disruption.Command) string {
	if len(cmd.Replacements) == 0 || slices.ContainsFunc(cmd.Replacements, func(r *disruption.Replacement) bool { return r.IsStaticNodeClaim }) {
		return ""
	}
	may, known := worth(cmd.Candidates)
	if !known {
		log.FromContext(ctx).V(1).Info("a node without a known price is replaced at any price", "reason", p.Reason())
		return ""
	}
	least := 0.0
	for _, r := range cmd.Replacements {
		least += cheapest(r)
	}
	if least > may*(1+1e-9) {
		if p.Reason() == karpenter.DisruptionReasonUnhealthy || wanted(cmd.Candidates) {
			return ""
		}
		return fmt.Sprintf("its pods would need nodes of %.4f $/h together, which is more than the %.4f $/h that they cost now", least, may)
	}
	spare := (may - least) / float64(len(cmd.Replacements))
	for _, r := range cmd.Replacements {
		cut(r, cheapest(r)+spare)
	}
	return ""
}

// worth is what the candidates cost an hour, and whether that is known of all.
func worth(candidates []*disruption.Candidate) (float64, bool) {
	total := 0.0
	for _, c := range candidates {
		if c.Price <= 0 {
			return 0, false
		}
		total += c.Price
	}
	return total, true
}

// cheapest is what a replacement costs at least, where each type costs its
// dearest offering that would be launched, as the library counts.
func cheapest(r *disruption.Replacement) float64 {
	out := math.Inf(1)
	for _, t := range r.InstanceTypeOptions {
		out = min(out, t.Offerings.Launchable().WorstLaunchPrice(r.Requirements))
	}
	return out
}

// cut leaves a replacement the types up to a price, and spot alone where
// on-demand would be above it. Where the pool's minValues would not be met
// then, they win over the price.
func cut(r *disruption.Replacement, most float64) {
	all := r.InstanceTypeOptions
	if _, err := r.RemoveInstanceTypeOptionsByPriceAndMinValues(r.Requirements, math.Nextafter(most*(1+1e-9), math.Inf(1))); err != nil {
		r.InstanceTypeOptions = all
		return
	}
	kinds := r.Requirements.Get(karpenter.CapacityTypeLabelKey)
	if !kinds.Has(karpenter.CapacityTypeSpot) || !kinds.Has(karpenter.CapacityTypeOnDemand) {
		return
	}
	for _, t := range r.InstanceTypeOptions {
		for _, o := range t.Offerings.Compatible(r.Requirements).Compatible(cloudprovider.OnDemandRequirement) {
			if o.Price > most*(1+1e-9) && sells(r.InstanceTypeOptions, r.Requirements) {
				r.Requirements.Add(scheduling.NewRequirement(karpenter.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, karpenter.CapacityTypeSpot))
				return
			}
		}
	}
}

// sells reports whether any of the types can be had as spot.
func sells(types cloudprovider.InstanceTypes, wants scheduling.Requirements) bool {
	return slices.ContainsFunc(types, func(t *cloudprovider.InstanceType) bool {
		return t.Offerings.Launchable().Compatible(wants).HasCompatible(cloudprovider.SpotRequirement)
	})
}

// wanted reports whether any candidate is one that its pool does not allow any more.
func wanted(candidates []*disruption.Candidate) bool {
	return slices.ContainsFunc(candidates, func(c *disruption.Candidate) bool {
		asks := scheduling.NewNodeSelectorRequirementsWithMinValues(c.NodePool.Spec.Template.Spec.Requirements...)
		return scheduling.NewLabelRequirements(c.Labels()).Compatible(asks) != nil
	})
}
