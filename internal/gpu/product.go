package gpu

import (
	"cmp"
	"strconv"
	"strings"
)

// A product is one GPU model as clouds name it and as feature discovery labels it.
type product struct {
	model   string // as EC2 names it, without the memory that other clouds add
	fromMiB int64  // smallest memory by which this row is told from others of the model
	label   string // value of nvidia.com/gpu.product
	compute string // CUDA compute capability
	memory  int64  // MiB that NVML reports, 0 when not known; clouds round differently
	pci     string // PCI device and vendor id, as mig-parted's device-filter takes it
	mig     string // name of its geometry, "" without MIG
	slice   bool   // its slices are named <label>-<GB>Q (vGPU)
}

// products lists what clouds sell; rows of one model are ordered by memory,
// largest first. Names are NVML's in the form that feature discovery gives
// them, memory is what NVML reports under recent drivers, PCI ids are those of
// mig-parted 0.15's default config.
var products = []product{
	{model: "k520", label: "GRID-K520", compute: "3.0"},
	{model: "k80", label: "Tesla-K80", compute: "3.7"},
	{model: "m60", label: "Tesla-M60", compute: "5.2"},
	{model: "p4", label: "Tesla-P4", compute: "6.1"},
	{model: "p100", label: "Tesla-P100-PCIE-16GB", compute: "6.0"},
	{model: "v100", fromMiB: 24000, label: "Tesla-V100-SXM2-32GB", compute: "7.0", memory: 32768},
	{model: "v100", label: "Tesla-V100-SXM2-16GB", compute: "7.0", memory: 16384},
	{model: "t4", label: "Tesla-T4", compute: "7.5", memory: 15360},
	{model: "t4g", label: "NVIDIA-T4G", compute: "7.5", memory: 15360},
	{model: "a10", label: "NVIDIA-A10", compute: "8.6", memory: 23028, slice: true},
	{model: "a10g", label: "NVIDIA-A10G", compute: "8.6", memory: 23028},
	{model: "a30", label: "NVIDIA-A30", compute: "8.0", memory: 24576, pci: "20B7", mig: "a30"},
	{model: "a100", fromMiB: 60000, label: "NVIDIA-A100-SXM4-80GB", compute: "8.0", memory: 81920, pci: "20B2", mig: "80gb"},
	{model: "a100", label: "NVIDIA-A100-SXM4-40GB", compute: "8.0", memory: 40960, pci: "20B0", mig: "40gb"},
	{model: "a100-pcie", fromMiB: 60000, label: "NVIDIA-A100-80GB-PCIe", compute: "8.0", memory: 81920, pci: "20B5", mig: "80gb"},
	{model: "a100-pcie", label: "NVIDIA-A100-PCIE-40GB", compute: "8.0", memory: 40960, pci: "20F1", mig: "40gb"},
	{model: "l4", label: "NVIDIA-L4", compute: "8.9", memory: 23034, slice: true},
	{model: "l40s", label: "NVIDIA-L40S", compute: "8.9", memory: 46068},
	{model: "h100", fromMiB: 97000, label: "NVIDIA-GH200-480GB", compute: "9.0", pci: "2342", mig: "96gb"},
	{model: "h100", fromMiB: 90000, label: "NVIDIA-H100-NVL", compute: "9.0", memory: 95830, pci: "2321", mig: "94gb"},
	{model: "h100", label: "NVIDIA-H100-80GB-HBM3", compute: "9.0", memory: 81559, pci: "2330", mig: "80gb"},
	{model: "h100-nvl", label: "NVIDIA-H100-NVL", compute: "9.0", memory: 95830, pci: "2321", mig: "94gb"},
	{model: "h200", label: "NVIDIA-H200", compute: "9.0", memory: 143771, pci: "2335", mig: "141gb"},
	{model: "b200", label: "NVIDIA-B200", compute: "10.0", memory: 183359, pci: "2901", mig: "180gb"},
	{model: "b300", label: "NVIDIA-B300-SXM6-AC", compute: "10.3", memory: 275040, pci: "3182", mig: "269gb"},
	{model: "gb200", label: "NVIDIA-GB200", compute: "10.0", pci: "2941", mig: "186gb"},
	{model: "gb300", label: "NVIDIA-GB300", compute: "10.3", pci: "31C2", mig: "278gb"},
	{model: "rtx-pro-server-6000", label: "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", compute: "12.0", memory: 97887, pci: "2BB5", mig: "rtx-pro-6000"},
	{model: "rtx-pro-6000", label: "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", compute: "12.0", memory: 97887, pci: "2BB5", mig: "rtx-pro-6000"},
	{model: "rtx-pro-4500", label: "NVIDIA-RTX-PRO-4500-Blackwell-Server-Edition", compute: "12.0", mig: "rtx-pro-4500"},
}

