package rival

import (
	"context"
	"fmt"
	"strings"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// A cluster is a Snapshot as Kubernetes objects.
type cluster struct {
	client   *reader
	cloud    *market
	pending  []*corev1.Pod
	volumes  map[types.UID][]scheduling.Requirements
	index    map[types.UID]int // of a pod in the Snapshot
	excluded map[int]string    // pods that Karpenter does not get to see, and why
}

func newCluster(s model.Snapshot) *cluster {
	c := &cluster{
		client: &reader{nodes: map[string]*corev1.Node{}}, cloud: &market{}, index: map[types.UID]int{},
		volumes: map[types.UID][]scheduling.Requirements{}, excluded: map[int]string{},
	}
	capacity := map[string]model.Resources{}
	for i := range s.Types {
		capacity[s.Types[i].Name] = s.Types[i].Capacity
	}
	leaving := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		c.client.nodes[n.Name] = node(n, capacity[n.Type])
		leaving[n.Name] = n.Leaving
	}
	specs := map[*model.PodSpec]corev1.PodSpec{}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Spec == nil {
			continue
		}
		if _, ok := specs[p.Spec]; !ok {
			specs[p.Spec] = podSpec(p.Spec)
		}
		c.add(i, p, specs[p.Spec], leaving)
	}
	return c
}

// add sorts one pod under the running or the pending ones.
func (c *cluster) add(at int, p *model.Pod, spec corev1.PodSpec, leaving map[string]bool) {
	pod := pod(at, p, spec)
	daemon := strings.HasPrefix(p.Owner, "DaemonSet ") || strings.HasPrefix(p.Owner, "Node ")
	if p.Node != "" && !leaving[p.Node] {
		pod.Spec.NodeName = p.Node
		pod.Status.Phase = corev1.PodRunning
		if daemon {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "of-this-node"}}
		}
		if c.client.nodes[p.Node] != nil {
			c.client.bound = append(c.client.bound, *pod)
		}
		return
	}
	if daemon {
		return
	}
	switch {
	case len(p.Spec.Refused) > 0:
		c.excluded[at] = "the API server does not create it"
		return
	case len(p.Spec.Gates) > 0:
		c.excluded[at] = "it has scheduling gates, and karpenter leaves it alone"
		return
	case p.Spec.SchedulerName != "" && p.Spec.SchedulerName != corev1.DefaultSchedulerName:
		c.excluded[at] = "another scheduler places it"
		return
	}
	c.index[pod.UID] = at
	c.pending = append(c.pending, pod)
	if choices := volumeChoices(p.Spec); len(choices) > 0 {
		c.volumes[pod.UID] = choices
	}
}

// pod rebuilds a pod. UIDs rise with the pods' order, which Karpenter goes by
// where two pods are of one size.
func pod(at int, p *model.Pod, spec corev1.PodSpec) *corev1.Pod {
	out := &corev1.Pod{Spec: *spec.DeepCopy()}
	out.Namespace, out.Name, out.Labels = p.Namespace, p.Name, p.Spec.Labels
	if out.Name == "" {
		out.Name = fmt.Sprintf("pod-%d", at)
	}
	out.UID = types.UID(fmt.Sprintf("%012d", at))
	out.Status.Phase = corev1.PodPending
	out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return out
}

// node rebuilds a node. Pool limits count capacity, which a Snapshot has for
// nodes of a known type only.
func node(n *model.Node, capacity model.Resources) *corev1.Node {
	out := &corev1.Node{}
	out.Name, out.Labels = n.Name, map[string]string{
		model.LabelHostname: n.Name, karpenter.NodeInitializedLabelKey: "true", karpenter.NodeRegisteredLabelKey: "true",
	}
	for key, v := range map[string]string{
		model.LabelInstanceType: n.Type, model.LabelZone: n.Zone, model.LabelCapacityType: n.CapacityType, model.LabelNodePool: n.Pool,
	} {
		if v != "" {
			out.Labels[key] = v
		}
	}
	for key, v := range n.Labels {
		out.Labels[key] = v
	}
	out.Spec.ProviderID = "snapshot:///" + n.Name
	out.Spec.Taints = taints(n.Taints)
	out.Status.Allocatable = cloud.Quantities(n.Allocatable)
	out.Status.Capacity = cloud.Quantities(n.Allocatable)
	for name, q := range cloud.Quantities(capacity) {
		out.Status.Capacity[name] = q
	}
	return out
}

