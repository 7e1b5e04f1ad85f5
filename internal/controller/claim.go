package controller

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	requirement "sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
	"github.com/kerfdev/kerf/internal/plan"
)

// An order is one NodeClaim to be created, and the pods that it is for.
type order struct {
	claim  *karpenter.NodeClaim
	launch *plan.Launch
	pods   []*corev1.Pod
	pool   string
}

// An orderBook writes the launches of a plan as NodeClaims. Claims are made by
// Karpenter's own template (v1.15), so that its controllers find on them what
// they look for: hashes, owner, labels, taints, requirements.
type orderBook struct {
	view  *view
	ready map[string]*scheduling.NodeClaimTemplate // by pool
	made  map[string]*karpenter.NodeClaim          // by all that launches of one kind have in common
}

func newOrderBook(v *view) *orderBook {
	return &orderBook{view: v, ready: map[string]*scheduling.NodeClaimTemplate{}, made: map[string]*karpenter.NodeClaim{}}
}

// order makes the NodeClaim of a launch.
func (b *orderBook) order(l *plan.Launch) (order, error) {
	kind, err := b.kind(l)
	if err != nil {
		return order{}, err
	}
	claim := kind.DeepCopy()
	out := order{claim: claim, launch: l, pool: l.Pool}
	for _, i := range l.Pods {
		out.pods = append(out.pods, b.view.objects[i])
	}
	claim.Spec.Resources.Requests = cloud.Quantities(l.Used.Plus(l.Overhead, 1))
	claim.Annotations[nodepool.AnnotationPods] = podNames(out.pods)
	claim.GenerateName, claim.Name = "", claimName(l, out.pods, "")
	return out, nil
}

// kind makes what launches with the same choices have in common.
func (b *orderBook) kind(l *plan.Launch) (*karpenter.NodeClaim, error) {
	key := strings.Join([]string{l.Pool, l.CapacityType, strings.Join(l.Zones, ","), strings.Join(l.Alternatives, ","), labelText(l.Labels)}, "|")
	if have, ok := b.made[key]; ok {
		return have, nil
	}
	pool := b.view.pools[l.Pool]
	if pool == nil {
		return nil, fmt.Errorf("nodepool %s is gone", l.Pool)
	}
	if b.ready[l.Pool] == nil {
		b.ready[l.Pool] = scheduling.NewNodeClaimTemplate(pool)
	}
	t := *b.ready[l.Pool]
	t.Requirements = requirement.NewRequirements(b.ready[l.Pool].Requirements.Values()...)
	t.Requirements.Add(
		requirement.NewRequirement(model.LabelZone, corev1.NodeSelectorOpIn, l.Zones...),
		requirement.NewRequirement(model.LabelCapacityType, corev1.NodeSelectorOpIn, l.CapacityType),
	)
	for name, value := range l.Labels {
		if t.Requirements.Has(name) && name != model.LabelNodePool {
			t.Requirements.Add(requirement.NewRequirement(name, corev1.NodeSelectorOpIn, value))
		}
	}
	for _, name := range l.Alternatives {
		if it := b.view.wares.types[l.Pool][name]; it != nil {
			t.InstanceTypeOptions = append(t.InstanceTypeOptions, it)
		}
	}
	if len(t.InstanceTypeOptions) == 0 {
		return nil, fmt.Errorf("nodepool %s does not sell %s any more", l.Pool, l.Type)
	}
	order := names(t.InstanceTypeOptions)
	claim := t.ToNodeClaim()
	arrange(claim, order)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	b.made[key] = claim
	return claim, nil
}

func names(types cloudprovider.InstanceTypes) []string {
	var out []string
	for _, t := range types {
		out = append(out, t.Name)
	}
	return out
}

// arrange lists the instance types in the plan's order, cheapest first, where
// the library lists them by name, and all else by key.
func arrange(claim *karpenter.NodeClaim, order []string) {
	slices.SortFunc(claim.Spec.Requirements, func(a, b karpenter.NodeSelectorRequirementWithMinValues) int { return strings.Compare(a.Key, b.Key) })
	for i := range claim.Spec.Requirements {
		r := &claim.Spec.Requirements[i]
		if r.Key != model.LabelInstanceType || r.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		kept := order[:0:0]
		for _, name := range order {
			if slices.Contains(r.Values, name) {
				kept = append(kept, name)
			}
		}
		r.Values = kept
	}
}

// mostNames is how long the list of a claim's pods may be, in bytes: an object's
// annotations may take 256 KiB. Pods beyond it find their place by what room
// there is.
const mostNames = 128 << 10

func podNames(pods []*corev1.Pod) string {
	var b strings.Builder
	for _, p := range pods {
		if b.Len() > mostNames {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(keyOf(p))
	}
	return b.String()
}

func labelText(labels map[string]string) string {
	var parts []string
	for k, v := range labels {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// claimName follows from what is ordered for whom, so that an order that is
// given twice, by a controller that did not learn of its first success, is one
// order. The salt tells it from a claim of that name that is on its way out.
func claimName(l *plan.Launch, pods []*corev1.Pod, salt string) string {
	h := sha256.New()
	for _, part := range []string{l.Pool, l.CapacityType, strings.Join(l.Zones, ","), strings.Join(l.Alternatives, ","), salt} {
		fmt.Fprintln(h, part)
	}
	for _, p := range pods {
		fmt.Fprintln(h, p.UID)
	}
	code := strings.ToLower(base32.HexEncoding.EncodeToString(h.Sum(nil))[:10])
	return l.Pool[:min(len(l.Pool), 240)] + "-" + code
}

// sameOrder reports whether a claim that exists is the one that was to be made.
func sameOrder(have, want client.Object) bool {
	return have.GetDeletionTimestamp() == nil && have.GetAnnotations()[nodepool.AnnotationPods] == want.GetAnnotations()[nodepool.AnnotationPods]
}
