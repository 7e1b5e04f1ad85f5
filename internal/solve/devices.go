package solve

import (
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// A rack is the devices of one node whose shares are packed one by one.
type rack struct {
	devices []model.Device
	free    []model.Resources // left of each device's shares
	users   []int64           // pods on each device
	whole   []bool            // taken by a pod that asked for a whole one
}

func newRack(devices []model.Device) *rack {
	r := &rack{devices: devices, users: make([]int64, len(devices)), whole: make([]bool, len(devices))}
	for i := range devices {
		r.free = append(r.free, devices[i].Shares.Clone())
	}
	return r
}

func (r *rack) clone() *rack {
	out := &rack{devices: r.devices, users: slices.Clone(r.users), whole: slices.Clone(r.whole)}
	for _, f := range r.free {
		out.free = append(out.free, f.Clone())
	}
	return out
}

// place puts one pod on devices and returns which, or leaves everything as it
// was. Shares go where they leave least; whole devices must be empty.
func (r *rack) place(spec *model.PodSpec) (on []int, ok bool) {
	trial := r.clone()
	for _, s := range spec.Shares {
		for range s.Count {
			at := trial.bestFit(s, on)
			if at < 0 {
				return nil, false
			}
			trial.take(at, s.PerDevice)
			on = append(on, at)
		}
	}
	if len(spec.Shares) == 0 {
		if on, ok = trial.takeWhole(spec.Requests); !ok {
			return nil, false
		}
	}
	*r = *trial
	slices.Sort(on)
	return on, true
}

func (r *rack) take(at int, amounts model.Resources) {
	for name, v := range amounts {
		r.free[at][name] -= v
	}
	r.users[at]++
}

func (r *rack) bestFit(s model.DeviceShare, not []int) int {
	best, least := -1, 0.0
	for i := range r.devices {
		if !r.admits(i, s) || slices.Contains(not, i) {
			continue
		}
		if left := r.leftover(i, s.PerDevice); best < 0 || left < least {
			best, least = i, left
		}
	}
	return best
}

func (r *rack) admits(i int, s model.DeviceShare) bool {
	backs := r.devices[i].Resources[s.Resource]
	if r.whole[i] || len(r.devices[i].Shares) == 0 || backs <= 0 || (backs > 1 && r.users[i] >= backs) {
		return false
	}
	return r.free[i].Lacking(s.PerDevice) == ""
}

// leftover is what stays free, as a sum of shares of the whole.
func (r *rack) leftover(i int, amounts model.Resources) float64 {
	sum := 0.0
	for _, name := range r.devices[i].Shares.Names() {
		if all := r.devices[i].Shares[name]; all > 0 {
			sum += float64(r.free[i][name]-amounts[name]) / float64(all)
		}
	}
	return sum
}

// takeWhole gives a pod without shares as many empty devices as it asks of
// what they back.
func (r *rack) takeWhole(asked model.Resources) (on []int, ok bool) {
	for _, name := range asked.Names() {
		need := asked[name]
		if need <= 0 || !r.backed(name) {
			continue
		}
		for i := range r.devices {
			if need == 0 {
				break
			}
			if r.users[i] == 0 && !r.whole[i] && r.devices[i].Resources[name] > 0 {
				r.whole[i] = true
				r.users[i]++
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
