package gpu

import (
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// labels returns the labels by which feature discovery describes the cards. For
// cards of a catalogue, what depends on the driver (the exact memory,
// multiprocessors and engines of MIG instances) is left out.
//
// Of unlike GPUs the most numerous model is described, of equally many the
// first; upstream's choice changes from run to run.
func labels(cards []card, units []unit, cfg deviceconfig.Config) map[string]string {
	out := map[string]string{}
	about, number := majority(cards)
	whole(out, about, number, wholeShared(cards, about, cfg))
	capable, vgpu, cutUp := false, false, false
	for _, c := range cards {
		vgpu = vgpu || c.isVGPU()
		capable = capable || c.migCapable()
		cutUp = cutUp || c.mig
	}
	put(out, "mig.capable", strconv.FormatBool(capable))
	put(out, "vgpu.present", strconv.FormatBool(vgpu))
	section, kind := active(cfg)
	put(out, "mps.capable", strconv.FormatBool(kind == model.MPS && len(section.Resources) > 0 && !cutUp))
	strategy := cfg.Flags.MIGStrategy
	if strategy != "single" && strategy != "mixed" {
		return out
	}
	put(out, "mig.strategy", strategy)
	instanceLabels(out, cards, units, cfg)
	return out
}

func (c card) isVGPU() bool {
	if c.live != nil {
		return c.live.VGPU
	}
	return isSlice(c.GPU)
}

func (c card) migCapable() bool {
	if c.live != nil {
		return c.live.MIGCapable
	}
	p, _ := find(c.Model, c.MemoryMiB)
	return p.mig != "" && !isSlice(c.GPU)
}

// memory is what feature discovery says of the card: the driver's figure, or
// the one that drivers give for the model; clouds round differently.
func (c card) memory() int64 {
	if c.live != nil {
		return c.MemoryMiB
	}
	if p, ok := find(c.Model, c.MemoryMiB); ok && p.memory > 0 && p.name(c.MemoryMiB) == p.label {
		return p.memory
	}
	return c.MemoryMiB
}

// sharedAs is how feature discovery sees a resource in the config: by the first
// entry of its name, whichever devices that is for.
type sharedAs struct {
	replicas int64
	strategy string
	suffix   string // of the product's name
}

func sharing(resource string, cfg deviceconfig.Config) sharedAs {
	section, kind := active(cfg)
	for _, r := range section.Resources {
		if r.Name != resource {
			continue
		}
		out := sharedAs{replicas: r.Replicas, strategy: string(kind)}
		if r.Rename == "" {
			out.suffix = "-SHARED"
		}
		return out
	}
	return sharedAs{replicas: 1, strategy: "none"}
}

// wholeShared is the sharing of whole GPUs of a model. One in MIG mode is not
// shared: it counts as 0 replicas, unless another of its model is whole.
func wholeShared(cards []card, about card, cfg deviceconfig.Config) sharedAs {
	for _, c := range cards {
		if c.title() == about.title() && !c.mig {
			return sharing(model.NvidiaGPU, cfg)
		}
	}
	return sharedAs{replicas: 0, strategy: "none"}
}

// majority returns the model that most cards are of, and their number.
func majority(cards []card) (card, int) {
	counts := map[string]int{}
	for _, c := range cards {
		counts[c.title()]++
	}
	best := cards[0]
	for _, c := range cards {
		if counts[c.title()] > counts[best.title()] {
			best = c
		}
	}
	return best, counts[best.title()]
}

// whole sets the labels of whole GPUs.
func whole(out map[string]string, c card, number int, s sharedAs) {
	put(out, "gpu.count", strconv.Itoa(number))
	put(out, "gpu.replicas", strconv.FormatInt(s.replicas, 10))
	put(out, "gpu.sharing-strategy", s.strategy)
	if c.Product != "" {
		put(out, "gpu.product", fit(c.Product, s.suffix))
	}
	if memory := c.memory(); memory > 0 {
		put(out, "gpu.memory", strconv.FormatInt(memory, 10))
	}
	if c.Family != "" {
		put(out, "gpu.family", c.Family)
	}
	if major, minor, ok := capability(c.Compute); ok {
		put(out, "gpu.compute.major", strconv.Itoa(major))
		put(out, "gpu.compute.minor", strconv.Itoa(minor))
	}
}

// instanceLabels sets the labels of MIG instances, a group for each resource.
// Under the strategy single they take the place of those of the whole GPUs.
func instanceLabels(out map[string]string, cards []card, units []unit, cfg deviceconfig.Config) {
	number := map[string]int{}
	for _, u := range units {
		if u.instance < 0 {
			continue
		}
		key := strings.TrimPrefix(u.resource, "nvidia.com/")
		number[key]++
		s := sharing(u.resource, cfg)
		put(out, key+".count", strconv.Itoa(number[key]))
		put(out, key+".replicas", strconv.FormatInt(s.replicas, 10))
		put(out, key+".sharing-strategy", s.strategy)
		if product := cards[u.gpu].Product; product != "" {
			put(out, key+".product", fit(product, "-MIG-"+strings.ReplaceAll(u.profile, "+", ".")+s.suffix))
		}
		put(out, key+".slices.gi", strconv.Itoa(gpuSlices(u.profile)))
		put(out, key+".slices.ci", strconv.Itoa(gpuSlices(u.profile)))
		if key == "gpu" {
			delete(out, "nvidia.com/gpu.memory") // it is that of an instance
		}
		if c := cards[u.gpu]; c.live != nil {
			measured(out, key, c.live.Instances[u.instance])
		}
	}
}

func put(out map[string]string, key, value string) { out["nvidia.com/"+key] = value }
