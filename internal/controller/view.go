package controller

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/model"
)

func isStorageClass(o client.Object) bool {
	_, ok := o.(*storagev1.StorageClass)
	return ok
}

// A view is the cluster at one moment, for one decision.
type view struct {
	snapshot model.Snapshot
	objects  []*corev1.Pod // by index into snapshot.Pods
	waiting  []int         // pods that wait for a place, reserved ones included
	pools    map[string]*karpenter.NodePool
	provider map[string]string // provider ids by name in snapshot.Nodes
	claims   map[string]string // names of NodeClaims by name in snapshot.Nodes
	closed   map[string]bool   // names in snapshot.Nodes of those that the gate keeps pods off
	wares    wares
}

// An observer makes views of a store.
type observer struct {
	store   *store
	shop    *shop
	configs cloud.Configs
	now     func() time.Time
	// held lists the taints of a node that are to be overlooked; nil is none.
	held func(node *corev1.Node, declared []corev1.Taint) []corev1.Taint

	frame     *intake.Frame
	documents int
	wares     int
	installed *cloud.Installation
	parts     bool
}

// look makes a view. An error means that the cloud or the cluster could not be
// asked in time.
func (o *observer) look(ctx context.Context) (*view, error) {
	installed, err := o.configs.Current(ctx)
	if err != nil {
		return nil, err
	}
	o.store.mu.Lock()
	var pools []*karpenter.NodePool
	o.store.pools.each(func(p **karpenter.NodePool) { pools = append(pools, *p) })
	o.store.mu.Unlock()
	w, err := o.shop.look(ctx, pools)
	if err != nil {
		return nil, err
	}
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	o.refit(w, installed)
	v := &view{wares: w, pools: map[string]*karpenter.NodePool{}, provider: map[string]string{}, claims: map[string]string{}, closed: map[string]bool{}}
	for _, p := range pools {
		v.pools[p.Name] = p
	}
	nodes, claims := o.nodes(v)
	leaving := map[string]bool{}
	for i := range nodes {
		leaving[nodes[i].Name] = nodes[i].Leaving
	}
	v.snapshot = o.frame.Snapshot(o.options(), o.pods(v, leaving), nodes, claims)
	return v, nil
}

// patience is longer than any node takes: the hands replace a node whose GPUs do
// not come up, and decide when.
const patience = 365 * 24 * time.Hour

func (o *observer) options() intake.Options {
	return intake.Options{Now: o.now(), GPUDeadline: patience}
}

// refit makes a new frame when anything in it has changed.
func (o *observer) refit(w wares, installed *cloud.Installation) {
	s := o.store
	parts := s.shares > 0
	if o.frame != nil && o.documents == s.documents && o.wares == w.version && o.installed == installed && o.parts == parts {
		return
	}
	var docs []manifest.Document
	s.docs.each(func(d *manifest.Document) { docs = append(docs, *d) })
	o.frame, _ = intake.NewFrame(docs, intake.FrameOptions{
		Book: w.book, Sharing: &installed.Sharing, Plugins: installed.Plugins, Consumable: parts, Limits: w.limits, Closed: w.closed,
	})
	o.documents, o.wares, o.installed, o.parts = s.documents, w.version, installed, parts
}

