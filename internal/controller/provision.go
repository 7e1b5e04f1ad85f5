package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/kerfdev/kerf/internal/solve"
)

// state is what the provisioner tells Karpenter's cluster state (v1.15), so that
// its disruption leaves nodes alone that pods are about to use, and its metrics
// of pods are right.
type state interface {
	AckPods(...*corev1.Pod)
	MarkPodSchedulingDecisions(ctx context.Context, failed map[*corev1.Pod]error, byPool, byNode map[string][]*corev1.Pod)
	UpdatePodToNodeClaimMapping(map[string][]*corev1.Pod)
	UpdateNodeClaim(*karpenter.NodeClaim)
	NominateNodeForPod(ctx context.Context, providerID string)
}

// A provisioner turns pods that wait into NodeClaims.
type provisioner struct {
	client   client.Client
	observer *observer
	state    state
	recorder events.Recorder
	said     *announcer
	gate     *gate // nil nominates no pods and keeps none off nodes
	clock    clock.Clock
	batch    *batch
	steps    int64
	plain    bool // preferences of pods count for nothing
	writers  int
	restock  func() time.Time // when something out of stock is tried again
}

// retry is after how long a decision is made again while pods wait, though
// nothing was seen to happen.
const retry = 10 * time.Second

// Run makes decisions until ctx is done.
func (p *provisioner) Run(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("provisioner")
	ctx = log.IntoContext(ctx, logger)
	for p.batch.Wait(ctx, retry) {
		if err := p.decide(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "the decision was not carried out in full; it is made again")
			p.pause(ctx)
		}
	}
}

// pause keeps a decision that fails from being made again at once.
func (p *provisioner) pause(ctx context.Context) {
	p.batch.Trigger()
	select {
	case <-p.clock.After(time.Second):
	case <-ctx.Done():
	}
}

// decide makes one decision and carries it out. What it did not get done is
// done by the next one: nothing is remembered but what the cluster holds.
func (p *provisioner) decide(ctx context.Context) error {
	watch := newStopwatch(p.clock)
	v, err := p.observer.look(ctx)
	if err != nil {
		return fmt.Errorf("look at the cluster: %w", err)
	}
	if len(v.waiting) == 0 {
		p.expect(v, plan.Plan{}, nil)
		p.said.keep(nil)
		show(v, nil)
		return nil
	}
	for _, i := range v.waiting {
		p.state.AckPods(v.objects[i])
	}
	watch.lap("look")
	answer, err := p.plan(ctx, v)
	solved(watch.lap("plan"), answer)
	if err != nil {
		return err
	}
	p.postpone(v, &answer)
	orders, unwritten := p.orders(v, answer.Launches)
	p.expect(v, answer, orders)
	failed := errors.Join(unwritten, p.launch(ctx, v, answer, orders))
	watch.lap("write")
	loopSeconds.Observe(watch.total().Seconds())
	p.tell(ctx, v, answer)
	watch.lap("tell")
	report(log.FromContext(ctx), v, answer, watch)
	return failed
}

// plan plans, and has the plan looked over by code that knows nothing of how it
// was made. A plan that does not hold is not carried out; it is a mistake in
// Kerf, and a simpler plan is tried so that no pod has to wait for the mend.
func (p *provisioner) plan(ctx context.Context, v *view) (plan.Plan, error) {
	var wrong []error
	for _, o := range []solve.Options{
		{Steps: p.steps, Prove: p.proof(v), IgnorePreferences: p.plain},
		{Steps: 1, IgnorePreferences: true},
	} {
		answer, _ := solve.Solve(v.snapshot, o)
		if wrong = plan.Check(v.snapshot, answer); len(wrong) == 0 {
			return answer, nil
		}
		plansRefused.Inc()
		log.FromContext(ctx).Error(errors.Join(wrong[:min(3, len(wrong))]...), "a plan does not hold; please report this with kerf snapshot")
	}
	return plan.Plan{}, fmt.Errorf("no plan holds, so none is carried out: %w", wrong[0])
}

// proof is how much may be spent on a bound: as much as on the plan, where
// there is anything to plan.
func (p *provisioner) proof(v *view) int64 {
	if slices.ContainsFunc(v.waiting, func(i int) bool { return v.snapshot.Pods[i].Node == "" }) {
		return p.steps
	}
	return 0
}

func report(logger logr.Logger, v *view, answer plan.Plan, watch *stopwatch) {
	if len(answer.Launches) == 0 {
		logger = logger.V(1)
	}
	gap, known := answer.Gap()
	if !known {
		gap = -1
	}
	logger.WithValues(watch.laps...).Info("planned", "pods", len(v.waiting), "launches", len(answer.Launches), "price", answer.Cost, "gap", gap,
		"unplaced", len(unplacedPods(answer)), "took", watch.total().Round(time.Millisecond).String())
}

func unplacedPods(answer plan.Plan) []int {
	var out []int
	for _, r := range answer.Unplaced {
		out = append(out, r.Pods...)
	}
	return out
}

// postpone takes launches out of a plan that are for pods whose places others
// have just taken: another look, soon, will show which places that has freed.
func (p *provisioner) postpone(v *view, answer *plan.Plan) {
	if p.gate == nil {
		return
	}
	planned := len(answer.Launches)
	answer.Launches = slices.DeleteFunc(answer.Launches, func(l plan.Launch) bool {
		if !slices.ContainsFunc(l.Pods, func(i int) bool { return p.gate.places.displaced(v.objects[i]) }) {
			return false
		}
		answer.Cost -= l.Price
		return true
	})
	if len(answer.Launches) < planned {
		time.AfterFunc(p.gate.places.settle, p.batch.Trigger)
	}
}

