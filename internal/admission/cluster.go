package admission

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// An APIServer is the review.Cluster behind an API server.
type APIServer struct {
	// Cached reads Namespaces (their metadata), RuntimeClasses and NodePools.
	Cached client.Reader
	// Direct reads what Cached has not heard of yet, and ConfigMaps, which are too
	// many to keep: only those that a pod under review takes variables from are
	// asked for. Secrets are never read.
	Direct client.Client
	// Namespace is the guard's own, where the dry run is made.
	Namespace string
	// Devices says what the device plugins of the cluster grant and offer, as in
	// guard.Facts; nil when nobody knows.
	Devices func() (mostOf map[string]int64, offered map[string]bool)

	tolerates atomic.Bool
}

// Facts reads what a pod refers to.
func (a *APIServer) Facts(ctx context.Context, p *guard.Pod) (*guard.Facts, error) {
	f := &guard.Facts{}
	if a.Devices != nil {
		f.MaxRequest, f.Offered = a.Devices()
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := a.get(ctx, p.Namespace, ns); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", p.Namespace, err)
	}
	f.Labels = ns.Labels
	if p.RuntimeClass != "" {
		class := &nodev1.RuntimeClass{}
		if err := a.get(ctx, p.RuntimeClass, class); err != nil {
			return nil, fmt.Errorf("read runtime class %s: %w", p.RuntimeClass, err)
		}
		f.Handlers = map[string]string{p.RuntimeClass: class.Handler}
	}
	return f, a.configMaps(ctx, p, f)
}

// get reads an object of the cluster, which may not exist. One that was made a
// moment ago may not be in the cache: a pod follows its namespace closely.
func (a *APIServer) get(ctx context.Context, name string, into client.Object) error {
	key := client.ObjectKey{Name: name}
	err := a.Cached.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		err = a.Direct.Get(ctx, key, into)
	}
	return client.IgnoreNotFound(err)
}

// Bounds on what a pod may take variables from by the whole ConfigMap: more than
// anybody writes, and as much as can be read and looked at in a webhook's time.
const (
	mostConfigMaps = 100
	mostVariables  = 100_000 // in all, those that are taken twice counting twice
)

var errTooMany = fmt.Errorf("the pod takes variables from more than %d ConfigMaps, or more than %d variables from them: too many to judge", mostConfigMaps, mostVariables)

// configMaps reads those that containers take all variables from.
func (a *APIServer) configMaps(ctx context.Context, p *guard.Pod, f *guard.Facts) error {
	read, variables := map[string]bool{}, 0
	for i := range p.Containers {
		for _, from := range p.Containers[i].EnvFrom {
			if from.Kind != "ConfigMap" {
				continue
			}
			if !read[from.Name] {
				if err := a.configMap(ctx, p.Namespace, from.Name, f); err != nil {
					return err
				}
				read[from.Name] = true
			}
			variables += len(f.ConfigMaps[from.Name])
			if len(read) > mostConfigMaps || variables > mostVariables {
				return errTooMany
			}
		}
	}
	return nil
}

// configMap reads one into the facts, if there is one of that name.
func (a *APIServer) configMap(ctx context.Context, namespace, name string, f *guard.Facts) error {
	cm := &corev1.ConfigMap{}
	if err := a.Direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cm); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	if f.ConfigMaps == nil {
		f.ConfigMaps = map[string]map[string]string{}
	}
	f.ConfigMaps[name] = cm.Data
	return nil
}

// Taints reads those of a NodePool's template. Startup taints are gone by the
// time that a pod starts.
func (a *APIServer) Taints(ctx context.Context, pool string) ([]model.Taint, error) {
	np := &karpv1.NodePool{}
	if err := a.Cached.Get(ctx, client.ObjectKey{Name: pool}, np); err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read NodePool %s: %w", pool, err)
	}
	var out []model.Taint
	for _, t := range np.Spec.Template.Spec.Taints {
		out = append(out, model.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out, nil
}

// AddsTolerations reports what the last dry run found, and before the first that
// it does not: a toleration that is added twice does no harm.
func (a *APIServer) AddsTolerations() bool { return a.tolerates.Load() }

// probeResource is an extended resource that no node has.
const probeResource = "probe.kerf.dev/extended"

// How often the dry run is made again: a control plane that is upgraded may have
// other plugins, and a namespace that was just made no service account yet.
const (
	probeEvery = 10 * time.Minute
	probeAgain = 10 * time.Second
)

// Start makes the dry run now and then until the context ends. It is a runnable
// of a manager.
func (a *APIServer) Start(ctx context.Context) error {
	for {
		wait := probeEvery
		adds, err := a.probe(ctx)
		if err != nil {
			wait = probeAgain
			ctrl.LoggerFrom(ctx).V(1).Info("whether the API server adds tolerations is not known", "error", err.Error())
		} else if a.tolerates.Swap(adds) != adds {
			ctrl.LoggerFrom(ctx).Info("extended resource tolerations", "added by the API server", adds)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// NeedLeaderElection says that every replica asks for itself.
func (a *APIServer) NeedLeaderElection() bool { return false }

// probe asks the API server what it would make of a pod with an extended resource.
func (a *APIServer) probe(ctx context.Context) (bool, error) {
	one := corev1.ResourceList{probeResource: resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	no, yes := false, true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kerf-probe-", Namespace: a.Namespace},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			SecurityContext:              &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "probe", Image: "probe.kerf.dev/none", Resources: corev1.ResourceRequirements{Limits: one, Requests: one},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
	if err := a.Direct.Create(ctx, pod, client.DryRunAll); err != nil {
		return false, fmt.Errorf("dry run of a pod in %s: %w", a.Namespace, err)
	}
	for _, t := range pod.Spec.Tolerations {
		if strings.EqualFold(t.Key, probeResource) {
			return true, nil
		}
	}
	return false, nil
}
