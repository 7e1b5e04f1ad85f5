package cloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// register makes the Node as a kubelet and its start script do: with the
// claim's labels and taints and Karpenter's taint for unregistered nodes, not
// ready yet, and without GPUs, which only a plugin can advertise.
func (s *Simulated) register(ctx context.Context, m *machine) (time.Duration, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Node, Labels: maps.Clone(m.labels)}}
	node.Labels[model.LabelHostname] = m.Node
	delete(node.Labels, karpenter.NodeRegisteredLabelKey)
	delete(node.Labels, karpenter.NodeInitializedLabelKey)
	node.Spec.ProviderID = m.ProviderID
	node.Spec.Taints = slices.Concat(m.taints, m.startup, []corev1.Taint{karpenter.UnregisteredNoExecuteTaint})
	s.hardwareOf(m, node)
	condition(node, corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", "container runtime is starting", s.clock.Now())
	switch err := s.client.Create(ctx, node); {
	case apierrors.IsAlreadyExists(err):
		return time.Second, nil // the cache has not seen it yet
	case err != nil:
		return 0, fmt.Errorf("register node %s: %w", m.Node, err)
	}
	log.FromContext(ctx).V(1).Info("machine registered", "instance", m.ID, "node", m.Node, "instance-type", m.Type)
	made := s.clock.Now()
	s.note(m.ID, func(m *machine) { m.node, m.madeAt = node.UID, made })
	return max(s.delays.Ready, time.Millisecond), nil
}

// hardwareOf fills in what a kubelet reports of its machine.
func (s *Simulated) hardwareOf(m *machine, node *corev1.Node) {
	if t, ok := s.shelf.kubernetesType(m.Type, m.kubelet); ok {
		node.Status.Capacity, node.Status.Allocatable = WithGPUs(present(t.Capacity), nil), WithGPUs(present(t.Allocatable()), nil)
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		Architecture: m.labels[model.LabelArch], OperatingSystem: "linux", KubeletVersion: "v1.37.2", OSImage: "simulated",
		KernelVersion: "6.12.0", ContainerRuntimeVersion: "containerd://2.2.0", BootID: m.ID, MachineID: m.ID, SystemUUID: m.ID,
	}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: address(10, m.Number)}, {Type: corev1.NodeHostName, Address: m.Node},
	}
}

// address is the nth address of a network.
func address(network, n int) string {
	return fmt.Sprintf("%d.%d.%d.%d", network, n>>16&255, n>>8&255, n&255)
}

// condition sets one condition of a node and reports whether anything changed.
func condition(node *corev1.Node, kind corev1.NodeConditionType, is corev1.ConditionStatus, reason, message string, now time.Time) bool {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if at < 0 {
		at = len(node.Status.Conditions)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind})
	}
	c := &node.Status.Conditions[at]
	if c.Status == is && c.Reason == reason {
		return false
	}
	if c.Status != is {
		c.LastTransitionTime = metav1.NewTime(now)
	}
	c.Status, c.Reason, c.Message, c.LastHeartbeatTime = is, reason, message, metav1.NewTime(now)
	return true
}

// expected says what the GPUs of a ready node give at this time, and how long
// it stays so. Nothing is known of them, and nil returned, until they are due.
func (s *Simulated) expected(ctx context.Context, m *machine, node *corev1.Node, now time.Time) (time.Duration, *model.Advertisement, error) {
	t, ok := s.shelf.book.Type(m.Type)
	if !ok || len(t.GPUs) == 0 || m.fate.NoGPUs {
		return 0, nil, nil
	}
	installed, err := s.configs.Current(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("read device configs: %w", err)
	}
	from := m.readyAt
	if len(installed.DaemonSets) > 0 {
		if m.pluginAt.IsZero() {
			return 0, nil, nil // the pod that starts on it wakes the machine
		}
		from = m.pluginAt
	}
	if due := from.Add(s.delays.GPU); now.Before(due) {
		return due.Sub(now), nil, nil
	}
	t.GPUs = without(t.GPUs, int64(m.fate.MissingGPUs))
	ad, err := gpu.ForNode(t, installed.Sharing, node.Labels)
	if err != nil {
		log.FromContext(ctx).Info("the plugin does not start", "node", node.Name, "reason", err.Error())
		return 0, &model.Advertisement{}, nil
	}
	return 0, &ad, nil
}

// physical is how many GPUs a type has.
func (s *Simulated) physical(kind string) int {
	n := int64(0)
	if t, ok := s.shelf.book.Type(kind); ok {
		for _, g := range t.GPUs {
			n += g.Count
		}
	}
	return int(n)
}

// without takes broken GPUs away.
func without(gpus []model.GPU, broken int64) []model.GPU {
	out := slices.Clone(gpus)
	for i := range out {
		n := min(broken, out[i].Count)
		out[i].Count, broken = out[i].Count-n, broken-n
	}
	return out
}

// hardwareReady is the condition that kerf-node and EKS's node monitoring agent
// set, and by which Karpenter repairs nodes.
const hardwareReady corev1.NodeConditionType = "AcceleratedHardwareReady"

// apply patches the node where it differs: ready, its GPUs, the labels of
// feature discovery, and the startup taints, which go once the GPUs are up or
// there are none to come.
func (s *Simulated) apply(ctx context.Context, m *machine, node *corev1.Node, want *model.Advertisement) error {
	old := node.DeepCopy()
	now := s.clock.Now()
	condition(node, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status", now)
	if !m.noticed.IsZero() {
		kind := corev1.NodeConditionType(InterruptionTaint.Key)
		condition(node, kind, corev1.ConditionTrue, "SpotInterruption", "the instance is taken back", m.noticed)
	}
	if m.broken {
		condition(node, hardwareReady, corev1.ConditionFalse, "NvidiaXID79Error", "GPUs have fallen off the bus", now)
	}
	if want != nil {
		advertise(node, want.Resources)
	}
	if !equality.Semantic.DeepEqual(old.Status, node.Status) {
		if err := s.client.Status().Patch(ctx, node, client.StrategicMergeFrom(old)); err != nil {
			return fmt.Errorf("report the status of node %s: %w", node.Name, err)
		}
	}
	return s.describe(ctx, m, node, want)
}

// advertise sets the GPU resources; one that was there and is no more is zero,
// as a kubelet leaves it.
func advertise(node *corev1.Node, r model.Resources) {
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		for name := range list {
			if _, still := r[string(name)]; model.IsGPU(string(name)) && !still {
				list[name] = *resource.NewQuantity(0, resource.DecimalSI)
			}
		}
		for name, n := range r {
			list[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
}

// describe patches labels and startup taints.
func (s *Simulated) describe(ctx context.Context, m *machine, node *corev1.Node, want *model.Advertisement) error {
	old := node.DeepCopy()
	if want != nil {
		maps.Copy(node.Labels, want.Labels)
	}
	if s.done(m, want) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return slices.ContainsFunc(m.startup, func(startup corev1.Taint) bool { return startup.MatchTaint(&t) })
		})
	}
	if equality.Semantic.DeepEqual(old.Labels, node.Labels) && len(old.Spec.Taints) == len(node.Spec.Taints) {
		return nil
	}
	if err := s.client.Patch(ctx, node, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("label node %s: %w", node.Name, err)
	}
	return nil
}

// done reports whether the agents that a pool's startup taints wait for have
// done their work.
func (s *Simulated) done(m *machine, want *model.Advertisement) bool {
	if m.fate.KeepsTaints {
		return false
	}
	t, ok := s.shelf.book.Type(m.Type)
	return !ok || len(t.GPUs) == 0 || want != nil && len(want.Resources) > 0
}
