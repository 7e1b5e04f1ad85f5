package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	nodeclaimutils "sigs.k8s.io/karpenter/pkg/utils/nodeclaim"

	"github.com/kerfdev/kerf/internal/model"
)

// A gate opens a node that pods wait for when it is what was ordered, and not
// before: it is ready, its GPUs are there, and so are its companions
// (company.go). Until then it is cordoned, which DaemonSets such as the device
// plugin do not mind, and bears the annotation model.AnnotationHeld. Its pods are
// nominated to it before it opens, and no others take their place.
//
// The gate is one of Karpenter's registration hooks: a node bears the taint
// karpenter.sh/unregistered until it is cordoned.
type gate struct {
	client   client.Client
	store    *store
	places   *nominator
	clock    clock.Clock
	patience time.Duration // how long GPUs are waited for
	queue    workqueue.TypedRateLimitingInterface[string]

	mu       sync.Mutex
	waits    company
	complete map[string]time.Time // since when nodes that are not open are complete
	standing map[string]standing
}

// A standing is since when only nominations keep a node from opening, and since
// when all of them have stood. The scheduler tries pods at the first sight of a
// node's GPUs, finds the node closed, and takes their nominations back.
type standing struct{ last, nominated time.Time }

// look is how often a closed node is looked at, though nothing was seen to happen.
const look = 250 * time.Millisecond

// stand is how long nominations must have stood before a node opens, and
// standAtMost how long it waits for that.
const (
	stand       = time.Second
	standAtMost = 5 * time.Second
)

// companionship is how long a node that is complete waits for its companions.
const companionship = 30 * time.Second

func newGate(c client.Client, s *store, clk clock.Clock, patience time.Duration) *gate {
	pace := workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 10*time.Second) // of errors
	return &gate{client: c, store: s, places: newNominator(c, s), clock: clk, complete: map[string]time.Time{}, standing: map[string]standing{}, patience: patience, queue: workqueue.NewTypedRateLimitingQueue(pace)}
}

// Name implements cloudprovider.NodeLifecycleHook.
func (*gate) Name() string { return "kerf.dev/gate" }

// Registered implements cloudprovider.NodeLifecycleHook.
func (g *gate) Registered(ctx context.Context, claim *karpenter.NodeClaim) (cloudprovider.NodeLifecycleHookResult, error) {
	var done cloudprovider.NodeLifecycleHookResult
	node, err := nodeclaimutils.NodeForNodeClaim(ctx, g.client, claim)
	if err != nil {
		return done, nil // the registration says so itself
	}
	pods := g.places.expectedOn(claim, node.Name)
	if err := g.places.nominateAll(ctx, pods, node.Name); err != nil {
		return done, err
	}
	if len(pods) == 0 || node.Spec.Unschedulable {
		return done, nil
	}
	err = g.close(ctx, node, cmp.Or(g.missing(claim, node), "its pods are not nominated to it yet"))
	if apierrors.IsConflict(err) {
		return cloudprovider.NodeLifecycleHookResult{Requeue: true}, nil
	}
	return done, err
}

// expect takes over what a decision expects, in place of all before: where pods
// go, and which nodes wait for which.
func (g *gate) expect(where places, waits company) {
	g.places.expect(where)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits = waits
}

// saw has a node that is held looked at, and a pod that lost its nomination. It
// reports whether a decision should follow.
func (g *gate) saw(o any) (decide bool) {
	switch v := o.(type) {
	case *corev1.Pod:
		return g.places.saw(v)
	case *corev1.Node:
		if closed(v) {
			g.queue.Add(v.Name)
		}
	}
	return false
}

// closed reports whether the gate keeps pods off a node.
func closed(node *corev1.Node) bool { return node.Annotations[model.AnnotationHeld] != "" }

