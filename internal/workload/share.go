package workload

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// shares reads requests in the style of HAMi 2.10: nvidia.com/gpu is a number of
// cards, and gpumem (MiB), gpumem-percentage and gpucores (percent) are wanted
// of each of them. A share without memory wants all of a card's memory, and
// memory without a number of cards means one card. Who wants all of a card's
// cores gets a card that nobody uses, and nobody is let on a card whose cores
// are all given; so a share that names no cores counts as one percent of them,
// or as all where it has all of the memory. Init containers are done before the
// others start; they count only when no other container asks.
func shares(spec *corev1.PodSpec) []model.DeviceShare {
	var out, before []model.DeviceShare
	for i, c := range containersOf(spec) {
		per := model.Resources{}
		for _, name := range []string{model.ShareMemory, model.SharePercent, model.ShareCores} {
			if q, ok := c.Resources.Requests[corev1.ResourceName(name)]; ok {
				per[name] = max(0, amount(corev1.ResourceName(name), q))
			}
		}
		if len(per) == 0 {
			continue
		}
		if per[model.ShareMemory] == 0 && per[model.SharePercent] == 0 {
			per[model.SharePercent] = 100
		}
		if per[model.ShareMemory] > 0 {
			delete(per, model.SharePercent)
		}
		switch {
		case per[model.ShareCores] > 0:
		case per[model.SharePercent] >= 100:
			per[model.ShareCores] = 100
		default:
			per[model.ShareCores] = 1
		}
		count := int64(1)
		if q, ok := c.Resources.Requests[model.NvidiaGPU]; ok {
			count = max(0, amount(model.NvidiaGPU, q))
		}
		share := model.DeviceShare{Resource: model.NvidiaGPU, Count: count, PerDevice: per}
		if i >= len(spec.Containers) && !isSidecar(c) {
			before = append(before, share)
			continue
		}
		out = append(out, share)
	}
	if len(out) == 0 {
		return before
	}
	return out
}
