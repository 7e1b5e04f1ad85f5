package nodepool

import (
	"strings"
	"time"

	"github.com/kerfdev/kerf/api/manifest"
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
		Class: className(at(o.root, "spec.nodeClassRef")), Requirements: reqs, StartupTaints: distinct(o.taints("spec.startupTaints")),
	}
	if c := condition(status, "Initialized"); c.Get("status").Str() == "True" {
		origin.Initialized = when(c)
		if origin.Initialized.IsZero() {
			origin.Initialized = time.Unix(0, 0).UTC() // it is, if nobody knows since when
		}
	} else if origin.Coming = status.Get("conditions") != nil; origin.Coming {
		for _, name := range []string{"Initialized", "Registered"} {
			if c := condition(status, name); c != nil && (name == "Initialized" || c.Get("status").Str() == "True") {
				origin.Since = when(c)
			}
		}
	}
	if pods := at(o.root, "metadata.annotations").Get(AnnotationPods).Str(); pods != "" {
		origin.Pods = strings.Split(pods, ",")
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

// condition finds a condition in an object's status.
func condition(status *manifest.Node, name string) *manifest.Node {
	if conditions := status.Get("conditions"); conditions != nil {
		for _, c := range conditions.Items {
			if c.Get("type").Str() == name {
				return c
			}
		}
	}
	return nil
}

// when is since when a condition has been as it is; zero when it does not say.
func when(condition *manifest.Node) time.Time {
	t, err := time.Parse(time.RFC3339, condition.Get("lastTransitionTime").Str())
	if err != nil {
		return time.Time{}
	}
	return t
}

// ready records why Karpenter does not launch from a pool of a cluster: it is
// being deleted, or its condition Ready is not true. A pool that reports
// nothing is taken to be ready.
func (o *object) ready() {
	if at(o.doc.Root, "metadata.deletionTimestamp") != nil {
		o.unusable("deletionTimestamp", "the NodePool is being deleted")
	}
	c := condition(o.doc.Root.Get("status"), "Ready")
	if c == nil || c.Get("status").Str() == "True" {
		return
	}
	detail := "the NodePool is not ready"
	if why := c.Get("message").Str(); why != "" {
		detail += ": " + why
	}
	o.unusable("Ready", detail)
}
