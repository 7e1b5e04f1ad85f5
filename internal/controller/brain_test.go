package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpenterstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/yaml"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/install"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// A bench is a brain on an API server that is a map, with a simulated cloud. It
// has no scheduler and no machines: tests play both.
type bench struct {
	t     testing.TB
	clock *clocktesting.FakeClock
	api   client.WithWatch
	cloud *cloud.Simulated
	brain *provisioner
	fail  func(client.Object) error // of Create, before anything is written
	lost  func(client.Object) error // of Create, after it was written
}

type silent struct{}

func (silent) Publish(...events.Event) {}

// newBench starts with objects as YAML: pools, device configs and the like.
func newBench(t testing.TB, text string) *bench {
	t.Helper()
	b := &bench{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))}
	book, err := catalog.Load("us-east-1")
	must(t, err)
	for range 2 { // the first cloud makes the node classes known to the scheme
		b.api = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpenter.NodeClaim{}, &corev1.Pod{}).
			WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
			WithInterceptorFuncs(interceptor.Funcs{Create: b.creates}).Build()
		b.cloud, err = cloud.NewSimulated(cloud.Config{Client: b.api, Book: book, Clock: b.clock})
		must(t, err)
	}
	must(t, b.api.Create(t.Context(), &cloud.EC2NodeClass{NodeClass: cloud.NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}))
	docs, _ := source.Parse(source.File{Name: "in.yaml", Data: []byte(text)})
	installed, _ := install.Read(docs, source.Nested)
	b.start(book, cloud.Static(cloud.Installation{Sharing: installed.Sharing, Plugins: installed.Plugins}))
	for part := range strings.SplitSeq(text, "\n---\n") {
		b.apply(part)
	}
	return b
}

// start makes a brain that knows nothing, as after a restart.
func (b *bench) start(book catalog.Book, configs cloud.Configs) {
	stock := newStock(b.cloud, b.clock, 3*time.Minute, func(string) {})
	store := newStore(b.clock, b.api.Scheme())
	out := func() []offer { o, _ := stock.soldOut(); return o }
	b.brain = &provisioner{
		client: b.api, observer: &observer{store: store, shop: newShop(book, b.cloud.GetInstanceTypes, out), configs: configs, now: b.clock.Now},
		state: karpenterstate.NewCluster(b.clock, b.api, b.cloud), recorder: silent{}, said: newAnnouncer(b.api, b.clock), gate: newGate(b.api, store, b.clock, 10*time.Minute), clock: b.clock,
		batch: newBatch(time.Millisecond, time.Millisecond), steps: 200_000, writers: 4, restock: func() time.Time { _, next := stock.soldOut(); return next },
	}
}

// restart forgets all that the brain had in memory and reads the cluster anew.
func (b *bench) restart() {
	b.t.Helper()
	o := b.brain.observer
	b.start(o.shop.book, o.configs)
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.NodeList{}, &karpenter.NodeClaimList{}, &karpenter.NodePoolList{}} {
		must(b.t, b.api.List(b.t.Context(), list))
		must(b.t, meta.EachListItem(list, func(o runtime.Object) error {
			b.brain.observer.store.Set(o.(client.Object))
			return nil
		}))
	}
}

// apply creates an object and shows it to the brain.
func (b *bench) apply(text string) {
	b.t.Helper()
	var kind metav1.TypeMeta
	must(b.t, yaml.Unmarshal([]byte(text), &kind))
	gvk := kind.GroupVersionKind()
	typed, err := b.api.Scheme().New(gvk)
	if err != nil {
		return // for the cloud or the plugin only
	}
	must(b.t, yaml.UnmarshalStrict([]byte(text), typed))
	b.create(typed.(client.Object))
}

func (b *bench) create(o client.Object) {
	b.t.Helper()
	if o.GetUID() == "" {
		o.SetUID(types.UID(o.GetNamespace() + "-" + o.GetName()))
	}
	must(b.t, b.api.Create(b.t.Context(), o))
	b.brain.observer.store.Set(o)
}

// creates gives objects a uid, as the API server does, and fails on demand.
func (b *bench) creates(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if b.fail != nil {
		if err := b.fail(o); err != nil {
			return err
		}
	}
	if o.GetUID() == "" {
		o.SetUID(types.UID("uid-" + o.GetName()))
	}
	if err := c.Create(ctx, o, opts...); err != nil {
		return err
	}
	if b.lost != nil {
		return b.lost(o)
	}
	return nil
}

