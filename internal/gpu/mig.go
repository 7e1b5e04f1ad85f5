package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// A profile is one size of MIG instance on a GPU.
type profile struct {
	name   string
	slices int   // GPU slices, by which a GPU has 7, 4 or 2
	size   int   // memory slots that an instance takes
	starts []int // memory slots at which it may begin
	media  int   // how much it takes of the GPU's media engines
}

// A geometry is how one kind of GPU can be cut.
type geometry struct {
	slices   int
	slots    int
	media    int // media engines to give to instances that ask for them by name
	profiles []profile
}

// geometries by name: facts of NVIDIA's MIG User Guide (profiles), nvidia-smi
// mig -lgipp (placements) and mig-parted 0.15 (names by memory).
var geometries = map[string]geometry{
	"40gb":  seven("5gb", "10gb", "20gb", "40gb"),
	"80gb":  seven("10gb", "20gb", "40gb", "80gb"),
	"94gb":  seven("12gb", "24gb", "47gb", "94gb"),
	"96gb":  seven("12gb", "24gb", "48gb", "96gb"),
	"141gb": seven("18gb", "35gb", "71gb", "141gb"),
	"180gb": seven("23gb", "45gb", "90gb", "180gb"),
	"186gb": seven("23gb", "47gb", "93gb", "186gb"),
	"269gb": seven("34gb", "67gb", "135gb", "269gb"),
	"278gb": seven("35gb", "70gb", "139gb", "278gb"),
	"a30": {slices: 4, slots: 4, media: 1, profiles: []profile{
		{"1g.6gb", 1, 1, []int{0, 1, 2, 3}, 0},
		{"1g.6gb+me", 1, 1, []int{0, 1, 2, 3}, 1},
		{"2g.12gb", 2, 2, []int{0, 2}, 0},
		{"2g.12gb+me", 2, 2, []int{0, 2}, 1},
		{"4g.24gb", 4, 4, []int{0}, 0},
	}},
	"rtx-pro-6000": {slices: 4, slots: 4, media: 4, profiles: []profile{
		{"1g.24gb", 1, 1, []int{0, 1, 2, 3}, 1},
		{"1g.24gb+gfx", 1, 1, []int{0, 1, 2, 3}, 1},
		{"1g.24gb+me.all", 1, 1, []int{0, 1, 2, 3}, 4},
		{"1g.24gb-me", 1, 1, []int{0, 1, 2, 3}, 0},
		{"2g.48gb", 2, 2, []int{0, 2}, 2},
		{"2g.48gb+gfx", 2, 2, []int{0, 2}, 2},
		{"2g.48gb+me.all", 2, 2, []int{0, 2}, 4},
		{"2g.48gb-me", 2, 2, []int{0, 2}, 0},
		{"4g.96gb", 4, 4, []int{0}, 4},
		{"4g.96gb+gfx", 4, 4, []int{0}, 4},
	}},
	"rtx-pro-4500": {slices: 2, slots: 2, profiles: []profile{
		{"1g.16gb", 1, 1, []int{0, 1}, 0}, {"2g.32gb", 2, 2, []int{0}, 0},
	}},
}

// seven is the geometry of the GPUs with seven slices and eight memory slots,
// from A100 to B300; the arguments are the memory of one, two, four and eight slots.
func seven(one, two, four, eight string) geometry {
	return geometry{slices: 7, slots: 8, media: 1, profiles: []profile{
		{"1g." + one, 1, 1, []int{0, 1, 2, 3, 4, 5, 6}, 0},
		{"1g." + one + "+me", 1, 1, []int{0, 1, 2, 3, 4, 5, 6}, 1},
		{"1g." + two, 1, 2, []int{0, 2, 4, 6}, 0},
		{"2g." + two, 2, 2, []int{0, 2, 4}, 0},
		{"3g." + four, 3, 4, []int{0, 4}, 0},
		{"4g." + four, 4, 4, []int{0}, 0},
		{"7g." + eight, 7, 8, []int{0}, 0},
	}}
}

