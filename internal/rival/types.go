package rival

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
)

// reservationID is the label that tells reserved offerings apart, as the AWS
// provider names it.
const reservationID = "karpenter.k8s.aws/capacity-reservation-id"

// A book is the instance types as Karpenter wants them: with a requirement for
// every label that any of them has, so that a pod which asks for a label is
// kept off the types without it.
type book struct {
	added []string // labels that Karpenter did not know before
	known []string // every label of any type, sorted
	facts []typeFacts
}

// typeFacts is what of a type is the same in every pool.
type typeFacts struct {
	requirements scheduling.Requirements
	offerings    cloudprovider.Offerings
}

func newBook(s model.Snapshot) *book {
	b := &book{known: labelsOf(s.Types)}
	for _, key := range append(slices.Clone(b.known), reservationID) {
		if !karpenter.WellKnownLabels.Has(key) {
			karpenter.WellKnownLabels.Insert(key)
			b.added = append(b.added, key)
		}
	}
	cloudprovider.ReservationIDLabel = reservationID
	for i := range s.Types {
		t := &s.Types[i]
		b.facts = append(b.facts, typeFacts{requirements: b.requirements(t, s.Region), offerings: offerings(t)})
	}
	return b
}

// forget takes back what newBook told the library.
func (b *book) forget() { karpenter.WellKnownLabels.Delete(b.added...) }

// labelsOf lists the labels that cloud providers know of their types. Those
// that NVIDIA's feature discovery sets on running nodes are none of them.
func labelsOf(types []model.InstanceType) []string {
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

// requirements are what nodes of a type can be.
func (b *book) requirements(t *model.InstanceType, region string) scheduling.Requirements {
	out := scheduling.NewRequirements(
		in(model.LabelInstanceType, t.Name),
		scheduling.NewRequirement(corev1.LabelWindowsBuild, corev1.NodeSelectorOpDoesNotExist),
		scheduling.NewRequirement(reservationID, corev1.NodeSelectorOpDoesNotExist),
	)
	for _, key := range b.known {
		if v, ok := t.Labels[key]; ok {
			out[key] = in(key, v)
		} else {
			out[key] = scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist)
		}
	}
	if _, ok := t.Labels[model.LabelRegion]; !ok && region != "" {
		out[model.LabelRegion] = in(model.LabelRegion, region)
	}
	for key, standard := range map[string]string{model.LabelOS: "linux", model.LabelArch: "amd64"} {
		if _, ok := t.Labels[key]; !ok {
			out[key] = in(key, standard)
		}
	}
	var zones, kinds, reservations []string
	for _, o := range t.Offerings {
		zones, kinds = append(zones, o.Zone), append(kinds, o.CapacityType)
		if o.CapacityType == model.Reserved {
			reservations = append(reservations, reservationOf(t, o))
		}
	}
	out[model.LabelZone] = in(model.LabelZone, zones...)
	out[model.LabelCapacityType] = in(model.LabelCapacityType, kinds...)
	if len(reservations) > 0 {
		out[reservationID] = in(reservationID, reservations...)
	}
	return out
}

func in(key string, values ...string) *scheduling.Requirement {
	return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
}

// plenty is how many instances a reservation holds, since a Snapshot does not say.
const plenty = 1 << 30

func offerings(t *model.InstanceType) cloudprovider.Offerings {
	out := make(cloudprovider.Offerings, 0, len(t.Offerings))
	for _, o := range t.Offerings {
		labels := map[string]string{model.LabelZone: o.Zone, model.LabelCapacityType: o.CapacityType}
		stock := 0
		if o.CapacityType == model.Reserved {
			labels[reservationID], stock = reservationOf(t, o), plenty
		}
		out = append(out, &cloudprovider.Offering{
			Requirements: scheduling.NewLabelRequirements(labels), Price: o.Price, Available: true, ReservationCapacity: stock,
		})
	}
	return out
}

func reservationOf(t *model.InstanceType, o model.Offering) string { return t.Name + "." + o.Zone }

// inPool returns the types as a pool's kubelet settings leave them.
func (b *book) inPool(s model.Snapshot, p *model.Pool) []*cloudprovider.InstanceType {
	out := make([]*cloudprovider.InstanceType, 0, len(s.Types))
	for i := range s.Types {
		t := &s.Types[i]
		if len(t.Offerings) == 0 {
			continue
		}
		capacity, overhead := cloud.Physical(t, p.Kubelet)
		out = append(out, &cloudprovider.InstanceType{
			Name: t.Name, Requirements: b.facts[i].requirements, Offerings: b.facts[i].offerings,
			Capacity: cloud.Quantities(capacity), Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: cloud.Quantities(overhead)},
		})
	}
	return out
}
