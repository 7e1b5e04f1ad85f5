package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// With returns the book with a user's types and prices in place of its own:
// types by name, with the offerings that the book has for that name, then
// prices in their order, later ones over earlier ones. Prices of other regions
// are left out. Notes name what had no effect. The book itself stays as it is.
func (b Book) With(types []model.InstanceType, prices []Price) (Book, []model.Note) {
	out := b
	out.Types = slices.Clone(b.Types)
	out.Zones = slices.Clone(b.Zones)
	out.Notes = slices.Clone(b.Notes)
	var notes []model.Note
	if len(types) > 0 && b.Cloud != "aws" {
		notes = append(notes, model.Note{
			Code: "types-elsewhere", Severity: model.Warning,
			Text: fmt.Sprintf("the given instance types are AWS's and have no place in %s's region %s: they are left out", b.Cloud, b.Region),
			Fix:  "name an AWS region with --region",
		})
		types = nil
	}
	for _, t := range types {
		out.put(t)
	}
	return out, append(notes, out.price(prices)...)
}

// put adds or replaces a type. What DescribeInstanceTypes does not say is kept
// from the book.
func (b *Book) put(t model.InstanceType) {
	t.Labels = maps.Clone(t.Labels)
	t.Labels[model.LabelRegion] = b.Region
	i, known := b.find(t.Name)
	if !known {
		b.Types = slices.Insert(b.Types, i, t)
		return
	}
	old := b.Types[i]
	t.Offerings = old.Offerings
	delete(t.Labels, bandwidth)
	if v, ok := old.Labels[bandwidth]; ok {
		t.Labels[bandwidth] = v
	}
	if n, ok := old.Capacity[podENI]; ok {
		t.Capacity, t.Allocatable = t.Capacity.Clone(), t.Allocatable.Clone()
		t.Capacity[podENI], t.Allocatable[podENI] = n, n
	}
	b.Types[i] = t
}

// What Karpenter knows of a type beyond EC2's answer.
const (
	podENI    = "vpc.amazonaws.com/pod-eni"
	bandwidth = awsLabel + "network-bandwidth"
)

// price applies the prices of the book's region.
func (b *Book) price(prices []Price) []model.Note {
	if len(prices) == 0 {
		return nil
	}
	var notes []model.Note
	var elsewhere []string
	used := 0
	for _, p := range prices {
		if where := b.elsewhere(p); where != "" {
			elsewhere = append(elsewhere, where)
			continue
		}
		i, ok := b.find(p.Type)
		if !ok {
			notes = append(notes, note("unknown-type", p, fmt.Sprintf("price of %q: no such instance type is known", p.Type),
				"correct the name, or describe the type with --instance-types"))
			continue
		}
		b.Types[i].Offerings = b.offerings(b.Types[i].Offerings, p)
		if at, ok := slices.BinarySearch(b.Zones, p.Zone); !ok && p.Zone != "" {
			b.Zones = slices.Insert(b.Zones, at, p.Zone)
		}
		used++
	}
	if used > 0 {
		b.PriceBasis = fmt.Sprintf("%d given prices, else %s", used, b.PriceBasis)
		return notes
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		notes = append(notes, model.Note{
			Code: "prices-elsewhere", Severity: model.Warning,
			Text: fmt.Sprintf("none of the given prices is for region %s; they are for %s", b.Region, strings.Join(slices.Compact(elsewhere), ", ")),
			Fix:  "name the region with --region, or leave the region of the prices empty",
		})
	}
	return notes
}

// elsewhere returns the region or zone of a price that is not the book's, or "".
func (b *Book) elsewhere(p Price) string {
	switch region := strings.TrimPrefix(p.Region, b.Cloud+":"); {
	case region != "" && region != b.Region:
		return region
	case b.Cloud == "aws" && p.Zone != "" && !strings.HasPrefix(p.Zone, b.Region):
		return p.Zone
	}
	return ""
}

func note(code string, p Price, text, fix string) model.Note {
	return model.Note{Code: code, Severity: model.Warning, Place: model.Place{Line: p.Line}, Text: text, Fix: fix}
}

// offerings returns a type's offerings after a price.
func (b *Book) offerings(have []model.Offering, p Price) []model.Offering {
	zones := b.Zones
	if p.Zone != "" {
		zones = []string{p.Zone}
	}
	var out []model.Offering
	for _, o := range have {
		if p.CapacityType != "" && p.CapacityType != o.CapacityType || !slices.Contains(zones, o.Zone) {
			out = append(out, o)
		}
	}
	if !p.NotSold {
		for _, z := range zones {
			out = append(out, model.Offering{Zone: z, CapacityType: p.CapacityType, Price: p.Price})
		}
	}
	sortOfferings(out)
	return out
}