// cut sets the MIG mode and the instances of each card as mig-parted does:
// entry by entry, so that of several entries for one GPU the last counts.
func cut(cards []card, layout deviceconfig.MIGConfig) error {
	if len(layout) == 0 || len(cards) == 0 {
		return nil
	}
	touched := false
	for _, e := range layout {
		for i := range cards {
			if !applies(e, cards[i], i) {
				continue
			}
			touched = true
			cards[i].mig = e.Enabled
			cards[i].instances = instances(e)
		}
	}
	if !touched {
		return &LayoutError{GPU: cards[0].title(), Why: "is not named by any entry of the MIG layout"}
	}
	for i, c := range cards {
		if !c.mig {
			continue
		}
		if err := holds(c, i); err != nil {
			return err
		}
	}
	return nil
}

// applies reports whether an entry is for the card at an index.
func applies(e deviceconfig.MIGEntry, c card, index int) bool {
	if !e.Devices.All() && !slices.Contains(e.Devices.List, strconv.Itoa(index)) {
		return false
	}
	if len(e.Filter) == 0 {
		return true
	}
	p, ok := find(c.Model, c.MemoryMiB)
	return ok && slices.ContainsFunc(e.Filter, func(f string) bool { return samePCI(f, p.pci) })
}

// samePCI compares a device-filter ("0x20B210DE", with a subsystem if need be)
// with a device id of NVIDIA's.
func samePCI(filter, device string) bool {
	id, _, _ := strings.Cut(strings.ToLower(filter), ":")
	return device != "" && strings.TrimPrefix(id, "0x") == strings.ToLower(device)+"10de"
}

// instances lists an entry's instances, larger ones first, as they are made.
func instances(e deviceconfig.MIGEntry) []string {
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(e.MIGDevices), largerFirst) {
		for range min(e.MIGDevices[name], maxGPUs) {
			out = append(out, plainName(name))
		}
	}
	return out
}

// plainName drops the compute slices from a profile where they say nothing:
// "3c.3g.20gb" is "3g.20gb".
func plainName(profile string) string {
	compute, rest, ok := strings.Cut(profile, "c.")
	if gpu, _, _ := strings.Cut(rest, "g."); ok && gpu == compute {
		return rest
	}
	return profile
}

// largerFirst orders profiles by slices, larger ones first, then by name.
func largerFirst(a, b string) int {
	if n := gpuSlices(b) - gpuSlices(a); n != 0 {
		return n
	}
	return strings.Compare(a, b)
}

// gpuSlices reads the GPU slices off a profile: 3 of "3g.20gb" and of "1c.3g.20gb".
func gpuSlices(profile string) int {
	before, _, _ := strings.Cut(profile, "g.")
	n, _ := strconv.Atoi(before[strings.LastIndexByte(before, '.')+1:])
	return n
}

// holds reports as an error what keeps a card from holding its instances.
func holds(c card, index int) error {
	fail := &LayoutError{GPU: c.title(), Index: int64(index), Asked: count(c.instances)}
	p, ok := find(c.Model, c.MemoryMiB)
	switch {
	case isSlice(c.GPU):
		fail.Why = "is a fraction of a GPU and cannot be put into MIG mode"
		return fail
	case !ok || p.mig == "":
		fail.Why = "has no MIG"
		return fail
	}
	g := geometries[p.mig]
	var wanted []profile
	for _, name := range c.instances {
		i := slices.IndexFunc(g.profiles, func(p profile) bool { return p.name == name })
		switch {
		case partial(name):
			fail.Why = "would be cut into " + name + ", and the plugin has no resource for a profile whose compute slices differ from its GPU slices"
			return fail
		case i < 0:
			fail.Why, fail.Can = "has no MIG profile "+name, g.maxima()
			return fail
		}
		wanted = append(wanted, g.profiles[i])
	}
	if !g.fits(wanted) {
		fail.Why, fail.Can = "cannot hold "+fail.Asked, g.maxima()
		return fail
	}
	return nil
}

