package nodepool

import (
	"github.com/kerfdev/kerf/internal/model"
)

const oldPoolLabel = "karpenter.sh/provisioner-name"

// oldClaim upgrades a v1beta1 NodeClaim or a v1alpha5 Machine.
func (o *object) oldClaim() {
	if !o.old() {
		return
	}
	if ref := at(o.root, "spec.machineTemplateRef"); ref != nil {
		o.change("spec.machineTemplateRef", "spec.machineTemplateRef", "spec.nodeClassRef")
		o.root = drop(set(o.root, "spec.nodeClassRef", awsRef(ref.Line, asText(ref.Get("name")))), "spec.machineTemplateRef")
	}
	o.classReference("spec.nodeClassRef")
	o.kubelet = at(o.root, "spec.kubelet")
	o.root = drop(o.root, "spec.kubelet")
	if labels := at(o.root, "metadata.labels"); labels.Get(oldPoolLabel) != nil && labels.Get(model.LabelNodePool) == nil {
		o.change("metadata.labels["+oldPoolLabel+"]", oldPoolLabel, model.LabelNodePool)
		o.root = set(o.root, "metadata.labels", withField(labels, entry(model.LabelNodePool, labels.Get(oldPoolLabel))))
	}
}

// claim reads a NodeClaim as a node in flight. Its labels are those that it has
// and the values that its requirements leave no choice about.
func (o *object) claim() (model.Node, Origin) {
	status := o.doc.Root.Get("status")
	reqs := o.requirements("spec.requirements")
	labels := stringMap(at(o.root, "metadata.labels"))
	if labels == nil {
		labels = map[string]string{}
	}
	for _, r := range reqs {
		if _, set := labels[r.Key]; !set && r.Operator == model.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	allocatable, bad := amounts(status.Get("allocatable"))
	for _, name := range bad {
		o.noteNode(model.Warning, "not-a-quantity", status.At("allocatable", name), "", "%q is not a quantity; the resource is left out", status.At("allocatable", name).Str())
	}
	origin := Origin{
		Claim: o.doc.Name, NodeName: status.Get("nodeName").Str(), ProviderID: status.Get("providerID").Str(),
		Class: className(at(o.root, "spec.nodeClassRef")),
	}
	node := model.Node{
		Name:         orDefault(origin.NodeName, o.doc.Name),
		Pool:         labels[model.LabelNodePool],
		Type:         labels[model.LabelInstanceType],
		Zone:         labels[model.LabelZone],
		CapacityType: labels[model.LabelCapacityType],
		Labels:       labels,
		Taints:       distinct(o.taints("spec.taints")),
		Allocatable:  allocatable,
		InFlight:     true,
		Leaving:      at(o.doc.Root, "metadata.deletionTimestamp") != nil,
		Place:        o.place(""),
	}
	if len(o.unread) > 0 {
		node.Unready = o.unread[0].Detail
	}
	return node, origin
}
