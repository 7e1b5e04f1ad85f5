package cloud

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// workers is how many machines, and how many pods, are looked after at once.
// They share these few goroutines however many there are.
const workers = 16

// Register adds the machines to a manager: what boots them, their heartbeats
// and their pods.
func (s *Simulated) Register(m manager.Manager) error {
	options := func() controller.Options {
		return controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: yes(), RateLimiter: BackOff(time.Second)}
	}
	byProvider := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		id, ok := idIn(o.(*corev1.Node).Spec.ProviderID)
		if !ok {
			return nil
		}
		return []reconcile.Request{requestFor(id)}
	})
	err := controllerruntime.NewControllerManagedBy(m).Named("cloud.machine").WithOptions(options()).
		WatchesRawSource(source.Func(s.follow)).
		Watches(&corev1.Node{}, byProvider).
		Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			return again(s.tend(ctx, r.Name))
		}))
	if err != nil {
		return fmt.Errorf("run machines: %w", err)
	}
	bound := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.(*corev1.Pod).Spec.NodeName != "" })
	err = controllerruntime.NewControllerManagedBy(m).Named("cloud.pod").WithOptions(options()).
		For(&corev1.Pod{}, builder.WithPredicates(bound)).
		Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			return again(s.run(ctx, r.NamespacedName))
		}))
	if err != nil {
		return fmt.Errorf("run pods: %w", err)
	}
	if c, ok := s.configs.(interface{ OnChange(func()) }); ok {
		c.OnChange(s.wakeAll)
	}
	return m.Add(manager.RunnableFunc(s.beat))
}

// again comes back after a wait, and soon after someone else has written to the
// same object.
func again(wait time.Duration, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return reconcile.Result{RequeueAfter: wait}, err
}

// yes allows two managers of one process, such as tests have, to run clouds.
func yes() *bool {
	out := true
	return &out
}

func requestFor(id string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: id}}
}

// follow connects what happens in the cloud with the machines' queue, and
// starts with those that are there.
func (s *Simulated) follow(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	s.wake = func(id string, after time.Duration) { q.AddAfter(requestFor(id), after) }
	s.mu.Unlock()
	s.wakeAll()
	return nil
}

// wakeAll has every machine looked after.
func (s *Simulated) wakeAll() {
	s.mu.Lock()
	wake := s.wake
	ids := make([]string, 0, len(s.machines))
	for id := range s.machines {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		wake(id, 0)
	}
}

// tend does what is due on a machine and returns when to come back; 0 = when
// something happens.
func (s *Simulated) tend(ctx context.Context, id string) (time.Duration, error) {
	if err := s.recover(ctx); err != nil {
		return 0, err
	}
	m, ok := s.look(id)
	if !ok {
		return 0, nil
	}
	now := s.clock.Now()
	if !m.ends.IsZero() && !now.Before(m.ends) && m.State != terminated {
		s.end(id)
		m.State = terminated
	}
	if m.State == terminated {
		return 0, s.bury(ctx, &m)
	}
	if !m.noticed.IsZero() && !m.warned {
		if err := s.warn(ctx, &m); err != nil {
			return 0, err
		}
	}
	var wait time.Duration
	if m.alive() {
		var err error
		if wait, err = s.work(ctx, &m, now); err != nil {
			return 0, err
		}
	}
	if !m.ends.IsZero() {
		wait = sooner(wait, m.ends.Sub(now))
	}
	return wait, nil
}

// sooner is the shorter of two waits, of which 0 is for ever.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// work is what the kubelet of a running machine does.
func (s *Simulated) work(ctx context.Context, m *machine, now time.Time) (time.Duration, error) {
	if due := m.Launched.Add(s.delays.Register); m.node == "" && now.Before(due) {
		return due.Sub(now), nil
	}
	if m.fate.NeverRegisters {
		return 0, nil
	}
	var node corev1.Node
	err := s.client.Get(ctx, client.ObjectKey{Name: m.Node}, &node)
	switch {
	case apierrors.IsNotFound(err) && m.node == "":
		return s.register(ctx, m)
	case apierrors.IsNotFound(err):
		// A kubelet does not make its Node anew. The cache may be behind, too.
		return s.missing(m), nil
	case err != nil:
		return 0, fmt.Errorf("get node %s: %w", m.Node, err)
	}
	if m.node != node.UID || m.forgotten {
		m.node, m.forgotten = node.UID, false
		s.note(m.ID, func(m *machine) { m.node, m.forgotten = node.UID, false })
	}
	return s.live(ctx, m, &node, now)
}

