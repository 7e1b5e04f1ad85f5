package hands

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// start is when every test begins.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// book is us-east-1 with a few families only, to be quick.
var book = sync.OnceValue(func() catalog.Book {
	b, err := catalog.Load("us-east-1")
	if err != nil {
		panic(err)
	}
	b.Types = slices.DeleteFunc(slices.Clone(b.Types), func(t model.InstanceType) bool {
		family, _, _ := strings.Cut(t.Name, ".")
		return !slices.Contains([]string{"g4dn", "g5", "m5"}, family)
	})
	return b
})

// configs change when a test says so.
type configs struct{ now *cloud.Installation }

func (c *configs) Current(context.Context) (*cloud.Installation, error) { return c.now, nil }

// four is a cluster in which every GPU is cut into four.
func four() *configs {
	return &configs{&cloud.Installation{Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{"four": replicas(4, "")}}}}
}

func replicas(n int64, rename string) deviceconfig.Config {
	return deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: model.NvidiaGPU, Rename: rename, Replicas: n}}}}
}

// A world is a watcher over an API server that is only a client, with a clock
// that stands still until it is moved.
type world struct {
	*testing.T
	ctx     context.Context
	client  client.Client
	clock   *clocktesting.FakeClock
	configs *configs
	shared  *cloud.Shared
	cluster *state.Cluster
	events  *heard
	watcher *watcher
}

func newWorld(t *testing.T, c *configs, objects ...client.Object) *world {
	t.Helper()
	classes()
	w := &world{T: t, ctx: Settings{CPUs: 1}.Context(t.Context()), clock: clocktesting.NewFakeClock(start), configs: c, events: &heard{}}
	w.over(objects...)
	w.watcher = &watcher{
		client: w.client, clock: w.clock, recorder: w.events, cloud: w.shared, configs: c, cluster: w.cluster,
		avoid: NewAvoid(w.clock), holder: holder{clock: w.clock, window: DefaultDeadline}, deadline: DefaultDeadline,
	}
	return w
}

// over puts the cloud over a cluster with the objects.
func (w *world) over(objects ...client.Object) {
	w.Helper()
	class := &cloud.EC2NodeClass{}
	class.Name = "default"
	w.client = newClient(w.clock, append(objects, class)...)
	sim, err := cloud.NewSimulated(cloud.Config{Client: w.client, Book: book(), Configs: w.configs, Clock: w.clock})
	if err != nil {
		w.Fatal(err)
	}
	w.shared = cloud.Sharing(sim, w.configs, book())
	w.cluster = state.NewCluster(w.clock, w.client, w.shared)
}

// classes has the scheme know node classes before the first client is made.
var classes = sync.OnceFunc(func() {
	clock := clocktesting.NewFakeClock(start)
	if _, err := cloud.NewSimulated(cloud.Config{Client: newClient(clock), Book: book()}); err != nil {
		panic(err)
	}
})

// newClient keeps objects as an API server does: with UIDs and creation times.
func newClient(clock *clocktesting.FakeClock, objects ...client.Object) client.Client {
	var n int
	var mu sync.Mutex
	stamp := func(o client.Object) {
		mu.Lock()
		defer mu.Unlock()
		n++
		if o.GetName() == "" {
			o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), n))
		}
		if o.GetUID() == "" {
			o.SetUID(types.UID(fmt.Sprintf("uid-%03d", n)))
		}
		if at := o.GetCreationTimestamp(); at.IsZero() {
			o.SetCreationTimestamp(metav1.NewTime(clock.Now()))
		}
	}
	for _, o := range objects {
		stamp(o)
	}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&karpenter.NodeClaim{}, &karpenter.NodePool{}, &corev1.Node{}, &corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			stamp(o)
			return c.Create(ctx, o, opts...)
		}})
	for _, i := range indexes {
		if _, ok := i.of.(*storagev1.VolumeAttachment); ok {
			continue
		}
		value := i.value
		b = b.WithIndex(i.of, i.field, func(o client.Object) []string { return []string{value(o)} })
	}
	return b.Build()
}

// heard are the events that were published.
type heard struct {
	mu  sync.Mutex
	all []events.Event
}

// Publish keeps events.
func (h *heard) Publish(all ...events.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, all...)
}

// about returns the messages of a reason, each once.
func (h *heard) about(reason string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.all {
		if e.Reason == reason && !slices.Contains(out, e.Message) {
			out = append(out, e.Message)
		}
	}
	return out
}

// claim is a registered claim of a T4 node that asks for one slice.
func claim() *karpenter.NodeClaim {
	out := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{
		karpenter.NodePoolLabelKey: "gpu", model.LabelInstanceType: "g4dn.xlarge", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand,
	}}}
	out.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	out.Spec.Resources.Requests = corev1.ResourceList{model.NvidiaGPU: amount(1)}
	out.Status.ProviderID, out.Status.NodeName = "sim:///us-east-1a/i-a", "a"
	out.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: amount(4), model.NvidiaGPU: amount(4)}
	out.Status.Allocatable = out.Status.Capacity.DeepCopy()
	for _, kind := range []string{karpenter.ConditionTypeLaunched, karpenter.ConditionTypeRegistered, karpenter.ConditionTypeInitialized} {
		c := status.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: metav1.NewTime(start)}
		if kind == karpenter.ConditionTypeInitialized {
			c.Status, c.Reason = metav1.ConditionUnknown, "ResourceNotRegistered"
		}
		out.Status.Conditions = append(out.Status.Conditions, c)
	}
	return out
}

// initialized is the claim once Karpenter has done with it.
func initialized(c *karpenter.NodeClaim) *karpenter.NodeClaim {
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].Status = metav1.ConditionTrue
	}
	return c
}

// node is the claim's node, ready, with GPU resources.
func node(gpus map[corev1.ResourceName]int64, taints ...corev1.Taint) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: claim().Labels}}
	out.Spec.ProviderID, out.Spec.Taints = claim().Status.ProviderID, taints
	out.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: amount(4)}
	for name, n := range gpus {
		out.Status.Capacity[name] = amount(n)
	}
	out.Status.Allocatable = out.Status.Capacity.DeepCopy()
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return out
}

func amount(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// look lets the watcher look at the claim, and returns when it wants to again.
func (w *world) look() time.Duration {
	w.Helper()
	r, err := w.watcher.Reconcile(w.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}})
	if err != nil {
		w.Fatal(err)
	}
	return r.RequeueAfter
}

// stored returns the claim, nil once it is deleted.
func (w *world) stored() *karpenter.NodeClaim {
	w.Helper()
	out := &karpenter.NodeClaim{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Name: "a"}, out); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		w.Fatal(err)
	}
	return out
}

// advertise has the node advertise GPUs.
func (w *world) advertise(gpus map[corev1.ResourceName]int64) {
	w.Helper()
	var n corev1.Node
	if err := w.client.Get(w.ctx, client.ObjectKey{Name: "a"}, &n); err != nil {
		w.Fatal(err)
	}
	n.Status = node(gpus).Status
	if err := w.client.Status().Update(w.ctx, &n); err != nil {
		w.Fatal(err)
	}
}

// condition is one of the claim's.
func (w *world) condition(kind string) (string, string) {
	w.Helper()
	c := w.stored().StatusConditions().Get(kind)
	if c == nil {
		return "", ""
	}
	return string(c.Status), c.Reason
}
