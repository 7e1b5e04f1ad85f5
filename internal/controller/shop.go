package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/hands"
	"github.com/kerfdev/kerf/internal/model"
)

// A shop turns what a CloudProvider sells into a book of types. What the
// provider says of prices, zones, stock and sizes counts; the book behind it
// knows what hardware a type has.
type shop struct {
	book   catalog.Book
	sells  func(context.Context, *karpenter.NodePool) ([]*cloudprovider.InstanceType, error)
	out    func() []offer
	avoid  func() []hands.Avoided // nil is nothing
	seed   maphash.Seed
	last   uint64
	wares  wares
	lastOK bool
	seen   map[string]listing
}

// A listing is what a provider said last of a pool. A provider that gives the
// same list again has changed nothing in it.
type listing struct {
	first **cloudprovider.InstanceType
	n     int
	sum   uint64
}

// wares are what is sold now. The same pointer comes back while nothing changed.
type wares struct {
	version int
	book    catalog.Book
	// types by pool and name, for making NodeClaims of a plan.
	types map[string]map[string]*cloudprovider.InstanceType
	// limits are requirements that a pool has beyond its own, as its node class
	// leaves it fewer zones or types than others have.
	limits map[string][]model.Requirement
	// closed says why nothing can be bought for a pool.
	closed map[string]string
	gone   int // offerings that are out of stock
}

func newShop(book catalog.Book, sells func(context.Context, *karpenter.NodePool) ([]*cloudprovider.InstanceType, error), out func() []offer) *shop {
	return &shop{book: book, sells: sells, out: out, seed: maphash.MakeSeed()}
}

// bookOf loads what is known of a region's hardware. A region without a book of
// prices will do: prices are the provider's.
func bookOf(region string) (catalog.Book, error) {
	book, err := catalog.Load(region)
	if err == nil {
		return book, nil
	}
	if bare, failed := catalog.Unpriced(region); failed == nil {
		return bare, nil
	}
	return book, err
}

// look asks the provider for each pool. A pool that it cannot answer for is
// closed; an error means that the time was up.
func (s *shop) look(ctx context.Context, pools []*karpenter.NodePool) (wares, error) {
	listed := map[string][]*cloudprovider.InstanceType{}
	closed := map[string]string{}
	for _, p := range pools {
		types, err := s.sells(ctx, p)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			return wares{}, fmt.Errorf("instance types of nodepool %s: %w", p.Name, err)
		case err != nil:
			closed[p.Name] = "no instance types: " + err.Error()
		case len(types) == 0:
			closed[p.Name] = "its node class leaves no instance type"
		default:
			listed[p.Name] = types
		}
	}
	out := s.out()
	var avoid []hands.Avoided
	if s.avoid != nil {
		avoid = s.avoid()
	}
	sum := s.sum(listed, closed, out, avoid)
	if s.lastOK && sum == s.last {
		return s.wares, nil
	}
	s.wares = s.stack(listed, closed, out, avoid)
	s.last, s.lastOK = sum, true
	return s.wares, nil
}

// sum tells whether anything changed.
func (s *shop) sum(listed map[string][]*cloudprovider.InstanceType, closed map[string]string, out []offer, avoid []hands.Avoided) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	seen := map[string]listing{}
	for _, pool := range slices.Sorted(maps.Keys(listed)) {
		now := listing{first: &listed[pool][0], n: len(listed[pool])}
		if last := s.seen[pool]; last.first == now.first && last.n == now.n {
			now.sum = last.sum
		} else {
			now.sum = s.sumOf(listed[pool])
		}
		seen[pool] = now
		h.WriteString(pool)
		maphash.WriteComparable(&h, now.sum)
	}
	s.seen = seen
	for _, pool := range slices.Sorted(maps.Keys(closed)) {
		h.WriteString(pool + closed[pool])
	}
	for _, o := range out {
		maphash.WriteComparable(&h, o)
	}
	for _, a := range avoid {
		maphash.WriteComparable(&h, a)
	}
	return h.Sum64()
}

// sumOf tells lists of types apart by all that a plan takes from them.
func (s *shop) sumOf(types []*cloudprovider.InstanceType) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, t := range types {
		h.WriteString(t.Name)
		for _, o := range t.Offerings {
			maphash.WriteComparable(&h, o.Price)
			maphash.WriteComparable(&h, o.Launchable())
			h.WriteString(o.Zone())
			h.WriteString(o.CapacityType())
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
			q := t.Allocatable()[name]
			maphash.WriteComparable(&h, q.Value())
		}
	}
	return h.Sum64()
}

// stack puts the types of all pools together.
func (s *shop) stack(listed map[string][]*cloudprovider.InstanceType, closed map[string]string, out []offer, avoid []hands.Avoided) wares {
	w := wares{
		version: s.wares.version + 1, book: s.book, closed: closed,
		types: map[string]map[string]*cloudprovider.InstanceType{}, limits: map[string][]model.Requirement{},
	}
	merged := map[string]*model.InstanceType{}
	zones := map[string]bool{}
	for _, pool := range slices.Sorted(maps.Keys(listed)) {
		byName := map[string]*cloudprovider.InstanceType{}
		for _, t := range listed[pool] {
			byName[t.Name] = t
			if merged[t.Name] == nil {
				merged[t.Name] = s.typeOf(t)
			}
			w.gone += addOfferings(merged[t.Name], t, out, zones)
		}
		w.types[pool] = byName
	}
	w.book.Types = nil
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		t := merged[name]
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(cmp.Compare(a.Price, b.Price), strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
		})
		w.book.Types = append(w.book.Types, *t)
	}
	w.book.Zones = slices.Sorted(maps.Keys(zones))
	for pool, types := range w.types {
		w.limits[pool] = append(limitsOf(types, merged, zones), avoided(pool, avoid, w.book.Types)...)
	}
	return w
}

