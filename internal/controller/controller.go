// Package controller is Kerf's brain on a live cluster. It watches, and for
// pods that the scheduler has found no place for it plans with the solver that
// kerf plan uses, and writes NodeClaims; Karpenter's own controllers
// (internal/hands) launch, register, drain and remove the nodes.
//
//	err := controller.Run(ctx, controller.Config{REST: config, Cloud: func(...) {...}})
//
// # One decision
//
// A batch of events ends (batch.go); the store (store.go), which has read every
// object once for each of its versions, and the shop (shop.go), which asks the
// cloud what it sells, make one Snapshot (view.go); the solver plans; plan.Check
// looks the plan over; every launch is written as one NodeClaim (claim.go); pods
// that go nowhere get one event that says why (announce.go), and the others are
// nominated to their nodes, which open to pods when they are complete (gate.go,
// nominate.go, company.go). Nothing is
// remembered between decisions but what the cluster holds, so it does not
// matter where a controller is killed.
//
// A NodeClaim carries in the annotation kerf.dev/pods the pods that it was made
// for. Until the scheduler has bound them they count as bound to its node, so
// that the next decision neither orders for them again nor gives their room
// away. Its name follows from what is ordered for whom: an order whose answer
// was lost is found when it is given again.
//
// Offerings that the cloud had no capacity for are left out of the plan for a
// while, and so are pools and types whose GPUs failed to come up
// (hands.Avoid). Nodes that are not initialized count with what they will have.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/kerfdev/kerf/internal/admission"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/hands"
)

// Config says what a controller runs on. REST and Cloud are required.
type Config struct {
	// REST reaches the API server. Requests are not held back.
	REST *rest.Config
	// Cloud makes the provider that launches nodes; it is asked once, before the
	// manager starts, and may add to it. It is made sharing-aware by Run.
	Cloud func(context.Context, manager.Manager, cloud.Configs) (cloudprovider.CloudProvider, error)
	// Context, if not nil, adds to the context of every reconciler what the
	// provider wants to find there.
	Context func(context.Context) context.Context
	// Region names the book that knows the hardware of instance types; "" is
	// us-east-1. Prices and zones are the provider's.
	Region string
	// Settings are those of Karpenter's controllers.
	Settings hands.Settings
	// Hooks hold registration back until what a provider adds to nodes is there.
	Hooks []cloudprovider.NodeLifecycleHook

	// BatchIdle ends a batch when nothing has happened for so long, BatchMax at
	// the latest; 0 is 100 ms and 1 s.
	BatchIdle, BatchMax time.Duration
	// Steps bounds the search for a plan, and again the proof of its price; 0 is
	// a million, some tens of milliseconds.
	Steps int64
	// StockMemory is how long an offering without capacity is left out; 0 is 3
	// minutes.
	StockMemory time.Duration
	// GPUDeadline is how long GPUs may take to come up; 0 is 10 minutes.
	GPUDeadline time.Duration

	// Guard, if not nil, is served by every replica: webhooks that keep GPUs counted.
	Guard *admission.Config

	// LeaderElection lets one of several replicas work. LeaseNamespace "" is that
	// of the pod; outside of a cluster it must be given.
	LeaderElection bool
	LeaseNamespace string
	// MetricsAddress and ProbeAddress are where /metrics and /healthz, /readyz are
	// served, ":8080"; "" or "0" is nowhere.
	MetricsAddress, ProbeAddress string
	// Frugal has the process, which should be the controller's own, collect its
	// garbage early.
	Frugal bool
	// Clock is the time; nil is the real one.
	Clock clock.Clock
	// Logger takes what is to be said; the zero value says nothing.
	Logger logr.Logger
	// Ready, if not nil, is called when the first decision may be made.
	Ready func()
}

