package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// maxGPUs bounds the GPUs of one node, so that a wrong number in a file is
// refused and not filled into memory.
const maxGPUs = 1024

// The most MPS clients of one GPU: what the plugin allows from compute
// capability 7.5 on, and before.
const (
	maxMPS         = 48
	maxMPSBefore75 = 16
)

// A unit is one device that the plugin hands out: a whole GPU, or a MIG instance.
type unit struct {
	gpu      int // index of the physical GPU
	instance int // index among the GPU's instances, -1 for a whole GPU
	profile  string
	resource string // name before sharing
}

// Advertise returns what gpus give under a device config and a MIG layout (nil
// for MIG off everywhere). NVIDIA's GPUs follow the config, in the order given;
// AMD's are advertised as amd.com/gpu; others give nothing.
//
// Errors are a *LayoutError when a GPU cannot be cut as the layout asks, and a
// *SharingError when the plugin would refuse the config on these GPUs.
func Advertise(gpus []model.GPU, cfg deviceconfig.Config, mig deviceconfig.MIGConfig) (model.Advertisement, error) {
	cards, amd, err := expand(gpus)
	if err != nil || len(cards)+len(amd) == 0 {
		return model.Advertisement{}, err
	}
	if err := cut(cards, mig); err != nil {
		return model.Advertisement{}, err
	}
	out, _, _, err := advertise(cards, amd, cfg)
	return out, err
}

// advertise is what cards that are cut already give, as a whole and by unit.
func advertise(cards []card, amd []model.GPU, cfg deviceconfig.Config) (model.Advertisement, []unit, shared, error) {
	var out model.Advertisement
	units, err := deal(cards, cfg.Flags.MIGStrategy)
	if err != nil {
		return out, nil, shared{}, err
	}
	shares, err := share(units, cards, cfg)
	if err != nil {
		return out, nil, shares, err
	}
	out.Devices = devicesOf(cards, amd)
	for i, u := range units {
		for name, n := range shares.amounts[i] {
			out.Devices[u.gpu].Resources[name] += n
		}
	}
	out.Resources = model.Resources{}
	for _, d := range out.Devices {
		out.Resources = out.Resources.Plus(d.Resources, 1)
	}
	out.Kind, out.MaxRequest = shares.kind, shares.maxRequest
	if out.Kind == model.Exclusive && slices.ContainsFunc(units, func(u unit) bool { return u.instance >= 0 }) {
		out.Kind = model.MIG
	}
	if len(cards) > 0 {
		out.Labels = labels(cards, units, cfg)
	}
	return out, units, shares, nil
}

// A card is one physical NVIDIA GPU, or one slice of a fractional type.
type card struct {
	model.GPU
	index     int       // by which configs and messages name it
	mig       bool      // MIG mode
	instances []string  // profiles, in the order in which they are made
	live      *Hardware // what the driver reports, nil for a card of a catalogue
}

// expand lists the physical GPUs one by one.
func expand(gpus []model.GPU) (nvidia []card, amd []model.GPU, err error) {
	var total int64
	for _, g := range gpus {
		if total += max(g.Count, 0); total > maxGPUs || g.Count > maxGPUs {
			return nil, nil, &SharingError{Why: fmt.Sprintf("a node with more than %d GPUs is no node", maxGPUs)}
		}
		for range g.Count {
			switch {
			case isNVIDIA(g):
				nvidia = append(nvidia, card{GPU: describe(g), index: len(nvidia)})
			case strings.EqualFold(g.Manufacturer, "amd"):
				amd = append(amd, g)
			}
		}
	}
	return nvidia, amd, nil
}

func isNVIDIA(g model.GPU) bool { return strings.EqualFold(g.Manufacturer, "nvidia") && g.Count > 0 }

// isSlice reports whether g is a fraction of a GPU.
func isSlice(g model.GPU) bool { return g.Fraction > 0 && g.Fraction < 1 }

