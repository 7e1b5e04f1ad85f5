package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/cloud"
)

// Config says what a world is like. REST is required.
type Config struct {
	// REST reaches the API server of a plane to which NodeClassCRD was given.
	REST *rest.Config
	// Namespace takes the objects that name none; "" is "default".
	Namespace string
	// Region is what the cloud sells; "" is us-east-1.
	Region string
	// Speed divides the delays of the machines; 0 is 1. See cloud.Config.
	Speed  float64
	Delays cloud.Delays
	// Hurry divides the waits of the controller; 0 is 1. See Clock.
	Hurry float64
	// Seed of the cloud's random faults.
	Seed uint64
	// GPUDeadline and StockMemory are the controller's; 0 is its defaults.
	GPUDeadline, StockMemory time.Duration
	// Logger takes what the cloud and the controllers log.
	Logger logr.Logger
	// Line, if not nil, is called with every line of the timeline.
	Line func(string)
	// Terse leaves pods out of the timeline, but for warnings.
	Terse bool
}

// A World is a cluster with a simulated cloud.
type World struct {
	// Client speaks to the API server as its administrator.
	Client client.WithWatch
	// Seen reads from a cache, which may be a moment behind.
	Seen client.Reader
	// Cloud launches the nodes.
	Cloud *cloud.Simulated
	// Clock is that of the controllers.
	Clock *Clock
	// Book is what the cloud sells.
	Book catalog.Book
	// Timeline is what has happened.
	Timeline *Timeline

	config Config
	stop   context.CancelFunc
	done   chan struct{}
	ended  error

	mu         sync.Mutex
	controller *Controller     // the last that was started
	launches   map[string]bool // provider ids
}

var quiet sync.Once

// Start makes a world on a plane. The context bounds the start only.
func Start(ctx context.Context, c Config) (*World, error) {
	if c.REST == nil {
		return nil, errors.New("start a world: REST is missing")
	}
	c.Namespace, c.Region = cmp.Or(c.Namespace, corev1.NamespaceDefault), cmp.Or(c.Region, "us-east-1")
	c.Speed, c.Hurry = cmp.Or(c.Speed, 1), cmp.Or(c.Hurry, 1)
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	quiet.Do(func() { log.SetLogger(c.Logger) })
	w := &World{config: c, Clock: &Clock{hurry: c.Hurry}, done: make(chan struct{}), launches: map[string]bool{}}
	var err error
	if w.Book, err = catalog.Load(c.Region); err != nil {
		return nil, fmt.Errorf("start a world: %w", err)
	}
	if w.Client, err = client.NewWithWatch(c.REST, client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, fmt.Errorf("start a world: make a client: %w", err)
	}
	if err := w.startCloud(ctx); err != nil {
		return nil, fmt.Errorf("start a world: %w", err)
	}
	if err := w.namespace(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a world: %w", err), w.stopCloud())
	}
	return w, nil
}

// startCloud runs the cloud on a manager of its own, and waits for its cache.
func (w *World) startCloud(ctx context.Context) error {
	again, priorities := true, false // the queue with priorities of controller-runtime v0.24 may hang when it is shut down (#3538)
	m, err := manager.New(w.config.REST, manager.Options{
		Scheme: scheme.Scheme, Logger: w.config.Logger, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: ctrlconfig.Controller{SkipNameValidation: &again, UsePriorityQueue: &priorities},
	})
	if err != nil {
		return fmt.Errorf("set up the cloud's manager: %w", err)
	}
	configs := cloud.NewClusterConfigs(m.GetAPIReader())
	w.Cloud, err = cloud.NewSimulated(cloud.Config{
		Client: m.GetClient(), Book: w.Book, Configs: configs, Speed: w.config.Speed, Delays: w.config.Delays, Seed: w.config.Seed,
	})
	if err != nil {
		return err
	}
	w.Seen = m.GetClient()
	if err := errors.Join(configs.Register(m), w.Cloud.Register(m)); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	w.Timeline = newTimeline(w.config)
	if err := w.Timeline.follow(running, m.GetCache()); err != nil {
		stop()
		return err
	}
	go func() {
		defer close(w.done)
		w.ended = m.Start(running)
	}()
	if !m.GetCache().WaitForCacheSync(ctx) {
		return errors.Join(errors.New("the cloud's cache was not filled in time"), w.stopCloud())
	}
	return nil
}

func (w *World) stopCloud() error {
	w.stop()
	<-w.done
	if w.ended != nil {
		return fmt.Errorf("run the cloud: %w", w.ended)
	}
	return nil
}

// namespace makes the world's namespace and waits until pods can be made there.
func (w *World) namespace(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.config.Namespace}}
	if err := w.Client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", w.config.Namespace, err)
	}
	return w.Until(ctx, "the default service account of "+w.config.Namespace, func() error {
		return w.Client.Get(ctx, client.ObjectKey{Namespace: w.config.Namespace, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// Namespace is where objects go that name none.
func (w *World) Namespace() string { return w.config.Namespace }

// poll is the pause between two looks at a condition.
const poll = 50 * time.Millisecond

// Until waits until a condition holds; the error says what it was waiting for
// and what the condition lacked at last.
func (w *World) Until(ctx context.Context, what string, holds func() error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; last: %w", what, ctx.Err(), err)
		}
	}
}

// Pods lists the pods of a namespace, "" for the world's own, as last seen.
func (w *World) Pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := w.Seen.List(ctx, &list, client.InNamespace(cmp.Or(namespace, w.config.Namespace))); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}

// Claims lists the NodeClaims, as last seen.
func (w *World) Claims(ctx context.Context) ([]karpenter.NodeClaim, error) {
	var list karpenter.NodeClaimList
	if err := w.Seen.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list nodeclaims: %w", err)
	}
	return list.Items, nil
}

// Nodes lists the nodes, as last seen.
func (w *World) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := w.Seen.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// Close ends the controller and the cloud, and takes out of the cluster what a
// world puts there.
func (w *World) Close(ctx context.Context) error {
	if c := w.current(); c != nil {
		c.Kill()
	}
	err := w.wipe(ctx)
	return errors.Join(err, w.stopCloud())
}

// Leave ends the controller and the cloud, and leaves the cluster as it is: a
// world that is started on it later goes on there.
func (w *World) Leave() error {
	var err error
	if c := w.current(); c != nil {
		err = c.Stop()
	}
	return errors.Join(err, w.stopCloud())
}

func (w *World) current() *Controller {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.controller
}
