package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/overlay"
)

// reservationID tells reserved offerings apart, as in the AWS provider v1.15.
const reservationID = "karpenter.k8s.aws/capacity-reservation-id"

// GetInstanceTypes returns every type that the region sells, as the pool's node
// class leaves it. Offerings that were found out of stock are unavailable for a
// while.
func (s *Simulated) GetInstanceTypes(ctx context.Context, pool *karpenter.NodePool) ([]*cloudprovider.InstanceType, error) {
	if pool == nil || pool.Spec.Template.Spec.NodeClassRef == nil {
		return s.shelf.types(model.Kubelet{}, s.clock.Now()), nil
	}
	c, err := s.class(ctx, pool.Spec.Template.Spec.NodeClassRef)
	if err != nil {
		return nil, fmt.Errorf("resolve node class of nodepool %s: %w", pool.Name, err)
	}
	return s.shelf.types(c.kubelet, s.clock.Now()), nil
}

// A shelf is a book as Karpenter wants to see it. What differs by node class or
// by stock is built once for each and shared: nobody writes to it.
type shelf struct {
	book         catalog.Book
	known        []string // every label of any type, sorted
	requirements []scheduling.Requirements

	mu      sync.Mutex
	missing map[Offering]time.Time // offerings out of stock, until when
	built   map[string][]*cloudprovider.InstanceType
	expires time.Time // of what was built; zero = never
}

func newShelf(book catalog.Book) *shelf {
	s := &shelf{book: book, known: labelKeys(book.Types), missing: map[Offering]time.Time{}}
	know(append(slices.Clone(s.known), reservationID)...)
	if cloudprovider.ReservationIDLabel != reservationID {
		cloudprovider.ReservationIDLabel = reservationID
	}
	for i := range book.Types {
		s.requirements = append(s.requirements, s.requirementsOf(&book.Types[i]))
	}
	return s
}

// know tells Karpenter's library of labels. What it knows is not written again:
// a second cloud in a process may be made while controllers read.
func know(labels ...string) {
	for _, l := range labels {
		if !karpenter.WellKnownLabels.Has(l) {
			karpenter.WellKnownLabels.Insert(l)
		}
	}
}

