package intake

import (
	"maps"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

const (
	autoModeClass  = "NodeClass/" // begins Pool.NodeClass in EKS Auto Mode
	autoModeLabels = "eks.amazonaws.com/"
	awsLabels      = "karpenter.k8s.aws/"
)

// autoMode adds the labels that EKS Auto Mode gives its nodes, to types and to
// the pools with its node class: those of Karpenter's AWS provider under
// another domain, and the compute type.
func (l *loader) autoMode() {
	pools := slices.Clone(l.snapshot.Pools)
	found := false
	for i, p := range pools {
		if strings.HasPrefix(p.NodeClass, autoModeClass) {
			pools[i].Labels = merged(map[string]string{autoModeLabels + "compute-type": "auto"}, p.Labels)
			found = true
		}
	}
	if !found {
		return
	}
	types := slices.Clone(l.snapshot.Types)
	for i, t := range types {
		labels := maps.Clone(t.Labels)
		for key, v := range t.Labels {
			if name, ok := strings.CutPrefix(key, awsLabels+"instance-"); ok {
				labels[autoModeLabels+"instance-"+name] = v
			}
		}
		types[i].Labels = labels
	}
	l.snapshot.Pools, l.snapshot.Types, l.types.Types = pools, types, types
}

// images warns of pools that launch NVIDIA nodes only, from an image that has
// no driver for them.
func (l *loader) images() {
	for _, p := range l.snapshot.Pools {
		class := l.pool.Classes[p.NodeClass]
		if class.PlainImage == "" || !l.onlyNVIDIA(p) {
			continue
		}
		l.note(model.Warning, "image-without-driver", class.Place,
			"pool "+p.Name+" launches GPU nodes from the image "+class.PlainImage+", which has no NVIDIA driver: no GPU would register there",
			"select the nvidia variant, or alias: al2023@latest, for which Karpenter picks the variant that a node needs")
	}
}

// onlyNVIDIA reports whether every type that a pool admits has NVIDIA GPUs.
func (l *loader) onlyNVIDIA(p model.Pool) bool {
	some := false
	for _, t := range l.snapshot.Types {
		if !admits(p, t) {
			continue
		}
		if !slices.ContainsFunc(t.GPUs, func(g model.GPU) bool { return g.Manufacturer == "nvidia" }) {
			return false
		}
		some = true
	}
	return some
}
