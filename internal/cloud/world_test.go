package cloud

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
)

// start is when every test begins.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// book is us-east-1, read once, with a few families only, to be quick.
var book = sync.OnceValue(func() catalog.Book {
	b, err := catalog.Load("us-east-1")
	if err != nil {
		panic(err)
	}
	b.Types = slices.DeleteFunc(slices.Clone(b.Types), func(t model.InstanceType) bool {
		family, _, _ := strings.Cut(t.Name, ".")
		return !slices.Contains([]string{"g4dn", "g5", "g6", "g6f", "p4d", "m5"}, family)
	})
	return b
})

// A world is a simulated cloud over an API server that is only a client, with a
// clock that stands still until it is moved.
type world struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	sim    *Simulated
	ctx    context.Context
}

func newWorld(t *testing.T, configs Configs, objects ...client.Object) *world {
	t.Helper()
	return newWorldWith(t, Config{Configs: configs}, objects...)
}

func newWorldWith(t *testing.T, c Config, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, clock: clocktesting.NewFakeClock(start), ctx: t.Context()}
	registerOnce()
	w.client = newClient(w.clock, objects...)
	w.sim = w.cloud(c)
	return w
}

// cloud makes another cloud over the same cluster, as a new process does.
func (w *world) cloud(c Config) *Simulated {
	w.Helper()
	c.Client, c.Clock, c.Book = w.client, w.clock, book()
	sim, err := NewSimulated(c)
	if err != nil {
		w.Fatal(err)
	}
	return sim
}

var registerOnce = sync.OnceFunc(func() { registerClasses(fake.NewClientBuilder().Build()) })

// newClient keeps objects as an API server does: with UIDs and creation times.
func newClient(clock *clocktesting.FakeClock, objects ...client.Object) client.Client {
	var n int
	var mu sync.Mutex
	stamp := func(o client.Object) {
		mu.Lock()
		defer mu.Unlock()
		n++
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
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&karpenter.NodeClaim{}, &karpenter.NodePool{}, &corev1.Node{}, &corev1.Pod{}, &EC2NodeClass{}, &KWOKNodeClass{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			stamp(o)
			return c.Create(ctx, o, opts...)
		}}).Build()
}

// class is the node class that every claim of the tests refers to.
func ec2(name string) *EC2NodeClass {
	out := &EC2NodeClass{}
	out.Name = name
	return out
}

// claim asks for what the requirements allow.
func claim(name string, requirements ...karpenter.NodeSelectorRequirementWithMinValues) *karpenter.NodeClaim {
	out := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{karpenter.NodePoolLabelKey: "gpu"},
		CreationTimestamp: metav1.NewTime(start),
	}}
	out.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: ec2Class.Group, Kind: ec2Class.Kind, Name: "default"}
	out.Spec.Requirements = requirements
	return out
}

func asks(key string, values ...string) karpenter.NodeSelectorRequirementWithMinValues {
	return karpenter.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func kinds(names ...string) karpenter.NodeSelectorRequirementWithMinValues {
	return asks(model.LabelInstanceType, names...)
}

func amount(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// launch creates the claim in the cluster and its instance, as the lifecycle
// controller does, and returns the instance.
func (w *world) launch(c *karpenter.NodeClaim) Instance {
	w.Helper()
	created, err := w.sim.Create(w.ctx, c)
	if err != nil {
		w.Fatalf("launch %s: %v", c.Name, err)
	}
	c.Status.ProviderID = created.Status.ProviderID
	for k, v := range created.Labels {
		c.Labels[k] = v
	}
	if err := w.client.Create(w.ctx, c.DeepCopy()); err != nil {
		w.Fatal(err)
	}
	stored := w.claim(c.Name)
	stored.Status.ProviderID = created.Status.ProviderID
	if err := w.client.Status().Update(w.ctx, stored); err != nil {
		w.Fatal(err)
	}
	id, _ := idIn(created.Status.ProviderID)
	m, _ := w.sim.look(id)
	return m.Instance
}

func (w *world) claim(name string) *karpenter.NodeClaim {
	w.Helper()
	out := &karpenter.NodeClaim{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Name: name}, out); err != nil {
		w.Fatal(err)
	}
	return out
}

// after moves the clock and lets the machine do what is due, until it has
// nothing more to do now.
func (w *world) after(d time.Duration, id string) time.Duration {
	w.Helper()
	w.clock.Step(d)
	for range 10 {
		wait, err := w.sim.tend(w.ctx, id)
		if err != nil {
			w.Fatalf("after %s: %v", d, err)
		}
		if wait != time.Millisecond {
			return wait
		}
		w.clock.Step(wait)
	}
	w.Fatal("the machine never rests")
	return 0
}

// node returns a node, nil when there is none.
func (w *world) node(name string) *corev1.Node {
	w.Helper()
	out := &corev1.Node{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Name: name}, out); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		w.Fatal(err)
	}
	return out
}

// ready reports whether a node says that it is.
func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// gpus are the GPU resources of a list.
func gpus(list corev1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		if model.IsGPU(string(name)) {
			out[string(name)] = q.Value()
		}
	}
	return out
}

// up brings a machine to the point where its GPUs are advertised.
func (w *world) up(i Instance) *corev1.Node {
	w.Helper()
	w.after(defaults.Register, i.ID)
	w.after(defaults.Ready, i.ID)
	w.after(defaults.GPU, i.ID)
	return w.node(i.Node)
}

func clientKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

var realClock = clock.RealClock{}

// nothing is an API server that takes every patch.
type nothing struct{ client.Client }

// Patch does nothing.
func (nothing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}
