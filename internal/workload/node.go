package workload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

func (r *reader) node(o *object) {
	var v corev1.Node
	r.decoder.status = true
	r.decode(o, &v)
	r.decoder.status = false
	r.cluster.nodes[v.Name] = true
}

// emitNode adds a node of a cluster as it reports itself.
func (r *reader) emitNode(o *object) {
	v, ok := o.value.(*corev1.Node)
	if !ok {
		return
	}
	n := modelNode(v, o.place(""))
	if n.Allocatable == nil {
		r.note(o, model.Warning, "no-allocatable", "status", "the node reports neither allocatable nor capacity: nothing fits on it", "give its status too, as kubectl get -o yaml does")
	}
	r.out.Nodes = append(r.out.Nodes, n)
}

// modelNode is the model of a node.
func modelNode(v *corev1.Node, place model.Place) model.Node {
	n := model.Node{
		Name:         v.Name,
		Pool:         cmp.Or(v.Labels[model.LabelNodePool], v.Labels[deadPool]),
		Type:         cmp.Or(v.Labels[model.LabelInstanceType], v.Labels[corev1.LabelInstanceType]),
		Zone:         cmp.Or(v.Labels[model.LabelZone], v.Labels[corev1.LabelFailureDomainBetaZone]),
		CapacityType: capacityType(v.Labels),
		Labels:       v.Labels,
		Allocatable:  resources(v.Status.Allocatable),
		Devices:      devices(v),
		Unready:      unready(v),
		Leaving:      leaving(v),
		Place:        place,
	}
	if v.Status.Allocatable == nil {
		n.Allocatable = resources(v.Status.Capacity)
	}
	for _, t := range v.Spec.Taints {
		if t.Key == corev1.TaintNodeUnschedulable && v.Annotations[model.AnnotationHeld] != "" {
			continue // it goes with the annotation
		}
		n.Taints = append(n.Taints, model.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return n
}

// capacityType reads Karpenter's label, or that of an EKS managed node group.
func capacityType(labels map[string]string) string {
	switch group := labels["eks.amazonaws.com/capacityType"]; {
	case labels[model.LabelCapacityType] != "":
		return labels[model.LabelCapacityType]
	case group == "SPOT":
		return model.Spot
	case group == "ON_DEMAND":
		return model.OnDemand
	}
	return ""
}

// unready says why no pod can go to a node.
func unready(v *corev1.Node) string {
	switch {
	case v.DeletionTimestamp != nil:
		return "being deleted"
	case leaving(v):
		return "being drained"
	case v.Spec.Unschedulable && v.Annotations[model.AnnotationHeld] == "":
		return "cordoned"
	}
	for _, c := range v.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return "not ready"
		}
	}
	return ""
}

// leaving reports whether a node is on its way out: it is being deleted, or
// Karpenter (v1 or before) or the cluster autoscaler has tainted it for that.
func leaving(v *corev1.Node) bool {
	if v.DeletionTimestamp != nil {
		return true
	}
	for _, t := range v.Spec.Taints {
		if t.Key == "karpenter.sh/disrupted" || t.Key == "karpenter.sh/disruption" || t.Key == "ToBeDeletedByClusterAutoscaler" {
			return true
		}
	}
	return false
}

// devices splits the GPUs that a node advertises among its physical ones, of
// which feature discovery or Karpenter labels the number. A node that says
// neither has one device for each whole GPU.
func devices(v *corev1.Node) []model.Device {
	count := labelled(v.Labels, "nvidia.com/gpu.count")
	if count == 0 {
		count = labelled(v.Labels, "karpenter.k8s.aws/instance-gpu-count")
	}
	total := model.Resources{}
	for name, q := range v.Status.Allocatable {
		if model.IsGPU(string(name)) {
			total[string(name)] = amount(name, q)
		}
	}
	if count == 0 && labelled(v.Labels, "nvidia.com/gpu.replicas") <= 1 {
		count = total[model.NvidiaGPU]
	}
	if count <= 0 || count > 64 || len(total) == 0 {
		return nil
	}
	name := strings.ToLower(cmp.Or(v.Labels["karpenter.k8s.aws/instance-gpu-name"], gpu.ModelOf(v.Labels["nvidia.com/gpu.product"])))
	return model.SplitDevices(slices.Repeat([]string{name}, int(count)), total)
}

func labelled(labels map[string]string, key string) int64 {
	n, err := strconv.ParseInt(labels[key], 10, 32)
	if err != nil {
		return 0
	}
	return n
}
