package hands

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/metrics"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/kerfdev/kerf/internal/cloud"
)

// Config says over what the controllers run. Cloud and Configs are required.
type Config struct {
	// Cloud launches the nodes and predicts their GPUs.
	Cloud *cloud.Shared
	// Configs are the device configs that Cloud predicts by, and where their
	// plugin runs; causes are named by it.
	Configs cloud.Configs
	// Settings must be those of the manager's BaseContext.
	Settings Settings
	// Clock is the time; nil is the real one.
	Clock clock.Clock
	// Recorder publishes events; nil is the manager's.
	Recorder events.Recorder
	// GPUDeadline is how long after registration GPUs may take, where no
	// annotation says otherwise; 0 is 10 minutes.
	GPUDeadline time.Duration
	// Hooks hold registration back until what a provider adds to nodes is there.
	Hooks []cloudprovider.NodeLifecycleHook
}

// DefaultDeadline is how long GPUs may take to come up.
const DefaultDeadline = 10 * time.Minute

// Hands are the registered controllers, as far as others need them.
type Hands struct {
	// Cluster is the library's view of nodes and pods. Whoever creates
	// NodeClaims tells it so (UpdateNodeClaim, UpdatePodToNodeClaimMapping,
	// NominateNodeForPod), so that disruption does not work against it.
	Cluster *state.Cluster
	// Provider is the cloud as the controllers see it: with the library's
	// metrics and, where they are switched on, NodeOverlays.
	Provider cloudprovider.CloudProvider
	// Avoid remembers what not to buy for a while.
	Avoid *Avoid

	holder holder
}

// Register adds the controllers to a manager that has not started. The context
// needs nothing; the manager's BaseContext must carry the Settings. In tests
// that start managers one after the other in a process, the manager's options
// must set Controller.SkipNameValidation.
func Register(ctx context.Context, m manager.Manager, c Config) (*Hands, error) {
	switch {
	case c.Cloud == nil:
		return nil, errors.New("register the hands: Cloud is missing")
	case c.Configs == nil:
		return nil, errors.New("register the hands: Configs is missing")
	}
	c.complete(m)
	ctx = c.Settings.Context(ctx)
	if err := Index(ctx, m.GetFieldIndexer()); err != nil {
		return nil, err
	}
	plain := metrics.Decorate(c.Cloud)
	overlays := nodeoverlay.NewInstanceTypeStore()
	provider := overlay.Decorate(plain, m.GetClient(), overlays)
	matcher, err := health.NewRepairPolicyMatcher(ctx, provider)
	if err != nil {
		return nil, fmt.Errorf("read the cloud's repair policies: %w", err)
	}
	cluster := state.NewCluster(c.Clock, m.GetClient(), provider, state.WithRepairPolicyMatcher(matcher))
	l := library{Config: c, manager: m, client: m.GetClient(), provider: provider, plain: plain, overlays: overlays, cluster: cluster}
	for _, controller := range l.controllers(ctx) {
		if err := controller.Register(ctx, m); err != nil {
			return nil, fmt.Errorf("register a controller of karpenter: %w", err)
		}
	}
	h := &Hands{Cluster: cluster, Provider: provider, Avoid: NewAvoid(c.Clock), holder: holder{clock: c.Clock, window: c.GPUDeadline}}
	return h, h.watch(m, c)
}

// complete fills in what was left out.
func (c *Config) complete(m manager.Manager) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Recorder == nil {
		//lint:ignore SA1019 karpenter v1.15.0's recorder is made of it
		c.Recorder = events.NewRecorder(m.GetEventRecorderFor("kerf"))
	}
	if c.GPUDeadline <= 0 {
		c.GPUDeadline = DefaultDeadline
	}
}

// Held lists the taints of a node that are to be overlooked for now: those that
// its NodeClaim does not declare and that came with its start.
func (h *Hands) Held(node *corev1.Node, declared []corev1.Taint) []corev1.Taint {
	return h.holder.held(node, declared)
}
