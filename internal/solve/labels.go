package solve

import (
	"maps"
	"slices"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// requirements compares what the pod wants of labels with what the pool says.
func (r *refusing) requirements(spec *model.PodSpec, pl *pool) (model.Verdict, bool) {
	wants := constraint.Alternatives(spec)
	if len(wants) == 0 {
		return model.Verdict{Code: model.CodeRequirement, Detail: "the pod's own selector, affinity and volumes exclude each other"}, false
	}
	var first model.Verdict
	for i, want := range wants {
		key, conflict := pl.set.Conflict(want, r.open)
		if !conflict {
			return model.Verdict{}, true
		}
		if i == 0 {
			first = model.Verdict{Code: model.CodeRequirement, Key: key, Wanted: want.Words(key), Offered: pl.set.Words(key)}
		}
	}
	return first, false
}

// open reports whether a label comes with the node whatever its pool says.
func (r *refusing) open(key string) bool {
	if r.a.m.typeDecides(key) || key == model.LabelZone || key == model.LabelCapacityType || key == model.LabelRegion {
		return true
	}
	for i := range r.a.m.kinds {
		if _, ok := r.a.m.kinds[i].adv.Labels[key]; ok {
			return true
		}
	}
	return false
}

// noTypes says which of a pool's own keys leaves no type.
func (r *refusing) noTypes(pl *pool) model.Verdict {
	v := model.Verdict{Code: model.CodeNoType}
	count := map[string]int{}
	for i := range r.a.m.snap.Types {
		if key, no := r.a.m.refuses(pl, &r.a.m.snap.Types[i]); no {
			count[key]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(count)) {
		if v.Key == "" || count[key] > count[v.Key] {
			v.Key, v.Offered = key, pl.set.Words(key)
		}
	}
	return v
}

// byLabels keeps the kinds whose labels the pod wants, zones and capacity
// types apart, or says which label leaves none.
func (r *refusing) byLabels(spec *model.PodSpec, kinds []int) ([]int, model.Verdict) {
	where := r.a.m.admit(withoutCells(spec), false)
	left := slices.DeleteFunc(slices.Clone(kinds), func(k int) bool { return where[k] == 0 })
	if len(left) > 0 {
		return left, model.Verdict{}
	}
	left = kinds
	for _, q := range wishes(withoutCells(spec)) {
		one := make([]cells, len(r.a.m.kinds))
		for _, k := range left {
			one[k] = 1
		}
		r.a.m.require(one, q)
		next := slices.DeleteFunc(slices.Clone(left), func(k int) bool { return one[k] == 0 })
		if len(next) == 0 {
			key := constraint.Normalize(q.Key)
			v := model.Verdict{Code: model.CodeNoType, Key: key, Wanted: constraint.NewSet([]model.Requirement{q}).Words(key), Offered: r.values(left, key)}
			if len(left) == len(kinds) {
				v.Code = model.CodeRequirement
			}
			return nil, v
		}
		left = next
	}
	return nil, model.Verdict{Code: model.CodeNoType}
}

// wishes lists a pod's requirements one by one: the selector's by key, then the
// first term's of its affinity and of each volume.
func wishes(spec *model.PodSpec) []model.Requirement {
	var out []model.Requirement
	for _, k := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		out = append(out, model.Requirement{Key: k, Operator: model.In, Values: []string{spec.NodeSelector[k]}})
	}
	if len(spec.NodeAffinity) > 0 {
		out = append(out, spec.NodeAffinity[0]...)
	}
	for _, v := range spec.Volumes {
		if len(v.Terms) > 0 {
			out = append(out, v.Terms[0]...)
		}
	}
	return out
}

func (r *refusing) values(kinds []int, key string) []string {
	col := r.a.m.column(key)
	var out []string
	for _, k := range kinds {
		if id := col.of[k]; id >= 0 {
			out = append(out, col.values[id])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// withoutCells drops what a pod wants of zones and capacity types.
func withoutCells(spec *model.PodSpec) *model.PodSpec {
	out := dropLabel(spec, model.LabelZone)
	return dropLabel(out, model.LabelCapacityType)
}

// sold keeps the kinds that are sold where the pod may run.
func (r *refusing) sold(spec *model.PodSpec, kinds []int) ([]int, model.Verdict) {
	where := r.a.m.admit(spec, false)
	left := r.keep(kinds, func(k int) bool { return where[k] != 0 })
	if len(left) > 0 {
		return left, model.Verdict{}
	}
	v := model.Verdict{Code: model.CodeNoOffering, Key: model.LabelZone}
	want, all := ^cells(0), cells(0)
	for _, k := range kinds {
		all |= r.a.m.kinds[k].cells
	}
	for _, q := range wishes(spec) {
		key := constraint.Normalize(q.Key)
		if key != model.LabelZone && key != model.LabelCapacityType {
			continue
		}
		want &= r.a.m.cellsWhere(key, q)
		v.Key, v.Wanted = key, constraint.NewSet([]model.Requirement{q}).Words(key)
		if want&all == 0 {
			break
		}
	}
	v.Offered = r.cellValues(all, v.Key)
	return nil, v
}

func (r *refusing) cellValues(in cells, key string) []string {
	var out []string
	for i, c := range r.a.m.cells {
		switch {
		case in&(1<<i) == 0:
		case key == model.LabelCapacityType:
			out = append(out, c.capacityType)
		default:
			out = append(out, c.zone)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
