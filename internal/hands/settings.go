package hands

import (
	"context"
	"runtime"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// Settings are what Karpenter takes from flags. The zero value is Karpenter as
// it comes (v1.15.0).
type Settings struct {
	NodeRepair        bool // replace nodes whose conditions the cloud's repair policies name
	SpotToSpot        bool // consolidate spot nodes to cheaper spot nodes
	StaticPools       bool // keep NodePools with spec.replicas at that number
	NodeOverlays      bool // apply NodeOverlays to the instance types
	IgnorePreferences bool // treat preferences of pods as if they were not there
	BestEffortMinimum bool // relax a pool's minValues where they cannot be met
	CPUs              int  // cores for the library's reconcilers; 0 = those of the machine
	Quiet             bool // leave out the library's gauges of nodes, pods and pools
}

// Context puts the settings where Karpenter's library looks for them.
func (s Settings) Context(ctx context.Context) context.Context {
	cpus := s.CPUs
	if cpus <= 0 {
		cpus = runtime.GOMAXPROCS(0)
	}
	gates := options.DefaultFeatureGates()
	gates.NodeRepair, gates.SpotToSpotConsolidation = s.NodeRepair, s.SpotToSpot
	gates.StaticCapacity, gates.NodeOverlay = s.StaticPools, s.NodeOverlays
	o := &options.Options{
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict,
		IgnoreDRARequests: true, CPURequests: int64(cpus) * 1000, DisableClusterStateObservability: s.Quiet, FeatureGates: gates,
	}
	if s.IgnorePreferences {
		o.PreferencePolicy = options.PreferencePolicyIgnore
	}
	if s.BestEffortMinimum {
		o.MinValuesPolicy = options.MinValuesPolicyBestEffort
	}
	return options.ToContext(ctx, o)
}

// BaseContext is for manager.Options: every reconciler of the manager must see
// the settings, or the library panics.
func (s Settings) BaseContext(l logr.Logger) func() context.Context {
	return func() context.Context { return s.Context(log.IntoContext(context.Background(), l)) }
}
