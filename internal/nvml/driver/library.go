//go:build cgo

package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kerfdev/kerf/internal/nvml"
)

// library is the driver's library. Calls hold the lock for reading, and
// initialising anew holds it for writing.
type library struct {
	mu      sync.RWMutex
	nv      nv.Interface
	devices device.Interface
	files   files
	failed  atomic.Bool // a call found the library unusable
	round   int         // of initialisation
	closed  bool
}

// Open loads and initialises the driver's library. An error is a
// *nvml.NotFoundError when there is none.
func Open(cfg Config) (nvml.Library, error) {
	path, tried := nvml.Search(cfg.Root)
	lib := nv.New(nv.WithLibraryPath(path))
	switch ret := lib.Init(); ret {
	case nv.SUCCESS, nv.ERROR_ALREADY_INITIALIZED:
		return newLibrary(lib, cfg), nil
	case nv.ERROR_LIBRARY_NOT_FOUND:
		return nil, &nvml.NotFoundError{Tried: tried}
	default:
		return nil, fmt.Errorf("initialise %s: %w", path, asError(ret))
	}
}

func newLibrary(lib nv.Interface, cfg Config) *library {
	return &library{nv: lib, devices: device.New(lib), files: cfg.files()}
}

// Inventory reads every GPU; one that does not answer is left out and named.
func (l *library) Inventory(ctx context.Context) (nvml.Inventory, error) {
	if err := l.enter(ctx); err != nil {
		return nvml.Inventory{}, err
	}
	defer l.mu.RUnlock()
	inv := nvml.Inventory{Version: "v1", Machine: l.files.name()}
	inv.Driver, _ = l.nv.SystemGetDriverVersion() // a label; the GPUs say whether the driver works
	if v, ret := l.nv.SystemGetCudaDriverVersion(); ret == nv.SUCCESS {
		inv.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	n, ret := l.nv.DeviceGetCount()
	if ret != nv.SUCCESS {
		return nvml.Inventory{}, l.broken("count the GPUs", ret)
	}
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nvml.Inventory{}, err
		}
		g, skip, err := l.gpu(i)
		switch {
		case skip:
		case err != nil:
			inv.Unreadable = append(inv.Unreadable, nvml.Unreadable{Index: i, UUID: g.UUID, Why: err.Error()})
		default:
			inv.GPUs = append(inv.GPUs, g)
		}
	}
	return inv, nil
}

// Probe asks for a GPU's memory, which the driver reads off the GPU, and for
// what it wants done with it.
func (l *library) Probe(ctx context.Context, uuid string) (nvml.Probe, error) {
	if err := l.enter(ctx); err != nil {
		return nvml.Probe{}, err
	}
	defer l.mu.RUnlock()
	d, ret := l.nv.DeviceGetHandleByUUID(uuid)
	if ret == nv.ERROR_NOT_FOUND {
		ret = nv.ERROR_GPU_IS_LOST
	}
	if ret != nv.SUCCESS {
		return nvml.Probe{}, l.broken("find "+uuid, ret)
	}
	if _, ret = d.GetMemoryInfo(); ret != nv.SUCCESS && ret != nv.ERROR_NOT_SUPPORTED {
		return nvml.Probe{}, l.broken("probe "+uuid, ret)
	}
	return nvml.Probe{Recovery: recoveryOf(d)}, nil
}

// recoveryOf asks for the driver's recovery action, which it knows from R560 on.
func recoveryOf(d nv.Device) nvml.Recovery {
	fields := []nv.FieldValue{{FieldId: nv.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := d.GetFieldValues(fields); ret != nv.SUCCESS || nv.Return(fields[0].NvmlReturn) != nv.SUCCESS {
		return nvml.RecoveryUnknown
	}
	switch nv.DeviceGpuRecoveryAction(fields[0].Value[0]) { // the low byte of a small number
	case nv.GPU_RECOVERY_ACTION_NONE:
		return nvml.RecoveryNone
	case nv.GPU_RECOVERY_ACTION_GPU_RESET:
		return nvml.RecoveryReset
	case nv.GPU_RECOVERY_ACTION_NODE_REBOOT:
		return nvml.RecoveryReboot
	}
	return nvml.RecoveryDrain
}

// Close shuts the library down; deliveries of events end with it.
func (l *library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.round++
	if ret := l.nv.Shutdown(); ret != nv.SUCCESS {
		return fmt.Errorf("shut NVML down: %w", asError(ret))
	}
	return nil
}

// enter begins a call: the caller releases the read lock.
func (l *library) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return nvml.ErrClosed
	}
	return nil
}

// again initialises the library anew when a call found it unusable.
func (l *library) again() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nvml.ErrClosed
	}
	if !l.failed.Load() {
		return nil
	}
	l.nv.Shutdown() // it may not be initialised any more
	l.round++
	if ret := l.nv.Init(); ret != nv.SUCCESS && ret != nv.ERROR_ALREADY_INITIALIZED {
		return fmt.Errorf("initialise NVML again: %w", asError(ret))
	}
	l.failed.Store(false)
	return nil
}

// A status is NVML's own code as an error.
type status nv.Return

func (s status) Error() string { return nv.Return(s).Error() }

// asError turns a code into an error that callers can tell apart.
func asError(ret nv.Return) error {
	switch ret {
	case nv.ERROR_GPU_IS_LOST, nv.ERROR_RESET_REQUIRED:
		return fmt.Errorf("%w: %w", nvml.ErrLost, status(ret))
	case nv.ERROR_NOT_SUPPORTED, nv.ERROR_FUNCTION_NOT_FOUND:
		return fmt.Errorf("%w: %w", nvml.ErrNotSupported, status(ret))
	}
	return status(ret)
}

// broken reports a failed call, and remembers a failure that is not one GPU's.
func (l *library) broken(what string, ret nv.Return) error {
	err := asError(ret)
	if !errors.Is(err, nvml.ErrLost) && !errors.Is(err, nvml.ErrNotSupported) {
		l.failed.Store(true)
	}
	return fmt.Errorf("%s: %w", what, err)
}
