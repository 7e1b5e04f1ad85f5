package intake

import (
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// DefaultPool is the name of the pool that stands in where none is given.
const DefaultPool = "default"

// pools gives pending pods something to be launched for when no pool is given.
func (l *loader) pools() {
	pending := slices.ContainsFunc(l.snapshot.Pods, func(p model.Pod) bool { return p.Node == "" && len(p.Spec.Refused) == 0 })
	if len(l.snapshot.Pools) > 0 || !pending {
		return
	}
	l.snapshot.Pools = []model.Pool{{
		Name: DefaultPool,
		Requirements: []model.Requirement{
			{Key: model.LabelOS, Operator: model.In, Values: []string{"linux"}},
			{Key: model.LabelArch, Operator: model.In, Values: []string{"amd64"}},
			{Key: model.LabelCapacityType, Operator: model.In, Values: []string{model.OnDemand, model.Spot}},
		},
	}}
	l.note(model.Info, "default-pool", model.Place{},
		"no NodePool is among the files: pods are planned for one named "+DefaultPool+" that takes every Linux amd64 type, spot and on demand, without taints or limits",
		"give your NodePools to plan with them")
}
