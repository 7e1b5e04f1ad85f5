package hands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// What is written on NodeClaims.
const (
	// ConditionGPUs is True when a node advertises the GPUs that were
	// predicted, False with a reason when it advertises none, fewer or more.
	ConditionGPUs = "GPUsAsPredicted"
	// MismatchAnnotation says how what a node advertises differs:
	// "nvidia.com/gpu: 2, predicted 4".
	MismatchAnnotation = "kerf.dev/gpu-mismatch"
	// TimeoutAnnotation on a pod, or on a NodeClaim by way of its pool's
	// template, says how long the pod's GPUs may take to come up: "5m".
	TimeoutAnnotation = "kerf.dev/gpu-ready-timeout"
)

// Reasons of the condition beside those of causes.
const (
	reasonFewer = "FewerGPUs"
	reasonMore  = "MoreGPUs"
	reasonDied  = "GPUsDied"
)

// settling is how long a node's GPUs may be other than predicted before that is
// said aloud: plugins register one resource after the other.
const settling = 15 * time.Second

// A report is what was found of a node's GPUs.
type report struct {
	lacking []string // resources that the claim asks for and the node does not have, sorted
	cause   cause
	limit   time.Duration // that they may take
	overdue bool
	up      bool          // they have come up since the last look
	wait    time.Duration // until the next look; 0 = until something happens
}

// missing says what does not work.
func (r report) missing() string { return "no " + strings.Join(r.lacking, ", no ") }

// gpus compares what a node advertises with what was predicted and asked for,
// and writes what it finds into the claim.
func (w *watcher) gpus(ctx context.Context, claim *karpenter.NodeClaim, node *corev1.Node) (report, error) {
	predicted, no := w.cloud.Predict(ctx, asIs(claim, node))
	if no != nil && !refused(no) {
		return report{}, fmt.Errorf("predict the gpus of nodeclaim %s: %w", claim.Name, no)
	}
	have, asked := gpusOf(node.Status.Allocatable), gpusOf(claim.Spec.Resources.Requests)
	if len(predicted.Resources) == 0 && len(asked) == 0 && len(have) == 0 {
		return report{}, nil
	}
	set := claim.StatusConditions(status.WithClock(w.clock))
	before := set.Get(ConditionGPUs)
	initialized := set.Get(karpenter.ConditionTypeInitialized).IsTrue()
	ghost := !initialized && len(have) == 0 && before != nil && (before.IsTrue() || cameUp(before.Reason))
	if !initialized {
		count(claim, predicted.Resources, ghost)
	}
	var out report
	for _, name := range asked.Names() {
		if have[name] == 0 {
			out.lacking = append(out.lacking, name)
		}
	}
	if len(have) > 0 && (initialized || len(out.lacking) == 0) {
		out.wait = w.compare(claim, node, predicted.Resources, have)
		out.up = before == nil || before.IsFalse() && !cameUp(before.Reason)
		return out, nil
	}
	var err error
	if out.cause, err = w.why(ctx, node, situation{claim, out.lacking, predicted.Resources, no, ghost}); err != nil {
		return report{}, err
	}
	set.SetFalse(ConditionGPUs, out.cause.reason, out.cause.text)
	if initialized || len(out.lacking) == 0 {
		return out, nil // nobody waits for them here
	}
	return w.due(ctx, claim, node, out), nil
}

// asIs is the claim with the labels that its node has by now: they choose the
// device config.
func asIs(claim *karpenter.NodeClaim, node *corev1.Node) *karpenter.NodeClaim {
	out := &karpenter.NodeClaim{}
	out.Name, out.Labels = claim.Name, map[string]string{}
	maps.Copy(out.Labels, claim.Labels)
	maps.Copy(out.Labels, node.Labels)
	return out
}

// cameUp reports whether a reason of the condition means that GPUs were there,
// or had been.
func cameUp(reason string) bool {
	return reason == reasonFewer || reason == reasonMore || reason == reasonDied
}

// due finds out whether GPUs have taken too long.
func (w *watcher) due(ctx context.Context, claim *karpenter.NodeClaim, node *corev1.Node, r report) report {
	r.limit = w.limit(ctx, claim, r.lacking)
	since := claim.StatusConditions().Get(karpenter.ConditionTypeRegistered).LastTransitionTime.Time
	left := since.Add(r.limit).Sub(w.clock.Now())
	if left <= 0 {
		r.overdue = true
		return r
	}
	early := min(30*time.Second, r.limit/4)
	r.wait = min(left, early)
	if r.cause.certain && w.clock.Since(since) >= early {
		w.publish(claim, node, "GPUsNotRegistered", fmt.Sprintf("%s: %s", r.missing(), r.cause.text))
	}
	return r
}

