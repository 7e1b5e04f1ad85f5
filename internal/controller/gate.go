package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
// plugin do not mind, and bears the annotation model.AnnotationHeld. It is closed
// as it registers: the gate is one of Karpenter's registration hooks.
//
// Its pods are nominated to it right before it opens. Earlier it would not last:
// whatever happens to a node has the scheduler try pods anew, and it takes the
// nomination of each that finds no place. The opening of another node is such a
// thing too, so they open one after the other (turns.go), at every tick those that
// are complete.
type gate struct {
	client   client.Client
	store    *store
	places   *nominator
	clock    clock.Clock
	patience time.Duration // how long GPUs are waited for

	mu       sync.Mutex
	company  company
	complete map[string]time.Time // since when nodes wait for companions alone
}

const (
	// tick is how often complete nodes are opened: often enough for nobody to
	// notice, and seldom enough for the scheduler to be done with the last ones.
	tick = 500 * time.Millisecond
	// heard is how long the scheduler is given to hear of nominations, and this
	// controller of a node's taints.
	heard = 10 * time.Millisecond
	// binding is how long the scheduler is given to bind the pods of a node that
	// has just been opened, before the next one is.
	binding = 250 * time.Millisecond
	// companionship is how long a node that is complete waits for its companions.
	companionship = 30 * time.Second
)

func newGate(c client.Client, s *store, clk clock.Clock, patience time.Duration) *gate {
	return &gate{client: c, store: s, places: newNominator(c, s), clock: clk, patience: patience, complete: map[string]time.Time{}}
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
	if node.Spec.Unschedulable || len(g.places.expectedOn(claim, node.Name)) == 0 {
		return done, nil
	}
	err = g.close(ctx, node, cmp.Or(g.missing(claim, node), "it opens in its turn"))
	if apierrors.IsConflict(err) {
		return cloudprovider.NodeLifecycleHookResult{Requeue: true}, nil
	}
	return done, err
}

// expect takes over what a decision expects, in place of all before: where pods
// go, and which nodes wait for which.
func (g *gate) expect(where places, company company) {
	g.places.expect(where)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.company = company
}

// closed reports whether the gate keeps pods off a node.
func closed(node *corev1.Node) bool { return node.Annotations[model.AnnotationHeld] != "" }

// Run opens nodes, and nominates pods, until ctx is done.
func (g *gate) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { g.places.Run(ctx) })
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("gate"))
	for every := time.NewTicker(tick); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
			g.open(ctx)
		}
	}
}

// An arrival is a closed node, and what it was ordered as.
type arrival struct {
	node  *corev1.Node
	read  model.Node
	claim *karpenter.NodeClaim // nil when it is gone
}

// open opens the nodes that are complete, group by group. What does not succeed
// is tried again at the next tick.
func (g *gate) open(ctx context.Context) {
	var list []arrival
	for _, a := range g.store.arrivals() {
		if a.claim == nil || !unregistered(a.node) && g.missing(a.claim, a.node) == "" {
			list = append(list, a)
		}
	}
	for some := range slices.Chunk(g.inTurn(list), 1+len(list)/turns) {
		if ctx.Err() == nil {
			g.openAll(ctx, slices.Concat(some...))
		}
	}
}

// turns is in how many turns nodes are opened at one tick, about, so that nobody
// has to wait long.
const turns = 30

// openAll opens nodes when all their pods are nominated to them, and returns when
// the scheduler has bound those. It nominates when the scheduler has been through
// the pods that it had reason to try: it takes the nomination of each, and each
// that it takes is a reason to try others.
func (g *gate) openAll(ctx context.Context, list []arrival) {
	for range tries {
		g.store.calm()
		g.nominate(ctx, list)
		time.Sleep(heard)
		if g.nominated(list) {
			break
		}
	}
	each(len(list), openers, func(i int) {
		if err := g.letIn(ctx, list[i].node.Name); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "a node is not open to pods yet; this is tried again", "node", list[i].node.Name)
		}
	})
	for end := time.Now().Add(binding); g.waiting(list) && time.Now().Before(end); {
		time.Sleep(heard)
	}
}

// nominate nominates the pods of nodes that are not, as far as is known.
func (g *gate) nominate(ctx context.Context, list []arrival) {
	type nomination struct {
		pod  *corev1.Pod
		node string
	}
	var due []nomination
	for _, a := range list {
		for _, p := range g.pods(a) {
			if p.object.Status.NominatedNodeName != a.node.Name {
				due = append(due, nomination{p.object, a.node.Name})
			}
		}
	}
	each(len(due), nominators, func(i int) {
		if err := g.places.nominate(ctx, due[i].pod, due[i].node); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "a node opens without all of its pods nominated to it", "node", due[i].node)
		}
	})
}

// nominated reports whether all pods of the nodes are nominated to them.
func (g *gate) nominated(list []arrival) bool {
	return !slices.ContainsFunc(list, func(a arrival) bool {
		return slices.ContainsFunc(g.pods(a), func(p podEntry) bool { return p.object.Status.NominatedNodeName != a.node.Name })
	})
}