// A reader is the API server that Karpenter asks: it knows the nodes, the pods
// that run, the pools and the overlays. Everything else does not exist.
type reader struct {
	client.Client // calls that are not made
	nodes         map[string]*corev1.Node
	bound         []corev1.Pod
	pools         []*karpenter.NodePool
	overlays      []v1alpha1.NodeOverlay
	refused       map[string]string // overlays that Karpenter does not use, and why
}

// Get finds a node by name.
func (r *reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if n, ok := into.(*corev1.Node); ok && r.nodes[key.Name] != nil {
		*n = *r.nodes[key.Name]
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List finds running pods by namespace, labels and node, pools and overlays.
func (r *reader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var by client.ListOptions
	by.ApplyOptions(opts)
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = nil
		for i := range r.bound {
			if picks(&by, &r.bound[i]) {
				list.Items = append(list.Items, r.bound[i])
			}
		}
	case *karpenter.NodePoolList:
		for _, p := range r.pools {
			list.Items = append(list.Items, *p.DeepCopy())
		}
	case *v1alpha1.NodeOverlayList:
		list.Items = append(list.Items, r.overlays...)
	default:
		return fmt.Errorf("karpenter lists %T, which a snapshot does not hold", into)
	}
	return nil
}

func picks(by *client.ListOptions, p *corev1.Pod) bool {
	if by.Namespace != "" && by.Namespace != p.Namespace {
		return false
	}
	if by.LabelSelector != nil && !by.LabelSelector.Matches(set(p.Labels)) {
		return false
	}
	return by.FieldSelector == nil || by.FieldSelector.Matches(set{"spec.nodeName": p.Spec.NodeName})
}

// A set is labels or fields to select by.
type set map[string]string

// Has reports whether the key is there.
func (s set) Has(key string) bool { _, ok := s[key]; return ok }

// Get returns the value of the key, or "".
func (s set) Get(key string) string { return s[key] }

// Lookup returns the value of the key and whether it is there.
func (s set) Lookup(key string) (string, bool) { v, ok := s[key]; return v, ok }

// Status takes what Karpenter writes about overlays.
func (r *reader) Status() client.SubResourceWriter { return verdicts{reader: r} }

// verdicts keeps the overlays that Karpenter does not use.
type verdicts struct {
	client.SubResourceWriter // calls that are not made
	reader                   *reader
}

// Patch notes an overlay's condition.
func (v verdicts) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	overlay, ok := o.(*v1alpha1.NodeOverlay)
	if !ok {
		return nil
	}
	for _, c := range overlay.GetConditions() {
		if c.Type == v1alpha1.ConditionTypeValidationSucceeded && c.Status == metav1.ConditionFalse {
			v.reader.refused[overlay.Name] = c.Message
		}
	}
	return nil
}

// A market sells the instance types of each pool, and nothing happens to it.
type market struct {
	cloudprovider.CloudProvider // calls that are not made
	types                       map[string][]*cloudprovider.InstanceType
}

// GetInstanceTypes returns the types as the pool sees them.
func (c *market) GetInstanceTypes(_ context.Context, p *karpenter.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types[p.Name], nil
}

// Name names the provider in metrics.
func (*market) Name() string { return "snapshot" }

// RepairPolicies are none.
func (*market) RepairPolicies() []cloudprovider.RepairPolicy { return nil }

// GetSupportedNodeClasses are none.
func (*market) GetSupportedNodeClasses() []status.Object { return nil }
