//go:build cgo

package driver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kerfdev/kerf/internal/nvml"
)

// notComputing are GPUs that no container is given: the display adapters of
// DGX Stations, which go-nvlib leaves out too.
var notComputing = []string{"DGX Display", "NVIDIA DGX Display"}

// gpu reads the GPU at an index. What a GPU cannot be served without is an
// error; the UUID stays known then, where it was read.
func (l *library) gpu(index int) (g nvml.GPU, skip bool, err error) {
	g.Index = index
	handle, ret := l.nv.DeviceGetHandleByIndex(index)
	if ret != nv.SUCCESS {
		return g, false, fmt.Errorf("get its handle: %w", asError(ret))
	}
	if g.UUID, ret = handle.GetUUID(); ret != nv.SUCCESS {
		return g, false, fmt.Errorf("get its UUID: %w", asError(ret))
	}
	if g.Name, ret = handle.GetName(); ret != nv.SUCCESS {
		return g, false, fmt.Errorf("get its name: %w", asError(ret))
	}
	if slices.Contains(notComputing, g.Name) {
		return g, true, nil
	}
	if g.Minor, ret = handle.GetMinorNumber(); ret != nv.SUCCESS {
		return g, false, fmt.Errorf("get its minor number: %w", asError(ret))
	}
	d, err := l.devices.NewDevice(handle)
	if err != nil {
		return g, false, err
	}
	if err := l.memory(&g, d); err != nil {
		return g, false, err
	}
	l.describe(&g, d)
	return g, false, l.mig(&g, d)
}

// memory reads how much a GPU has; GB10 does not say.
func (l *library) memory(g *nvml.GPU, d device.Device) error {
	m, ret := d.GetMemoryInfo()
	switch ret {
	case nv.SUCCESS:
		g.MemoryMiB = int64(m.Total >> 20)
	case nv.ERROR_NOT_SUPPORTED:
	default:
		return fmt.Errorf("get its memory: %w", asError(ret))
	}
	return nil
}

// describe reads what is only told to people and schedulers: what a driver does
// not say is left out.
func (l *library) describe(g *nvml.GPU, d device.Device) {
	g.Brand, _ = d.GetBrandAsString()
	g.Brand = strings.ToLower(g.Brand)
	g.Architecture, _ = d.GetArchitectureAsString()
	g.Architecture = strings.ReplaceAll(strings.ToLower(g.Architecture), " ", "-")
	g.Compute, _ = d.GetCudaComputeCapabilityAsString()
	if bus, err := d.GetPCIBusID(); err == nil && bus != "" {
		g.PCI, g.PCIClass, g.NUMA, g.VGPU = bus, l.files.class(bus), l.files.numa(bus), l.files.vgpu(bus)
	}
	if attached, err := d.IsFabricAttached(); err == nil && attached {
		g.Clique = cliqueOf(d)
	}
}

// cliqueOf names the NVLink fabric of a GPU that is part of one.
func cliqueOf(d nv.Device) string {
	info, ret := d.GetGpuFabricInfo()
	id, clique := info.ClusterUuid, info.CliqueId
	if ret != nv.SUCCESS {
		newer, ret := d.GetGpuFabricInfoV().V2()
		if ret != nv.SUCCESS {
			return ""
		}
		id, clique = newer.ClusterUuid, newer.CliqueId
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x.%d", id[:4], id[4:6], id[6:8], id[8:10], id[10:], clique)
}

// mig reads a GPU's MIG mode and instances. A GPU whose instances cannot be
// read must not be served whole, so that is an error.
func (l *library) mig(g *nvml.GPU, d device.Device) error {
	capable, err := d.IsMigCapable()
	if err != nil || !capable {
		return err
	}
	g.MIG = nvml.MIGDisabled
	enabled, err := d.IsMigEnabled()
	if err != nil || !enabled {
		return err
	}
	g.MIG = nvml.MIGEnabled
	return d.VisitMigDevices(func(index int, m device.MigDevice) error {
		in, err := l.instance(g.Minor, m)
		if err != nil {
			return fmt.Errorf("MIG instance %d: %w", index, err)
		}
		in.Index = index
		g.Instances = append(g.Instances, in)
		return nil
	})
}

func (l *library) instance(minor int, m device.MigDevice) (nvml.Instance, error) {
	var in nvml.Instance
	var ret nv.Return
	if in.UUID, ret = m.GetUUID(); ret != nv.SUCCESS {
		return in, fmt.Errorf("get its UUID: %w", asError(ret))
	}
	gi, ret := m.GetGpuInstanceId()
	if ret != nv.SUCCESS {
		return in, fmt.Errorf("get its GPU instance: %w", asError(ret))
	}
	ci, ret := m.GetComputeInstanceId()
	if ret != nv.SUCCESS {
		return in, fmt.Errorf("get its compute instance: %w", asError(ret))
	}
	profile, err := m.GetProfile()
	if err != nil {
		return in, err
	}
	a, ret := m.GetAttributes()
	if ret != nv.SUCCESS {
		return in, fmt.Errorf("get its attributes: %w", asError(ret))
	}
	in.GI, in.CI, in.Profile = uint32(gi), uint32(ci), profile.String()
	in.MemoryMiB, in.Multiprocessors = int64(a.MemorySizeMB), int(a.MultiprocessorCount)
	in.GPUSlices, in.ComputeSlices = int(a.GpuInstanceSliceCount), int(a.ComputeInstanceSliceCount)
	in.Copy, in.Decoder, in.Encoder = int(a.SharedCopyEngineCount), int(a.SharedDecoderCount), int(a.SharedEncoderCount)
	in.JPEG, in.OFA = int(a.SharedJpegCount), int(a.SharedOfaCount)
	in.Caps = l.files.caps(minor, in.GI, in.CI)
	return in, nil
}