// limit is how long the GPUs may take: the shortest that a waiting pod says,
// else what the claim says, else the default.
func (w *watcher) limit(ctx context.Context, claim *karpenter.NodeClaim, lacking []string) time.Duration {
	shortest := time.Duration(0)
	for _, p := range w.waiting(ctx, claim, lacking) {
		if d, ok := w.timeout(ctx, p); ok && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	if shortest > 0 {
		return shortest
	}
	if d, ok := w.timeout(ctx, claim); ok {
		return d
	}
	return w.deadline
}

// timeout reads the annotation of a pod or claim.
func (w *watcher) timeout(ctx context.Context, o client.Object) (time.Duration, bool) {
	text, ok := o.GetAnnotations()[TimeoutAnnotation]
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		log.FromContext(ctx).Info("the annotation is not a positive duration such as 5m and is passed over",
			"annotation", TimeoutAnnotation, "value", text, "object", o.GetNamespace()+"/"+o.GetName())
		return 0, false
	}
	return d, true
}

// waiting lists the pods that wait for a claim: those that it was bought for,
// as far as that is known, else every pod without a node that asks for what the
// claim lacks and has a timeout of its own. Nobody may write to them.
func (w *watcher) waiting(ctx context.Context, claim *karpenter.NodeClaim, lacking []string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, key := range w.cluster.PodsMappedToNodeClaim(claim.Name) {
		p := &corev1.Pod{}
		if err := w.client.Get(ctx, key, p); err == nil && p.Spec.NodeName == "" {
			out = append(out, p)
		}
	}
	if len(out) > 0 {
		return out
	}
	var pods corev1.PodList
	if err := w.client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": ""}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "pods that wait are not known; the default deadline counts")
		return nil
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if _, says := p.Annotations[TimeoutAnnotation]; says && asksFor(p, lacking) {
			out = append(out, p)
		}
	}
	return out
}

// asksFor reports whether a pod asks for one of the resources.
func asksFor(p *corev1.Pod, names []string) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, asks := c.Resources.Limits[corev1.ResourceName(name)]; return asks })
	})
}

// compare writes down how a node's GPUs differ from the prediction.
func (w *watcher) compare(claim *karpenter.NodeClaim, node *corev1.Node, want, have model.Resources) time.Duration {
	set := claim.StatusConditions(status.WithClock(w.clock))
	reason, text := difference(want, have)
	if reason == "" {
		set.SetTrue(ConditionGPUs)
		delete(claim.Annotations, MismatchAnnotation)
		return 0
	}
	set.SetFalse(ConditionGPUs, reason, text)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[MismatchAnnotation] = text
	if left := settling - w.clock.Since(set.Get(ConditionGPUs).LastTransitionTime.Time); left > 0 {
		return left
	}
	w.publish(claim, node, reason, "the node's GPUs are not as predicted: "+text)
	return 0
}

// difference names a reason and how amounts differ, or "" where they do not.
func difference(want, have model.Resources) (reason, text string) {
	var parts []string
	for _, name := range want.Plus(have, 1).Names() {
		if have[name] == want[name] || want[name] == 0 && !nvidia(name) {
			continue // of other vendors' devices little is predicted
		}
		if have[name] < want[name] {
			reason = reasonFewer
		} else if reason == "" {
			reason = reasonMore
		}
		parts = append(parts, fmt.Sprintf("%s: %d, predicted %d", name, have[name], want[name]))
	}
	return reason, strings.Join(parts, "; ")
}

// count makes the claim's status follow the prediction, and leave out GPUs that
// came up and died. Until a node is initialized, Karpenter takes what its status
// lacks from there.
func count(claim *karpenter.NodeClaim, predicted model.Resources, ghost bool) {
	if ghost {
		predicted = nil
	}
	claim.Status.Capacity = same(claim.Status.Capacity, cloud.WithGPUs(claim.Status.Capacity, predicted))
	claim.Status.Allocatable = same(claim.Status.Allocatable, cloud.WithGPUs(claim.Status.Allocatable, predicted))
}

// same keeps the old list where the new one says the same.
func same(old, now corev1.ResourceList) corev1.ResourceList {
	if len(old) != len(now) {
		return now
	}
	for name, q := range now {
		if was, ok := old[name]; !ok || q.Cmp(was) != 0 {
			return now
		}
	}
	return old
}

// gpusOf are the amounts of GPU resources, without zeros.
func gpusOf(list corev1.ResourceList) model.Resources {
	out := model.Resources{}
	for name, q := range list {
		if model.IsGPU(string(name)) && !q.IsZero() {
			out[string(name)] = q.Value()
		}
	}
	return out
}

// ready reports whether a node is.
func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
