package render

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A gpu is one physical GPU as it is drawn: a row of slices.
type gpu struct {
	model      string // "T4"
	slices     []slot
	consumable bool // shared by amounts: pods hold shares, not slices
	shares     []share
}

// free is the workload of a slot that nobody uses.
const free = -1

// A slot is one unit of what a GPU advertises: all of it, a replica, or a MIG
// instance.
type slot struct {
	resource string
	weight   int // relative width in a picture: compute slices of a MIG profile, else 1
	workload int // index into the fleet's workloads, or free
}

// A share is the part of a consumable GPU that one workload holds.
type share struct {
	workload int
	part     float64 // of the scarcest amount, 0 to 1
}

// used counts the slices that are taken; a consumable GPU counts as one.
func (g gpu) used() int {
	if g.consumable {
		return min(len(g.shares), 1)
	}
	n := 0
	for _, s := range g.slices {
		if s.workload != free {
			n++
		}
	}
	return n
}

// seat draws pods onto the devices of one node. Whoever asks units gets them
// from the GPU with the most left, the lowest index first, as the device plugin
// prefers by default. Existing nodes do not say which device a pod holds; there
// it is a picture of how many are taken.
func seat(devices []model.Device, pods []int, all []model.Pod, of []int, onDevice map[int][]int) []gpu {
	out := make([]gpu, len(devices))
	for i, d := range devices {
		out[i] = gpu{model: modelName(d.Model), consumable: consumable(pods, all, onDevice)}
		if !out[i].consumable {
			out[i].slices = slotsOf(d)
		}
	}
	for _, p := range pods {
		spec := all[p].Spec
		if spec == nil {
			continue
		}
		for _, name := range spec.Requests.Names() {
			if model.IsGPU(name) {
				take(out, name, spec.Requests[name], of[p])
			}
		}
		for _, d := range onDevice[p] {
			if d < len(devices) && out[d].consumable {
				out[d].shares = append(out[d].shares, share{workload: of[p], part: partOf(spec.Shares, devices[d].Shares)})
			}
		}
	}
	for i := range out {
		full(out[i].shares)
		slices.SortStableFunc(out[i].slices, func(a, b slot) int {
			return cmp.Or(strings.Compare(a.resource, b.resource), cmp.Compare(uint(a.workload), uint(b.workload)))
		})
	}
	return out
}

// full keeps a GPU's shares within one GPU: a pod that takes most of its memory
// and one that takes most of its cores fit together, and both are drawn smaller.
func full(shares []share) {
	sum := 0.0
	for _, s := range shares {
		sum += s.part
	}
	for i := range shares {
		shares[i].part /= max(1, sum)
	}
}

// consumable says whether a node's pods hold amounts of its GPUs.
func consumable(pods []int, all []model.Pod, onDevice map[int][]int) bool {
	return slices.ContainsFunc(pods, func(p int) bool {
		return len(onDevice[p]) > 0 && all[p].Spec != nil && len(all[p].Spec.Shares) > 0
	})
}

// size counts the slices of a GPU; a consumable one counts as one.
func (g gpu) size() int {
	if g.consumable {
		return 1
	}
	return len(g.slices)
}

func slotsOf(d model.Device) []slot {
	var out []slot
	for _, name := range d.Resources.Names() {
		for range d.Resources[name] {
			out = append(out, slot{resource: name, weight: profileWidth(name), workload: free})
		}
	}
	return out
}

func take(gpus []gpu, resource string, n int64, workload int) {
	for range n {
		best, most := -1, 0
		for i, g := range gpus {
			left := 0
			for _, s := range g.slices {
				if s.resource == resource && s.workload == free {
					left++
				}
			}
			if left > most {
				best, most = i, left
			}
		}
		if best < 0 {
			return
		}
		i := slices.IndexFunc(gpus[best].slices, func(s slot) bool { return s.resource == resource && s.workload == free })
		gpus[best].slices[i].workload = workload
	}
}

// partOf is how much of a device is taken, by its scarcest amount; all of it
// when whole devices are asked.
func partOf(asked []model.DeviceShare, have model.Resources) float64 {
	if len(asked) == 0 {
		return 1
	}
	part := 0.0
	for _, s := range asked {
		for name, v := range s.PerDevice {
			if have[name] > 0 {
				part = max(part, float64(v)/float64(have[name]))
			}
		}
	}
	return min(part, 1)
}

// profileWidth is g of a MIG profile "nvidia.com/mig-3g.20gb", else 1.
func profileWidth(resource string) int {
	_, profile, ok := strings.Cut(resource, "/mig-")
	if !ok {
		return 1
	}
	g, _, _ := strings.Cut(profile, "g.")
	n, err := strconv.Atoi(g)
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// shortResource drops what every NVIDIA resource has in common.
func shortResource(name string) string { return strings.TrimPrefix(name, "nvidia.com/") }

// modelName is a GPU's model without what feature discovery puts around it:
// "T4" for "tesla-t4-shared".
func modelName(m string) string {
	m = strings.ToUpper(m)
	for _, maker := range []string{"NVIDIA-", "TESLA-"} {
		m = strings.TrimPrefix(m, maker)
	}
	return cmp.Or(strings.TrimSuffix(m, "-SHARED"), "GPU")
}
