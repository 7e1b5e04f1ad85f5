package rival

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/overlay"
)

// types are each pool's instance types, with overlays where they are asked for.
func (c *cluster) types(ctx context.Context, s model.Snapshot, b *book, pools []*karpenter.NodePool, o Options) (map[string][]*cloudprovider.InstanceType, error) {
	bare := map[string][]*cloudprovider.InstanceType{}
	for i := range s.Pools {
		bare[s.Pools[i].Name] = b.inPool(s, &s.Pools[i])
	}
	if !o.Overlay {
		return bare, nil
	}
	overlays, _ := overlay.For(s)
	return c.overlaid(ctx, bare, pools, overlays)
}

// overlaid has Karpenter's own overlay controller validate the overlays and
// apply them to the types. One that it would not use is an error.
func (c *cluster) overlaid(ctx context.Context, bare map[string][]*cloudprovider.InstanceType, pools []*karpenter.NodePool, overlays []overlay.Overlay) (map[string][]*cloudprovider.InstanceType, error) {
	c.cloud.types = bare
	c.client.pools, c.client.refused = pools, map[string]string{}
	for _, o := range overlays {
		c.client.overlays = append(c.client.overlays, nodeOverlay(o))
	}
	store := nodeoverlay.NewInstanceTypeStore()
	known := state.NewCluster(clock.RealClock{}, c.client, c.cloud)
	controller := nodeoverlay.NewController(clock.RealClock{}, c.client, c.cloud, store, known)
	if _, err := controller.Reconcile(ctx, reconcile.Request{}); err != nil {
		return nil, fmt.Errorf("evaluate overlays: %w", err)
	}
	for _, o := range overlays {
		if why, ok := c.client.refused[o.Name]; ok {
			return nil, fmt.Errorf("karpenter does not use NodeOverlay %s: %s", o.Name, why)
		}
	}
	out := map[string][]*cloudprovider.InstanceType{}
	for _, p := range pools {
		types, err := store.ApplyAll(p.Name, bare[p.Name])
		if err != nil {
			return nil, fmt.Errorf("apply overlays to pool %s: %w", p.Name, err)
		}
		out[p.Name] = types
	}
	return out, nil
}

func nodeOverlay(o overlay.Overlay) v1alpha1.NodeOverlay {
	weight := int32(o.Weight)
	out := v1alpha1.NodeOverlay{}
	out.Name = o.Name
	out.Spec.Weight = &weight
	out.Spec.Capacity = cloud.Quantities(o.Capacity)
	for _, r := range o.Requirements() {
		out.Spec.Requirements = append(out.Spec.Requirements,
			v1alpha1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values})
	}
	return out
}
