package hands

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	nodeclaimutils "sigs.k8s.io/karpenter/pkg/utils/nodeclaim"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// A predictor says what a NodeClaim's node will advertise.
type predictor interface {
	Predict(context.Context, *karpenter.NodeClaim) (model.Advertisement, error)
}

// A watcher looks at the nodes of NodeClaims from registration on: whether
// their GPUs come up, come up as predicted, and whether taints keep pods off.
type watcher struct {
	client   client.Client
	clock    clock.Clock
	recorder events.Recorder
	cloud    predictor
	configs  cloud.Configs
	cluster  *state.Cluster
	avoid    *Avoid
	holder   holder
	deadline time.Duration

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// watch adds the watcher to the manager.
func (h *Hands) watch(m manager.Manager, c Config) error {
	w := &watcher{
		client: m.GetClient(), clock: c.Clock, recorder: c.Recorder, cloud: c.Cloud, configs: c.Configs, cluster: h.Cluster,
		avoid: h.Avoid, holder: h.holder, deadline: c.GPUDeadline,
	}
	if follows, ok := c.Configs.(interface{ OnChange(func()) }); ok {
		follows.OnChange(w.again)
	}
	err := controllerruntime.NewControllerManagedBy(m).Named("kerf.nodeclaim.gpus").
		For(&karpenter.NodeClaim{}, builder.WithPredicates(nodeclaimutils.IsManagedPredicateFuncs(h.Provider))).
		Watches(&corev1.Node{}, nodeclaimutils.NodeEventHandler(m.GetClient(), h.Provider)).
		WatchesRawSource(source.Func(w.follow)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8, RateLimiter: cloud.BackOff(time.Minute)}).
		Complete(w)
	if err != nil {
		return fmt.Errorf("watch the gpus of nodeclaims: %w", err)
	}
	return nil
}

// follow remembers the queue, for changes that are no object's.
func (w *watcher) follow(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = q
	return nil
}

// again looks at every NodeClaim once more, since the device configs or their
// plugin have changed: what failed under the old ones may be tried again.
func (w *watcher) again() {
	w.avoid.Forgive()
	w.mu.Lock()
	queue := w.queue
	w.mu.Unlock()
	if queue == nil {
		return
	}
	for n := range w.cluster.Nodes() {
		if n.NodeClaim != nil {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(n.NodeClaim)})
		}
	}
}

// Reconcile looks at one NodeClaim and its node.
func (w *watcher) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	claim := &karpenter.NodeClaim{}
	if err := w.client.Get(ctx, r.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if !claim.StatusConditions().Get(karpenter.ConditionTypeRegistered).IsTrue() {
		return w.unregistered(claim), nil
	}
	node, err := nodeclaimutils.NodeForNodeClaim(ctx, w.client, claim)
	if err != nil {
		return reconcile.Result{}, nodeclaimutils.IgnoreNodeNotFoundError(nodeclaimutils.IgnoreDuplicateNodeError(err))
	}
	old := claim.DeepCopy()
	gpus, err := w.gpus(ctx, claim, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	taints := w.taints(claim, node)
	if c := claim.StatusConditions().Get(ConditionTaints); gpus.up && (c == nil || c.IsTrue()) {
		w.avoid.Succeeded(claim.Labels[karpenter.NodePoolLabelKey], claim.Labels[model.LabelInstanceType])
	}
	switch err := w.save(ctx, old, claim); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if gpus.overdue {
		return reconcile.Result{}, w.replace(ctx, claim, node, gpus)
	}
	return reconcile.Result{RequeueAfter: sooner(gpus.wait, taints)}, nil
}

// sooner is the shorter of two waits, of which 0 is for ever.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// save writes what changed about a claim. Karpenter's controllers write the
// same lists, so neither may overwrite what the other has just written: the
// error is then a conflict.
func (w *watcher) save(ctx context.Context, old, claim *karpenter.NodeClaim) error {
	now := claim.DeepCopy()
	if !equality.Semantic.DeepEqual(old.Annotations, claim.Annotations) {
		if err := w.client.Patch(ctx, now, client.MergeFrom(old)); err != nil {
			return client.IgnoreNotFound(fmt.Errorf("annotate nodeclaim %s: %w", claim.Name, err))
		}
	}
	if equality.Semantic.DeepEqual(old.Status, claim.Status) {
		return nil
	}
	base := old.DeepCopy()
	base.ResourceVersion = now.ResourceVersion
	claim.ResourceVersion = now.ResourceVersion
	err := w.client.Status().Patch(ctx, claim.DeepCopy(), client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report on nodeclaim %s: %w", claim.Name, err)
	}
	return nil
}

// replace deletes a claim whose GPUs did not come up, and remembers it.
func (w *watcher) replace(ctx context.Context, claim *karpenter.NodeClaim, node *corev1.Node, g report) error {
	kind := claim.Labels[model.LabelInstanceType]
	if g.cause.everywhere {
		kind = ""
	}
	uid := claim.UID
	switch err := w.client.Delete(ctx, claim, client.Preconditions{UID: &uid}); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete nodeclaim %s: %w", claim.Name, err)
	}
	until := w.avoid.Failed(claim.Labels[karpenter.NodePoolLabelKey], kind, g.cause.text, claim.CreationTimestamp.Time)
	w.publish(claim, node, "GPUsNotRegistered", fmt.Sprintf("%s after %s: %s; the node is replaced", g.missing(), g.limit, g.cause.text))
	log.FromContext(ctx).Info("replacing a node whose gpus did not register", "NodeClaim", claim.Name, "Node", node.Name,
		"cause", g.cause.reason, "avoided-until", until)
	return nil
}

// publish puts a warning on a claim and its node, once an hour.
func (w *watcher) publish(claim *karpenter.NodeClaim, node *corev1.Node, reason, text string) {
	const longest = 1024 // bytes of an event's message that the API server takes
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	event := events.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: text, DedupeTimeout: time.Hour}
	onClaim, onNode := event, event
	onClaim.InvolvedObject, onClaim.DedupeValues = claim, []string{string(claim.UID), text}
	onNode.InvolvedObject, onNode.DedupeValues = node, []string{string(node.UID), text}
	w.recorder.Publish(onClaim, onNode)
}
