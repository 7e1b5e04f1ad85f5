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
	var usable []scoped
	for _, o := range l.pool.Overlays {
		if s, ok := l.scope(o); ok {
			usable = append(usable, s)
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
	for i, o := range usable {
		if !matched[i] {
			l.note(model.Warning, "overlay-no-match", o.Place, "NodeOverlay "+o.Name+" matches no instance type that is sold in "+l.types.Region+", so it changes nothing", "")
		}
		l.contested(o)
		l.advertised(o, usable[:i])
	}
	l.snapshot.Types, l.types.Types = types, types
}

// A scoped overlay is one whose requirements speak of types alone, with the
// pools that the others of them chose.
type scoped struct {
	nodepool.Overlay
	by     string       // the label of pools that it goes by, "" for none
	pools  []model.Pool // that it is for
	others []model.Pool
}

// scope takes the requirements on pools' labels apart from those on types. An
// overlay for no pool is noted and not used.
func (l *loader) scope(o nodepool.Overlay) (scoped, bool) {
	out := scoped{Overlay: o}
	var ofTypes, ofPools []model.Requirement
	for _, r := range o.Requirements {
		if l.onPools(r.Key) {
			ofPools = append(ofPools, r)
		} else {
			ofTypes = append(ofTypes, r)
		}
	}
	out.Requirements = ofTypes
	for _, p := range l.snapshot.Pools {
		labels := merged(p.Labels, map[string]string{model.LabelNodePool: p.Name})
		if _, ok := constraint.MatchTerm(ofPools, labels); ok || len(ofPools) == 0 {
			out.pools = append(out.pools, p)
		} else {
			out.others = append(out.others, p)
		}
	}
	if len(ofPools) == 0 {
		return out, true
	}
	if out.by = ofPools[0].Key; len(out.pools) == 0 {
		l.note(model.Warning, "overlay-pool", o.Place, "NodeOverlay "+o.Name+" is for no pool among the files ("+out.by+"), so it changes nothing", "")
		return out, false
	}
	return out, true
}

// shared is a pool that the overlay is not for and that may launch the type as
// well, "" for none. A type has one price and one capacity for all pools, so
// that what the overlay says of it can only count where there is no such pool.
func (o *scoped) shared(t model.InstanceType) string {
	for _, p := range o.others {
		if admits(p, t) {
			return p.Name
		}
	}
	return ""
}

// contested names the types of which an overlay is not heard. Of what the GPUs
// advertise the device configs decide, pool by pool, so that nothing is missed
// there.
func (l *loader) contested(o scoped) {
	if !o.HasPrice() && !slices.ContainsFunc(o.Capacity.Names(), func(name string) bool { return !strings.HasPrefix(name, "nvidia.com/") }) {
		return
	}
	var types []string
	pool := ""
	for _, t := range l.snapshot.Types {
		own := slices.ContainsFunc(o.pools, func(p model.Pool) bool { return admits(p, t) })
		if p := o.shared(t); own && p != "" && applies(o, t) {
			types, pool = append(types, t.Name), p
		}
	}
	if len(types) == 0 {
		return
	}
	what := types[0]
	if n := len(types) - 1; n > 0 {
		what = fmt.Sprintf("%s and %d more types", what, n)
	}
	l.note(model.Warning, "overlay-pool", o.Place,
		fmt.Sprintf("NodeOverlay %s is for some pools only (%s), and pool %s may launch %s too; kerf knows one price and capacity of a type, so there it is left out", o.Name, o.by, pool, what),
		"keep the types of the pools apart by their requirements")
}

// onPools reports whether a label comes from pools and not from types.
func (l *loader) onPools(key string) bool {
	if key == model.LabelNodePool {
		return true
	}
	return slices.ContainsFunc(l.snapshot.Pools, func(p model.Pool) bool { _, ok := p.Labels[key]; return ok })
}

// repriced returns a type's offerings with the prices that overlays give.
func repriced(t model.InstanceType, overlays []scoped, matched []bool) []model.Offering {
	out := slices.Clone(t.Offerings)
	for i, listed := range t.Offerings {
		done := false
		for j, o := range overlays {
			if !o.HasPrice() || !matches(o, t, listed) {
				continue
			}
			matched[j] = true
			if !done && o.shared(t) == "" {
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
func resized(t model.InstanceType, overlays []scoped, matched []bool) model.InstanceType {
	set := model.Resources{}
	for j, o := range overlays {
		if len(o.Capacity) == 0 || !applies(o, t) {
			continue
		}
		matched[j] = true
		if o.shared(t) != "" {
			continue
		}
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
func applies(o scoped, t model.InstanceType) bool {
	return slices.ContainsFunc(t.Offerings, func(of model.Offering) bool { return matches(o, t, of) })
}

// matches reports whether a node of the type from the offering meets an
// overlay's requirements.
func matches(o scoped, t model.InstanceType, of model.Offering) bool {
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
func (l *loader) advertised(o scoped, before []scoped) {
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
func (l *loader) differs(o scoped, before []scoped, name string) (typ, pool string, have int64, differs bool) {
	for _, t := range l.snapshot.Types {
		if len(t.GPUs) == 0 || !applies(o, t) {
			continue
		}
		for _, p := range o.pools {
			if slices.ContainsFunc(before, func(b scoped) bool { return b.Capacity[name] != 0 && b.isFor(p) && applies(b, t) }) {
				continue
			}
			ad, err := gpu.ForNode(t, l.snapshot.Sharing, p.Labels)
			if err == nil && ad.Resources[name] != o.Capacity[name] && admits(p, t) {
				return t.Name, p.Name, ad.Resources[name], true
			}
		}
	}
	return "", "", 0, false
}

func (o *scoped) isFor(p model.Pool) bool {
	return slices.ContainsFunc(o.pools, func(q model.Pool) bool { return q.Name == p.Name })
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