// waiting reports whether pods still wait for one of the nodes.
func (g *gate) waiting(list []arrival) bool {
	return slices.ContainsFunc(list, func(a arrival) bool {
		return len(g.pods(a)) > 0
	})
}

// pods are those that wait for a node.
func (g *gate) pods(a arrival) []podEntry {
	if a.claim == nil {
		return nil
	}
	return g.places.expectedOn(a.claim, a.node.Name)
}

// openers is how many nodes are opened at once.
const openers = 32

// close keeps pods off a node, and says why.
func (g *gate) close(ctx context.Context, node *corev1.Node, why string) error {
	changed := node.DeepCopy()
	changed.Spec.Unschedulable = true
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, model.AnnotationHeld, why)
	if err := g.client.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("close node %s: %w", node.Name, err)
	}
	return nil
}

// letIn lets pods onto a node. The taint that Kubernetes has set for a cordoned
// node, and takes off a moment later, goes at the same time: until it is gone
// the scheduler finds no place on the node, and takes the nominations back.
// Whatever else happens to the node meanwhile does not matter, but other taints:
// then it is read again.
func (g *gate) letIn(ctx context.Context, name string) error {
	var err error
	for range tries {
		node := g.store.node(name)
		if node == nil || !closed(node) {
			return nil
		}
		if err = g.client.Patch(ctx, node.DeepCopy(), opening(node)); !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
			break
		}
		time.Sleep(heard)
	}
	if err != nil {
		return fmt.Errorf("open node %s: %w", name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.complete, name)
	return nil
}

// tries is how often, in one tick, a node whose taints change is read again, and
// nominations that the scheduler takes back are renewed.
const tries = 5

// opening is the patch that opens a node, as long as it has the same taints.
func opening(node *corev1.Node) client.Patch {
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	steps := []step{
		{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(model.AnnotationHeld, "/", "~1")},
	}
	if node.Spec.Unschedulable {
		steps = append(steps, step{Op: "remove", Path: "/spec/unschedulable"})
	}
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	switch {
	case len(kept) == len(node.Spec.Taints):
	case len(kept) == 0:
		steps = append(steps, step{"test", "/spec/taints", node.Spec.Taints}, step{Op: "remove", Path: "/spec/taints"})
	default:
		steps = append(steps, step{"test", "/spec/taints", node.Spec.Taints}, step{"replace", "/spec/taints", kept})
	}
	body, _ := json.Marshal(steps) // taints can always be written
	return client.RawPatch(types.JSONPatchType, body)
}

// missing says what a node waits for, "" for nothing.
func (g *gate) missing(claim *karpenter.NodeClaim, node *corev1.Node) string {
	if why := g.lacks(claim, node); why != "" {
		return why
	}
	g.mu.Lock()
	companions := g.company.waits[claim.Name]
	g.mu.Unlock()
	for _, set := range companions {
		for name := range set {
			if name != claim.Name && g.comes(name) && g.waitsSince(node.Name) < companionship {
				return "the node of nodeclaim " + name + " has not come up, and their pods depend on each other"
			}
		}
	}
	return ""
}

// lacks says what a node lacks by itself.
func (g *gate) lacks(claim *karpenter.NodeClaim, node *corev1.Node) string {
	if !ready(node) {
		return "its kubelet is not ready"
	}
	if g.clock.Since(node.CreationTimestamp.Time) >= g.patience {
		return ""
	}
	if t := passing(claim, node); t != nil {
		return "the taint " + t.ToString() + " is still on it"
	}
	if !equipped(claim, node) {
		return "its GPUs have not come up"
	}
	return ""
}

// comes reports whether a claim's node is still to come up.
func (g *gate) comes(claim string) bool {
	node, c := g.store.nodeOfClaim(claim)
	if c == nil {
		return false
	}
	return node == nil || unregistered(node) || g.lacks(c, node) != ""
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

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// arrivals lists the nodes that are closed and not on their way out.
func (s *store) arrivals() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []arrival
	s.nodes.each(func(n *nodeEntry) {
		if !closed(n.object) || n.read.Leaving {
			return
		}
		a := arrival{node: n.object, read: n.read}
		if c, ok := s.claims.get(s.claimOf[n.object.Spec.ProviderID]); ok {
			a.claim = c.object
		}
		out = append(out, a)
	})
	return out
}

// node is a node as it was seen last, nil when there is none.
func (s *store) node(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := s.nodes.get(name)
	return n.object
}

// nodeOfClaim is a claim that is not on its way out, and its node once it has come.
func (s *store) nodeOfClaim(name string) (*corev1.Node, *karpenter.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims.get(name)
	if !ok || c.read.Node.Leaving {
		return nil, nil
	}
	n, _ := s.nodes.get(s.nodeOf[c.object.Status.ProviderID])
	return n.object, c.object
}