// describe fills in what a catalogue left out, and names slices after their size.
func describe(g model.GPU) model.GPU {
	product, family, compute, ok := Describe(g.Model, g.MemoryMiB)
	if ok && isSlice(g) {
		g.Product = product
	}
	g.Product, g.Family, g.Compute = cmp.Or(g.Product, product), cmp.Or(g.Family, family), cmp.Or(g.Compute, compute)
	return g
}

// devicesOf makes the devices, NVIDIA's still empty.
func devicesOf(cards []card, amd []model.GPU) []model.Device {
	out := make([]model.Device, 0, len(cards)+len(amd))
	for _, c := range cards {
		out = append(out, model.Device{Model: c.Model, Resources: model.Resources{}})
	}
	for _, g := range amd {
		out = append(out, model.Device{Model: g.Model, Resources: model.Resources{"amd.com/gpu": 1}})
	}
	return out
}

// deal turns the cards into units by MIG strategy. A GPU in MIG mode is handed
// out whole under none; by its instances, all alike, under single; by the
// names of its instances under mixed.
func deal(cards []card, strategy string) ([]unit, error) {
	var out []unit
	for i, c := range cards {
		if !c.mig || strategy == "" || strategy == "none" {
			out = append(out, unit{gpu: i, instance: -1, resource: model.NvidiaGPU})
			continue
		}
		for j, p := range c.instances {
			u := unit{gpu: i, instance: j, profile: p, resource: model.NvidiaGPU}
			if strategy == "mixed" {
				if partial(p) {
					continue // the plugin has no name for it
				}
				u.resource = resourceOf(p)
			}
			out = append(out, u)
		}
	}
	if strategy == "single" {
		return out, uniform(cards)
	}
	return out, nil
}

// resourceOf names the resource of a MIG profile under the strategy mixed.
func resourceOf(profile string) string {
	return "nvidia.com/mig-" + strings.ReplaceAll(profile, "+", ".")
}

// partial reports whether an instance holds some of the compute slices of its
// GPU slices only, as "1c.2g.10gb" does.
func partial(profile string) bool { return strings.Contains(profile, "c.") }

// uniform checks what the strategy single demands: every GPU cut, or none, and
// all instances alike.
func uniform(cards []card) error {
	first := ""
	for _, c := range cards {
		switch {
		case c.mig != cards[0].mig:
			return &SharingError{Why: fmt.Sprintf("migStrategy single needs MIG on for all GPUs of a node or for none; GPU %d is unlike GPU %d", c.index, cards[0].index)}
		case c.mig && len(c.instances) == 0:
			return &SharingError{Why: fmt.Sprintf("migStrategy single: GPU %d is in MIG mode without instances", c.index)}
		}
		for _, p := range c.instances {
			if first == "" {
				first = p
			}
			if p != first {
				return &SharingError{Why: fmt.Sprintf("migStrategy single needs one profile on a node; there are %s and %s (GPU %d)", first, p, c.index)}
			}
		}
	}
	return nil
}

// shared is what sharing makes of the units.
type shared struct {
	amounts    []model.Resources // by unit
	shared     []bool            // by unit: an entry replicates it
	kind       model.SharingKind
	maxRequest map[string]int64
}

// share replicates units as the config's active section says. MPS is the
// active one whenever it is set.
func share(units []unit, cards []card, cfg deviceconfig.Config) (shared, error) {
	out := shared{amounts: make([]model.Resources, len(units)), shared: make([]bool, len(units))}
	section, kind := active(cfg)
	if kind == model.MPS {
		if err := mpsFits(cards, cfg); err != nil {
			return out, err
		}
	}
	for _, r := range section.Resources {
		picked, err := pick(units, cards, r)
		if err != nil {
			return out, &SharingError{Resource: r.Name, Why: err.Error()}
		}
		for _, i := range picked {
			c := cards[units[i].gpu]
			if limit := mpsLimit(c); kind == model.MPS && r.Replicas > limit {
				return out, &SharingError{Resource: r.Name, Why: fmt.Sprintf("%d replicas are more than the %d clients that MPS takes on %s", r.Replicas, limit, c.title())}
			}
			out.add(i, r, section.FailRequestsGreaterThanOne)
			out.kind = kind
		}
	}
	for i, u := range units {
		if out.amounts[i] == nil {
			out.amounts[i] = model.Resources{u.resource: 1}
		}
	}
	return out, nil
}

