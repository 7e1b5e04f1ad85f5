package solve

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// A kind is one sort of node that can be launched: a pool's, of one type, with
// the labels chosen for it.
type kind struct {
	pool    int
	typ     int
	variant int
	labels  map[string]string // of the pool and the choices
	adv     *model.Advertisement
	advErr  string // why its GPUs advertise nothing
	gpu     bool
	barred  bool     // has fractions of a GPU and the pool does not name it
	shared  bool     // its devices are packed one by one
	chassis *chassis // of a shared kind
	cells   cells
	market  []listing // where it is sold and admitted, cheapest first
	gross   []int64   // allocatable
	alloc   []int64   // allocatable less what daemons take
	daemons []int     // indexes of the DaemonSets that run there
}

// A listing is an offering of a kind.
type listing struct {
	cell      int
	price     float64
	estimated bool
}

func (m *market) makeKinds() {
	for p := range m.pools {
		for _, t := range m.pools[p].types {
			m.addKinds(p, t)
		}
	}
	m.takeDaemons()
}

func (m *market) addKinds(p, t int) {
	pl, typ := &m.pools[p], &m.snap.Types[t]
	base := m.listings(typ, pl.cells)
	plain := m.dims.vector(allocatable(typ, pl.src.Kubelet))
	m.dims.hold(plain, 0, false)
	isGPU, barred := hasGPU(typ), fractional(typ) && !names(pl.src, typ)
	for v, labels := range pl.variants {
		k := kind{pool: p, typ: t, variant: v, labels: labels, gpu: isGPU, barred: barred, cells: m.offered(typ, pl.cells), market: base, gross: plain, adv: &noAdvertisement}
		if isGPU {
			m.advertise(&k, typ, pl.src.Kubelet)
		}
		if !agrees(labels, k.adv.Labels) {
			continue
		}
		m.kinds = append(m.kinds, k)
	}
}

var noAdvertisement model.Advertisement

// agrees reports whether the labels chosen for a node are those that feature
// discovery will find.
func agrees(chosen, found map[string]string) bool {
	for k, v := range chosen {
		if f, ok := found[k]; ok && f != v {
			return false
		}
	}
	return true
}

func allocatable(t *model.InstanceType, k model.Kubelet) model.Resources {
	if k.Usual() {
		return t.Allocatable
	}
	return catalog.Allocatable(*t, k)
}

// advertise gives a kind what its GPUs advertise in place of the bare hardware.
func (m *market) advertise(k *kind, t *model.InstanceType, kubelet model.Kubelet) {
	adv, err := gpu.ForNode(*t, m.snap.Sharing, k.labels)
	if err != nil {
		k.advErr = err.Error()
	}
	k.adv = &adv
	k.gross = m.dims.vector(withGPUs(allocatable(t, kubelet), adv.Resources))
	for i := range adv.Devices {
		k.shared = k.shared || len(adv.Devices[i].Shares) > 0
	}
	m.dims.hold(k.gross, len(adv.Devices), k.shared)
	if k.shared {
		k.chassis = m.chassis(adv.Devices)
		freeBacked(m.dims, k.gross, adv.Devices)
	}
}

// withGPUs replaces what the bare GPUs give by what they advertise.
func withGPUs(r, advertised model.Resources) model.Resources {
	out := r.Clone()
	for name := range r {
		if strings.HasPrefix(name, "nvidia.com/") {
			delete(out, name)
		}
	}
	for name, v := range advertised {
		out[name] = v
	}
	return out
}

// freeBacked lifts the node-wide count of what devices with shares back: the
// devices themselves are counted.
func freeBacked(d dims, gross []int64, devices []model.Device) {
	for i := range devices {
		if len(devices[i].Shares) == 0 {
			continue
		}
		for name := range devices[i].Resources {
			if at, ok := d.index[name]; ok {
				gross[at] = plenty
			}
		}
	}
}

// listings are a type's offerings in the cells, cheapest first.
func (m *market) listings(t *model.InstanceType, in cells) []listing {
	out := make([]listing, 0, len(t.Offerings))
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if at, ok := m.cellOf(o); ok && in&(1<<at) != 0 {
			out = append(out, listing{cell: at, price: o.Price, estimated: o.Estimated})
		}
	}
	slices.SortStableFunc(out, func(a, b listing) int {
		switch {
		case a.price < b.price:
			return -1
		case a.price > b.price:
			return 1
		}
		return 0
	})
	return out
}

// cheapest returns the lowest price of a kind in the cells, with every cell of
// the same capacity type at that price.
func (k *kind) cheapest(in cells, all []cell) (price float64, at cells, ok bool) {
	for i, l := range k.market {
		if in&(1<<l.cell) == 0 {
			continue
		}
		at = 1 << l.cell
		for _, o := range k.market[i+1:] {
			if o.price != l.price {
				break
			}
			if in&(1<<o.cell) != 0 && all[o.cell].capacityType == all[l.cell].capacityType {
				at |= 1 << o.cell
			}
		}
		return l.price, at, true
	}
	return 0, 0, false
}

