package nvml

import (
	"fmt"

	"github.com/kerfdev/kerf/internal/gpu"
)

// An Inventory is what a driver says of a machine at one moment.
type Inventory struct {
	Version string `yaml:"version" json:"version"`                     // of this schema: "v1"
	Machine string `yaml:"machine,omitempty" json:"machine,omitempty"` // DMI product name
	Driver  string `yaml:"driver,omitempty" json:"driver,omitempty"`   // "550.163.01"
	CUDA    string `yaml:"cuda,omitempty" json:"cuda,omitempty"`       // newest that the driver runs, "12.4"
	GPUs    []GPU  `yaml:"gpus" json:"gpus"`                           // in index order
	// Links hold each pair of GPUs at most once; a pair that is absent is not
	// known to be connected.
	Links []Link `yaml:"links,omitempty" json:"links,omitempty"`
	// Unreadable are GPUs that are there and did not answer.
	Unreadable []Unreadable `yaml:"unreadable,omitempty" json:"unreadable,omitempty"`
}

// A GPU is one physical GPU.
type GPU struct {
	Index        int    `yaml:"index" json:"index"` // the driver's
	Minor        int    `yaml:"minor" json:"minor"` // of /dev/nvidia<minor>
	UUID         string `yaml:"uuid" json:"uuid"`   // "GPU-..."
	Name         string `yaml:"name" json:"name"`   // "NVIDIA A100-SXM4-40GB"
	Brand        string `yaml:"brand,omitempty" json:"brand,omitempty"`
	Architecture string `yaml:"architecture,omitempty" json:"architecture,omitempty"` // "ampere"
	Compute      string `yaml:"compute,omitempty" json:"compute,omitempty"`           // CUDA compute capability "8.0"
	// MemoryMiB is 0 when the driver does not say: GB10 shares the memory of its
	// CPU and reports NOT_SUPPORTED.
	MemoryMiB int64  `yaml:"memoryMiB,omitempty" json:"memoryMiB,omitempty"`
	PCI       string `yaml:"pci,omitempty" json:"pci,omitempty"`           // bus id "0000:10:1c.0"
	PCIClass  uint32 `yaml:"pciClass,omitempty" json:"pciClass,omitempty"` // 0x030200; 0 when not known
	NUMA      []int  `yaml:"numa,omitempty,flow" json:"numa,omitempty"`    // the node that the GPU is near; none when not known
	// Clique is the NVLink fabric it is part of: "<cluster UUID>.<clique id>".
	Clique    string     `yaml:"clique,omitempty" json:"clique,omitempty"`
	MIG       MIGMode    `yaml:"mig,omitempty" json:"mig,omitempty"`
	Instances []Instance `yaml:"instances,omitempty" json:"instances,omitempty"`
	VGPU      *VGPU      `yaml:"vgpu,omitempty" json:"vgpu,omitempty"` // set on a guest of a vGPU host
}

// A MIGMode says whether a GPU is in MIG mode.
type MIGMode string

// The modes of a GPU.
const (
	MIGNone     MIGMode = "" // the GPU has no MIG
	MIGDisabled MIGMode = "disabled"
	MIGEnabled  MIGMode = "enabled"
)

// An Instance is one MIG device: a compute instance in its GPU instance.
type Instance struct {
	Index           int    `yaml:"index" json:"index"` // the driver's, among those of its GPU
	UUID            string `yaml:"uuid" json:"uuid"`   // "MIG-..."
	GI              uint32 `yaml:"gi" json:"gi"`
	CI              uint32 `yaml:"ci" json:"ci"`
	Profile         string `yaml:"profile" json:"profile"` // "1g.5gb"
	MemoryMiB       int64  `yaml:"memoryMiB" json:"memoryMiB"`
	Multiprocessors int    `yaml:"multiprocessors,omitempty" json:"multiprocessors,omitempty"`
	GPUSlices       int    `yaml:"gpuSlices,omitempty" json:"gpuSlices,omitempty"`
	ComputeSlices   int    `yaml:"computeSlices,omitempty" json:"computeSlices,omitempty"`
	Copy            int    `yaml:"copyEngines,omitempty" json:"copyEngines,omitempty"`
	Decoder         int    `yaml:"decoders,omitempty" json:"decoders,omitempty"`
	Encoder         int    `yaml:"encoders,omitempty" json:"encoders,omitempty"`
	JPEG            int    `yaml:"jpegEngines,omitempty" json:"jpegEngines,omitempty"`
	OFA             int    `yaml:"ofaEngines,omitempty" json:"ofaEngines,omitempty"`
	// Caps are the device nodes that open its two instances to a container:
	// "/dev/nvidia-caps/nvidia-cap12".
	Caps []string `yaml:"caps,omitempty,flow" json:"caps,omitempty"`
}