// add replicates unit i as an entry says. Entries that overlap give the union
// of their replicas, so the larger number.
func (s *shared) add(i int, r deviceconfig.Resource, one bool) {
	name := cmp.Or(r.Rename, r.Name)
	s.shared[i] = true
	if s.amounts[i] == nil {
		s.amounts[i] = model.Resources{}
	}
	s.amounts[i][name] = max(s.amounts[i][name], r.Replicas)
	if !one {
		return
	}
	if s.maxRequest == nil {
		s.maxRequest = map[string]int64{}
	}
	s.maxRequest[name] = 1
}

// active returns the section that counts, the zero one when nothing is shared.
func active(cfg deviceconfig.Config) (deviceconfig.Replicated, model.SharingKind) {
	switch {
	case cfg.MPS != nil:
		return *cfg.MPS, model.MPS
	case cfg.TimeSlicing != nil:
		return *cfg.TimeSlicing, model.TimeSlicing
	}
	return deviceconfig.Replicated{}, model.Exclusive
}

func mpsFits(cards []card, cfg deviceconfig.Config) error {
	if cfg.Flags.MIGStrategy == "mixed" {
		return &SharingError{Why: "the plugin refuses mps together with migStrategy mixed"}
	}
	for _, c := range cards {
		if c.mig {
			return &SharingError{Why: fmt.Sprintf("the plugin refuses mps on MIG devices, and GPU %d is in MIG mode", c.index)}
		}
	}
	return nil
}

func mpsLimit(c card) int64 {
	major, minor, ok := capability(c.Compute)
	if ok && (major < 7 || (major == 7 && minor < 5)) {
		return maxMPSBefore75
	}
	return maxMPS
}

// pick returns the units that an entry replicates. An entry for a resource
// that the node does not have picks none.
func pick(units []unit, cards []card, r deviceconfig.Resource) ([]int, error) {
	var all []int
	for i, u := range units {
		if u.resource == r.Name {
			all = append(all, i)
		}
	}
	switch {
	case len(all) == 0 || r.Devices.All():
		return all, nil
	case r.Devices.Count > int64(len(all)):
		return nil, fmt.Errorf("%d devices are to be shared and the node has %d", r.Devices.Count, len(all))
	case r.Devices.Count > 0:
		return all[:r.Devices.Count], nil
	}
	var out []int
	for _, ref := range r.Devices.List {
		at := slices.IndexFunc(all, func(i int) bool { return units[i].index(cards) == ref || units[i].uuid(cards) == ref })
		switch {
		case at >= 0 && !slices.Contains(out, all[at]):
			out = append(out, all[at])
		case at < 0 && strings.Contains(ref, "-") && cards[0].live != nil:
			return nil, fmt.Errorf("the node has no device %s", ref)
		case at < 0 && strings.Contains(ref, "-"):
			return nil, fmt.Errorf("device %s is named by its UUID, which is known on its node only; name the index", ref)
		case at < 0:
			return nil, fmt.Errorf("the node has no device at index %s", ref)
		}
	}
	return out, nil
}

// index names a unit as a config's devices list does: the driver's index of the
// GPU, and after a colon that of the instance.
func (u unit) index(cards []card) string {
	c := cards[u.gpu]
	switch {
	case u.instance < 0:
		return strconv.Itoa(c.index)
	case c.live != nil:
		return strconv.Itoa(c.index) + ":" + strconv.Itoa(c.live.Instances[u.instance].Index)
	}
	return strconv.Itoa(c.index) + ":" + strconv.Itoa(u.instance)
}

// uuid is the driver's name of a unit, "" for one of a catalogue.
func (u unit) uuid(cards []card) string {
	h := cards[u.gpu].live
	switch {
	case h == nil:
		return ""
	case u.instance < 0:
		return h.UUID
	}
	return h.Instances[u.instance].UUID
}

// title names the card for messages.
func (c card) title() string {
	if c.Product != "" {
		return c.Product
	}
	return c.Model
}