// label returns a label of a kind's nodes, zone and capacity type apart.
func (m *market) label(k *kind, key string) (string, bool) {
	if v, ok := k.labels[key]; ok {
		return v, true
	}
	if v, ok := k.adv.Labels[key]; ok {
		return v, true
	}
	if v, ok := m.snap.Types[k.typ].Labels[key]; ok {
		return v, true
	}
	if key == model.LabelRegion && m.snap.Region != "" {
		return m.snap.Region, true
	}
	return "", false
}

// takeDaemons takes from every kind what the DaemonSets that run there use. A
// DaemonSet that asks for a device which a node lacks stays pending there and
// takes nothing.
func (m *market) takeDaemons() {
	for i := range m.kinds {
		m.kinds[i].alloc = slices.Clone(m.kinds[i].gross)
	}
	for d := range m.snap.DaemonSets {
		ds := &m.snap.DaemonSets[d]
		where := m.admit(ds.Spec, false)
		ask := m.dims.vector(ds.Spec.Requests)
		for i := range m.kinds {
			k := &m.kinds[i]
			if where[i] == 0 || lacksDevice(m.dims, ask, k.gross) {
				continue
			}
			k.daemons = append(k.daemons, d)
			for j, v := range ask {
				k.alloc[j] -= v
			}
		}
	}
}

func lacksDevice(d dims, ask, have []int64) bool {
	for i, v := range ask {
		if v > 0 && have[i] == 0 && extended(d.names[i]) {
			return true
		}
	}
	return false
}

// A column holds one label's value for every kind: an index into values, or -1
// where a kind has no such label.
type column struct {
	of     []int32
	values []string
}

func (m *market) column(key string) *column {
	if c, ok := m.cols[key]; ok {
		return c
	}
	c := &column{of: make([]int32, len(m.kinds))}
	ids := map[string]int32{}
	for i := range m.kinds {
		v, ok := m.label(&m.kinds[i], key)
		if !ok {
			c.of[i] = -1
			continue
		}
		id, seen := ids[v]
		if !seen {
			id = int32(len(c.values))
			ids[v] = id
			c.values = append(c.values, v)
		}
		c.of[i] = id
	}
	m.cols[key] = c
	return c
}

// admit returns for every kind the cells in which a pod's selector, affinity,
// volumes and tolerations admit it; 0 where they do not. With strict the
// taints that only prefer to keep pods away count too.
func (m *market) admit(spec *model.PodSpec, strict bool) []cells {
	out := make([]cells, len(m.kinds))
	tolerated := m.tolerated(spec, strict)
	for i := range m.kinds {
		if tolerated[m.kinds[i].pool] {
			out[i] = m.kinds[i].cells
		}
	}
	for k, v := range spec.NodeSelector {
		m.require(out, model.Requirement{Key: k, Operator: model.In, Values: []string{v}})
	}
	m.requireAny(out, spec.NodeAffinity)
	for i := range spec.Volumes {
		m.requireAny(out, spec.Volumes[i].Terms)
	}
	return out
}

func (m *market) tolerated(spec *model.PodSpec, strict bool) []bool {
	out := make([]bool, len(m.pools))
	for i := range m.pools {
		taints := m.pools[i].src.Taints
		_, ok := constraint.Tolerates(spec.Tolerations, taints)
		if ok && strict {
			_, ok = constraint.Tolerates(spec.Tolerations, taints, model.PreferNoSchedule)
		}
		out[i] = ok
	}
	return out
}

// requireAny narrows to where one of the terms holds; no terms hold anywhere.
func (m *market) requireAny(in []cells, terms []model.Term) {
	switch len(terms) {
	case 0:
		return
	case 1:
		m.requireAll(in, terms[0])
		return
	}
	sum := make([]cells, len(in))
	for _, t := range terms {
		one := slices.Clone(in)
		m.requireAll(one, t)
		for i := range sum {
			sum[i] |= one[i]
		}
	}
	copy(in, sum)
}

func (m *market) requireAll(in []cells, t model.Term) {
	if len(t) == 0 {
		clear(in)
		return
	}
	for i := range t {
		m.require(in, t[i])
	}
}

// require narrows to where one requirement holds.
func (m *market) require(in []cells, r model.Requirement) {
	key := constraint.Normalize(r.Key)
	if key == model.LabelZone || key == model.LabelCapacityType {
		keep := m.cellsWhere(key, r)
		for i := range in {
			in[i] &= keep
		}
		return
	}
	col := m.column(key)
	r.Key = key
	absent := constraint.Matches(r, nil)
	fits := make([]bool, len(col.values))
	for i, v := range col.values {
		fits[i] = constraint.Matches(r, map[string]string{key: v})
	}
	for i, id := range col.of {
		if (id < 0 && !absent) || (id >= 0 && !fits[id]) {
			in[i] = 0
		}
	}
}

func (m *market) cellsWhere(key string, r model.Requirement) cells {
	r.Key = key
	var out cells
	for i, c := range m.cells {
		v := c.zone
		if key == model.LabelCapacityType {
			v = c.capacityType
		}
		if constraint.Matches(r, map[string]string{key: v}) {
			out |= 1 << i
		}
	}
	return out
}
