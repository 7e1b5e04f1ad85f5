package rival

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// nodePools are the pools from which Karpenter launches nodes for pods, those
// of higher weight first. Static pools and those that are not ready have no
// part in it.
func nodePools(s model.Snapshot) []*karpenter.NodePool {
	var out []*karpenter.NodePool
	for i := range s.Pools {
		if p := &s.Pools[i]; !p.Static && len(p.Unusable) == 0 {
			out = append(out, nodePool(p))
		}
	}
	slices.SortStableFunc(out, func(a, b *karpenter.NodePool) int {
		return cmp.Or(cmp.Compare(*b.Spec.Weight, *a.Spec.Weight), strings.Compare(a.Name, b.Name))
	})
	return out
}

func nodePool(p *model.Pool) *karpenter.NodePool {
	kind, class, ok := strings.Cut(p.NodeClass, "/")
	if !ok {
		kind, class = "EC2NodeClass", "default"
	}
	weight := int32(p.Weight)
	out := &karpenter.NodePool{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: types.UID("pool-" + p.Name)}}
	out.Spec.Weight = &weight
	out.Spec.Limits = karpenter.Limits(cloud.Quantities(p.Limits))
	t := &out.Spec.Template
	t.Labels, t.Annotations = p.Labels, p.Annotations
	t.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: "karpenter.k8s.aws", Kind: kind, Name: class}
	t.Spec.Taints, t.Spec.StartupTaints = taints(p.Taints), taints(p.StartupTaints)
	for _, r := range p.Requirements {
		t.Spec.Requirements = append(t.Spec.Requirements, requirement(r))
	}
	return out
}

func requirement(r model.Requirement) karpenter.NodeSelectorRequirementWithMinValues {
	out := karpenter.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: slices.Clone(r.Values)}
	if r.MinValues > 0 {
		out.MinValues = &r.MinValues
	}
	return out
}

func taints(in []model.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range in {
		out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}
