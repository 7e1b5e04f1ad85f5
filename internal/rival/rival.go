// Package rival plans a Snapshot with Karpenter v1.15.0's own provisioning
// scheduler, in this process: no API server, no cloud, the library's code.
// It is what Kerf's plans are measured against.
//
// Karpenter is given its best case. Every offering is in stock, nothing cuts
// its scheduling short unless asked, and each node it orders is priced at the
// cheapest offering that it leaves open, where the cloud may choose a dearer
// one.
//
// It sees what it would see in a cluster: the physical GPUs of a type, since a
// device-plugin config means nothing to it (kubernetes-sigs/karpenter#729), or
// with Options.Overlay what the NodeOverlays of internal/overlay tell it. A pod
// that asks for thousandths of a GPU asks Karpenter for whole ones, as its
// owner would have to.
package rival

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/kerfdev/kerf/internal/model"
)

// Version is the Karpenter release whose scheduler runs.
const Version = "v1.15.0"

// Options say how Karpenter is set up. The zero value is Karpenter as it comes.
type Options struct {
	// Overlay switches the feature gate NodeOverlay on and gives Karpenter the
	// overlays that internal/overlay writes for the Snapshot.
	Overlay bool
	// IgnorePreferences is Karpenter's --preference-policy=Ignore.
	IgnorePreferences bool
	// Limit ends the search after a time, as Karpenter does after one minute;
	// what it has by then counts. 0 lets it finish.
	Limit time.Duration
	// Workers is how many nodes are tried at once; 0 is 1, Karpenter's default
	// for one requested core. The plan does not depend on it.
	Workers int
}

// Result is Karpenter's answer to a Snapshot.
type Result struct {
	Nodes []Node // in the order in which they were opened
	Binds []Bind // nodes that exist and get pods, by name
	Cost  float64
	// Unplaced holds for every pod that went nowhere why, in Karpenter's words.
	Unplaced map[int]string
	// Cut says that Limit ended the search.
	Cut bool
	// Wall and CPU are the time of the scheduler's Solve alone, as Karpenter's
	// own benchmark measures it; CPU is the user and system time of the whole
	// process meanwhile.
	Wall, CPU time.Duration
}

// A Node is one node that Karpenter orders, at its cheapest.
type Node struct {
	Pool         string
	Type         string
	Zone         string
	CapacityType string
	Price        float64 // $/h
	Pods         []int   // indexes into Snapshot.Pods, rising
}

// A Bind predicts pods onto a node that exists.
type Bind struct {
	Node string
	Pods []int // rising
}

// running serialises runs: the library keeps the labels that it knows in a
// variable of its package.
var running sync.Mutex

// Run plans the Snapshot with Karpenter. The same Snapshot gives the same
// nodes where Karpenter decides alike; where it goes by the order of a Go map
// (topology domains of equal count) prices may vary by half a percent. An error
// means that the Snapshot could not be put to Karpenter, not that pods went
// nowhere.
func Run(s model.Snapshot, o Options) (Result, error) {
	running.Lock()
	defer running.Unlock()
	ctx := setup(o)
	b := newBook(s)
	defer b.forget()
	c := newCluster(s)
	pools := nodePools(s)
	types, err := c.types(ctx, s, b, pools, o)
	if err != nil {
		return Result{}, err
	}
	return c.schedule(ctx, s, pools, types, o)
}

// setup returns the context that Karpenter reads its settings from.
func setup(o Options) context.Context {
	settings := &options.Options{
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true, NodeOverlay: o.Overlay},
	}
	if o.IgnorePreferences {
		settings.PreferencePolicy = options.PreferencePolicyIgnore
	}
	ctx := log.IntoContext(context.Background(), logr.Discard())
	return options.ToContext(injection.WithControllerName(ctx, "provisioner"), settings)
}

// schedule builds a scheduler as Karpenter's provisioner does for a batch of
// pods, and runs it.
func (c *cluster) schedule(ctx context.Context, s model.Snapshot, pools []*karpenter.NodePool, types map[string][]*cloudprovider.InstanceType, o Options) (Result, error) {
	out := Result{Unplaced: c.excluded}
	if len(pools) == 0 {
		for _, p := range c.pending {
			out.Unplaced[c.index[p.UID]] = "no dynamic nodepools found"
		}
		return out, nil
	}
	settings := []scheduling.Options{
		scheduling.NumConcurrentReconciles(max(1, o.Workers)),
		scheduling.MinValuesPolicy(options.FromContext(ctx).MinValuesPolicy),
		scheduling.DisableReservedCapacityFallback,
	}
	if o.IgnorePreferences {
		settings = append(settings, scheduling.IgnorePreferences)
	}
	nodes, known, err := c.state(ctx, s)
	if err != nil {
		return Result{}, err
	}
	topology, err := scheduling.NewTopology(ctx, c.client, known, nodes, pools, types, c.pending, settings...)
	if err != nil {
		return Result{}, fmt.Errorf("count topology domains: %w", err)
	}
	scheduler := scheduling.NewScheduler(ctx, c.client, pools, known, nodes, topology, types, daemons(s), silent{}, clock.RealClock{}, c.volumes, nil, settings...)
	answer, err := out.solve(ctx, scheduler, c.pending, o.Limit)
	if err != nil {
		return Result{}, err
	}
	out.read(answer.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes), c)
	return out, nil
}

