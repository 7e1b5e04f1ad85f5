package nodepool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// Apply returns the instance types as the overlays, in the order of
// Result.Overlays, have them: another price on the offerings that match, other
// resources on the types that have such an offering. Resources of NVIDIA stay as
// the hardware and its device config give them, which an overlay could only
// repeat or contradict. An overlay that matches only some of the pools is left
// out, since all pools share one catalogue. Each of these is noted.
func Apply(types []model.InstanceType, pools []model.Pool, overlays []Overlay) ([]model.InstanceType, []model.Note) {
	var notes []model.Note
	var usable []Overlay
	for _, v := range overlays {
		rest, note := v.forPools(pools)
		if note != "" {
			notes = append(notes, v.note(note))
			continue
		}
		if v.dropNvidia() {
			notes = append(notes, v.note("nvidia.com/* of a NodeOverlay is not used: the number follows from the hardware and the device-plugin config"))
		}
		v.Requirements = rest
		usable = append(usable, v)
	}
	if len(usable) == 0 {
		return types, notes
	}
	out := make([]model.InstanceType, len(types))
	for i, t := range types {
		out[i] = overlaid(t, usable)
	}
	return out, notes
}

func (v Overlay) note(text string) model.Note {
	return model.Note{Code: "overlay", Severity: model.Info, Place: v.Place, Text: text}
}

// dropNvidia takes NVIDIA's resources out of the overlay and reports whether there were any.
func (v *Overlay) dropNvidia() bool {
	kept := maps.Clone(v.Capacity)
	maps.DeleteFunc(kept, func(name string, _ int64) bool { return strings.HasPrefix(name, "nvidia.com/") })
	found := len(kept) < len(v.Capacity)
	v.Capacity = kept
	return found
}

// forPools splits off the requirements on labels that come from a pool. It
// returns the rest, and why the overlay cannot be used when the pools differ.
func (v Overlay) forPools(pools []model.Pool) (rest []model.Requirement, why string) {
	var own model.Term
	for _, r := range v.Requirements {
		if _, known := wellKnown[r.Key]; known {
			rest = append(rest, r)
		} else {
			own = append(own, r)
		}
	}
	if len(own) == 0 {
		return rest, ""
	}
	matching := 0
	for _, p := range pools {
		labels := maps.Clone(p.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[model.LabelNodePool] = p.Name
		if _, ok := constraint.MatchTerm(own, labels); ok {
			matching++
		}
	}
	if matching == len(pools) {
		return rest, ""
	}
	return nil, fmt.Sprintf("the overlay holds for %d of %d pools (%s); overlays for some pools are not modelled, so it is left out", matching, len(pools), own[0].Key)
}

// overlaid applies overlays to one type. The first that changes a resource or
// the price of an offering wins.
func overlaid(t model.InstanceType, overlays []Overlay) model.InstanceType {
	priced := make([]bool, len(t.Offerings))
	given := map[string]bool{}
	out := t
	out.Offerings = slices.Clone(t.Offerings)
	for _, v := range overlays {
		any := false
		for i, offering := range t.Offerings {
			if !v.matches(t, offering) {
				continue
			}
			any = true
			if v.HasPrice() && !priced[i] {
				out.Offerings[i].Price = v.Reprice(offering.Price)
				priced[i] = true
			}
		}
		if !any {
			continue
		}
		for _, name := range v.Capacity.Names() {
			if !given[name] {
				given[name] = true
				out.Capacity = with(out.Capacity, name, v.Capacity[name])
				out.Allocatable = with(out.Allocatable, name, v.Capacity[name])
			}
		}
	}
	slices.SortStableFunc(out.Offerings, func(a, b model.Offering) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}

func with(r model.Resources, name string, v int64) model.Resources {
	out := r.Clone()
	out[name] = v
	return out
}

func (v Overlay) matches(t model.InstanceType, offering model.Offering) bool {
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[model.LabelInstanceType] = t.Name
	labels[model.LabelZone] = offering.Zone
	labels[model.LabelCapacityType] = offering.CapacityType
	for _, r := range v.Requirements {
		if !constraint.Matches(r, labels) {
			return false
		}
	}
	return true
}