// labelKeys lists the labels that providers know of their types. What NVIDIA's
// feature discovery sets on running nodes is none of them.
func labelKeys(types []model.InstanceType) []string {
	seen := map[string]bool{}
	for i := range types {
		for key := range types[i].Labels {
			if !strings.HasPrefix(key, "nvidia.com/") && key != model.LabelHostname {
				seen[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// requirementsOf says what nodes of a type can be: something for every label
// that any type has, so that a pod which asks for one is kept off the others.
func (s *shelf) requirementsOf(t *model.InstanceType) scheduling.Requirements {
	out := scheduling.NewRequirements(
		in(model.LabelInstanceType, t.Name), absent(corev1.LabelWindowsBuild), absent(reservationID),
	)
	for _, key := range s.known {
		if v, ok := t.Labels[key]; ok {
			out[key] = in(key, v)
		} else {
			out[key] = absent(key)
		}
	}
	for key, standard := range map[string]string{model.LabelOS: "linux", model.LabelArch: "amd64", model.LabelRegion: s.book.Region} {
		if _, ok := t.Labels[key]; !ok {
			out[key] = in(key, standard)
		}
	}
	var zones, kinds []string
	for _, o := range t.Offerings {
		zones, kinds = append(zones, o.Zone), append(kinds, o.CapacityType)
	}
	out[model.LabelZone], out[model.LabelCapacityType] = in(model.LabelZone, zones...), in(model.LabelCapacityType, kinds...)
	return out
}

func in(key string, values ...string) *scheduling.Requirement {
	return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
}

func absent(key string) *scheduling.Requirement {
	return scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist)
}

// types are what is sold, under a kubelet's settings.
func (s *shelf) types(k model.Kubelet, now time.Time) []*cloudprovider.InstanceType {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.expires.IsZero() && !now.Before(s.expires) {
		s.restock(now)
	}
	key := kubeletKey(k)
	if out, ok := s.built[key]; ok {
		return out
	}
	out := make([]*cloudprovider.InstanceType, 0, len(s.book.Types))
	for i := range s.book.Types {
		if t := &s.book.Types[i]; len(t.Offerings) > 0 {
			out = append(out, s.build(i, t, k))
		}
	}
	if s.built == nil {
		s.built = map[string][]*cloudprovider.InstanceType{}
	}
	s.built[key] = out
	return out
}

// kubeletKey tells settings apart; the usual ones are "".
func kubeletKey(k model.Kubelet) string {
	if k.Usual() {
		return ""
	}
	text, err := json.Marshal(k)
	if err != nil {
		panic("a kubelet's settings are plain values: " + err.Error())
	}
	return string(text)
}

// build is one type. The caller holds the lock.
func (s *shelf) build(i int, t *model.InstanceType, k model.Kubelet) *cloudprovider.InstanceType {
	capacity, kept := Physical(t, k)
	return &cloudprovider.InstanceType{
		Name: t.Name, Requirements: s.requirements[i], Offerings: s.offerings(t), Capacity: Quantities(capacity),
		Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: Quantities(kept)},
	}
}

func (s *shelf) offerings(t *model.InstanceType) cloudprovider.Offerings {
	out := make(cloudprovider.Offerings, 0, len(t.Offerings))
	for _, o := range t.Offerings {
		_, gone := s.missing[Offering{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}]
		out = append(out, &cloudprovider.Offering{
			Requirements: scheduling.NewRequirements(in(model.LabelZone, o.Zone), in(model.LabelCapacityType, o.CapacityType)),
			Price:        o.Price, Available: !gone,
		})
	}
	return out
}

// without shows an offering as unavailable for a while.
func (s *shelf) without(o Offering, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing[o] = until
	s.built = nil
	if s.expires.IsZero() || until.Before(s.expires) {
		s.expires = until
	}
}

// restock forgets what was out of stock long enough. The caller holds the lock.
func (s *shelf) restock(now time.Time) {
	s.built, s.expires = nil, time.Time{}
	for o, until := range s.missing {
		switch {
		case !now.Before(until):
			delete(s.missing, o)
		case s.expires.IsZero() || until.Before(s.expires):
			s.expires = until
		}
	}
}

// kubernetesType is one type as Karpenter sees it, whatever its stock.
func (s *shelf) kubernetesType(name string, k model.Kubelet) (*cloudprovider.InstanceType, bool) {
	i := slices.IndexFunc(s.book.Types, func(t model.InstanceType) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.build(i, &s.book.Types[i], k), true
}

// Physical returns a type's capacity as EC2 reports it, and what of it pods do
// not get. A kubelet's limit on pods is a capacity, as it is to the AWS provider,
// and so is a disk that a node class makes larger: there the capacity is what
// pods get.
func Physical(t *model.InstanceType, k model.Kubelet) (capacity, kept model.Resources) {
	free := catalog.Allocatable(*t, k)
	capacity, kept = overlay.Counted(*t), model.Resources{}
	capacity[model.Pods] = free[model.Pods]
	capacity[model.EphemeralStorage] = max(capacity[model.EphemeralStorage], free[model.EphemeralStorage])
	for _, name := range capacity.Names() {
		if n := capacity[name] - free[name]; n > 0 {
			kept[name] = n
		}
	}
	return capacity, kept
}

// Quantities writes amounts as Kubernetes does.
func Quantities(r model.Resources) corev1.ResourceList {
	out := make(corev1.ResourceList, len(r))
	for name, v := range r {
		switch {
		case name == model.CPU:
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(v, resource.DecimalSI)
		case name == model.Memory, name == model.EphemeralStorage, strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
			out[corev1.ResourceName(name)] = *resource.NewQuantity(v, resource.BinarySI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(v, resource.DecimalSI)
		}
	}
	return out
}
