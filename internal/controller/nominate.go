package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/nodepool"
)

// A nominator tells the scheduler which node a pod is expected on, in the
// field status.nominatedNodeName (KEP-5278, on by default from Kubernetes 1.35).
// The scheduler tries that node first, and keeps its room from other pods of the
// same priority or a lower one. Without it pods go to whichever node is up
// first, those that were to have that node find no room on the others, and
// another node has to be bought.
//
// Pods are nominated when their node opens (gate.go). The scheduler takes a
// nomination back whenever it tries a pod and finds no place; it is then renewed,
// ever more slowly: that a nomination goes makes the scheduler try others.
type nominator struct {
	client client.Client
	store  *store
	queue  workqueue.TypedRateLimitingInterface[string]
	settle time.Duration // see resettling

	mu       sync.Mutex
	places   places
	mine     map[types.UID]string    // nominations given, which alone are written over
	lost     map[types.UID]time.Time // when pods were seen to have lost their places
	reported bool                    // that nominations are not allowed
}

// places are where pods, by "namespace/name", are expected.
type places map[string]place

// A place is a node, or the NodeClaim of one that is on its way.
type place struct {
	uid         types.UID // the pod's
	node, claim string
}

func (p places) expect(node, claim string, pods ...*corev1.Pod) {
	for _, pod := range pods {
		p[keyOf(pod)] = place{uid: pod.UID, node: node, claim: claim}
	}
}

func newNominator(c client.Client, s *store) *nominator {
	pace := workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 10*time.Second)
	return &nominator{client: c, store: s, queue: workqueue.NewTypedRateLimitingQueue(pace), settle: resettling, mine: map[types.UID]string{}, lost: map[types.UID]time.Time{}}
}

