package e2e

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/controllers/state/informer"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/state/cost"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"

	"github.com/kerfdev/kerf/internal/hands"
)

// karpenter has Karpenter's own provisioner (v1.15.0) order nodes for the pods
// that wait. It is measured from the end of its batch on, and nothing launches
// what it orders.
func (s *scene) karpenter() order {
	s.Helper()
	settings := hands.Settings{Quiet: true}
	again := true
	m, err := manager.New(running.RESTConfig(), manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		BaseContext: settings.BaseContext(log.Log), Controller: ctrlconfig.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(settings.Context(injection.WithControllerName(log.IntoContext(s.ctx, log.Log), "provisioner")))
	provisioner, cluster := s.provisioner(ctx, m)
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			s.Error(err)
		}
	}()
	if !m.GetCache().WaitForCacheSync(ctx) {
		s.Fatal("karpenter's caches are not filled")
	}
	s.await("karpenter's view of the cluster", func() error {
		if !cluster.Synced(ctx) {
			return errors.New("not synced")
		}
		return nil
	})
	var out order
	var results scheduling.Results
	var names []string
	out.spent = spend(func() {
		begin := time.Now()
		if results, err = provisioner.Schedule(ctx); err != nil {
			return
		}
		out.planned = time.Since(begin)
		names, err = provisioner.CreateNodeClaims(ctx, results.NewNodeClaims, provisioning.WithReason("provisioned"))
	})
	if err != nil {
		s.Fatal(err)
	}
	if len(results.PodErrors) > 0 {
		s.Errorf("karpenter refuses %d pods", len(results.PodErrors))
	}
	s.await("karpenter's nodeclaims", func() error { return s.claimsLeft(len(names)) })
	if out.claims, err = s.Claims(s.ctx); err != nil {
		s.Fatal(err)
	}
	return out
}

// provisioner assembles Karpenter's provisioner with what tells it of the cluster.
func (s *scene) provisioner(ctx context.Context, m manager.Manager) (*provisioning.Provisioner, *state.Cluster) {
	s.Helper()
	if err := hands.Index(ctx, m.GetFieldIndexer()); err != nil {
		s.Fatal(err)
	}
	c, clk := m.GetClient(), clock.RealClock{}
	cluster := state.NewCluster(clk, c, s.Cloud)
	spending := cost.NewClusterCost(ctx, s.Cloud, c)
	recorder := events.NewRecorder(m.GetEventRecorderFor("karpenter")) // its recorder is made of it
	for _, controller := range []interface {
		Register(context.Context, manager.Manager) error
	}{
		informer.NewDaemonSetController(c, cluster), informer.NewNodeController(c, cluster), informer.NewPodController(c, cluster),
		informer.NewNodePoolController(c, s.Cloud, cluster, spending), informer.NewNodeClaimController(c, s.Cloud, cluster, spending),
	} {
		if err := controller.Register(ctx, m); err != nil {
			s.Fatal(err)
		}
	}
	return provisioning.NewProvisioner(c, recorder, s.Cloud, cluster, clk, deviceallocation.NewController(c), virtualpods.NewVirtualPodCache(c)), cluster
}
