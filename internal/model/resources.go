package model

import (
	"maps"
	"slices"
)

// Names of resources that Kerf treats specially. Every other name is an
// extended resource, counted in whole units.
const (
	CPU              = "cpu"               // thousandths of a core
	Memory           = "memory"            // bytes
	EphemeralStorage = "ephemeral-storage" // bytes
	Pods             = "pods"              // one per pod
	Nodes            = "nodes"             // only in a pool's limits
	NvidiaGPU        = "nvidia.com/gpu"
)

// Names of the amounts that a DeviceShare asks of each device. The first is
// Kerf's own, for traces that give a fraction of a device; the others are HAMi's.
const (
	ShareMilli   = "kerf.dev/gpu-milli"           // thousandths of a device
	ShareMemory  = "nvidia.com/gpumem"            // MiB of a device's memory
	SharePercent = "nvidia.com/gpumem-percentage" // percent of a device's memory
	ShareCores   = "nvidia.com/gpucores"          // percent of a device's compute
)

// Resources maps a resource's name to an amount: cpu in thousandths of a core,
// memory, ephemeral-storage and hugepages-* in bytes, everything else in units.
// An absent name is zero. A nil Resources is empty and may be read.
type Resources map[string]int64

// Clone returns a copy that may be written to, never nil.
func (r Resources) Clone() Resources {
	out := make(Resources, len(r))
	maps.Copy(out, r)
	return out
}

// Plus returns r with n times o added.
func (r Resources) Plus(o Resources, n int64) Resources {
	out := r.Clone()
	for name, v := range o {
		out[name] += n * v
	}
	return out
}

// Names lists the names, sorted.
func (r Resources) Names() []string { return slices.Sorted(maps.Keys(r)) }

// Lacking returns the first name, in sorted order, of which r holds less than
// want asks, or "" when want fits. Amounts of zero or less always fit.
func (r Resources) Lacking(want Resources) string {
	for _, name := range want.Names() {
		if v := want[name]; v > 0 && v > r[name] {
			return name
		}
	}
	return ""
}

// IsGPU reports whether a resource name stands for a GPU or a part of one of
// any vendor that Kerf knows: nvidia.com/gpu, nvidia.com/gpu.shared,
// nvidia.com/mig-*, amd.com/gpu, aliyun.com/gpu-mem and the like.
func IsGPU(name string) bool {
	for _, p := range []string{"nvidia.com/", "amd.com/gpu", "aliyun.com/gpu", "habana.ai/", "aws.amazon.com/neuron", "gpu.intel.com/"} {
		if len(name) >= len(p) && name[:len(p)] == p {
			return true
		}
	}
	return false
}
