//go:build cgo

package driver

import (
	"context"
	"strings"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kerfdev/kerf/internal/nvml"
)

// paths are NVML's common ancestors of two GPUs.
var paths = map[nv.GpuTopologyLevel]nvml.Path{
	nv.TOPOLOGY_INTERNAL:   nvml.SameBoard,
	nv.TOPOLOGY_SINGLE:     nvml.SingleSwitch,
	nv.TOPOLOGY_MULTIPLE:   nvml.MultiSwitch,
	nv.TOPOLOGY_HOSTBRIDGE: nvml.HostBridge,
	nv.TOPOLOGY_NODE:       nvml.SameCPU,
	nv.TOPOLOGY_SYSTEM:     nvml.CrossCPU,
}

// An end is one GPU that answered, with what its NVLinks lead to.
type end struct {
	index  int
	handle nv.Device
	bus    string
	remote map[string]int // NVLinks by the bus id of what is at their other end
}

// Links reads the NVLinks of each GPU once and the path of each pair. A GPU or
// a pair that does not answer is left out.
func (l *library) Links(ctx context.Context) ([]nvml.Link, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	n, ret := l.nv.DeviceGetCount()
	if ret != nv.SUCCESS {
		return nil, l.broken("count the GPUs", ret)
	}
	var ends []end
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if e, ok := l.end(i); ok {
			ends = append(ends, e)
		}
	}
	var out []nvml.Link
	for i, a := range ends {
		for _, b := range ends[i+1:] {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			link := nvml.Link{A: a.index, B: b.index, NVLinks: a.remote[b.bus]}
			if level, ret := a.handle.GetTopologyCommonAncestor(b.handle); ret == nv.SUCCESS {
				link.Path = paths[level]
			}
			if link.Score() > 0 {
				out = append(out, link)
			}
		}
	}
	return out, nil
}

func (l *library) end(index int) (end, bool) {
	handle, ret := l.nv.DeviceGetHandleByIndex(index)
	if ret != nv.SUCCESS {
		return end{}, false
	}
	pci, ret := handle.GetPciInfo()
	if ret != nv.SUCCESS {
		return end{}, false
	}
	e := end{index: index, handle: handle, bus: busOf(pci), remote: map[string]int{}}
	for link := range nv.NVLINK_MAX_LINKS {
		state, ret := handle.GetNvLinkState(link)
		if ret != nv.SUCCESS || state != nv.FEATURE_ENABLED {
			continue
		}
		if remote, ret := handle.GetNvLinkRemotePciInfo(link); ret == nv.SUCCESS {
			e.remote[busOf(remote)]++
		}
	}
	return e, true
}

// busOf is a bus id as NVML writes it, to compare two of them.
func busOf(pci nv.PciInfo) string {
	var b strings.Builder
	for _, c := range pci.BusId {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return strings.ToLower(b.String())
}