// complete fills in what was left out, or says what must not be.
func (c Config) complete() (Config, error) {
	switch {
	case c.REST == nil:
		return c, errors.New("run the controller: REST is missing")
	case c.Cloud == nil:
		return c, errors.New("run the controller: Cloud is missing")
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	if c.Context == nil {
		c.Context = func(ctx context.Context) context.Context { return ctx }
	}
	return c.defaults(), nil
}

// defaults fills in the numbers that were left out.
func (c Config) defaults() Config {
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.BatchIdle <= 0 {
		c.BatchIdle = 100 * time.Millisecond
	}
	if c.BatchMax <= 0 {
		c.BatchMax = time.Second
	}
	if c.Steps <= 0 {
		c.Steps = 1_000_000
	}
	if c.StockMemory <= 0 {
		c.StockMemory = 3 * time.Minute
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// Run works until ctx is done and returns nil then. It refuses to begin beside
// a running Karpenter (BesideKarpenterError), and on a cluster that serves
// Karpenter's objects in versions before v1 only (OldAPIError); it ends with
// the former when Karpenter appears later. It may be called again in the same
// process.
func Run(ctx context.Context, c Config) error {
	c, err := c.complete()
	if err != nil {
		return err
	}
	book, err := bookOf(c.Region)
	if err != nil {
		return fmt.Errorf("load the book of instance types: %w", err)
	}
	if c.Frugal {
		collect(reading)
	}
	ctx = c.Context(c.Settings.Context(log.IntoContext(ctx, c.Logger)))
	m, err := newManager(c)
	if err != nil {
		return err
	}
	if err := admit(ctx, m, c.Clock); err != nil {
		return err
	}
	b, err := assemble(ctx, m, c, book)
	if err != nil {
		return err
	}
	if err := m.Add(b); err != nil {
		return fmt.Errorf("add the brain: %w", err)
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("run the controller: %w", err)
	}
	return nil
}

// admit refuses clusters in which this controller must not run.
func admit(ctx context.Context, m manager.Manager, clk clock.Clock) error {
	also, err := versions(m.GetRESTMapper())
	var outdated *OldAPIError
	if errors.As(err, &outdated) {
		tellOld(ctx, m, outdated.Kinds)
	}
	if err != nil {
		return err
	}
	tellOld(ctx, m, also)
	return beside(ctx, m.GetAPIReader(), clk)
}

// assemble puts the brain on the hands.
func assemble(ctx context.Context, m manager.Manager, c Config, book catalog.Book) (*brain, error) {
	clk := c.Clock
	configs := cloud.NewClusterConfigs(m.GetAPIReader())
	provider, err := c.Cloud(ctx, m, configs)
	if err != nil {
		return nil, fmt.Errorf("set up the cloud: %w", err)
	}
	if err := configs.Register(m); err != nil {
		return nil, err
	}
	if err := serveGuard(ctx, m, c.Guard, configs); err != nil {
		return nil, err
	}
	store := newStore(clk, m.GetScheme())
	opens := newGate(m.GetClient(), store, clk, cmp.Or(c.GPUDeadline, hands.DefaultDeadline))
	stock := newStock(provider, clk, c.StockMemory, launchFailed)
	//lint:ignore SA1019 karpenter v1.15.0's recorder is made of it
	recorder := events.NewRecorder(m.GetEventRecorderFor("kerf"))
	h, err := hands.Register(ctx, m, hands.Config{
		Cloud: cloud.Sharing(stock, configs, book), Configs: configs, Settings: c.Settings, Clock: clk, Recorder: recorder,
		GPUDeadline: c.GPUDeadline, Hooks: append(slices.Clone(c.Hooks), opens),
	})
	if err != nil {
		return nil, err
	}
	shop := newShop(book, h.Provider.GetInstanceTypes, func() []offer { out, _ := stock.soldOut(); return out })
	shop.avoid = h.Avoid.List
	p := &provisioner{
		client:   m.GetClient(),
		observer: &observer{store: store, shop: shop, configs: configs, now: clk.Now, held: h.Held},
		state:    h.Cluster, recorder: recorder, said: newAnnouncer(m.GetClient(), clk), gate: opens, clock: clk,
		batch: newBatch(c.BatchIdle, c.BatchMax), steps: c.Steps, plain: c.Settings.IgnorePreferences, writers: writers,
		restock: func() time.Time { _, next := stock.soldOut(); return next },
	}
	configs.OnChange(p.batch.Trigger)
	stock.changed = p.batch.Trigger
	b := &brain{provisioner: p, manager: m, clock: clk, ready: c.Ready, frugal: c.Frugal}
	return b, b.watch(ctx, classesOf(provider))
}

// writers is how many NodeClaims are written at once.
const writers = 32

func classesOf(p cloudprovider.CloudProvider) []client.Object {
	var out []client.Object
	for _, o := range p.GetSupportedNodeClasses() {
		out = append(out, o)
	}
	return out
}