// pods creates n pending pods that the scheduler has found no place for.
func (b *bench) pods(name string, n int, requests map[string]string, change ...func(*corev1.Pod)) {
	b.t.Helper()
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, SchedulerName: "default-scheduler"},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
			}},
		}
		list := corev1.ResourceList{}
		for k, v := range requests {
			list[corev1.ResourceName(k)] = resource.MustParse(v)
			if strings.Contains(k, "/") {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: k, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
			}
		}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		for _, f := range change {
			f(p)
		}
		b.create(p)
	}
}

// decide makes one decision.
func (b *bench) decide() error {
	return b.brain.decide(options.ToContext(b.t.Context(), &options.Options{}))
}

func (b *bench) mustDecide() {
	b.t.Helper()
	must(b.t, b.decide())
}

// claims lists the NodeClaims that there are.
func (b *bench) claims() []karpenter.NodeClaim {
	b.t.Helper()
	var list karpenter.NodeClaimList
	must(b.t, b.api.List(b.t.Context(), &list))
	slices.SortFunc(list.Items, func(x, y karpenter.NodeClaim) int { return strings.Compare(x.Name, y.Name) })
	return list.Items
}

// bought tells which types were ordered, as "2 x g4dn.xlarge spot".
func (b *bench) bought() string {
	b.t.Helper()
	count := map[string]int{}
	for _, c := range b.claims() {
		if c.DeletionTimestamp == nil {
			count[asked(&c, model.LabelInstanceType)[0]+" "+strings.Join(asked(&c, model.LabelCapacityType), "|")]++
		}
	}
	var out []string
	for what, n := range count {
		out = append(out, fmt.Sprintf("%d x %s", n, what))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// arrives has a g4dn.xlarge that was ordered come up as a node: initialized,
// unless the changes leave something out.
func (b *bench) arrives(c karpenter.NodeClaim, name string, change ...func(*corev1.Node)) karpenter.NodeClaim {
	b.t.Helper()
	zone := asked(&c, model.LabelZone)[0]
	c.Labels[model.LabelInstanceType], c.Labels[model.LabelZone], c.Labels[model.LabelCapacityType] = "g4dn.xlarge", zone, asked(&c, model.LabelCapacityType)[0]
	must(b.t, b.api.Update(b.t.Context(), &c))
	room := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("14Gi"), "pods": resource.MustParse("29"), "nvidia.com/gpu": resource.MustParse("1")}
	id := "sim:///" + zone + "/i-" + name
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: c.Labels, CreationTimestamp: metav1.NewTime(b.clock.Now())},
		Spec:       corev1.NodeSpec{ProviderID: id},
		Status: corev1.NodeStatus{
			Capacity: room.DeepCopy(), Allocatable: room.DeepCopy(),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(n)
	}
	c.Status.ProviderID, c.Status.NodeName, c.Status.Capacity, c.Status.Allocatable = id, name, room, room
	kinds := []string{karpenter.ConditionTypeLaunched, karpenter.ConditionTypeRegistered}
	if ready(n) && equipped(&c, n) && passing(&c, n) == nil {
		kinds = append(kinds, karpenter.ConditionTypeInitialized)
	}
	for _, kind := range kinds {
		c.StatusConditions().SetTrue(kind)
	}
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(b.clock.Now())
	}
	must(b.t, b.api.Status().Update(b.t.Context(), &c))
	b.brain.observer.store.Set(&c)
	b.create(n)
	return c
}

// told drains the announcer and returns the message on a pod, "" for none.
func (b *bench) told(pod string) string {
	b.t.Helper()
	b.clock.Step(settling)
	for w, ok := b.brain.said.next(); ok; w, ok = b.brain.said.next() {
		must(b.t, b.brain.said.write(b.t.Context(), w))
	}
	var list corev1.EventList
	must(b.t, b.api.List(b.t.Context(), &list))
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == pod {
			out = append(out, e.Message)
		}
	}
	if len(out) > 1 {
		b.t.Errorf("pod %s has %d events", pod, len(out))
	}
	return strings.Join(out, "\n")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
