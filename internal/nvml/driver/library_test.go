//go:build cgo

package driver

import (
	"context"
	"errors"
	"testing"
	"time"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/nvml"
)

// machine is go-nvml's mock of some A100, with what the mock leaves out.
func machine(t *testing.T, n int) (*library, *server.Server) {
	t.Helper()
	s := dgxa100.NewWithGPUs(gpus.Multiple(n, gpus.A100_SXM4_40GB)...)
	for i := range n {
		d := gpu(s, i)
		d.UUID = "GPU-" + string(rune('0'+i))
		d.GetPciInfoFunc = func() (nv.PciInfo, nv.Return) { return pci(i), nv.SUCCESS }
		d.GetGpuFabricInfoFunc = func() (nv.GpuFabricInfo, nv.Return) { return nv.GpuFabricInfo{}, nv.ERROR_NOT_SUPPORTED }
		d.GetGpuFabricInfoVFunc = nil
		d.GetTopologyCommonAncestorFunc = func(nv.Device) (nv.GpuTopologyLevel, nv.Return) { return nv.TOPOLOGY_SYSTEM, nv.SUCCESS }
		d.GetNvLinkStateFunc = func(int) (nv.EnableState, nv.Return) { return 0, nv.ERROR_NOT_SUPPORTED }
		d.GetSupportedEventTypesFunc = func() (uint64, nv.Return) { return watched, nv.SUCCESS }
		d.RegisterEventsFunc = func(uint64, nv.EventSet) nv.Return { return nv.SUCCESS }
		d.GetFieldValuesFunc = func([]nv.FieldValue) nv.Return { return nv.ERROR_NOT_SUPPORTED }
		d.GetMaxMigDeviceCountFunc = func() (int, nv.Return) { return 7, nv.SUCCESS }
		d.GetMigDeviceHandleByIndexFunc = func(int) (nv.Device, nv.Return) { return nil, nv.ERROR_NOT_FOUND }
	}
	dir := t.TempDir()
	write(t, dir+"/proc/driver/nvidia-caps/mig-minors", "gpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n")
	write(t, dir+"/sys/bus/pci/devices/0000:10:00.0/class", "0x030200\n")
	write(t, dir+"/sys/bus/pci/devices/0000:10:00.0/numa_node", "1\n")
	return newLibrary(s, Config{Sys: dir + "/sys", Proc: dir + "/proc"}), s
}

func gpu(s *server.Server, i int) *server.Device { return s.Devices[i].(*server.Device) }

// pci is the address of a GPU as NVML writes it.
func pci(i int) nv.PciInfo {
	var p nv.PciInfo
	for at, c := range "00000000:1" + string(rune('0'+i)) + ":00.0" {
		p.BusId[at] = int8(c)
	}
	return p
}