// nodes lists the nodes that exist and those that have been ordered. A node
// and a claim belong together by the provider's id, before the claim knows the
// node's name.
func (o *observer) nodes(v *view) (nodes []model.Node, claims []intake.Claim) {
	s := o.store
	byID, byName := make(map[string]*claimEntry, s.claims.len()), make(map[string]*claimEntry, s.claims.len())
	unaware := map[string]bool{} // names of claims that know of no instance yet
	nodes, claims = make([]model.Node, 0, s.nodes.len()+s.claims.len()), make([]intake.Claim, 0, s.claims.len())
	s.claims.each(func(c *claimEntry) {
		if c.object.Status.ProviderID == "" && c.object.Status.NodeName == "" {
			unaware[c.object.Name] = true
		}
		if id := c.object.Status.ProviderID; id != "" {
			byID[id] = c
		}
		if name := c.object.Status.NodeName; name != "" {
			byName[name] = c
		}
	})
	arrived := make(map[*claimEntry]bool, s.claims.len())
	s.nodes.each(func(n *nodeEntry) {
		c := byID[n.object.Spec.ProviderID]
		if c == nil {
			c = byName[n.object.Name]
		}
		if c == nil && unaware[n.object.Name] {
			return // a cloud that names nodes after their claims; the claim stands for it
		}
		node := o.seen(n, c)
		v.provider[node.Name] = n.object.Spec.ProviderID
		if closed(n.object) {
			v.closed[node.Name] = true
		}
		if c != nil {
			arrived[c] = true
			v.claims[node.Name] = c.object.Name
			claim := c.read
			claim.Node.Name = node.Name
			claims = append(claims, claim)
		}
		nodes = append(nodes, node)
	})
	s.claims.each(func(c *claimEntry) {
		if arrived[c] {
			return
		}
		if c.frame != o.frame {
			c.ordered, c.frame = o.frame.Ordered(o.options(), c.read), o.frame
		}
		v.claims[c.ordered.Name] = c.object.Name
		v.provider[c.ordered.Name] = c.object.Status.ProviderID
		nodes = append(nodes, c.ordered)
		claims = append(claims, c.read)
	})
	return nodes, claims
}

// seen completes a node, unless that was done before with the same claim.
func (o *observer) seen(n *nodeEntry, c *claimEntry) model.Node {
	var claim *karpenter.NodeClaim
	var read *intake.Claim
	if c != nil {
		claim, read = c.object, &c.read
	}
	if n.frame != o.frame || n.claim != claim {
		n.seen, n.frame, n.claim = o.frame.Node(o.options(), n.read, read), o.frame, claim
	}
	if claim == nil || o.held == nil || len(n.seen.Taints) == 0 {
		return n.seen
	}
	return without(n.seen, o.held(n.object, slices.Concat(claim.Spec.Taints, claim.Spec.StartupTaints)))
}

// without is a node without taints that it is taken to lose.
func without(n model.Node, taints []corev1.Taint) model.Node {
	if len(taints) == 0 {
		return n
	}
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return slices.ContainsFunc(taints, func(h corev1.Taint) bool { return h.Key == t.Key && string(h.Effect) == t.Effect })
	})
	return n
}

// pods lists the pods that take room or wait for it. Those of a node that is
// being drained are to be moved, except for those that end there: only of a
// StatefulSet does the next pod bear the same name and wait for this one to go.
func (o *observer) pods(v *view, leaving map[string]bool) []model.Pod {
	s := o.store
	ending := o.ending()
	out := make([]model.Pod, 0, s.pods.len())
	v.objects = make([]*corev1.Pod, 0, s.pods.len())
	s.pods.each(func(e *podEntry) {
		if e.scope >= 0 && e.scope != s.scopes {
			s.uncount(*e)
			*e = s.readPod(e.object)
		}
		if !e.takes || e.read.Node == "" && !e.waits {
			return
		}
		moves := leaving[e.read.Node]
		if moves && !podutils.IsReschedulable(e.object) {
			return
		}
		if node := e.object.Status.NominatedNodeName; e.waits && node != "" {
			if lowest, ok := ending[node]; ok && lowest < e.read.Spec.Priority {
				return // it preempts: its place is about to be free
			}
		}
		if e.waits || moves {
			v.waiting = append(v.waiting, len(out))
		}
		out = append(out, e.read)
		v.objects = append(v.objects, e.object)
	})
	return slices.Clip(out)
}

// ending is the lowest priority among the pods that are being deleted on a node.
func (o *observer) ending() map[string]int32 {
	out := map[string]int32{}
	o.store.pods.each(func(e *podEntry) {
		if e.object.DeletionTimestamp == nil || e.read.Node == "" || !e.takes {
			return
		}
		lowest, some := out[e.read.Node]
		if p := e.read.Spec.Priority; !some || p < lowest {
			out[e.read.Node] = p
		}
	})
	return out
}
