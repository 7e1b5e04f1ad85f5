package nodepool

import (
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amount reads a Kubernetes quantity in the units of model.Resources, rounded up.
func amount(name, s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0, err
	}
	if name == model.CPU {
		return q.MilliValue(), nil
	}
	return q.Value(), nil
}

// amounts reads a map of quantities, and names the entries that are none.
func amounts(n *manifest.Node) (out model.Resources, bad []string) {
	if !isMap(n) {
		return nil, nil
	}
	for _, f := range n.Fields {
		v, err := amount(f.Name, strings.TrimSpace(f.Value.Str()))
		if err != nil {
			bad = append(bad, f.Name)
			continue
		}
		if out == nil {
			out = model.Resources{}
		}
		out[f.Name] = v
	}
	return out, bad
}