// addOfferings adds those that are in stock and not there yet, and returns how
// many are not in stock.
func addOfferings(to *model.InstanceType, t *cloudprovider.InstanceType, out []offer, zones map[string]bool) (gone int) {
	for _, o := range t.Offerings {
		one := model.Offering{Zone: o.Zone(), CapacityType: o.CapacityType(), Price: o.Price}
		zones[one.Zone] = true
		if one.CapacityType == model.Reserved {
			continue // how many of them are left no plan can tell
		}
		if !o.Launchable() || soldOut(out, offer{t.Name, one.Zone, one.CapacityType}) {
			gone++
			continue
		}
		if !slices.ContainsFunc(to.Offerings, func(have model.Offering) bool {
			return have.Zone == one.Zone && have.CapacityType == one.CapacityType && have.Price <= one.Price
		}) {
			to.Offerings = append(to.Offerings, one)
		}
	}
	return gone
}

// soldOut reports whether an offering is among those remembered, in which ""
// stands for every zone or capacity type.
func soldOut(out []offer, o offer) bool {
	return slices.ContainsFunc(out, func(x offer) bool {
		return x.typ == o.typ && (x.zone == o.zone || x.zone == "") && (x.capacityType == o.capacityType || x.capacityType == "")
	})
}

// limitsOf says what a pool is left with where others have more.
func limitsOf(types map[string]*cloudprovider.InstanceType, all map[string]*model.InstanceType, zones map[string]bool) []model.Requirement {
	var out []model.Requirement
	mine := map[string]bool{}
	for _, t := range types {
		for _, o := range t.Offerings {
			mine[o.Zone()] = true
		}
	}
	if len(mine) < len(zones) {
		out = append(out, model.Requirement{Key: model.LabelZone, Operator: model.In, Values: slices.Sorted(maps.Keys(mine))})
	}
	if len(types) < len(all) {
		out = append(out, model.Requirement{Key: model.LabelInstanceType, Operator: model.In, Values: slices.Sorted(maps.Keys(types))})
	}
	return out
}

// avoided leaves out of a pool the types whose GPUs lately failed to come up.
func avoided(pool string, avoid []hands.Avoided, types []model.InstanceType) []model.Requirement {
	var names []string
	for _, a := range avoid {
		switch {
		case a.Pool != pool:
		case a.Type != "":
			names = append(names, a.Type)
		default:
			for i := range types {
				if len(types[i].GPUs) > 0 {
					names = append(names, types[i].Name)
				}
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []model.Requirement{{Key: model.LabelInstanceType, Operator: model.NotIn, Values: names}}
}

// typeOf is a type without offerings: the book's hardware with the provider's
// sizes. GPUs are always those of the bare hardware.
func (s *shop) typeOf(t *cloudprovider.InstanceType) *model.InstanceType {
	out, known := s.book.Type(t.Name)
	if !known {
		out = model.InstanceType{Name: t.Name, Labels: labelsOf(t), GPUs: gpusOf(t)}
	}
	out.Offerings = nil
	out.Capacity = sized(out.Capacity, t.Capacity)
	out.Allocatable = sized(out.Allocatable, t.Allocatable())
	return &out
}

// sized is what the provider says of everything but GPUs.
func sized(have model.Resources, list corev1.ResourceList) model.Resources {
	out := model.Resources{}
	for name, v := range have {
		if model.IsGPU(name) {
			out[name] = v
		}
	}
	for name, v := range amounts(list) {
		if _, had := out[name]; v > 0 && (!had && !strings.HasPrefix(name, "nvidia.com/") || len(have) == 0) {
			out[name] = v
		}
	}
	return out
}

// labelsOf are the labels of which the type leaves no choice.
func labelsOf(t *cloudprovider.InstanceType) map[string]string {
	out := map[string]string{}
	for key, r := range t.Requirements {
		if key != model.LabelZone && key != model.LabelCapacityType && r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
			out[key] = r.Any()
		}
	}
	return out
}

// gpusOf are the GPUs that the labels of the AWS provider name.
func gpusOf(t *cloudprovider.InstanceType) []model.GPU {
	l := labelsOf(t)
	count, memory := number(l["karpenter.k8s.aws/instance-gpu-count"]), number(l["karpenter.k8s.aws/instance-gpu-memory"])
	if count == 0 {
		return nil
	}
	return []model.GPU{{
		Manufacturer: l["karpenter.k8s.aws/instance-gpu-manufacturer"], Model: l["karpenter.k8s.aws/instance-gpu-name"],
		Count: count, MemoryMiB: memory, Fraction: 1,
	}}
}