func TestInventory(t *testing.T) {
	l, s := machine(t, 2)
	s.DriverVersion, s.CudaDriverVersion = "550.163.01", 12040
	gpu(s, 1).GetGpuFabricInfoFunc = func() (nv.GpuFabricInfo, nv.Return) {
		return nv.GpuFabricInfo{ClusterUuid: [16]uint8{0x1f, 0x2e, 15: 9}, CliqueId: 7, State: nv.GPU_FABRIC_STATE_COMPLETED}, nv.SUCCESS
	}
	got, err := l.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a100 := nvml.GPU{
		UUID: "GPU-0", Name: "Mock NVIDIA A100-SXM4-40GB", Brand: "nvidia", Architecture: "ampere", Compute: "8.0", MemoryMiB: 40960,
		PCI: "0000:10:00.0", PCIClass: 0x030200, NUMA: []int{1}, MIG: nvml.MIGDisabled,
	}
	second := a100
	second.Index, second.Minor, second.UUID, second.PCI, second.PCIClass, second.NUMA = 1, 1, "GPU-1", "0000:11:00.0", 0, nil
	second.Clique = "1f2e0000-0000-0000-0000-000000000009.7"
	want := nvml.Inventory{Version: "v1", Driver: "550.163.01", CUDA: "12.4", GPUs: []nvml.GPU{a100, second}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInventoryWithoutMemory(t *testing.T) {
	l, s := machine(t, 1)
	gpu(s, 0).GetMemoryInfoFunc = func() (nv.Memory, nv.Return) { return nv.Memory{}, nv.ERROR_NOT_SUPPORTED }
	gpu(s, 0).GetMigModeFunc = func() (int, int, nv.Return) { return 0, 0, nv.ERROR_NOT_SUPPORTED }
	got, err := l.Inventory(t.Context())
	if err != nil || len(got.GPUs) != 1 || got.GPUs[0].MemoryMiB != 0 || got.GPUs[0].MIG != nvml.MIGNone {
		t.Errorf("%+v, %v", got.GPUs, err)
	}
}

// One bad GPU hides none of the others, whichever call it fails in.
func TestInventoryWithABadGPU(t *testing.T) {
	for name, breakIt := range map[string]func(*server.Server, *server.Device){
		"no handle": func(s *server.Server, _ *server.Device) {
			handle := s.DeviceGetHandleByIndexFunc
			s.DeviceGetHandleByIndexFunc = func(i int) (nv.Device, nv.Return) {
				if i == 3 {
					return nil, nv.ERROR_UNKNOWN
				}
				return handle(i)
			}
		},
		"no UUID": func(_ *server.Server, d *server.Device) {
			d.GetUUIDFunc = func() (string, nv.Return) { return "", nv.ERROR_GPU_IS_LOST }
		},
		"no memory": func(_ *server.Server, d *server.Device) {
			d.GetMemoryInfoFunc = func() (nv.Memory, nv.Return) { return nv.Memory{}, nv.ERROR_GPU_IS_LOST }
		},
		"no MIG mode": func(_ *server.Server, d *server.Device) {
			d.GetMigModeFunc = func() (int, int, nv.Return) { return 0, 0, nv.ERROR_UNKNOWN }
		},
		"its MIG instances cannot be read": func(_ *server.Server, d *server.Device) {
			d.MigMode = nv.DEVICE_MIG_ENABLE
			d.GetMaxMigDeviceCountFunc = func() (int, nv.Return) { return 0, nv.ERROR_UNKNOWN }
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, s := machine(t, 8)
			breakIt(s, gpu(s, 3))
			got, err := l.Inventory(t.Context())
			if err != nil || len(got.GPUs) != 7 || len(got.Unreadable) != 1 || got.Unreadable[0].Index != 3 || got.Unreadable[0].Why == "" {
				t.Errorf("%d GPUs, unreadable %+v, %v", len(got.GPUs), got.Unreadable, err)
			}
		})
	}
}

func TestDisplayAdaptersAreLeftOut(t *testing.T) {
	l, s := machine(t, 2)
	gpu(s, 0).Config.Name = "NVIDIA DGX Display"
	got, err := l.Inventory(t.Context())
	if err != nil || len(got.GPUs) != 1 || got.GPUs[0].Index != 1 || len(got.Unreadable) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMIGInstances(t *testing.T) {
	l, s := machine(t, 1)
	d := gpu(s, 0)
	d.MigMode = nv.DEVICE_MIG_ENABLE
	profile, _ := d.GetGpuInstanceProfileInfo(nv.GPU_INSTANCE_PROFILE_3_SLICE)
	gi, _ := d.CreateGpuInstance(&profile)
	compute, _ := gi.GetComputeInstanceProfileInfo(nv.COMPUTE_INSTANCE_PROFILE_3_SLICE, 0)
	ci, _ := gi.CreateComputeInstance(&compute)
	gi.(*server.GpuInstance).GetComputeInstanceByIdFunc = func(int) (nv.ComputeInstance, nv.Return) { return ci, nv.SUCCESS }
	d.GetGpuInstanceByIdFunc = func(int) (nv.GpuInstance, nv.Return) { return gi, nv.SUCCESS }
	m := &mock.Device{
		IsMigDeviceHandleFunc:                  func() (bool, nv.Return) { return true, nv.SUCCESS },
		GetUUIDFunc:                            func() (string, nv.Return) { return "MIG-0", nv.SUCCESS },
		GetGpuInstanceIdFunc:                   func() (int, nv.Return) { return 2, nv.SUCCESS },
		GetComputeInstanceIdFunc:               func() (int, nv.Return) { return 0, nv.SUCCESS },
		GetDeviceHandleFromMigDeviceHandleFunc: func() (nv.Device, nv.Return) { return d, nv.SUCCESS },
		GetAttributesFunc: func() (nv.DeviceAttributes, nv.Return) {
			return nv.DeviceAttributes{
				MultiprocessorCount: 42, SharedCopyEngineCount: 3, SharedDecoderCount: 2, SharedEncoderCount: 4, SharedJpegCount: 5, SharedOfaCount: 6,
				GpuInstanceSliceCount: 3, ComputeInstanceSliceCount: 3, MemorySizeMB: 19968,
			}, nv.SUCCESS
		},
	}
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nv.Device, nv.Return) {
		if i == 1 {
			return m, nv.SUCCESS
		}
		return nil, nv.ERROR_NOT_FOUND
	}
	got, err := l.Inventory(t.Context())
	if err != nil || len(got.GPUs) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []nvml.Instance{{
		Index: 1, UUID: "MIG-0", GI: 2, Profile: "3g.20gb", MemoryMiB: 19968, Multiprocessors: 42, GPUSlices: 3, ComputeSlices: 3,
		Copy: 3, Decoder: 2, Encoder: 4, JPEG: 5, OFA: 6, Caps: []string{"/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"},
	}}
	if diff := cmp.Diff(want, got.GPUs[0].Instances); diff != "" || got.GPUs[0].MIG != nvml.MIGEnabled {
		t.Errorf("mode %q, instances (-want +got):\n%s", got.GPUs[0].MIG, diff)
	}
}

func TestLinks(t *testing.T) {
	l, s := machine(t, 4)
	for i := range 4 {
		d := gpu(s, i)
		if i == 3 {
			d.GetPciInfoFunc = func() (nv.PciInfo, nv.Return) { return nv.PciInfo{}, nv.ERROR_GPU_IS_LOST }
			continue
		}
		d.GetTopologyCommonAncestorFunc = func(other nv.Device) (nv.GpuTopologyLevel, nv.Return) {
			switch other.(*server.Device).Index - i {
			case 1:
				return nv.TOPOLOGY_SINGLE, nv.SUCCESS
			case 2:
				return 0, nv.ERROR_UNKNOWN
			}
			return nv.TOPOLOGY_SYSTEM, nv.SUCCESS
		}
		d.GetNvLinkStateFunc = func(link int) (nv.EnableState, nv.Return) {
			if link < 3 {
				return nv.FEATURE_ENABLED, nv.SUCCESS
			}
			return 0, nv.ERROR_INVALID_ARGUMENT
		}
		d.GetNvLinkRemotePciInfoFunc = func(link int) (nv.PciInfo, nv.Return) {
			if link == 2 {
				return nv.PciInfo{}, nv.ERROR_NOT_SUPPORTED
			}
			return pci((i + 1) % 4), nv.SUCCESS
		}
	}
	got, err := l.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []nvml.Link{{A: 0, B: 1, Path: nvml.SingleSwitch, NVLinks: 2}, {A: 1, B: 2, Path: nvml.SingleSwitch, NVLinks: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProbe(t *testing.T) {
	l, s := machine(t, 1)
	d := gpu(s, 0)
	if p, err := l.Probe(t.Context(), "GPU-0"); err != nil || p.Recovery != nvml.RecoveryUnknown {
		t.Errorf("an older driver: %+v, %v", p, err)
	}
	for action, want := range map[nv.DeviceGpuRecoveryAction]nvml.Recovery{
		nv.GPU_RECOVERY_ACTION_NONE: nvml.RecoveryNone, nv.GPU_RECOVERY_ACTION_GPU_RESET: nvml.RecoveryReset,
		nv.GPU_RECOVERY_ACTION_NODE_REBOOT: nvml.RecoveryReboot, nv.GPU_RECOVERY_ACTION_DRAIN_P2P: nvml.RecoveryDrain,
	} {
		d.GetFieldValuesFunc = func(f []nv.FieldValue) nv.Return {
			f[0].Value[0] = byte(action)
			return nv.SUCCESS
		}
		if p, err := l.Probe(t.Context(), "GPU-0"); err != nil || p.Recovery != want {
			t.Errorf("action %v: %+v, %v", action, p, err)
		}
	}
	d.GetMemoryInfoFunc = func() (nv.Memory, nv.Return) { return nv.Memory{}, nv.ERROR_GPU_IS_LOST }
	if _, err := l.Probe(t.Context(), "GPU-0"); !errors.Is(err, nvml.ErrLost) {
		t.Errorf("lost: %v", err)
	}
	s.DeviceGetHandleByUUIDFunc = func(string) (nv.Device, nv.Return) { return nil, nv.ERROR_NOT_FOUND }
	if _, err := l.Probe(t.Context(), "GPU-9"); !errors.Is(err, nvml.ErrLost) {
		t.Errorf("not there: %v", err)
	}
}

// events of a mock are given one by one; each wait without any times out.
func deliver(s *server.Server, queue *[]nv.EventData, freed *int) {
	s.EventSetCreateFunc = func() (nv.EventSet, nv.Return) {
		return &mock.EventSet{
			WaitFunc: func(uint32) (nv.EventData, nv.Return) {
				if len(*queue) == 0 {
					return nv.EventData{}, nv.ERROR_TIMEOUT
				}
				e := (*queue)[0]
				*queue = (*queue)[1:]
				if e.EventType == 0 {
					return e, nv.ERROR_UNKNOWN
				}
				return e, nv.SUCCESS
			},
			FreeFunc: func() nv.Return { *freed++; return nv.SUCCESS },
		}, nv.SUCCESS
	}
}

func TestEvents(t *testing.T) {
	l, s := machine(t, 4)
	gpu(s, 1).GetSupportedEventTypesFunc = func() (uint64, nv.Return) { return nv.EventTypePState, nv.SUCCESS }
	gpu(s, 2).RegisterEventsFunc = func(uint64, nv.EventSet) nv.Return { return nv.ERROR_GPU_IS_LOST }
	gpu(s, 3).RegisterEventsFunc = func(uint64, nv.EventSet) nv.Return { return nv.ERROR_NO_PERMISSION }
	queue := []nv.EventData{
		{Device: s.Devices[0], EventType: nv.EventTypeSingleBitEccError},
		{Device: s.Devices[0], EventType: nv.EventTypeXidCriticalError, EventData: 94, GpuInstanceId: 2, ComputeInstanceId: 0},
		{EventType: nv.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: nvml.WholeGPU, ComputeInstanceId: nvml.WholeGPU},
		{}, // the library fails
	}
	freed := 0
	deliver(s, &queue, &freed)
	events, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	un := events.Unwatched()
	if len(un) != 3 || !errors.Is(un["GPU-1"], nvml.ErrNotSupported) || !errors.Is(un["GPU-2"], nvml.ErrLost) || errors.Is(un["GPU-3"], nvml.ErrNotSupported) {
		t.Errorf("unwatched: %v", un)
	}
	for _, want := range []nvml.Event{{UUID: "GPU-0", Xid: 94, GI: 2}, {Xid: 79, GI: nvml.WholeGPU, CI: nvml.WholeGPU}} {
		if got, err := events.Next(t.Context()); err != nil || got != want {
			t.Errorf("event %+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := events.Next(t.Context()); err == nil {
		t.Error("a failure is no error")
	}
	initialised := 0
	s.InitFunc = func() nv.Return { initialised++; return nv.SUCCESS }
	again, err := l.Watch(t.Context())
	if err != nil || initialised != 1 {
		t.Fatalf("%v, initialised %d times", err, initialised)
	}
	if _, err := events.Next(t.Context()); !errors.Is(err, nvml.ErrClosed) {
		t.Errorf("a delivery outlived its library: %v", err)
	}
	if err := errors.Join(events.Close(), again.Close(), again.Close()); err != nil || freed != 1 {
		t.Errorf("%v, %d sets freed", err, freed)
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	l, s := machine(t, 1)
	var queue []nv.EventData
	freed := 0
	deliver(s, &queue, &freed)
	events, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := events.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := l.Inventory(t.Context()); !errors.Is(err, nvml.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := events.Next(t.Context()); !errors.Is(err, nvml.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestOpenWithoutALibrary(t *testing.T) {
	_, err := Open(Config{Root: t.TempDir()})
	missing := (*nvml.NotFoundError)(nil)
	if !errors.As(err, &missing) || len(missing.Tried) != 7 {
		t.Skip("this machine has the library itself: ", err)
	}
}
