package cloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kerfdev/kerf/internal/install"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// Configs knows the device configs that nodes of the cluster may select.
type Configs interface {
	// Current returns how the device plugin is installed. The same pointer
	// comes back as long as nothing has changed; nobody writes to it. An error
	// means that the cluster could not be asked.
	Current(context.Context) (*Installation, error)
}

// An Installation is how the device plugin is installed in a cluster.
type Installation struct {
	Sharing model.Sharing
	Plugins []model.Plugin
	// DaemonSets of the device plugin, or of kerf-node.
	DaemonSets []types.NamespacedName
	// Notes are what is wrong with the configs.
	Notes []model.Note
}

// noConfigs is a cluster without any device config.
type noConfigs struct{}

var bare Installation

func (noConfigs) Current(context.Context) (*Installation, error) { return &bare, nil }

// Static returns Configs that never change, for tests and for programs that
// have read them elsewhere.
func Static(i Installation) Configs { return &static{i} }

type static struct{ Installation }

func (s *static) Current(context.Context) (*Installation, error) { return &s.Installation, nil }

// homes are the namespaces whose ConfigMaps are read even where no DaemonSet of
// a plugin is found: where the charts are usually installed.
var homes = []string{"gpu-operator", "kerf-system", "nvidia-device-plugin"}

// ClusterConfigs reads the installation from a cluster: the DaemonSets that run
// the plugin, found by their images, and the ConfigMaps of their namespaces, as
// internal/install understands them.
type ClusterConfigs struct {
	reader  client.Reader
	also    []string      // namespaces
	reading chan struct{} // holds one while the first reading is under way

	mu      sync.Mutex
	current *Installation
	sum     [sha256.Size]byte // of what current was read from
	watched map[string]bool   // namespaces whose ConfigMaps matter
	changed []func()
}

// NewClusterConfigs reads through reader, and from the given namespaces besides
// those of the plugins' DaemonSets. A reader without a cache spares the memory
// of holding every ConfigMap of the cluster: the manager's GetAPIReader.
func NewClusterConfigs(reader client.Reader, namespaces ...string) *ClusterConfigs {
	return &ClusterConfigs{reader: reader, also: append(slices.Clone(homes), namespaces...), reading: make(chan struct{}, 1)}
}

// Current returns what was read last. The first call reads, and others that
// come meanwhile wait for it: a controller that starts asks for every NodeClaim
// at once.
func (c *ClusterConfigs) Current(ctx context.Context) (*Installation, error) {
	if now := c.known(); now != nil {
		return now, nil
	}
	select {
	case c.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.reading }()
	if now := c.known(); now != nil {
		return now, nil
	}
	if _, err := c.Refresh(ctx); err != nil {
		return nil, err
	}
	return c.known(), nil
}

// known is what was read last, nil before the first reading.
func (c *ClusterConfigs) known() *Installation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// OnChange has f called, from the goroutine that noticed, whenever the
// installation changed. It is to be set up before the manager starts.
func (c *ClusterConfigs) OnChange(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = append(c.changed, f)
}

