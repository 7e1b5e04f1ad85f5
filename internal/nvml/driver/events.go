//go:build cgo

package driver

import (
	"context"
	"fmt"
	"sync"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kerfdev/kerf/internal/nvml"
)

const (
	// watched are the events that NVIDIA's plugin registers for. Only Xids are
	// delivered: the driver sends those of memory errors that matter as Xids too.
	watched = nv.EventTypeXidCriticalError | nv.EventTypeDoubleBitEccError | nv.EventTypeSingleBitEccError
	// waitMS is how long one wait may block, which is also how late an end of
	// the context is seen. NVIDIA's plugin waits 5 s.
	waitMS = 1000
)

// events is one event set.
type events struct {
	mu        sync.Mutex // held while waiting: NVML must not free a set in use
	library   *library
	set       nv.EventSet
	round     int
	unwatched map[string]error
	closed    bool
}

// Watch registers every GPU that answers for its events.
func (l *library) Watch(ctx context.Context) (nvml.Events, error) {
	if err := l.again(); err != nil {
		return nil, err
	}
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	n, ret := l.nv.DeviceGetCount()
	if ret != nv.SUCCESS {
		return nil, l.broken("count the GPUs", ret)
	}
	set, ret := l.nv.EventSetCreate()
	if ret != nv.SUCCESS {
		return nil, l.broken("create an event set", ret)
	}
	e := &events{library: l, set: set, round: l.round, unwatched: map[string]error{}}
	for i := range n {
		handle, ret := l.nv.DeviceGetHandleByIndex(i)
		if ret != nv.SUCCESS {
			continue // Inventory names it
		}
		uuid, ret := handle.GetUUID()
		if ret != nv.SUCCESS {
			continue
		}
		if err := register(handle, set); err != nil {
			e.unwatched[uuid] = err
		}
	}
	return e, nil
}

func register(d nv.Device, set nv.EventSet) error {
	supported, ret := d.GetSupportedEventTypes()
	if ret != nv.SUCCESS {
		return fmt.Errorf("ask for its events: %w", asError(ret))
	}
	if supported&watched == 0 {
		return nvml.ErrNotSupported
	}
	if ret := d.RegisterEvents(supported&watched, set); ret != nv.SUCCESS {
		return fmt.Errorf("register for its events: %w", asError(ret))
	}
	return nil
}

func (e *events) Unwatched() map[string]error { return e.unwatched }

// Next waits until the driver reports an Xid.
func (e *events) Next(ctx context.Context) (nvml.Event, error) {
	for {
		data, ret, err := e.wait(ctx)
		switch {
		case err != nil:
			return nvml.Event{}, err
		case ret == nv.ERROR_TIMEOUT, ret == nv.SUCCESS && data.EventType != nv.EventTypeXidCriticalError:
			continue
		case ret != nv.SUCCESS:
			return nvml.Event{}, e.library.broken("wait for events", ret)
		}
		out := nvml.Event{Xid: data.EventData, GI: data.GpuInstanceId, CI: data.ComputeInstanceId}
		if data.Device != nil {
			out.UUID, _ = data.Device.GetUUID() // "" says that it is not known
		}
		return out, nil
	}
}

// wait blocks for waitMS at most.
func (e *events) wait(ctx context.Context) (nv.EventData, nv.Return, error) {
	if err := e.library.enter(ctx); err != nil {
		return nv.EventData{}, 0, err
	}
	defer e.library.mu.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.round != e.library.round {
		return nv.EventData{}, 0, nvml.ErrClosed
	}
	data, ret := e.set.Wait(waitMS)
	return data, ret, nil
}

// Close frees the event set, unless the library that it belonged to has gone.
func (e *events) Close() error {
	e.library.mu.RLock()
	defer e.library.mu.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	stale := e.closed || e.round != e.library.round
	e.closed = true
	if stale {
		return nil
	}
	if ret := e.set.Free(); ret != nv.SUCCESS {
		return fmt.Errorf("free the event set: %w", asError(ret))
	}
	return nil
}
