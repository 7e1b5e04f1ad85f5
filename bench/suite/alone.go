package suite

import (
	"maps"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// alone is the cost in $/h of giving every pod a node of its own, the cheapest
// that holds it: what anybody can have without a scheduler. Pods that fit on
// nothing are left out.
func alone(s model.Snapshot) float64 {
	prices := map[*model.PodSpec]float64{}
	sum := 0.0
	for _, p := range s.Pods {
		price, known := prices[p.Spec]
		if !known {
			price = cheapestFor(s, p.Spec)
			prices[p.Spec] = price
		}
		sum += price
	}
	return sum
}

func cheapestFor(s model.Snapshot, p *model.PodSpec) float64 {
	best := 0.0
	for i := range s.Types {
		t := &s.Types[i]
		if t.Allocatable.Lacking(needs(p)) != "" {
			continue
		}
		labels := maps.Clone(t.Labels)
		for _, o := range t.Offerings {
			if best > 0 && o.Price >= best {
				continue
			}
			labels[model.LabelZone], labels[model.LabelCapacityType] = o.Zone, o.CapacityType
			if _, ok := constraint.MatchNode(p, labels); ok {
				best = o.Price
			}
		}
	}
	return best
}

// needs are a pod's requests with whole devices for parts of them.
func needs(p *model.PodSpec) model.Resources {
	out := p.Requests.Clone()
	for _, d := range p.Shares {
		out[d.Resource] += d.Count
	}
	return out
}
