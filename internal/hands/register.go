package hands

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/events"
)

// slowStart is how long an instance may take to become a node before that is
// said aloud. Karpenter (v1.15) gives it up after 15 minutes without a word.
const slowStart = 5 * time.Minute

// unregistered says of an instance that it has not become a node.
func (w *watcher) unregistered(claim *karpenter.NodeClaim) reconcile.Result {
	launched := claim.StatusConditions().Get(karpenter.ConditionTypeLaunched)
	if !launched.IsTrue() {
		return reconcile.Result{}
	}
	if left := slowStart - w.clock.Since(launched.LastTransitionTime.Time); left > 0 {
		return reconcile.Result{RequeueAfter: left}
	}
	w.recorder.Publish(events.Event{
		InvolvedObject: claim, Type: corev1.EventTypeWarning, Reason: "NotRegistered", DedupeTimeout: time.Hour, DedupeValues: []string{string(claim.UID)},
		Message: fmt.Sprintf("no node has registered %s after instance %s was launched: it does not boot, or its kubelet does not reach or is not let in by the API server; "+
			"look at its console and at the node class's image, user data, role and security groups. It is replaced after 15m0s", slowStart, claim.Status.ProviderID),
	})
	return reconcile.Result{}
}
