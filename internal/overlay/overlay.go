// Package overlay writes the NodeOverlays (karpenter.sh/v1alpha1) with which
// Karpenter 1.15 counts what GPU nodes will advertise under their device
// config, for those who let Karpenter launch their nodes.
//
// An overlay says one number for a whole instance type in a pool. So it cannot
// follow a node's own device-plugin label, it knows nothing of
// failRequestsGreaterThanOne, and it has to be written again when the device
// config changes. Karpenter reads it only with the feature gate NodeOverlay,
// and EKS Auto Mode has none.
package overlay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// An Overlay tells Karpenter what the types of a pool advertise.
type Overlay struct {
	Name   string
	Weight int // 1 to 10000; no two of one call have the same
	Pool   string
	Types  []string // sorted
	// Capacity is what differs from the bare hardware, zeros included: a
	// resource that the config renames is no longer there.
	Capacity model.Resources
	Config   string // device config that the pool's labels select, "" for none
	Sharing  model.SharingKind
	// OneEach lists the resources of which a container gets one at most, which
	// an overlay cannot say.
	OneEach []string
}

// Requirements are what the overlay selects by.
func (o Overlay) Requirements() []model.Requirement {
	return []model.Requirement{
		{Key: model.LabelNodePool, Operator: model.In, Values: []string{o.Pool}},
		{Key: model.LabelInstanceType, Operator: model.In, Values: o.Types},
	}
}

// Weights of overlays: below the first is room for those that someone else writes.
const (
	firstWeight = 1000
	lastWeight  = 10000
)

// For returns the overlays that a Snapshot's pools need, by pool and then by
// the first of their types; none where Karpenter counts right by itself. What
// no overlay can say is in the notes.
func For(s model.Snapshot) ([]Overlay, []model.Note) {
	var out []Overlay
	var notes []model.Note
	for _, p := range byName(s.Pools) {
		w := writer{snap: &s, pool: p, groups: map[string]int{}}
		w.write()
		for i := range w.out {
			w.out[i].Name = fmt.Sprintf("kerf-%s-%d", p.Name, i+1)
			w.out[i].Weight = min(lastWeight, firstWeight+len(out)+i)
		}
		out, notes = append(out, w.out...), append(notes, w.notes...)
	}
	return out, notes
}