// fits reports whether instances can be placed side by side on one GPU.
func (g geometry) fits(wanted []profile) bool {
	cores, media := 0, 0
	for _, p := range wanted {
		cores, media = cores+p.slices, media+p.media
	}
	if cores > g.slices || media > g.media {
		return false
	}
	// Larger instances first: they have the fewest places.
	wanted = slices.SortedStableFunc(slices.Values(wanted), func(a, b profile) int { return len(a.starts) - len(b.starts) })
	return place(wanted, 0)
}

// place puts the first instance on each of its places in turn and the rest
// beside it; taken holds a bit for each memory slot in use.
func place(wanted []profile, taken uint) bool {
	if len(wanted) == 0 {
		return true
	}
	p := wanted[0]
	for _, start := range p.starts {
		mask := (uint(1)<<p.size - 1) << start
		if taken&mask == 0 && place(wanted[1:], taken|mask) {
			return true
		}
	}
	return false
}

// most is how many instances of one profile the GPU holds alone.
func (g geometry) most(p profile) int {
	var n int
	for same := []profile{p}; g.fits(same); same = append(same, p) {
		n++
	}
	return n
}

// maxima says for each profile how many of it fit alone: "7 x 1g.5gb".
func (g geometry) maxima() []string {
	var out []string
	for _, p := range g.profiles {
		out = append(out, fmt.Sprintf("%d x %s", g.most(p), p.name))
	}
	return out
}

// count writes a list of instances as "2 x 1g.5gb + 1 x 3g.20gb".
func count(instances []string) string {
	var out []string
	for i := 0; i < len(instances); {
		j := i
		for j < len(instances) && instances[j] == instances[i] {
			j++
		}
		out = append(out, fmt.Sprintf("%d x %s", j-i, instances[i]))
		i = j
	}
	return strings.Join(out, " + ")
}

// stockLayout makes the layout of one of the names that NVIDIA's MIG manager
// comes with: all-disabled, all-enabled, all-balanced, and all-<profile> for as
// many instances of a profile as fit, with "+" of the profile written as ".".
func stockLayout(name string, gpus []model.GPU) (deviceconfig.MIGConfig, error) {
	rest, ok := strings.CutPrefix(name, "all-")
	if !ok {
		return nil, &LayoutNameError{Name: name}
	}
	switch rest {
	case "disabled":
		return deviceconfig.MIGConfig{{}}, nil
	case "enabled":
		return deviceconfig.MIGConfig{{Enabled: true}}, nil
	}
	first := gpus[slices.IndexFunc(gpus, isNVIDIA)]
	fail := &LayoutError{GPU: card{GPU: describe(first)}.title(), Why: "has no MIG"}
	p, ok := find(first.Model, first.MemoryMiB)
	if !ok || p.mig == "" {
		return nil, fail
	}
	g := geometries[p.mig]
	if counts := g.stock(rest); counts != nil {
		return deviceconfig.MIGConfig{{Enabled: true, MIGDevices: counts}}, nil
	}
	if gpuSlices(rest) == 0 {
		return nil, &LayoutNameError{Name: name}
	}
	fail.Why, fail.Can = "has no MIG profile "+rest, g.maxima()
	return nil, fail
}

// stock returns the instances of a stock layout, nil for an unknown one.
func (g geometry) stock(name string) map[string]int64 {
	if name == "balanced" {
		return g.balanced()
	}
	for _, p := range g.profiles {
		if strings.ReplaceAll(p.name, "+", ".") == name {
			return map[string]int64{p.name: int64(g.most(p))}
		}
	}
	return nil
}

// balanced is two instances of one slice, one of two and, where there is such
// a profile, one of three: the smallest memory of each.
func (g geometry) balanced() map[string]int64 {
	out := map[string]int64{}
	var all []profile
	for i, n := range []int{2, 1, 1} {
		at := slices.IndexFunc(g.profiles, func(p profile) bool { return p.slices == i+1 })
		if at < 0 {
			continue
		}
		p := g.profiles[at]
		out[p.name] = int64(n)
		all = append(all, slices.Repeat([]profile{p}, n)...)
	}
	if !g.fits(all) {
		return nil
	}
	return out
}