// orders writes the launches of a plan as orders. One that cannot be written
// does not keep the others.
func (p *provisioner) orders(v *view, launches []plan.Launch) (out []order, failed error) {
	book := newOrderBook(v)
	var errs []error
	for i := range launches {
		o, err := book.order(&launches[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, o)
	}
	return out, some(errs)
}

// expect has the gate know where pods are expected, before any node of theirs
// can come.
func (p *provisioner) expect(v *view, answer plan.Plan, orders []order) {
	if p.gate == nil {
		return
	}
	all := places{}
	for _, b := range answer.Binds {
		for _, i := range b.Pods {
			all.expect(b.Node, v.claims[b.Node], v.objects[i])
		}
	}
	for _, i := range v.waiting {
		if node := v.snapshot.Pods[i].Node; node != "" {
			all.expect(node, v.claims[node], v.objects[i])
		}
	}
	for i := range orders {
		all.expect("", orders[i].claim.Name, orders[i].pods...)
	}
	p.gate.expect(all, companions(v, answer, all))
}

// launch creates the NodeClaims of orders, many at once. One that fails does not
// keep the others.
func (p *provisioner) launch(ctx context.Context, v *view, answer plan.Plan, orders []order) error {
	known := map[string]bool{}
	for _, name := range v.claims {
		known[name] = true
	}
	var mu sync.Mutex
	var errs []error
	renamed := false
	each(len(orders), p.writers, func(i int) {
		name := orders[i].claim.Name
		err := p.create(ctx, &orders[i], known)
		mu.Lock()
		defer mu.Unlock()
		renamed = renamed || orders[i].claim.Name != name
		if err != nil {
			errs = append(errs, err)
		}
	})
	if renamed {
		p.expect(v, answer, orders)
	}
	return some(errs)
}

// some joins the first few of many errors.
func some(errs []error) error {
	if len(errs) > 3 {
		errs = append(errs[:3], fmt.Errorf("and %d more", len(errs)-3))
	}
	return errors.Join(errs...)
}

// each runs f for 0 to n-1 on a few goroutines and waits for them.
func each(n, goroutines int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, goroutines) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// create creates one NodeClaim. One of that name that the decision did not know
// of is the fruit of an attempt whose answer was lost. One that it knew of is
// on its way out, or other pods have taken its room: then this order is a new one.
func (p *provisioner) create(ctx context.Context, o *order, known map[string]bool) error {
	err := p.client.Create(ctx, o.claim)
	for apierrors.IsAlreadyExists(err) {
		var have karpenter.NodeClaim
		if err = p.client.Get(ctx, client.ObjectKeyFromObject(o.claim), &have); err != nil {
			break
		}
		if !known[have.Name] && sameOrder(&have, o.claim) {
			o.claim = &have
			break
		}
		o.claim.Name = claimName(o.launch, o.pods, string(have.UID))
		err = p.client.Create(ctx, o.claim)
	}
	if err != nil {
		return fmt.Errorf("create nodeclaim %s: %w", o.claim.Name, err)
	}
	p.observer.store.Assume(o.claim.DeepCopy())
	p.state.UpdateNodeClaim(o.claim)
	p.state.UpdatePodToNodeClaimMapping(map[string][]*corev1.Pod{o.claim.Name: o.pods})
	created(o.pool)
	for _, pod := range o.pods {
		p.recorder.Publish(scheduling.NominatePodEvent(pod, nil, o.claim))
	}
	return nil
}

// tell says what was decided: to Karpenter's state, which nodes are spoken for;
// to pods that go nowhere, why.
func (p *provisioner) tell(ctx context.Context, v *view, answer plan.Plan) {
	byNode, byPool := map[string][]*corev1.Pod{}, map[string][]*corev1.Pod{}
	nodes := map[string]*model.Node{}
	for i := range v.snapshot.Nodes {
		nodes[v.snapshot.Nodes[i].Name] = &v.snapshot.Nodes[i]
	}
	onto := func(node string, pods []int) {
		p.state.NominateNodeForPod(ctx, v.provider[node])
		for _, i := range pods {
			byNode[v.claims[node]] = append(byNode[v.claims[node]], v.objects[i])
			byPool[nodes[node].Pool] = append(byPool[nodes[node].Pool], v.objects[i])
		}
	}
	for _, b := range answer.Binds {
		onto(b.Node, b.Pods)
	}
	for _, i := range v.waiting {
		if n := nodes[v.snapshot.Pods[i].Node]; n != nil && !n.Leaving {
			onto(n.Name, []int{i})
		}
	}
	for _, l := range answer.Launches {
		for _, i := range l.Pods {
			byPool[l.Pool] = append(byPool[l.Pool], v.objects[i])
		}
	}
	delete(byNode, "")
	words := refusals(v, answer.Unplaced, p.restock())
	failed := map[*corev1.Pod]error{}
	for _, w := range words {
		failed[w.pod] = errors.New(w.text)
	}
	p.state.MarkPodSchedulingDecisions(ctx, failed, byPool, byNode)
	p.said.keep(words)
	show(v, answer.Unplaced)
}