// Run opens nodes, and nominates pods, until ctx is done.
func (g *gate) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { g.places.Run(ctx) })
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("gate"))
	var wg sync.WaitGroup
	for range nominators {
		wg.Go(func() {
			for g.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	g.queue.ShutDown()
	wg.Wait()
}

func (g *gate) next(ctx context.Context) bool {
	name, down := g.queue.Get()
	if down {
		return false
	}
	defer g.queue.Done(name)
	node, claim := g.store.nodeAndClaim(name)
	if node == nil || !closed(node) || node.DeletionTimestamp != nil {
		g.forget(name)
		return true
	}
	if claim != nil && (unregistered(node) || g.missing(claim, node) != "") {
		g.queue.AddAfter(name, look) // what it waits for may be another node
		return true
	}
	if claim != nil && !g.settled(ctx, claim, name) {
		g.queue.AddAfter(name, look)
		return true
	}
	if err := g.open(ctx, node); client.IgnoreNotFound(err) != nil {
		if !apierrors.IsConflict(err) {
			log.FromContext(ctx).Error(err, "a node is not open to pods yet; this is tried again", "node", name)
		}
		g.queue.AddRateLimited(name)
		return true
	}
	g.forget(name)
	if claim != nil {
		g.places.again(g.places.expectedOn(claim, name))
	}
	return true
}

// forget drops what is known of a node that is open, or gone.
func (g *gate) forget(node string) {
	g.queue.Forget(node)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.complete, node)
	delete(g.standing, node)
}

// settled renews the nominations to a complete node, and reports whether it may
// open.
func (g *gate) settled(ctx context.Context, claim *karpenter.NodeClaim, node string) bool {
	lost := slices.DeleteFunc(g.places.expectedOn(claim, node), func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" })
	if err := g.places.nominateAll(ctx, lost, node); err != nil {
		log.FromContext(ctx).V(1).Info("nominations are tried again", "node", node, "error", err.Error())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	s, known := g.standing[node]
	if !known {
		s = standing{now, now}
	}
	if len(lost) > 0 {
		s.nominated = now
	}
	g.standing[node] = s
	return now.Sub(s.nominated) >= stand || now.Sub(s.last) >= standAtMost
}

// close keeps pods off a node, and says why.
func (g *gate) close(ctx context.Context, node *corev1.Node, why string) error {
	return g.patch(ctx, node, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[model.AnnotationHeld] = why
	})
}

// open lets pods onto a node. The taint that Kubernetes has set for a cordoned
// node, and takes off a moment later, goes at the same time: until it is gone
// the scheduler finds no place on the node, and takes the nominations back.
func (g *gate) open(ctx context.Context, node *corev1.Node) error {
	return g.patch(ctx, node, func(n *corev1.Node) {
		n.Spec.Unschedulable = false
		delete(n.Annotations, model.AnnotationHeld)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	})
}

// patch changes a node, unless somebody else has done so in the meantime.
func (g *gate) patch(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) error {
	changed := node.DeepCopy()
	change(changed)
	if err := g.client.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("open or close node %s: %w", node.Name, err)
	}
	return nil
}

// missing says what a node waits for, "" for nothing.
func (g *gate) missing(claim *karpenter.NodeClaim, node *corev1.Node) string {
	if !ready(node) {
		return "its kubelet is not ready"
	}
	age := g.clock.Since(node.CreationTimestamp.Time)
	if age < g.patience {
		if t := passing(claim, node); t != nil {
			return "the taint " + t.ToString() + " is still on it"
		}
		if !equipped(claim, node) {
			return "its GPUs have not come up"
		}
	}
	g.mu.Lock()
	companions := g.waits[claim.Name]
	g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(companions)) {
		if g.store.comes(name) && g.waitsSince(node.Name) < companionship {
			return "the node of nodeclaim " + name + " has not come up, and their pods depend on each other"
		}
	}
	return ""
}

// waitsSince is how long a complete node has been waiting for companions.
func (g *gate) waitsSince(node string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	since, known := g.complete[node]
	if !known {
		since = g.clock.Now()
		g.complete[node] = since
	}
	return g.clock.Since(since)
}

func unregistered(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&karpenter.UnregisteredNoExecuteTaint) })
}

// passing is a taint of a node that goes by itself before pods come: one that
// Kubernetes or Karpenter sets on fresh nodes, or a startup taint of the pool.
func passing(claim *karpenter.NodeClaim, node *corev1.Node) *corev1.Taint {
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.MatchTaint(&karpenter.UnregisteredNoExecuteTaint) {
			continue // it goes with the registration, which asks the gate
		}
		if scheduling.IsKnownEphemeralTaint(t) || slices.ContainsFunc(claim.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(t) }) {
			return t
		}
	}
	return nil
}

// equipped reports whether a node advertises GPUs, or was not to have any.
func equipped(claim *karpenter.NodeClaim, node *corev1.Node) bool {
	return !gpus(claim.Status.Allocatable) || gpus(node.Status.Allocatable)
}

func gpus(list corev1.ResourceList) bool {
	for name, q := range list {
		if model.IsGPU(string(name)) && !q.IsZero() {
			return true
		}
	}
	return false
}

// comes reports whether a claim's node is still to come up.
func (s *store) comes(claim string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims.get(claim)
	if !ok || c.read.Node.Leaving {
		return false
	}
	n, ok := s.nodes.get(s.nodeOf[c.object.Status.ProviderID])
	return !ok || !ready(n.object) || !equipped(c.object, n.object)
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// nodeAndClaim are a node and its claim, as far as there are such.
func (s *store) nodeAndClaim(name string) (*corev1.Node, *karpenter.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes.get(name)
	if !ok {
		return nil, nil
	}
	if c, ok := s.claims.get(s.claimOf[n.object.Spec.ProviderID]); ok {
		return n.object, c.object
	}
	return n.object, nil
}
