package solve

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// A cell is a zone with a capacity type; cells is a set of them. A Snapshot
// may have 64 of them, which is ten zones more than any region of any cloud
// sells in; the dearest offerings of a 65th are not used.
type (
	cell  struct{ zone, capacityType string }
	cells uint64
)

// A pool is a model.Pool prepared: what its nodes' labels may be and which
// types it admits.
type pool struct {
	src      *model.Pool
	tier     int // 0 for the highest weight, pools of one weight share it
	set      constraint.Set
	cells    cells // that its requirements admit
	types    []int // that it admits and that are sold there, rising
	onlyGPU  bool  // every one of them has a GPU
	dead     []model.Verdict
	variants []map[string]string
}

// A market is what can be bought for a Snapshot.
type market struct {
	snap  *model.Snapshot
	dims  dims
	cells []cell
	known map[string]bool // label keys that instance types decide
	pools []pool          // heaviest first, then by name
	kinds []kind
	racks map[string]*chassis // by what decides of the devices
	cols  map[string]*column
	seen  mentions
}

func newMarket(s *model.Snapshot, g *group, d dims) *market {
	m := &market{snap: s, dims: d, known: map[string]bool{}, racks: map[string]*chassis{}, cols: map[string]*column{}, seen: newMentions(s, g), cells: listCells(s.Types)}
	for i := range s.Types {
		for k := range s.Types[i].Labels {
			m.known[k] = true
		}
	}
	m.prepare()
	return m
}

// like is the market for a Snapshot with other pools and fewer types, in which
// everything else is as it was.
func (m *market) like(s *model.Snapshot) *market {
	out := &market{snap: s, dims: m.dims, known: m.known, racks: m.racks, cols: map[string]*column{}, seen: m.seen, cells: m.cells}
	out.prepare()
	return out
}

func (m *market) prepare() {
	s := m.snap
	for i := range s.Pools {
		m.pools = append(m.pools, m.preparePool(&s.Pools[i]))
	}
	slices.SortStableFunc(m.pools, func(a, b pool) int {
		return cmp.Or(cmp.Compare(b.src.Weight, a.src.Weight), strings.Compare(a.src.Name, b.src.Name))
	})
	for i := 1; i < len(m.pools); i++ {
		m.pools[i].tier = m.pools[i-1].tier
		if m.pools[i].src.Weight != m.pools[i-1].src.Weight {
			m.pools[i].tier++
		}
	}
	m.makeKinds()
}

func listCells(types []model.InstanceType) []cell {
	seen := map[cell]bool{}
	for i := range types {
		for _, o := range types[i].Offerings {
			seen[cell{o.Zone, o.CapacityType}] = true
		}
	}
	out := slices.SortedFunc(maps.Keys(seen), func(a, b cell) int {
		return cmp.Or(strings.Compare(a.zone, b.zone), strings.Compare(a.capacityType, b.capacityType))
	})
	return out[:min(len(out), 64)]
}

func (m *market) preparePool(p *model.Pool) pool {
	out := pool{src: p, set: constraint.ForPool(*p), dead: deadPool(p)}
	if key, empty := out.set.Empty(); empty {
		out.dead = append(out.dead, model.Verdict{Code: model.CodeUnusable, Key: key, Detail: "requirements and labels leave no value for " + key})
	}
	for i, c := range m.cells {
		if out.set.Has(model.LabelZone, c.zone) && out.set.Has(model.LabelCapacityType, c.capacityType) {
			out.cells |= 1 << i
		}
	}
	if len(out.dead) > 0 {
		return out
	}
	out.onlyGPU = true
	for i := range m.snap.Types {
		t := &m.snap.Types[i]
		if _, no := m.refuses(&out, t); no || m.offered(t, out.cells) == 0 {
			continue
		}
		out.onlyGPU = out.onlyGPU && hasGPU(t)
		out.types = append(out.types, i)
	}
	out.variants = m.variants(&out)
	return out
}

// deadPool says why nothing can be launched from a pool. A static pool has the
// nodes that its replicas say, and does not grow for a pod.
func deadPool(p *model.Pool) []model.Verdict {
	out := slices.Clone(p.Unusable)
	if p.Static {
		out = append(out, model.Verdict{Code: model.CodeUnusable, Key: "replicas", Have: p.Replicas, Detail: "a pool with replicas does not grow for pending pods"})
	}
	return out
}

// refuses returns the first key on which a pool's requirements and labels rule
// a type out, zones and capacity types apart.
func (m *market) refuses(p *pool, t *model.InstanceType) (key string, no bool) {
	if key, no = p.set.Rejects(t.Labels, m.typeDecides); no {
		return key, no
	}
	if _, has := t.Labels[model.LabelRegion]; !has && !p.set.Has(model.LabelRegion, m.snap.Region) {
		return model.LabelRegion, true
	}
	return "", false
}

// typeDecides reports whether a label is one that a node has from its instance
// type, so that a pool can only choose among what types have.
func (m *market) typeDecides(key string) bool {
	switch key {
	case model.LabelZone, model.LabelCapacityType, model.LabelRegion, model.LabelNodePool, model.LabelHostname:
		return false
	}
	return m.known[key] || key == model.LabelArch || key == model.LabelOS || key == model.LabelInstanceType || strings.HasPrefix(key, "karpenter.k8s.aws/instance-")
}

// offered returns in which of the cells a type is sold.
func (m *market) offered(t *model.InstanceType, in cells) cells {
	var out cells
	for i := range t.Offerings {
		if at, ok := m.cellOf(&t.Offerings[i]); ok {
			out |= 1 << at
		}
	}
	return out & in
}

