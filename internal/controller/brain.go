package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// leaseName is the lease of the replica that works.
const leaseName = "kerf-controller-leader-election"

// A frugal process collects its garbage early, unless GOGC says otherwise: what a
// controller of thousands of nodes holds is large, and most of what it makes anew
// is when it first goes through the cluster.
const (
	reading = 15 // percent of growth
	working = 30
	startup = time.Minute
)

func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// newManager makes a manager with everything that hands and brain need.
func newManager(c Config) (manager.Manager, error) {
	config := rest.CopyConfig(c.REST)
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	config.UserAgent = "kerf-controller"
	again := true
	priorities := false // controller-runtime v0.24.1's queue with priorities may hang when it is shut down (#3538, mended in v0.25), which keeps the lease for 30 s
	m, err := manager.New(config, manager.Options{
		Scheme: scheme.Scheme, Logger: c.Logger, BaseContext: func() context.Context { return c.Context(c.Settings.BaseContext(c.Logger)()) },
		LeaderElection: c.LeaderElection, LeaderElectionID: leaseName, LeaderElectionNamespace: c.LeaseNamespace,
		LeaderElectionResourceLock: resourcelock.LeasesResourceLock, LeaderElectionReleaseOnCancel: true,
		LeaderElectionConfig: rest.CopyConfig(c.REST),
		Metrics:              server.Options{BindAddress: address(c.MetricsAddress)}, HealthProbeBindAddress: address(c.ProbeAddress),
		Cache: cache.Options{DefaultTransform: lightAny, ByObject: light()},
		// One event is read now and then; a cache would hold all of the cluster's.
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Event{}}}},
		Controller: ctrlconfig.Controller{SkipNameValidation: &again, UsePriorityQueue: &priorities},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("set up /healthz: %w", err)
	}
	err = m.AddReadyzCheck("caches", func(r *http.Request) error {
		if !m.GetCache().WaitForCacheSync(r.Context()) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("set up /readyz: %w", err)
	}
	return m, nil
}

// address is where to listen; "0" turns a server of the manager off.
func address(a string) string {
	if a == "" {
		return "0"
	}
	return a
}

// A brain is the provisioner as the manager runs it: on the replica that leads.
type brain struct {
	*provisioner
	manager manager.Manager
	clock   clock.Clock
	ready   func()
	synced  []toolscache.InformerSynced
	frugal  bool
}

// watch has the store filled from the manager's cache, on every replica, so
// that one which begins to lead knows the cluster already.
func (b *brain) watch(ctx context.Context, classes []client.Object) error {
	objects := append([]client.Object{
		&corev1.Namespace{}, &storagev1.StorageClass{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &corev1.LimitRange{},
		&nodev1.RuntimeClass{}, &appsv1.DaemonSet{}, &karpenter.NodePool{}, &karpenter.NodeClaim{}, &corev1.Node{}, &corev1.Pod{},
	}, classes...)
	for _, o := range objects {
		informer, err := b.manager.GetCache().GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
		handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: b.changed, UpdateFunc: func(_, now any) { b.changed(now) }, DeleteFunc: b.deleted,
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
		b.synced = append(b.synced, handle.HasSynced)
	}
	return nil
}

func (b *brain) changed(o any) {
	if object, ok := o.(client.Object); ok && b.observer.store.Set(object) {
		b.batch.Trigger()
	}
	if pod, ok := o.(*corev1.Pod); ok && b.gate.places.saw(pod) {
		b.batch.Trigger()
	}
}

func (b *brain) deleted(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if object, ok := o.(client.Object); ok && b.observer.store.Delete(object) {
		b.batch.Trigger()
	}
}

// NeedLeaderElection says that only the leader decides.
func (*brain) NeedLeaderElection() bool { return true }

// Start decides until ctx is done, or until Karpenter appears.
func (b *brain) Start(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !toolscache.WaitForCacheSync(ctx.Done(), b.synced...) {
		return nil
	}
	if b.frugal {
		settled := time.AfterFunc(startup, func() {
			collect(working)
			debug.FreeOSMemory()
		})
		defer settled.Stop()
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.said.Run(ctx) })
	wg.Go(func() { b.gate.Run(ctx) })
	var beaten error
	wg.Go(func() {
		if beaten = watchBeside(ctx, b.manager.GetAPIReader(), b.clock); beaten != nil {
			stop()
		}
	})
	if b.ready != nil {
		b.ready()
	}
	b.batch.Trigger()
	b.Run(ctx)
	stop()
	wg.Wait()
	return beaten
}