// VGPU is what a guest knows of its host.
type VGPU struct {
	HostDriver string `yaml:"hostDriver,omitempty" json:"hostDriver,omitempty"` // "460.16"
	HostBranch string `yaml:"hostBranch,omitempty" json:"hostBranch,omitempty"` // "r460_00"
}

// An Unreadable is a GPU of which the driver knows little more than the index.
type Unreadable struct {
	Index int    `yaml:"index" json:"index"`
	UUID  string `yaml:"uuid,omitempty" json:"uuid,omitempty"`
	Why   string `yaml:"why" json:"why"`
}

// A Link is how two GPUs, by their indices, are connected.
type Link struct {
	A       int  `yaml:"a" json:"a"`
	B       int  `yaml:"b" json:"b"`
	Path    Path `yaml:"path,omitempty" json:"path,omitempty"` // over PCIe
	NVLinks int  `yaml:"nvlinks,omitempty" json:"nvlinks,omitempty"`
}

// A Path is the nearest thing that two GPUs share on PCIe.
type Path string

// The paths, from the farthest to the nearest.
const (
	CrossCPU     Path = "cross-cpu"
	SameCPU      Path = "same-cpu"
	HostBridge   Path = "host-bridge"
	MultiSwitch  Path = "multi-switch"
	SingleSwitch Path = "single-switch"
	SameBoard    Path = "same-board"
)

// pathScores are those of go-gpuallocator.
var pathScores = map[Path]int{CrossCPU: 10, SameCPU: 20, HostBridge: 30, MultiSwitch: 40, SingleSwitch: 50, SameBoard: 60}

// nvlinkScore is what each NVLink adds, as in go-gpuallocator.
const nvlinkScore = 100

// Score is how well two GPUs work together: 10 for a path across CPUs to 60 for
// one board, and 100 for each NVLink.
func (l Link) Score() int { return pathScores[l.Path] + nvlinkScore*l.NVLinks }

// Node returns the hardware as internal/gpu takes it.
func (inv Inventory) Node() gpu.Node {
	n := gpu.Node{Driver: inv.Driver, CUDA: inv.CUDA, Machine: inv.Machine}
	for _, g := range inv.GPUs {
		h := gpu.Hardware{
			Index: g.Index, UUID: g.UUID, Name: g.Name, Compute: g.Compute, MemoryMiB: g.MemoryMiB, PCIClass: g.PCIClass, Clique: g.Clique,
			MIGCapable: g.MIG != MIGNone, MIG: g.MIG == MIGEnabled, VGPU: g.VGPU != nil,
		}
		if g.VGPU != nil {
			h.HostDriver, h.HostBranch = g.VGPU.HostDriver, g.VGPU.HostBranch
		}
		for _, in := range g.Instances {
			h.Instances = append(h.Instances, gpu.Instance{
				Index: in.Index, UUID: in.UUID, Profile: in.Profile, MemoryMiB: in.MemoryMiB, Multiprocessors: in.Multiprocessors,
				GPUSlices: in.GPUSlices, ComputeSlices: in.ComputeSlices,
				Engines: gpu.Engines{Copy: in.Copy, Decoder: in.Decoder, Encoder: in.Encoder, JPEG: in.JPEG, OFA: in.OFA},
			})
		}
		n.GPUs = append(n.GPUs, h)
	}
	return n
}

// Paths lists the device nodes that a container needs for a GPU, or for one of
// its instances (by their positions; instance -1 is the whole GPU), beside
// those that all GPUs share. They are those of the host, below its device root.
func (inv Inventory) Paths(gpu, instance int) []string {
	g := inv.GPUs[gpu]
	paths := []string{fmt.Sprintf("/dev/nvidia%d", g.Minor)}
	if instance >= 0 {
		paths = append(paths, g.Instances[instance].Caps...)
	}
	return paths
}

// clone copies the inventory, so that neither copy sees changes of the other.
func (inv Inventory) clone() Inventory {
	inv.GPUs = append([]GPU(nil), inv.GPUs...)
	for i := range inv.GPUs {
		inv.GPUs[i].Instances = append([]Instance(nil), inv.GPUs[i].Instances...)
	}
	inv.Links = append([]Link(nil), inv.Links...)
	inv.Unreadable = append([]Unreadable(nil), inv.Unreadable...)
	return inv
}
