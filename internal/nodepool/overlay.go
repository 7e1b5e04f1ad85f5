package nodepool

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// An Overlay is a NodeOverlay (karpenter.sh/v1alpha1, Karpenter 1.15): what
// simulations believe of the instance types and offerings that match. Of two
// overlays that change the same resource, or the price of the same offering,
// the one with more weight wins.
type Overlay struct {
	Name         string
	Weight       int // 0 to 10000
	Requirements []model.Requirement
	// Price is the price in $/h, and PriceAdjustment what is added to the price:
	// "-0.5", "+1.2", "-15%". At most one is given; "" is none.
	Price           string
	PriceAdjustment string
	// Capacity replaces the resources that it names on the whole instance type.
	Capacity model.Resources
	Place    model.Place
}

// reservedCapacity lists what an overlay may not set: Karpenter's own resources
// and those of the AWS provider. nvidia.com/gpu and amd.com/gpu are not among them.
var reservedCapacity = []string{
	model.CPU, model.Memory, model.EphemeralStorage, model.Pods, "aws.amazon.com/neuron",
	"aws.amazon.com/neuroncore", "habana.ai/gaudi", "vpc.amazonaws.com/efa", "vpc.amazonaws.com/pod-eni",
}

// HasPrice reports whether the overlay changes prices.
func (v Overlay) HasPrice() bool { return v.Price != "" || v.PriceAdjustment != "" }

// Reprice returns what becomes of a price in $/h; it is never below zero.
func (v Overlay) Reprice(price float64) float64 {
	if p, err := strconv.ParseFloat(v.Price, 64); err == nil {
		return p
	}
	percent, relative := strings.CutSuffix(v.PriceAdjustment, "%")
	by, err := strconv.ParseFloat(percent, 64)
	switch {
	case err != nil:
		return price
	case relative:
		return max(0, price*(1+by/100))
	}
	return max(0, price+by)
}

// overlay reads a settled NodeOverlay; one that the API server or Karpenter
// refuses has no effect.
func (o *object) overlay() (Overlay, bool) {
	spec := o.root.Get("spec")
	v := Overlay{
		Name:            o.doc.Name,
		Weight:          int(integer(spec.Get("weight"))),
		Requirements:    o.requirements("spec.requirements"),
		Price:           spec.Get("price").Str(),
		PriceAdjustment: spec.Get("priceAdjustment").Str(),
		Place:           o.place(""),
	}
	var bad []string
	v.Capacity, bad = amounts(spec.Get("capacity"))
	for _, name := range bad {
		o.unusable(name, "not a quantity")
	}
	for _, name := range v.Capacity.Names() {
		if slices.Contains(reservedCapacity[4:], name) {
			detail := fmt.Sprintf("invalid capacity: %s in resource, restricted", name)
			o.noteNode(model.Error, "karpenter-refused", spec.At("capacity", name), "remove it", "karpenter does not use the NodeOverlay: %s", detail)
			o.unusable(name, detail)
		}
	}
	for _, r := range v.Requirements {
		if r.Operator == model.NotIn && len(r.Values) == 0 {
			o.unusable(r.Key, "NotIn without values")
		}
	}
	return v, len(o.unread) == 0
}

// sortOverlays puts overlays in the order in which they win, and says which of
// them keep each other from being used: Karpenter takes no overlay that sets,
// with the same weight, what one before it sets for some instance type.
func sortOverlays(overlays []Overlay) []model.Note {
	slices.SortStableFunc(overlays, func(a, b Overlay) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	var notes []model.Note
	for i, a := range overlays {
		for _, b := range overlays[i+1:] {
			what := sameSubject(a, b)
			if a.Weight != b.Weight || what == "" || apart(a, b) {
				continue
			}
			notes = append(notes, model.Note{
				Code: "overlay-conflict", Severity: model.Warning, Place: b.Place,
				Text: fmt.Sprintf("NodeOverlays %s and %s have the same weight %d and both set %s: if one instance type matches both, karpenter does not use %s at all", a.Name, b.Name, a.Weight, what, b.Name),
				Fix:  "give one of them more weight",
			})
		}
	}
	return notes
}

// sameSubject names what two overlays both set, "" when nothing.
func sameSubject(a, b Overlay) string {
	if a.HasPrice() && b.HasPrice() {
		return "the price"
	}
	for _, name := range a.Capacity.Names() {
		if _, both := b.Capacity[name]; both {
			return name
		}
	}
	return ""
}

// apart reports whether no node can match both.
func apart(a, b Overlay) bool {
	_, empty := constraint.NewSet(slices.Concat(a.Requirements, b.Requirements)).Empty()
	return empty
}