func (m *market) cellOf(o *model.Offering) (int, bool) {
	return slices.BinarySearchFunc(m.cells, o, func(c cell, o *model.Offering) int {
		return cmp.Or(strings.Compare(c.zone, o.Zone), strings.Compare(c.capacityType, o.CapacityType))
	})
}

func hasGPU(t *model.InstanceType) bool {
	if len(t.GPUs) > 0 {
		return true
	}
	for name, v := range t.Capacity {
		if v > 0 && model.IsGPU(name) {
			return true
		}
	}
	return false
}

// fractional reports whether a type's GPUs are parts of one, as g6f's are.
func fractional(t *model.InstanceType) bool {
	for _, g := range t.GPUs {
		if g.Fraction > 0 && g.Fraction < 1 {
			return true
		}
	}
	return false
}

// names reports whether a pool asks for a type by its name, family or size.
// Only then may it launch fractions of a GPU: EC2 counts them as none.
func names(p *model.Pool, t *model.InstanceType) bool {
	for _, r := range p.Requirements {
		if r.Operator != model.In || !naming(constraint.Normalize(r.Key)) {
			continue
		}
		if v, ok := t.Labels[constraint.Normalize(r.Key)]; ok && slices.Contains(r.Values, v) {
			return true
		}
	}
	for k, v := range p.Labels {
		if naming(k) && t.Labels[k] == v {
			return true
		}
	}
	return false
}

func naming(key string) bool {
	return key == model.LabelInstanceType || strings.HasSuffix(key, "/instance-family") || strings.HasSuffix(key, "/instance-size")
}

// mentions are the values that pods name for a label key. Keys that somebody
// reads are in it, if only with no value.
type mentions map[string][]string

func newMentions(s *model.Snapshot, g *group) mentions {
	m := mentions{}
	for i := range g.shapes {
		m.spec(g.shapes[i].spec)
	}
	for i := range s.DaemonSets {
		m.spec(s.DaemonSets[i].Spec)
	}
	for k, values := range m {
		slices.Sort(values)
		m[k] = slices.Compact(values)
	}
	return m
}

func (m mentions) spec(spec *model.PodSpec) {
	for k, v := range spec.NodeSelector {
		m[constraint.Normalize(k)] = append(m[constraint.Normalize(k)], v)
	}
	for _, t := range spec.NodeAffinity {
		m.term(t)
	}
	for i := range spec.NodePreferred {
		m.term(spec.NodePreferred[i].Term)
	}
	for i := range spec.Volumes {
		for _, t := range spec.Volumes[i].Terms {
			m.term(t)
		}
	}
	for i := range spec.PodAffinity {
		m[spec.PodAffinity[i].TopologyKey] = append(m[spec.PodAffinity[i].TopologyKey], []string(nil)...)
	}
	for i := range spec.Spread {
		m[spec.Spread[i].TopologyKey] = append(m[spec.Spread[i].TopologyKey], []string(nil)...)
	}
}

func (m mentions) term(t model.Term) {
	for i := range t {
		key := constraint.Normalize(t[i].Key)
		if t[i].Operator == model.In {
			m[key] = append(m[key], t[i].Values...)
		} else {
			m[key] = append(m[key], []string(nil)...)
		}
	}
}

// maxVariants bounds in how many ways of choosing labels a pool is tried; of a
// key with more values than that the first are used.
const maxVariants = 256

// variants lists the label sets that a pool's nodes may be launched with. A
// key for which the pool leaves several values is a choice; choices that
// nobody reads and that select no device config are made once, by the first
// value in order.
func (m *market) variants(p *pool) []map[string]string {
	out := []map[string]string{{}}
	for _, key := range p.set.Keys() {
		if m.typeDecides(key) || key == model.LabelZone || key == model.LabelCapacityType || key == model.LabelRegion || key == model.LabelHostname {
			if v, ok := p.src.Labels[key]; ok {
				assign(out, key, v)
			}
			continue
		}
		options := m.options(p, key)
		options = options[:min(len(options), max(1, maxVariants/len(out)))]
		out = multiply(out, key, options)
	}
	return out
}

func assign(all []map[string]string, key, value string) {
	for _, labels := range all {
		labels[key] = value
	}
}

func multiply(all []map[string]string, key string, options []option) []map[string]string {
	var out []map[string]string
	for _, labels := range all {
		for _, o := range options {
			l := maps.Clone(labels)
			if !o.absent {
				l[key] = o.value
			}
			out = append(out, l)
		}
	}
	return out
}

// An option is a value that a label may get, or its absence.
type option struct {
	value  string
	absent bool
}

func (m *market) options(p *pool, key string) []option {
	named, read := m.seen[key]
	values, finite := p.set.Values(key)
	var out []option
	if finite {
		for _, v := range values {
			out = append(out, option{value: v})
		}
	} else {
		out = openOptions(p.set, key, named)
	}
	if p.set.MayLack(key) && (len(out) == 0 || !finite) {
		out = append([]option{{absent: true}}, out...)
	}
	if len(out) == 0 {
		out = []option{{absent: true}}
	}
	if !read && key != model.LabelDeviceConfig && key != model.LabelMIGConfig {
		return out[:1]
	}
	return out
}

// openOptions are the values that pods name among those that a pool leaves
// open, and one more, since a node must have some.
func openOptions(set constraint.Set, key string, named []string) []option {
	var out []option
	for _, v := range named {
		if set.Has(key, v) {
			out = append(out, option{value: v})
		}
	}
	if set.MayLack(key) {
		return out
	}
	for _, v := range []string{"any", "true", "0", "1", "2", "4", "8", "16", "64", "256", "1024", "65536"} {
		if set.Has(key, v) && !slices.Contains(named, v) {
			return append(out, option{value: v})
		}
	}
	return out
}