// missing remembers that a machine's Node was deleted under it, once it has had
// time to appear in the cache. Where it appears later still, nothing is lost.
func (s *Simulated) missing(m *machine) time.Duration {
	const cacheDelay = 5 * time.Second
	if s.clock.Since(m.madeAt) < cacheDelay {
		return cacheDelay
	}
	s.note(m.ID, func(m *machine) { m.forgotten = true })
	return 0
}

// note alters a machine without having it looked after again.
func (s *Simulated) note(id string, f func(*machine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.machines[id]; ok {
		f(m)
	}
}

// live keeps a registered node as its kubelet would: Ready, with its GPUs, and
// with the notice of an interruption.
func (s *Simulated) live(ctx context.Context, m *machine, node *corev1.Node, now time.Time) (time.Duration, error) {
	if due := node.CreationTimestamp.Add(s.delays.Ready); m.readyAt.IsZero() && now.Before(due) {
		return due.Sub(now), nil
	}
	if m.readyAt.IsZero() {
		m.readyAt = now
		s.note(m.ID, func(m *machine) { m.readyAt = now })
	}
	if !m.noticed.IsZero() {
		if err := s.taint(ctx, node); err != nil {
			return 0, err
		}
	}
	wait, want, err := s.expected(ctx, m, node, now)
	if err != nil {
		return 0, err
	}
	if err := s.apply(ctx, m, node, want); err != nil {
		return 0, err
	}
	return wait, nil
}

// warn deletes the NodeClaim of an instance that is about to be taken back, as
// the AWS provider's interruption controller does at EC2's warning.
func (s *Simulated) warn(ctx context.Context, m *machine) error {
	log.FromContext(ctx).Info("spot interruption", "instance", m.ID, "nodeclaim", m.Claim, "until", m.ends)
	claim := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: m.Claim}}
	if err := s.client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete nodeclaim %s: %w", m.Claim, err)
	}
	s.note(m.ID, func(m *machine) { m.warned = true })
	return nil
}

// taint keeps new pods off a node that is about to go.
func (s *Simulated) taint(ctx context.Context, node *corev1.Node) error {
	for _, t := range node.Spec.Taints {
		if t.MatchTaint(&InterruptionTaint) {
			return nil
		}
	}
	old := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, InterruptionTaint)
	if err := s.client.Patch(ctx, node, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("taint node %s: %w", node.Name, err)
	}
	return nil
}

// bury deals with the Node of an instance that is gone, as the cloud controller
// manager does: not ready first, then deleted. Then nothing is left of it.
func (s *Simulated) bury(ctx context.Context, m *machine) error {
	var node corev1.Node
	err := s.client.Get(ctx, client.ObjectKey{Name: m.Node}, &node)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("get node %s: %w", m.Node, err)
	case node.Spec.ProviderID == m.ProviderID:
		if err := s.remove(ctx, &node); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.machines, m.ID)
	delete(s.byNode, m.Node)
	return nil
}

// remove deletes a Node whose machine is gone.
func (s *Simulated) remove(ctx context.Context, node *corev1.Node) error {
	if err := s.shutDown(ctx, node); err != nil {
		return err
	}
	if !node.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := s.client.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete node %s: %w", node.Name, err)
	}
	return nil
}

// shutDown marks a node as its kubelet does when the machine goes down.
func (s *Simulated) shutDown(ctx context.Context, node *corev1.Node) error {
	old := node.DeepCopy()
	if !condition(node, corev1.NodeReady, corev1.ConditionFalse, "NodeShutdown", "node is shutting down", s.clock.Now()) {
		return nil
	}
	if err := s.client.Status().Patch(ctx, node, client.StrategicMergeFrom(old)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mark node %s as shutting down: %w", node.Name, err)
	}
	return nil
}
