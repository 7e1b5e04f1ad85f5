package gpu

import (
	"cmp"
	"strconv"
	"strings"
)

// measured sets what the driver says of an instance.
func measured(out map[string]string, key string, in Instance) {
	for name, n := range map[string]int{
		"slices.gi": in.GPUSlices, "slices.ci": in.ComputeSlices, "multiprocessors": in.Multiprocessors, "memory": int(in.MemoryMiB),
		"engines.copy": in.Engines.Copy, "engines.decoder": in.Engines.Decoder, "engines.encoder": in.Engines.Encoder,
		"engines.jpeg": in.Engines.JPEG, "engines.ofa": in.Engines.OFA,
	} {
		put(out, key+"."+name, strconv.Itoa(n))
	}
}

// invalid sets the labels of a node whose GPUs the strategy single cannot serve.
func invalid(out map[string]string, cards []card) {
	about, _ := majority(cards)
	put(out, "gpu.count", "0")
	put(out, "gpu.replicas", "0")
	put(out, "gpu.sharing-strategy", "")
	put(out, "gpu.memory", "0")
	put(out, "gpu.product", fit(about.Product, "-MIG-INVALID"))
}

// driverLabels sets what is known once the driver runs: versions (each under
// its deprecated names too), the machine, and the mode of the GPUs.
func (n Node) driverLabels(out map[string]string) {
	put(out, "gpu.machine", cmp.Or(productLabel(n.Machine), "unknown"))
	put(out, "gpu.mode", mode(n.GPUs))
	if major, rest, ok := strings.Cut(n.Driver, "."); ok {
		minor, revision, _ := strings.Cut(rest, ".")
		put(out, "cuda.driver-version.full", n.Driver)
		for _, names := range [][3]string{{"cuda.driver-version.major", "cuda.driver.major", major}, {"cuda.driver-version.minor", "cuda.driver.minor", minor}, {"cuda.driver-version.revision", "cuda.driver.rev", revision}} {
			put(out, names[0], names[2])
			put(out, names[1], names[2])
		}
	}
	if major, minor, ok := strings.Cut(n.CUDA, "."); ok {
		put(out, "cuda.runtime-version.full", n.CUDA)
		for _, names := range [][3]string{{"cuda.runtime-version.major", "cuda.runtime.major", major}, {"cuda.runtime-version.minor", "cuda.runtime.minor", minor}} {
			put(out, names[0], names[2])
			put(out, names[1], names[2])
		}
	}
	for _, h := range n.GPUs {
		if h.Clique != "" {
			put(out, "gpu.clique", h.Clique)
		}
		if h.VGPU && h.HostDriver != "" {
			put(out, "vgpu.host-driver-version", h.HostDriver)
			put(out, "vgpu.host-driver-branch", h.HostBranch)
		}
	}
}

// mode names what the GPUs are built for by their PCI class: of unlike ones
// "unknown".
func mode(gpus []Hardware) string {
	for _, h := range gpus {
		if h.PCIClass != gpus[0].PCIClass {
			return "unknown"
		}
	}
	switch gpus[0].PCIClass >> 8 {
	case 0x0300:
		return "graphics"
	case 0x0302:
		return "compute"
	}
	return "unknown"
}

// maxLabel is the longest value that a label may have.
const maxLabel = 63

// fit joins a product and what is said of it, cutting the product where both do
// not fit into one label.
func fit(product, suffix string) string {
	if room := maxLabel - len(suffix); len(product) > room {
		product = strings.TrimRight(product[:room], "-._")
	}
	return product + suffix
}