// Describe returns what feature discovery says of an NVIDIA GPU: the product
// label ("Tesla-T4"), the family ("turing") and the CUDA compute capability
// ("7.5"). model is a cloud's name in lower case, with or without its memory:
// "a100", "v100-32gb"; memMiB is its memory, or that of the slice of it, and 0
// when unknown. The product is "" where slices of the GPU carry names that are
// not known; ok is false for a GPU that is not in the table.
func Describe(model string, memMiB int64) (product, family, compute string, ok bool) {
	p, ok := find(model, memMiB)
	if !ok {
		return "", "", "", false
	}
	return p.name(memMiB), familyOf(p.compute), p.compute, true
}

// ModelOf returns the cloud's name of the GPU that feature discovery labels with
// a product: "t4" for "Tesla-T4-SHARED", "a100" for
// "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "l4" for the slice "NVIDIA-L4-3Q". A
// product that is not in the table is returned as it is, in lower case.
func ModelOf(label string) string {
	label = strings.TrimSuffix(label, "-SHARED")
	label, _, _ = strings.Cut(label, "-MIG-")
	best := product{}
	for _, p := range products {
		if (label == p.label || (p.slice && strings.HasPrefix(label, p.label+"-"))) && len(p.label) > len(best.label) {
			best = p
		}
	}
	return cmp.Or(best.model, strings.ToLower(label))
}

// find looks a model up, by its memory where models come in several sizes.
func find(model string, memMiB int64) (product, bool) {
	model, named := splitMemory(strings.ToLower(model))
	for _, p := range products {
		if p.model == model && cmp.Or(memMiB, named) >= p.fromMiB {
			return p, true
		}
	}
	return product{}, false
}

// splitMemory takes the memory off a name such as "a100-80gb".
func splitMemory(model string) (string, int64) {
	i := strings.LastIndexByte(model, '-')
	digits, ok := strings.CutSuffix(model[i+1:], "gb")
	if gb, err := strconv.ParseInt(digits, 10, 32); i > 0 && ok && err == nil {
		return model[:i], gb * 1024
	}
	return model, 0
}

// name is the label of a GPU with this much memory: a slice of one is named
// after its size, "NVIDIA-L4-3Q".
func (p product) name(memMiB int64) string {
	if p.memory == 0 || memMiB == 0 || memMiB > p.memory*4/5 {
		return p.label
	}
	if !p.slice {
		return ""
	}
	gb := (memMiB + 1023) / 1024 // clouds count in GB or in GiB: 11444 MiB are 12 GB
	return p.label + "-" + strconv.FormatInt(gb, 10) + "Q"
}

// familyOf names the architecture of a compute capability.
func familyOf(compute string) string {
	major, minor, ok := capability(compute)
	if !ok {
		return ""
	}
	switch {
	case major == 7 && minor < 5:
		return "volta"
	case major == 7:
		return "turing"
	case major == 8 && minor < 9:
		return "ampere"
	case major == 8:
		return "ada-lovelace"
	}
	return map[int]string{
		1: "tesla", 2: "fermi", 3: "kepler", 5: "maxwell", 6: "pascal", 9: "hopper", 10: "blackwell", 12: "blackwell", 13: "rubin",
	}[major]
}

// capability splits "7.5".
func capability(compute string) (major, minor int, ok bool) {
	a, b, _ := strings.Cut(compute, ".")
	major, err := strconv.Atoi(a)
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(b)
	return major, minor, err == nil
}
