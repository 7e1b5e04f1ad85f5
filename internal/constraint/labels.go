package constraint

import "github.com/kerfdev/kerf/internal/model"

// Normalize returns the present name of a label key: Karpenter 1.15 reads the
// beta names of zone, region, arch, os and instance type as their successors.
func Normalize(key string) string {
	switch key {
	case "failure-domain.beta.kubernetes.io/zone":
		return model.LabelZone
	case "failure-domain.beta.kubernetes.io/region":
		return model.LabelRegion
	case "beta.kubernetes.io/arch":
		return model.LabelArch
	case "beta.kubernetes.io/os":
		return model.LabelOS
	case "beta.kubernetes.io/instance-type":
		return model.LabelInstanceType
	}
	return key
}

// NodeNameField stands in a Requirement's Key for the node field metadata.name.
// Whoever asks about a node by name puts the name among the labels with Named.
const NodeNameField = "metadata.name"

// Named returns labels with the node's name added under NodeNameField.
func Named(labels map[string]string, name string) map[string]string {
	out := make(map[string]string, len(labels)+1)
	for k, v := range labels {
		out[k] = v
	}
	out[NodeNameField] = name
	return out
}

// lookup finds a label of a concrete node. The kubelet and the cloud controller
// write the beta names beside the present ones, so a node whose labels were
// predicted, and lack the beta name, answers for it with the present one.
func lookup(labels map[string]string, key string) (string, bool) {
	if v, ok := labels[key]; ok {
		return v, true
	}
	if now := Normalize(key); now != key {
		v, ok := labels[now]
		return v, ok
	}
	return "", false
}
