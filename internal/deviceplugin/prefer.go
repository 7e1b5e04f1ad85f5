package deviceplugin

import (
	"cmp"
	"errors"
	"slices"
)

// errTooFew is NVIDIA's text; the kubelet refuses the pod with it.
var errTooFew = errors.New("not enough available devices to satisfy allocation")

// prefer chooses size of the available devices, the required ones among them.
//
// Whole GPUs are chosen by how they are linked; too few give an empty choice,
// which leaves it to the kubelet. Of replicas and MIG instances those are taken
// that spread the load over the GPUs, or that fill one GPU first when packed;
// too few are an error, as in NVIDIA's plugin. Ids that are not the resource's
// are passed over.
func (s *state) prefer(available, required []string, size int) ([]string, error) {
	open, must := s.pick(available), s.pick(required)
	if s.resource.aligned() {
		return ids(align(open, must, size, s.links)), nil
	}
	if size < len(must) || size-len(must) > len(minus(open, must)) {
		return nil, errTooFew
	}
	return ids(s.spread(minus(open, must), must, size)), nil
}

// pick returns the devices that some ids name, in the order of the resource.
func (s *state) pick(names []string) []Device {
	var at []int
	for _, id := range names {
		if i, ok := s.byID[id]; ok {
			at = append(at, i)
		}
	}
	slices.Sort(at)
	var out []Device
	for _, i := range slices.Compact(at) {
		out = append(out, s.resource.Devices[i])
	}
	return out
}

func minus(a, b []Device) []Device {
	drop := make(map[string]bool, len(b))
	for _, d := range b {
		drop[d.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(d Device) bool { return drop[d.ID] })
}

func ids(devices []Device) []string {
	out := make([]string, 0, len(devices))
	for _, d := range devices {
		out = append(out, d.ID)
	}
	return out
}

// A load counts what is taken of a GPU or a MIG instance.
type load struct{ taken, picked int }

// spread adds free devices to those required, one at a time.
func (s *state) spread(free, must []Device, size int) []Device {
	units, gpus := map[string]*load{}, map[string]*load{}
	for _, d := range s.resource.Devices {
		if units[d.UUID] == nil {
			units[d.UUID] = &load{}
		}
		if gpus[d.GPU] == nil {
			gpus[d.GPU] = &load{}
		}
		units[d.UUID].taken++
		gpus[d.GPU].taken++
	}
	queues := map[string][]Device{}
	var order []string
	for _, d := range free {
		if queues[d.UUID] == nil {
			order = append(order, d.UUID)
		}
		queues[d.UUID] = append(queues[d.UUID], d)
		units[d.UUID].taken--
		gpus[d.GPU].taken--
	}
	sign := 1
	if s.options.Packed {
		sign = -1
	}
	out := slices.Clone(must)
	for len(out) < size {
		best := slices.MinFunc(order, func(a, b string) int {
			ua, ub := units[a], units[b]
			ga, gb := gpus[queues[a][0].GPU], gpus[queues[b][0].GPU]
			return cmp.Or(
				sign*cmp.Compare(ua.taken, ub.taken), cmp.Compare(ua.picked, ub.picked),
				sign*cmp.Compare(ga.taken, gb.taken), cmp.Compare(ga.picked, gb.picked),
			)
		})
		d := queues[best][0]
		out = append(out, d)
		for _, l := range []*load{units[d.UUID], gpus[d.GPU]} {
			l.taken, l.picked = l.taken+1, l.picked+1
		}
		if queues[best] = queues[best][1:]; len(queues[best]) == 0 {
			order = slices.DeleteFunc(order, func(u string) bool { return u == best })
		}
	}
	return out
}