func byName(pools []model.Pool) []*model.Pool {
	var out []*model.Pool
	for i := range pools {
		if p := &pools[i]; !p.Static && len(p.Unusable) == 0 {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *model.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// A writer gathers the overlays of one pool.
type writer struct {
	snap   *model.Snapshot
	pool   *model.Pool
	out    []Overlay
	groups map[string]int // what is said, to its overlay
	notes  []model.Note
	noted  map[string]bool
}

func (w *writer) write() {
	labels, ok := w.labels()
	if !ok {
		return
	}
	admits := constraint.ForPool(*w.pool)
	decided := typeLabels(w.snap.Types)
	for i := range w.snap.Types {
		t := &w.snap.Types[i]
		if len(t.GPUs) == 0 || len(t.Offerings) == 0 {
			continue
		}
		if _, no := admits.Rejects(t.Labels, func(key string) bool { return decided[key] }); no {
			continue
		}
		if fractional(t) && !names(w.pool, t) {
			continue // EC2 counts no GPU there, and a pod that asks for a whole one must not get a slice
		}
		w.add(t, labels)
	}
}

// labels are the pool's labels that choose a device config and a MIG layout. A
// pool that leaves the choice open has no one answer.
func (w *writer) labels() (map[string]string, bool) {
	out := map[string]string{}
	for k, v := range w.pool.Labels {
		out[k] = v
	}
	for _, r := range w.pool.Requirements {
		if r.Key != model.LabelDeviceConfig && r.Key != model.LabelMIGConfig {
			continue
		}
		if r.Operator == model.In && len(r.Values) == 1 {
			out[r.Key] = r.Values[0]
			continue
		}
		if _, fixed := out[r.Key]; !fixed {
			w.note("overlay-open", fmt.Sprintf("pool %s leaves %s open, and an overlay holds one number for each type: it gets none", w.pool.Name, r.Key),
				"make one pool of each value")
			return nil, false
		}
	}
	return out, true
}

func typeLabels(types []model.InstanceType) map[string]bool {
	out := map[string]bool{}
	for i := range types {
		for key := range types[i].Labels {
			out[key] = true
		}
	}
	return out
}

// add puts a type under the overlay that says what it advertises.
func (w *writer) add(t *model.InstanceType, labels map[string]string) {
	ad, err := gpu.ForNode(*t, w.snap.Sharing, labels)
	if err != nil {
		w.note("overlay-config", fmt.Sprintf("pool %s gets no overlay for %s: %v", w.pool.Name, t.Name, err), "")
		return
	}
	if ad.Kind == model.Consumable {
		w.note("overlay-parts", fmt.Sprintf("in pool %s GPUs are handed out in parts of their memory and compute, which an overlay cannot say", w.pool.Name), "")
		return
	}
	says := difference(Counted(*t), ad.Resources)
	if len(says) == 0 {
		return
	}
	key := fmt.Sprint(ad.Config, ad.Kind, says)
	at, ok := w.groups[key]
	if !ok {
		at = len(w.out)
		w.groups[key] = at
		o := Overlay{Pool: w.pool.Name, Capacity: says, Config: ad.Config, Sharing: ad.Kind}
		for name, most := range ad.MaxRequest {
			if most == 1 {
				o.OneEach = append(o.OneEach, name)
			}
		}
		slices.Sort(o.OneEach)
		w.out = append(w.out, o)
	}
	i, _ := slices.BinarySearch(w.out[at].Types, t.Name)
	w.out[at].Types = slices.Insert(w.out[at].Types, i, t.Name)
}

// note says a thing once.
func (w *writer) note(code, text, fix string) {
	if w.noted[text] {
		return
	}
	if w.noted == nil {
		w.noted = map[string]bool{}
	}
	w.noted[text] = true
	w.notes = append(w.notes, model.Note{Code: code, Severity: model.Warning, Place: w.pool.Place, Text: text, Fix: fix})
}

// difference lists the GPU resources of which a node will advertise another
// amount than Karpenter counts.
func difference(counted, advertised model.Resources) model.Resources {
	out := model.Resources{}
	for _, name := range counted.Names() {
		if strings.HasPrefix(name, "nvidia.com/") && advertised[name] != counted[name] {
			out[name] = advertised[name]
		}
	}
	for _, name := range advertised.Names() {
		if advertised[name] != counted[name] {
			out[name] = advertised[name]
		}
	}
	return out
}

// Counted is what Karpenter counts of a type without overlays: its capacity,
// but no GPU where EC2 sells a part of one, as it reports none there
// (aws/karpenter-provider-aws#8368).
func Counted(t model.InstanceType) model.Resources {
	out := t.Capacity.Clone()
	if fractional(&t) {
		delete(out, model.NvidiaGPU)
	}
	return out
}

func fractional(t *model.InstanceType) bool {
	return slices.ContainsFunc(t.GPUs, func(g model.GPU) bool { return g.Fraction > 0 && g.Fraction < 1 })
}

// names reports whether a pool asks for a type by its name, family or size.
func names(p *model.Pool, t *model.InstanceType) bool {
	for _, r := range p.Requirements {
		if r.Operator == model.In && naming(r.Key) && slices.Contains(r.Values, t.Labels[r.Key]) {
			return true
		}
	}
	for key, v := range p.Labels {
		if naming(key) && t.Labels[key] == v {
			return true
		}
	}
	return false
}

func naming(key string) bool {
	return key == model.LabelInstanceType || strings.HasSuffix(key, "/instance-family") || strings.HasSuffix(key, "/instance-size")
}
