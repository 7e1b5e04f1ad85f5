package solve

import (
	"slices"

	"github.com/kerfdev/kerf/internal/model"
)

// A chassis is what is known of the devices of a node before any pod is on
// them. Nodes with the same devices share one.
type chassis struct {
	devices []model.Device
	names   []string // of the shares that devices have, sorted
	all     []int64  // each device's shares: device by device, in the order of names
	asks    map[*model.PodSpec]*deviceAsk
}

// A deviceAsk is what a pod asks of a chassis.
type deviceAsk struct {
	fits  bool       // on devices without pods
	parts []partAsk  // shares of devices
	whole []wholeAsk // where it asks for no shares: devices of its own
}

// A partAsk is a share of each of count devices.
type partAsk struct {
	count int
	took  []int64 // as chassis.all: what it takes of each device
	backs []int64 // by device: how many pods it may have, 1 = as many as fit, 0 = it cannot have this one
}

// A wholeAsk is a number of empty devices that back a resource.
type wholeAsk struct {
	need  int64
	backs []bool // by device
}

func newChassis(devices []model.Device) *chassis {
	c := &chassis{devices: devices, asks: map[*model.PodSpec]*deviceAsk{}}
	for i := range devices {
		for name := range devices[i].Shares {
			if !slices.Contains(c.names, name) {
				c.names = append(c.names, name)
			}
		}
	}
	slices.Sort(c.names)
	for i := range devices {
		for _, name := range c.names {
			c.all = append(c.all, devices[i].Shares[name])
		}
	}
	return c
}

// chassis returns the one of devices like these.
func (m *market) chassis(devices []model.Device) *chassis {
	var key canon
	for i := range devices {
		key.amounts(devices[i].Resources)
		key.amounts(devices[i].Shares)
	}
	c, ok := m.racks[string(key.buf)]
	if !ok {
		c = newChassis(devices)
		m.racks[string(key.buf)] = c
	}
	return c
}

// ask prepares what a pod asks, once for each spec.
func (c *chassis) ask(spec *model.PodSpec) *deviceAsk {
	if a, ok := c.asks[spec]; ok {
		return a
	}
	a := &deviceAsk{}
	for i := range spec.Shares {
		a.parts = append(a.parts, c.part(&spec.Shares[i]))
	}
	if len(spec.Shares) == 0 {
		for _, name := range spec.Requests.Names() {
			if w, backed := c.whole(name, spec.Requests[name]); backed {
				a.whole = append(a.whole, w)
			}
		}
	}
	c.asks[spec] = a
	a.fits = newRack(c).put(a)
	return a
}

func (c *chassis) part(s *model.DeviceShare) partAsk {
	p := partAsk{count: int(s.Count), backs: make([]int64, len(c.devices))}
	known := true
	for name, v := range s.PerDevice {
		known = known && (v <= 0 || slices.Contains(c.names, name))
	}
	var took model.Resources
	for i := range c.devices {
		d := &c.devices[i]
		if i == 0 || !sameResources(d.Shares, c.devices[i-1].Shares) {
			took = s.Of(d.Shares)
		}
		for _, name := range c.names {
			p.took = append(p.took, took[name])
		}
		if known && len(d.Shares) > 0 {
			p.backs[i] = max(0, d.Resources[s.Resource])
		}
	}
	return p
}

func (c *chassis) whole(name string, need int64) (w wholeAsk, backed bool) {
	w = wholeAsk{need: need, backs: make([]bool, len(c.devices))}
	for i := range c.devices {
		w.backs[i] = c.devices[i].Resources[name] > 0
		backed = backed || w.backs[i]
	}
	return w, backed && need > 0
}

// A rack is the devices of one node whose shares are packed one by one.
type rack struct {
	*chassis
	free  []int64 // as chassis.all: what is left
	users []int64 // pods on each device
	taken []bool  // by a pod that asked for a whole one
	on    []int   // scratch: the devices of the pod that is being placed
}

func newRack(c *chassis) *rack {
	r := &rack{}
	r.empty(c)
	return r
}

// empty makes r a rack of a chassis without pods.
func (r *rack) empty(c *chassis) {
	r.chassis = c
	r.free = append(r.free[:0], c.all...)
	r.users = append(r.users[:0], make([]int64, len(c.devices))...)
	r.taken = append(r.taken[:0], make([]bool, len(c.devices))...)
}

func (r *rack) clone() *rack {
	return &rack{chassis: r.chassis, free: slices.Clone(r.free), users: slices.Clone(r.users), taken: slices.Clone(r.taken)}
}

// place puts one pod on devices and returns which, or leaves everything as it
// was. Shares go where they leave least; whole devices must be empty.
func (r *rack) place(spec *model.PodSpec) (on []int, ok bool) {
	if !r.put(r.ask(spec)) {
		return nil, false
	}
	on = slices.Clone(r.on)
	slices.Sort(on)
	return on, true
}

// put is place for a prepared ask; the devices are in r.on until the next one.
func (r *rack) put(a *deviceAsk) bool {
	r.on = r.on[:0]
	if !r.choose(a) {
		return false
	}
	k := 0
	for i := range a.parts {
		for range a.parts[i].count {
			free, took := r.of(r.on[k], r.free), r.of(r.on[k], a.parts[i].took)
			for j := range free {
				free[j] -= took[j]
			}
			k++
		}
	}
	for _, at := range r.on {
		r.users[at]++
		r.taken[at] = len(a.parts) == 0
	}
	return true
}

// choose chooses a device of its own for each share of each device asked, or
// as many empty devices as are asked whole.
func (r *rack) choose(a *deviceAsk) bool {
	for i := range a.parts {
		for range a.parts[i].count {
			at := r.bestFit(&a.parts[i])
			if at < 0 {
				return false
			}
			r.on = append(r.on, at)
		}
	}
	for i := range a.whole {
		need := a.whole[i].need
		for d, backs := range a.whole[i].backs {
			if need > 0 && backs && r.users[d] == 0 && !slices.Contains(r.on, d) {
				r.on = append(r.on, d)
				need--
			}
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// of returns the part of all that belongs to device i.
func (r *rack) of(i int, all []int64) []int64 { return all[i*len(r.names) : (i+1)*len(r.names)] }

func (r *rack) bestFit(p *partAsk) int {
	best, least := -1, 0.0
	for i := range r.devices {
		if !r.admits(i, p) || slices.Contains(r.on, i) {
			continue
		}
		if left := r.leftover(i, p); best < 0 || left < least {
			best, least = i, left
		}
	}
	return best
}

func (r *rack) admits(i int, p *partAsk) bool {
	backs := p.backs[i]
	if r.taken[i] || backs == 0 || (backs > 1 && r.users[i] >= backs) {
		return false
	}
	took := r.of(i, p.took)
	for j, v := range r.of(i, r.free) {
		if took[j] > v {
			return false
		}
	}
	return true
}

// leftover is what stays free, as a sum of shares of the whole.
func (r *rack) leftover(i int, p *partAsk) float64 {
	sum := 0.0
	all, took := r.of(i, r.all), r.of(i, p.took)
	for j, v := range r.of(i, r.free) {
		if all[j] > 0 {
			sum += float64(v-took[j]) / float64(all[j])
		}
	}
	return sum
}
