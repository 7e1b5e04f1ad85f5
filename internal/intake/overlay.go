package intake

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

// overlays applies NodeOverlays to the types, as Karpenter 1.15 does: of those
// that match, the first sets the price of an offering, and the first that names
// a resource sets its amount on the whole type.
func (l *loader) overlays() {
	var usable []nodepool.Overlay
	for _, o := range l.pool.Overlays {
		if l.global(&o) {
			usable = append(usable, o)
		}
	}
	if len(usable) == 0 {
		return
	}
	l.note(model.Info, "overlay-gate", usable[0].Place, "NodeOverlays are applied; karpenter 1.15 does so only with the feature gate NodeOverlay, which is off by default", "")
	types := make([]model.InstanceType, len(l.snapshot.Types))
	matched := make([]bool, len(usable))
	for i, t := range l.snapshot.Types {
		t.Offerings = repriced(t, usable, matched)
		types[i] = resized(t, usable, matched)
	}
	l.snapshot.Types, l.types.Types = types, types
	for i, o := range usable {
		if !matched[i] {
			l.note(model.Warning, "overlay-no-match", o.Place, "NodeOverlay "+o.Name+" matches no instance type that is sold in "+l.types.Region+", so it changes nothing", "")
		}
		l.advertised(o, usable[:i])
	}
}

// global reports whether an overlay speaks of types alone, after dropping the
// requirements on pools' labels that every pool meets. Types belong to all
// pools here, so one that is meant for some of them cannot be applied.
func (l *loader) global(o *nodepool.Overlay) bool {
	var ofTypes, ofPools []model.Requirement
	for _, r := range o.Requirements {
		if l.onPools(r.Key) {
			ofPools = append(ofPools, r)
		} else {
			ofTypes = append(ofTypes, r)
		}
	}
	meets := 0
	for _, p := range l.snapshot.Pools {
		labels := merged(p.Labels, map[string]string{model.LabelNodePool: p.Name})
		if _, ok := constraint.MatchTerm(ofPools, labels); ok {
			meets++
		}
	}
	if len(ofPools) > 0 && meets < len(l.snapshot.Pools) {
		text := "NodeOverlay " + o.Name + " is for some pools only (" + ofPools[0].Key + "); kerf applies overlays to types of every pool, so this one is left out"
		if meets == 0 {
			text = "NodeOverlay " + o.Name + " is for no pool among the files (" + ofPools[0].Key + "), so it changes nothing"
		}
		l.note(model.Warning, "overlay-pool", o.Place, text, "")
		return false
	}
	o.Requirements = ofTypes
	return true
}

// onPools reports whether a label comes from pools and not from types.
func (l *loader) onPools(key string) bool {
	if key == model.LabelNodePool {
		return true
	}
	return slices.ContainsFunc(l.snapshot.Pools, func(p model.Pool) bool { _, ok := p.Labels[key]; return ok })
}

// repriced returns a type's offerings with the prices that overlays give.
func repriced(t model.InstanceType, overlays []nodepool.Overlay, matched []bool) []model.Offering {
	out := slices.Clone(t.Offerings)
	for i, listed := range t.Offerings {
		done := false
		for j, o := range overlays {
			if !o.HasPrice() || !matches(o, t, listed) {
				continue
			}
			matched[j] = true
			if !done {
				out[i].Price = o.Reprice(listed.Price)
				out[i].Estimated = listed.Estimated && o.Price == ""
				done = true
			}
		}
	}
	slices.SortStableFunc(out, func(a, b model.Offering) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}

// resized returns a type with the capacity that overlays give it.
func resized(t model.InstanceType, overlays []nodepool.Overlay, matched []bool) model.InstanceType {
	set := model.Resources{}
	for j, o := range overlays {
		if len(o.Capacity) == 0 || !applies(o, t) {
			continue
		}
		matched[j] = true
		for name, v := range o.Capacity {
			if _, taken := set[name]; !taken {
				set[name] = v
			}
		}
	}
	if len(set) == 0 {
		return t
	}
	t.Capacity, t.Allocatable = t.Capacity.Clone(), t.Allocatable.Clone()
	for name, v := range set {
		t.Capacity[name], t.Allocatable[name] = v, v
	}
	return t
}

// applies reports whether an overlay's requirements are met by some offering of
// a type.
func applies(o nodepool.Overlay, t model.InstanceType) bool {
	return slices.ContainsFunc(t.Offerings, func(of model.Offering) bool { return matches(o, t, of) })
}

// matches reports whether a node of the type from the offering meets an
// overlay's requirements.
func matches(o nodepool.Overlay, t model.InstanceType, of model.Offering) bool {
	if len(o.Requirements) == 0 {
		return true
	}
	_, ok := constraint.MatchTerm(o.Requirements, merged(t.Labels, map[string]string{
		model.LabelZone: of.Zone, model.LabelCapacityType: of.CapacityType, model.LabelInstanceType: t.Name,
	}))
	return ok
}

// advertised compares what an overlay says of NVIDIA's resources with what the
// device configs make of the GPUs, which is what counts here.
// An overlay that an earlier one overrides for a type has no say there.
func (l *loader) advertised(o nodepool.Overlay, before []nodepool.Overlay) {
	for _, name := range o.Capacity.Names() {
		if !strings.HasPrefix(name, "nvidia.com/") {
			continue
		}
		if t, pool, have, differs := l.differs(o, before, name); differs {
			l.note(model.Warning, "overlay-gpu", o.Place,
				fmt.Sprintf("NodeOverlay %s says %s %d for %s, and by the device config of pool %s it advertises %d; %d is planned with", o.Name, name, o.Capacity[name], t, pool, have, have),
				"give the device config that makes it so, or correct the overlay")
		}
	}
}

// differs finds the first type and pool for which an overlay says something
// else than the device config gives.
func (l *loader) differs(o nodepool.Overlay, before []nodepool.Overlay, name string) (typ, pool string, have int64, differs bool) {
	for _, t := range l.snapshot.Types {
		if len(t.GPUs) == 0 || !applies(o, t) || slices.ContainsFunc(before, func(b nodepool.Overlay) bool { return b.Capacity[name] != 0 && applies(b, t) }) {
			continue
		}
		for _, p := range l.snapshot.Pools {
			ad, err := gpu.ForNode(t, l.snapshot.Sharing, p.Labels)
			if err == nil && ad.Resources[name] != o.Capacity[name] && admits(p, t) {
				return t.Name, p.Name, ad.Resources[name], true
			}
		}
	}
	return "", "", 0, false
}

// admits reports whether a pool's requirements leave the type in.
func admits(p model.Pool, t model.InstanceType) bool {
	for _, r := range p.Requirements {
		if _, has := t.Labels[r.Key]; has && !constraint.Matches(r, t.Labels) {
			return false
		}
	}
	return true
}
