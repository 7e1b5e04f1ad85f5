// Package nvml is the seam to NVIDIA's driver: what GPUs a machine has, how
// they are linked, and what the driver reports of their health. Everything on
// the node above it works on these plain values, so that it can be tested on a
// machine without a GPU.
//
// There are three drivers behind the seam:
//
//   - internal/nvml/driver is the real one (cgo);
//   - [Recorded] plays an [Inventory] that was read from a file or from one of
//     the recordings in this package ([Recording]), with faults on demand: a GPU
//     lost, Xids, a library that breaks, slow calls, MIG instances that appear;
//   - [Missing] stands for a machine without libnvidia-ml.
//
// What the GPUs give under a device config is not decided here: [Inventory.Node]
// turns an inventory into the hardware that internal/gpu takes, and gpu.Serve
// answers. A Unit of that answer is found again by its positions:
//
//	inv, err := lib.Inventory(ctx)
//	served, err := gpu.Serve(inv.Node(), cfg)
//	for _, u := range served.Units {
//		ids := u.IDs("nvidia.com/gpu")       // "GPU-...::0", ...
//		paths := inv.Paths(u.GPU, u.Instance) // "/dev/nvidia0", ...
//		numa := inv.GPUs[u.GPU].NUMA
//	}
package nvml

import (
	"context"
	"errors"
)

// A Library is a driver. All methods may be called at the same time, and give
// up when their context ends.
type Library interface {
	// Inventory lists the GPUs without their links. A GPU that does not answer
	// is in Unreadable and costs the others nothing; an error means that the
	// driver as a whole does not answer.
	Inventory(ctx context.Context) (Inventory, error)
	// Links says how each two GPUs are connected. It may take seconds: ask once
	// and keep the answer. Pairs with a GPU that does not answer are left out.
	Links(ctx context.Context) ([]Link, error)
	// Probe asks one GPU for a sign of life. An error wraps ErrLost when the
	// driver cannot reach the GPU.
	Probe(ctx context.Context, uuid string) (Probe, error)
	// Watch starts the delivery of events of all GPUs. After a failure of the
	// driver it initialises the library anew first.
	Watch(ctx context.Context) (Events, error)
	// Close ends the use of the driver.
	Close() error
}

// Events delivers what the driver reports, from Watch on.
type Events interface {
	// Next waits for an event. An error that is not the context's means that no
	// more events will come: close, and Watch again.
	Next(ctx context.Context) (Event, error)
	// Unwatched names the GPUs, by UUID, for which no events come, and why. The
	// reason wraps ErrNotSupported when the GPU has none to report.
	Unwatched() map[string]error
	Close() error
}

// WholeGPU stands in Event.GI and Event.CI for "not of one MIG instance".
const WholeGPU = 0xFFFFFFFF

// An Event is a critical Xid that a driver reports.
type Event struct {
	UUID string // of the physical GPU; "" when the driver could not tell
	Xid  uint64
	GI   uint32 // GPU instance, or WholeGPU
	CI   uint32 // compute instance, or WholeGPU
}

// A Probe is what a GPU that answers says of itself.
type Probe struct {
	Recovery Recovery
}

// Recovery is what a driver wants done with a GPU (nvmlDeviceGpuRecoveryAction,
// drivers from R560 on).
type Recovery string

// What may have to be done.
const (
	RecoveryUnknown Recovery = "" // the driver does not say
	RecoveryNone    Recovery = "none"
	RecoveryReset   Recovery = "reset"
	RecoveryReboot  Recovery = "reboot"
	RecoveryDrain   Recovery = "drain" // stop peer-to-peer traffic, with or without a reset
)

// The ways of failing that callers tell apart.
var (
	// ErrLost means that the GPU is there no more for the driver (fallen off the
	// bus, or being reset).
	ErrLost = errors.New("GPU is lost")
	// ErrNotSupported means that the GPU or the driver has no such thing.
	ErrNotSupported = errors.New("not supported")
	// ErrClosed means that the library, or the delivery of events, was closed.
	ErrClosed = errors.New("closed")
)