// Refresh reads the cluster again and reports whether anything changed.
func (c *ClusterConfigs) Refresh(ctx context.Context) (bool, error) {
	var all appsv1.DaemonSetList
	if err := c.reader.List(ctx, &all); err != nil {
		return false, fmt.Errorf("list daemonsets: %w", err)
	}
	namespaces := map[string]bool{}
	for _, n := range c.also {
		namespaces[n] = true
	}
	var text bytes.Buffer
	var daemonSets []types.NamespacedName
	slices.SortFunc(all.Items, func(a, b appsv1.DaemonSet) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for i := range all.Items {
		d := &all.Items[i]
		if !relevant(&d.Spec.Template.Spec) {
			continue
		}
		if RunsPlugin(&d.Spec.Template.Spec) {
			daemonSets = append(daemonSets, client.ObjectKeyFromObject(d))
			namespaces[d.Namespace] = true
		}
		d.Status = appsv1.DaemonSetStatus{}
		if err := write(&text, d, "apps/v1", "DaemonSet"); err != nil {
			return false, err
		}
	}
	if err := c.configMaps(ctx, namespaces, &text); err != nil {
		return false, err
	}
	return c.settle(text.Bytes(), daemonSets, namespaces), nil
}

// configMaps appends the ConfigMaps of the namespaces, in order.
func (c *ClusterConfigs) configMaps(ctx context.Context, namespaces map[string]bool, text *bytes.Buffer) error {
	names := make([]string, 0, len(namespaces))
	for n := range namespaces {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		var list corev1.ConfigMapList
		if err := c.reader.List(ctx, &list, client.InNamespace(n)); err != nil {
			return fmt.Errorf("list configmaps of namespace %s: %w", n, err)
		}
		slices.SortFunc(list.Items, func(a, b corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
		for i := range list.Items {
			if list.Items[i].Name == "kube-root-ca.crt" {
				continue
			}
			if err := write(text, &list.Items[i], "v1", "ConfigMap"); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle takes what was read into force, if it differs.
func (c *ClusterConfigs) settle(text []byte, daemonSets []types.NamespacedName, namespaces map[string]bool) bool {
	sum := sha256.Sum256(text)
	c.mu.Lock()
	c.watched = namespaces
	if c.current != nil && c.sum == sum {
		c.mu.Unlock()
		return false
	}
	docs, _ := source.Parse(source.File{Name: "cluster.yaml", Data: text})
	read, notes := install.Read(docs, source.Nested)
	c.current = &Installation{Sharing: read.Sharing, Plugins: read.Plugins, DaemonSets: daemonSets, Notes: notes}
	c.sum = sum
	changed := slices.Clone(c.changed)
	c.mu.Unlock()
	for _, f := range changed {
		f()
	}
	return true
}

// write appends an object as a document, without what the server keeps of it.
func write(to *bytes.Buffer, o client.Object, version, kind string) error {
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode %s %s/%s: %w", kind, o.GetNamespace(), o.GetName(), err)
	}
	head, err := json.Marshal(metav1.TypeMeta{APIVersion: version, Kind: kind})
	if err != nil {
		return fmt.Errorf("encode %s %s/%s: %w", kind, o.GetNamespace(), o.GetName(), err)
	}
	to.WriteString("---\n")
	to.Write(bytes.TrimSuffix(head, []byte("}")))
	to.WriteByte(',')
	to.Write(bytes.TrimPrefix(text, []byte("{")))
	to.WriteByte('\n')
	return nil
}

// RunsPlugin reports whether pods of this spec advertise a node's NVIDIA GPUs:
// they run the image of k8s-device-plugin other than as its helpers, or kerf-node.
func RunsPlugin(spec *corev1.PodSpec) bool {
	for _, c := range spec.Containers {
		if strings.Contains(c.Image, "kerf-node") || strings.Contains(c.Image, "k8s-device-plugin") && !helper(&c) {
			return true
		}
	}
	return false
}

// helper reports whether a container of the plugin's image is not the plugin.
func helper(c *corev1.Container) bool {
	for _, word := range slices.Concat(c.Command, c.Args) {
		for _, other := range []string{"gpu-feature-discovery", "mps-control-daemon", "config-manager"} {
			if strings.HasSuffix(word, other) {
				return true
			}
		}
	}
	return false
}

// relevant reports whether a DaemonSet tells anything about GPUs.
func relevant(spec *corev1.PodSpec) bool {
	if RunsPlugin(spec) {
		return true
	}
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return strings.Contains(c.Image, "feature-discovery") || strings.Contains(c.Image, "k8s-device-plugin")
	})
}

// Register follows the DaemonSets and ConfigMaps of the cluster.
func (c *ClusterConfigs) Register(m manager.Manager) error {
	once := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "installation"}}}
	})
	daemonSets := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
	err := controllerruntime.NewControllerManagedBy(m).Named("kerf.deviceconfig").
		Watches(&appsv1.DaemonSet{}, once, builder.WithPredicates(daemonSets)).
		WatchesMetadata(&corev1.ConfigMap{}, once, builder.WithPredicates(predicate.NewPredicateFuncs(c.matters))).
		WithOptions(controller.Options{RateLimiter: BackOff(time.Minute)}).
		Complete(reconcile.Func(c.follow))
	if err != nil {
		return fmt.Errorf("watch device configs: %w", err)
	}
	return nil
}

// BackOff is how long a controller waits before it tries again what has failed:
// doubling from 5 ms, as controller-runtime does it (v0.24), but no longer than
// most. Its own quarter of an hour would outlast an API server's outage.
func BackOff(most time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, most)
}

// matters reports whether a ConfigMap may hold device configs.
func (c *ClusterConfigs) matters(o client.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watched == nil || c.watched[o.GetNamespace()]
}

func (c *ClusterConfigs) follow(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	changed, err := c.Refresh(ctx)
	if err != nil || !changed {
		return reconcile.Result{}, err
	}
	now, err := c.Current(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Info("device configs changed", "configs", len(now.Sharing.Configs), "plugins", len(now.Plugins))
	return reconcile.Result{}, nil
}
