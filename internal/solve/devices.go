package solve

import (
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// A rack is the devices of one node whose shares are packed one by one.
type rack struct {
	devices []model.Device
	names   []string // of the shares that devices have, sorted
	free    []int64  // left of each device's shares: device by device, in the order of names
	users   []int64  // pods on each device
	whole   []bool   // taken by a pod that asked for a whole one
}

func newRack(devices []model.Device) *rack {
	r := &rack{devices: devices, users: make([]int64, len(devices)), whole: make([]bool, len(devices))}
	for i := range devices {
		for _, name := range devices[i].Shares.Names() {
			if !slices.Contains(r.names, name) {
				r.names = append(r.names, name)
			}
		}
	}
	slices.Sort(r.names)
	for i := range devices {
		for _, name := range r.names {
			r.free = append(r.free, devices[i].Shares[name])
		}
	}
	return r
}

func (r *rack) clone() *rack {
	return &rack{devices: r.devices, names: r.names, free: slices.Clone(r.free), users: slices.Clone(r.users), whole: slices.Clone(r.whole)}
}

// place puts one pod on devices and returns which, or leaves everything as it
// was. Shares go where they leave least; whole devices must be empty.
func (r *rack) place(spec *model.PodSpec) (on []int, ok bool) {
	if len(spec.Shares) == 0 {
		on, ok = r.emptyOnes(spec.Requests)
	} else {
		on, ok = r.fitting(spec.Shares)
	}
	if !ok {
		return nil, false
	}
	r.book(spec, on, 1)
	slices.Sort(on)
	return on, true
}

// fitting chooses a device of its own for each share of each device asked.
func (r *rack) fitting(shares []model.DeviceShare) (on []int, ok bool) {
	for i := range shares {
		for range shares[i].Count {
			at := r.bestFit(&shares[i], on)
			if at < 0 {
				return nil, false
			}
			on = append(on, at)
		}
	}
	return on, true
}

// book takes what a pod uses of its devices, in the order in which they were
// chosen, or with sign -1 gives it back.
func (r *rack) book(spec *model.PodSpec, on []int, sign int64) {
	for _, at := range on {
		r.users[at] += sign
		r.whole[at] = len(spec.Shares) == 0 && sign > 0
	}
	k := 0
	for i := range spec.Shares {
		for range spec.Shares[i].Count {
			free, took := r.of(on[k]), spec.Shares[i].Of(r.devices[on[k]].Shares)
			for j, name := range r.names {
				free[j] -= sign * took[name]
			}
			k++
		}
	}
}

// of returns what is left of device i.
func (r *rack) of(i int) []int64 { return r.free[i*len(r.names) : (i+1)*len(r.names)] }

func (r *rack) bestFit(s *model.DeviceShare, not []int) int {
	var ask [8]int64
	asked := ask[:0]
	for _, name := range r.names {
		asked = append(asked, s.PerDevice[name])
	}
	memory := slices.Index(r.names, model.ShareMemory)
	best, least := -1, 0.0
	for i := range r.devices {
		if s.PerDevice[model.SharePercent] > 0 && memory >= 0 {
			asked[memory] = s.Of(r.devices[i].Shares)[model.ShareMemory]
		}
		if !r.admits(i, s, asked) || slices.Contains(not, i) {
			continue
		}
		if left := r.leftover(i, asked); best < 0 || left < least {
			best, least = i, left
		}
	}
	return best
}

func (r *rack) admits(i int, s *model.DeviceShare, asked []int64) bool {
	d := &r.devices[i]
	if r.whole[i] || len(d.Shares) == 0 {
		return false
	}
	for j, v := range r.of(i) {
		if asked[j] > v {
			return false
		}
	}
	backs := d.Resources[s.Resource]
	if backs <= 0 || (backs > 1 && r.users[i] >= backs) {
		return false
	}
	for name, v := range s.PerDevice {
		if v > 0 && !slices.Contains(r.names, name) {
			return false
		}
	}
	return true
}

// leftover is what stays free, as a sum of shares of the whole.
func (r *rack) leftover(i int, asked []int64) float64 {
	sum := 0.0
	for j, v := range r.of(i) {
		if all := r.devices[i].Shares[r.names[j]]; all > 0 {
			sum += float64(v-asked[j]) / float64(all)
		}
	}
	return sum
}

// emptyOnes chooses for a pod without shares as many empty devices as it asks
// of what they back.
func (r *rack) emptyOnes(asked model.Resources) (on []int, ok bool) {
	for _, name := range asked.Names() {
		need := asked[name]
		if need <= 0 || !r.backed(name) {
			continue
		}
		for i := range r.devices {
			if need == 0 {
				break
			}
			if r.users[i] == 0 && !r.whole[i] && r.devices[i].Resources[name] > 0 && !slices.Contains(on, i) {
				on = append(on, i)
				need--
			}
		}
		if need > 0 {
			return nil, false
		}
	}
	return on, true
}

func (r *rack) backed(name string) bool {
	for i := range r.devices {
		if r.devices[i].Resources[name] > 0 {
			return true
		}
	}
	return false
}
