package workload

import (
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// deadPool is the label of a node's Provisioner. Karpenter has set
// karpenter.sh/nodepool in its place since v1beta1, so that a pod that selects
// the old one goes nowhere.
const deadPool = "karpenter.sh/provisioner-name"

// liveLabel returns the label that a dead one stood for, and any other as it is.
func liveLabel(key string) string {
	if key == deadPool {
		return model.LabelNodePool
	}
	return key
}

// deadLabels names every place of a template that uses a dead label.
func (r *reader) deadLabels(t *template) {
	spec, ok := t.object.tree().Find(t.base())
	if !ok {
		return
	}
	for _, name := range []string{"nodeSelector", "affinity", "topologySpreadConstraints"} {
		r.dead(t, spec.Get(name), t.base()+"."+name)
	}
}

// dead looks for the label as a key, as the value of key, or of topologyKey.
func (r *reader) dead(t *template, n *manifest.Node, path string) {
	if n == nil {
		return
	}
	for _, f := range n.Fields {
		named := (f.Name == "key" || f.Name == "topologyKey") && f.Value.Str() == deadPool
		if f.Name != deadPool && !named {
			r.dead(t, f.Value, manifest.Join(path, f.Name))
			continue
		}
		r.noteOnce("dead "+t.family()+path, t.object, model.Error, "dead-label", manifest.Join(path, f.Name),
			"no node carries the label "+deadPool+" since Karpenter v1beta1: the pod would stay pending; it is read as "+model.LabelNodePool,
			"write "+model.LabelNodePool)
	}
	for i, item := range n.Items {
		r.dead(t, item, path+indexText(i))
	}
}