// Run nominates until ctx is done.
func (n *nominator) Run(ctx context.Context) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("nominator"))
	var wg sync.WaitGroup
	for range nominators {
		wg.Go(func() {
			for n.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	n.queue.ShutDown()
	wg.Wait()
}

// resettling is how long a pod whose place another has taken waits before a node
// is bought for it. The other's own place is free then, but the watch may bring
// the news of one binding long after that of another.
const resettling = 5 * time.Second

// displaced reports whether a pod has just lost its place on a node that is
// there, and open.
func (n *nominator) displaced(pod *corev1.Pod) bool {
	key := keyOf(pod)
	n.mu.Lock()
	p, had := n.places[key]
	n.mu.Unlock()
	if had && p.uid == pod.UID {
		_, node := n.store.whereabouts(key, p)
		had = node != ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	since, known := n.lost[pod.UID]
	if !known && had {
		since, known = time.Now(), true
		n.lost[pod.UID] = since
	}
	return known && time.Since(since) < n.settle
}

// nominators is how many pods are nominated at once.
const nominators = 16

func (n *nominator) next(ctx context.Context) bool {
	key, down := n.queue.Get()
	if down {
		return false
	}
	defer n.queue.Done(key)
	pod, node := n.due(key)
	if node == "" {
		return true
	}
	if err := n.nominate(ctx, pod, node); err != nil {
		log.FromContext(ctx).V(1).Info("a nomination is tried again", "pod", key, "node", node, "error", err.Error())
		n.queue.AddRateLimited(key)
	}
	return true
}

// expect takes over what a decision expects, in place of all before.
func (n *nominator) expect(all places) {
	n.mu.Lock()
	n.places = all
	mine := make(map[types.UID]string, len(all))
	for _, p := range all {
		if node, ok := n.mine[p.uid]; ok {
			mine[p.uid] = node
		}
	}
	n.mine = mine
	for uid, since := range n.lost {
		if time.Since(since) > time.Minute {
			delete(n.lost, uid)
		}
	}
	n.mu.Unlock()
	for key := range all {
		n.queue.Add(key)
	}
}

// saw renews the nomination of a pod from which it was taken. It reports whether
// a pod was bound to another node than where it was expected: then its own place
// is free, and the pod whose place it took is to have that at once.
func (n *nominator) saw(pod *corev1.Pod) (astray bool) {
	if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" {
		return false
	}
	key := keyOf(pod)
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.places[key]
	if !ok || p.uid != pod.UID {
		return false
	}
	if pod.Spec.NodeName == "" {
		if n.mine[pod.UID] != "" {
			n.queue.AddRateLimited(key)
		}
		return false
	}
	delete(n.places, key)
	return n.mine[pod.UID] != pod.Spec.NodeName
}

// due returns the node that a pod is to be nominated to, "" if there is nothing
// to do: the node has not come or is not open, or it is nominated. What the
// scheduler has nominated in order to preempt stays.
func (n *nominator) due(key string) (pod *corev1.Pod, node string) {
	n.mu.Lock()
	p, ok := n.places[key]
	mine := n.mine[p.uid]
	n.mu.Unlock()
	if !ok {
		return nil, ""
	}
	pod, node = n.store.whereabouts(key, p)
	if pod == nil || pod.Status.NominatedNodeName == node {
		n.queue.Forget(key)
		return nil, ""
	}
	if have := pod.Status.NominatedNodeName; have != "" && have != mine {
		return nil, ""
	}
	return pod, node
}

// whereabouts are a pod that waits, and the node of its place if that is open.
func (s *store) whereabouts(key string, p place) (pod *corev1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.pods.get(key)
	if !ok || !e.waits || e.object.UID != p.uid {
		return nil, ""
	}
	n, ok := s.nodes.get(p.node)
	if c, is := s.claims.get(p.claim); is && !ok {
		n, ok = s.nodes.get(s.nodeOf[c.object.Status.ProviderID])
	}
	if !ok || closed(n.object) || unregistered(n.object) {
		return e.object, ""
	}
	return e.object, n.object.Name
}

// nominate writes one nomination. A pod that is bound or gone needs none, and
// where they are not allowed the cluster goes without.
func (n *nominator) nominate(ctx context.Context, pod *corev1.Pod, node string) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"nominatedNodeName": node},
	})
	if err != nil {
		return fmt.Errorf("nominate pod %s: %w", keyOf(pod), err)
	}
	n.mu.Lock()
	n.mine[pod.UID] = node
	n.mu.Unlock()
	object := &corev1.Pod{}
	object.Namespace, object.Name = pod.Namespace, pod.Name
	err = n.client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return nil
	case apierrors.IsForbidden(err):
		n.forbidden(ctx, err)
		return nil
	case err != nil:
		return fmt.Errorf("nominate pod %s to node %s: %w", keyOf(pod), node, err)
	}
	return nil
}

func (n *nominator) forbidden(ctx context.Context, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.reported {
		n.reported = true
		log.FromContext(ctx).Error(err, "pods cannot be nominated to nodes, so some may take the place of others; allow kerf-controller to patch pods/status")
	}
}

// expectedOn lists the pods that wait for a NodeClaim's node: by the last
// decision, and by the claim itself where that decision knows nothing of them.
func (n *nominator) expectedOn(claim *karpenter.NodeClaim, node string) []podEntry {
	n.mu.Lock()
	var keys []string
	for key, p := range n.places {
		if p.claim == claim.Name || p.node == node {
			keys = append(keys, key)
		}
	}
	for key := range strings.SplitSeq(claim.Annotations[nodepool.AnnotationPods], ",") {
		if _, known := n.places[key]; !known {
			keys = append(keys, key)
		}
	}
	n.mu.Unlock()
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	var out []podEntry
	for _, key := range keys {
		if e, ok := n.store.pods.get(key); ok && e.waits && (e.object.Status.NominatedNodeName == "" || e.object.Status.NominatedNodeName == node) {
			out = append(out, e)
		}
	}
	return out
}
