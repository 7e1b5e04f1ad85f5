package hands

import (
	"fmt"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// ConditionTaints is False on a NodeClaim whose node carries a taint that the
// pool does not declare, while the node is fresh.
const ConditionTaints = "TaintsAsDeclared"

// taints explains the taints of a fresh node that its pool does not declare,
// and returns when to look again. Where they are still there when the node is
// not fresh any more, they are taken to stay: the pool is left alone for a
// while, or each node bought for the same pods would get them too
// (aws/karpenter-provider-aws#6355).
func (w *watcher) taints(claim *karpenter.NodeClaim, node *corev1.Node) time.Duration {
	set := claim.StatusConditions(status.WithClock(w.clock))
	held := w.holder.held(node, declared(claim))
	before := set.Get(ConditionTaints)
	if len(held) == 0 {
		if before == nil || before.IsTrue() {
			return 0
		}
		if left := undeclared(node, declared(claim)); len(left) > 0 {
			w.stays(claim, node, left)
			return 0
		}
		set.SetTrue(ConditionTaints)
		return 0
	}
	text := fmt.Sprintf("the node has %s, which pool %s does not declare: pods that do not tolerate it wait until it is gone; "+
		"declare it under startupTaints if something removes it, else under taints", list(held), claim.Labels[karpenter.NodePoolLabelKey])
	set.SetFalse(ConditionTaints, "UndeclaredTaint", text)
	w.publish(claim, node, "UndeclaredTaint", text)
	return max(w.holder.window-w.clock.Since(node.CreationTimestamp.Time), time.Second)
}

// stays notes, once, that an undeclared taint has outlived the node's freshness.
func (w *watcher) stays(claim *karpenter.NodeClaim, node *corev1.Node, left []corev1.Taint) {
	const reason = "UndeclaredTaintStays"
	set := claim.StatusConditions(status.WithClock(w.clock))
	if set.Get(ConditionTaints).Reason == reason {
		return
	}
	text := fmt.Sprintf("%s is still on the node %s after it was made, so it is taken to stay; declare it under the pool's taints", list(left), w.holder.window)
	set.SetFalse(ConditionTaints, reason, text)
	w.publish(claim, node, reason, text)
	w.avoid.Failed(claim.Labels[karpenter.NodePoolLabelKey], "", text, claim.CreationTimestamp.Time)
}

// list names taints.
func list(taints []corev1.Taint) string {
	var out []string
	for i := range taints {
		out = append(out, taints[i].ToString())
	}
	return "the taint " + strings.Join(out, ", the taint ")
}