// solve runs and times the scheduler.
func (r *Result) solve(ctx context.Context, s *scheduling.Scheduler, pods []*corev1.Pod, limit time.Duration) (scheduling.Results, error) {
	if limit > 0 {
		within, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = within
	}
	cpu, start := CPUTime(), time.Now()
	answer, err := s.Solve(ctx, slices.Clone(pods))
	r.Wall, r.CPU = time.Since(start), CPUTime()-cpu
	r.Cut = errors.Is(err, context.DeadlineExceeded)
	if err != nil && !r.Cut {
		return scheduling.Results{}, fmt.Errorf("run karpenter's scheduler: %w", err)
	}
	return answer, nil
}

// read turns the scheduler's answer into indexes and prices.
func (r *Result) read(answer scheduling.Results, c *cluster) {
	placed := map[int]bool{}
	indexes := func(pods []*corev1.Pod) []int {
		var out []int
		for _, p := range pods {
			at := c.index[p.UID]
			placed[at] = true
			out = append(out, at)
		}
		slices.Sort(out)
		return out
	}
	for _, claim := range answer.NewNodeClaims {
		n := cheapest(claim)
		if n.Type == "" {
			continue // nothing to launch: its pods are among the unplaced below
		}
		n.Pods = indexes(claim.Pods)
		r.Cost += n.Price
		r.Nodes = append(r.Nodes, n)
	}
	for _, node := range answer.ExistingNodes {
		if len(node.Pods) > 0 {
			r.Binds = append(r.Binds, Bind{Node: node.Name(), Pods: indexes(node.Pods)})
		}
	}
	for pod, err := range answer.PodErrors {
		if at := c.index[pod.UID]; !placed[at] {
			r.Unplaced[at] = err.Error()
		}
	}
	for _, p := range c.pending {
		at := c.index[p.UID]
		if _, said := r.Unplaced[at]; !said && !placed[at] {
			r.Unplaced[at] = "no node was found before the search ended"
		}
	}
}

// cheapest is the node that a claim becomes when everything is in stock.
func cheapest(claim *scheduling.NodeClaim) Node {
	out := Node{Pool: claim.NodePoolName}
	for _, t := range claim.InstanceTypeOptions {
		fitting := t.Offerings.Launchable().Compatible(claim.Requirements)
		if len(fitting) == 0 {
			continue
		}
		if best := fitting.Cheapest(); out.Type == "" || best.Price < out.Price {
			out.Type, out.Price = t.Name, best.Price
			out.Zone, out.CapacityType = best.Zone(), best.CapacityType()
		}
	}
	return out
}

// silent drops the events that Karpenter would record on objects.
type silent struct{}

// Publish does nothing.
func (silent) Publish(...events.Event) {}

var _ events.Recorder = silent{}

// state gives Karpenter the nodes that exist with what runs on them, and
// returns those that take pods.
func (c *cluster) state(ctx context.Context, s model.Snapshot) ([]*state.StateNode, *state.Cluster, error) {
	known := state.NewCluster(clock.RealClock{}, c.client, c.cloud)
	for i := range s.Nodes {
		if err := known.UpdateNode(ctx, c.client.nodes[s.Nodes[i].Name]); err != nil {
			return nil, nil, fmt.Errorf("put node %s to karpenter: %w", s.Nodes[i].Name, err)
		}
	}
	for i := range c.client.bound {
		if err := known.UpdatePod(ctx, &c.client.bound[i]); err != nil {
			return nil, nil, fmt.Errorf("put pod %s to karpenter: %w", c.client.bound[i].Name, err)
		}
	}
	usable := map[string]bool{}
	for i := range s.Nodes {
		usable[s.Nodes[i].Name] = !s.Nodes[i].Leaving && s.Nodes[i].Unready == ""
	}
	nodes := known.DeepCopyNodes()
	nodes = slices.DeleteFunc(nodes, func(n *state.StateNode) bool { return !usable[n.Name()] })
	slices.SortFunc(nodes, func(a, b *state.StateNode) int { return strings.Compare(a.Name(), b.Name()) })
	return nodes, known, nil
}
