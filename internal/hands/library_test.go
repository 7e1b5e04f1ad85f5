package hands

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// indexed are informers of an API server that is not there.
type indexed struct{ *informertest.FakeInformers }

func (indexed) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// newManager makes a manager that could start if there were an API server.
func newManager(t *testing.T, w *world, s Settings) manager.Manager {
	t.Helper()
	skip := true
	m, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Logger: logr.Discard(), BaseContext: s.BaseContext(logr.Discard()), Metrics: server.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: &skip},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) {
			return indexed{&informertest.FakeInformers{Scheme: scheme.Scheme}}, nil
		},
		NewClient: func(*rest.Config, client.Options) (client.Client, error) { return w.client, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEverythingRegisters(t *testing.T) {
	for name, s := range map[string]Settings{
		"as it comes":         {},
		"with all there is":   {NodeRepair: true, SpotToSpot: true, StaticPools: true, NodeOverlays: true},
		"without the gauges":  {Quiet: true},
		"with other policies": {IgnorePreferences: true, BestEffortMinimum: true, CPUs: 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, four())
			m := newManager(t, w, s)
			h, err := Register(t.Context(), m, Config{Cloud: w.shared, Configs: w.configs, Settings: s})
			if err != nil {
				t.Fatal(err)
			}
			if h.Cluster == nil || h.Provider == nil || h.Avoid == nil {
				t.Errorf("the hands lack something: %v", h)
			}
			sim, ok := w.shared.CloudProvider.(*cloud.Simulated)
			if !ok {
				t.Fatal("the cloud is not the simulated one")
			}
			if err := sim.Register(m); err != nil {
				t.Error(err)
			}
			if err := cloud.NewClusterConfigs(w.client).Register(m); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	w := newWorld(t, four())
	for name, c := range map[string]Config{"Cloud is missing": {Configs: w.configs}, "Configs is missing": {Cloud: w.shared}} {
		if _, err := Register(t.Context(), nil, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

// controllers are the library's, assembled over a world.
func (w *world) library(s Settings) (*library, context.Context) {
	w.Helper()
	c := Config{Cloud: w.shared, Configs: w.configs, Settings: s, Clock: w.clock, Recorder: w.events}
	return &library{
		Config: c, manager: newManager(w.T, w, s), client: w.client, provider: w.shared, plain: w.shared,
		overlays: nodeoverlay.NewInstanceTypeStore(), cluster: w.cluster,
	}, s.Context(w.ctx)
}

func TestTheProvisionerIsNotAmongThem(t *testing.T) {
	w := newWorld(t, four())
	l, ctx := w.library(Settings{StaticPools: true})
	var names []string
	for _, c := range l.controllers(ctx) {
		if n, ok := c.(interface{ Name() string }); ok {
			names = append(names, n.Name())
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "provisioner") {
			t.Errorf("%s is registered: it would buy beside the brain", name)
		}
	}
	for _, name := range []string{"nodeclaim.lifecycle", "node.termination", "disruption", "disruption.queue", "nodeclaim.garbagecollection", "nodeclaim.expiration", "nodepool.hash"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
}

// sliced is a drifted node of four slices with a pod on each, in a pool that
// also allows larger nodes, as kubernetes-sigs/karpenter#729's rows have it.
func sliced(t *testing.T, w *world) {
	t.Helper()
	pool := &karpenter.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = claim().Spec.NodeClassRef
	pool.Spec.Template.Spec.Requirements = []karpenter.NodeSelectorRequirementWithMinValues{
		{Key: model.LabelInstanceType, Operator: corev1.NodeSelectorOpIn, Values: []string{"g4dn.xlarge", "g4dn.12xlarge", "g5.48xlarge"}},
		{Key: model.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: []string{model.OnDemand}},
	}
	pool.Spec.Disruption.Budgets = []karpenter.Budget{{Nodes: "100%"}}
	for _, kind := range []string{karpenter.ConditionTypeValidationSucceeded, karpenter.ConditionTypeNodeClassReady, status.ConditionReady} {
		pool.Status.Conditions = append(pool.Status.Conditions, status.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind})
	}
	c := initialized(claim())
	c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: karpenter.ConditionTypeDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.NewTime(start)})
	n := node(map[corev1.ResourceName]int64{model.NvidiaGPU: 4, corev1.ResourcePods: 29, corev1.ResourceMemory: 14 << 30})
	n.Labels[karpenter.NodeRegisteredLabelKey], n.Labels[karpenter.NodeInitializedLabelKey] = "true", "true"
	w.over(pool, c, n)
	w.cluster.UpdateNodeClaim(c)
	if err := w.cluster.UpdateNode(w.ctx, n); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p1", "p2", "p3", "p4"} {
		p := pending(name, nil)
		p.Spec.NodeName, p.Status.Phase = "a", corev1.PodRunning
		p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs"}}
		if err := w.client.Create(w.ctx, p); err != nil {
			t.Fatal(err)
		}
		if err := w.cluster.UpdatePod(w.ctx, p); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDriftOfASlicedNode runs karpenter's own drift over the decorated cloud:
// the replacement of a node of four slices must be another such node, where
// karpenter by itself buys four physical GPUs.
func TestDriftOfASlicedNode(t *testing.T) {
	w := newWorld(t, four())
	sliced(t, w)
	l, ctx := w.library(Settings{})
	for _, c := range l.controllers(ctx) {
		if d, ok := c.(paced); ok {
			if _, err := d.Reconcile(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	var claims karpenter.NodeClaimList
	if err := w.client.List(ctx, &claims); err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 2 {
		t.Fatalf("%d claims, want the drifted one and its replacement; events: %v", len(claims.Items), w.events.all)
	}
	for i := range claims.Items {
		if claims.Items[i].Name == "a" {
			continue
		}
		for _, r := range claims.Items[i].Spec.Requirements {
			if r.Key == model.LabelInstanceType && (len(r.Values) != 1 || r.Values[0] != "g4dn.xlarge") {
				t.Errorf("the replacement may be %v; only g4dn.xlarge is no dearer", r.Values)
			}
		}
	}
}
