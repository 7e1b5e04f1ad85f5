package hands

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/cloud"
)

// A holder tells taints that will probably go again from those that stay.
type holder struct {
	clock  clock.Clock
	window time.Duration // how long a node is fresh
}

// held lists the taints of a fresh node that keep pods off it and that nobody
// declares: not its NodeClaim, not Kubernetes, not Karpenter.
func (h holder) held(node *corev1.Node, declared []corev1.Taint) []corev1.Taint {
	if h.clock.Since(node.CreationTimestamp.Time) >= h.window || !node.DeletionTimestamp.IsZero() {
		return nil
	}
	return undeclared(node, declared)
}

// undeclared lists a node's taints that keep pods off it and that nobody declares.
func undeclared(node *corev1.Node, declared []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || expected(&t) ||
			slices.ContainsFunc(declared, func(d corev1.Taint) bool { return d.MatchTaint(&t) }) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// expected reports whether a taint is one that Kubernetes, Karpenter or the
// cloud sets, and means.
func expected(t *corev1.Taint) bool {
	return strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") ||
		strings.HasPrefix(t.Key, "karpenter.sh/") || scheduling.IsKnownEphemeralTaint(t) || t.MatchTaint(&cloud.InterruptionTaint)
}

// declared are the taints that a NodeClaim says its node will have.
func declared(claim *karpenter.NodeClaim) []corev1.Taint {
	return slices.Concat(claim.Spec.Taints, claim.Spec.StartupTaints)
}
