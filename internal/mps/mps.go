// Package mps runs NVIDIA's MPS control daemons, through which the processes of
// several pods share a GPU at the same time: one daemon for each resource that
// a device config shares by MPS.
//
// What a daemon is told follows NVIDIA's k8s-device-plugin v0.20.0: the GPUs go
// into EXCLUSIVE_PROCESS mode, so that only the daemon's server talks to them;
// each client gets its part of the memory and of the threads. The limits are
// those of a client process, not of a container: a container with two processes
// gets twice as much.
//
// Upstream divides the threads by the average number of replicas; here the GPU
// with the fewest replicas decides, so that no client gets less than its part.
package mps

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// A Plan is what one daemon is for.
type Plan struct {
	Resource string // under which the replicas are advertised, "nvidia.com/gpu"
	GPUs     []GPU  // in index order
}

// A GPU is one that a daemon shares.
type GPU struct {
	Index     int // the driver's
	UUID      string
	MemoryMiB int64 // 0 = not known
	Replicas  int64
}

// Plans lists the daemons that a node needs for what it serves, by resource;
// none when nothing is shared by MPS.
func Plans(n gpu.Node, s gpu.Served) []Plan {
	if s.Kind != model.MPS {
		return nil
	}
	by := map[string]*Plan{}
	for _, u := range s.Units {
		if !u.Shared {
			continue
		}
		h := n.GPUs[u.GPU]
		for name, replicas := range u.Resources {
			if by[name] == nil {
				by[name] = &Plan{Resource: name}
			}
			by[name].GPUs = append(by[name].GPUs, GPU{Index: h.Index, UUID: h.UUID, MemoryMiB: h.MemoryMiB, Replicas: replicas})
		}
	}
	var out []Plan
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out
}

// Limits are the commands that a daemon is given. A GPU whose memory is not
// known gets no limit of it, which the warnings say.
func (p Plan) Limits() (commands, warnings []string) {
	fewest := p.GPUs[0].Replicas
	for _, g := range p.GPUs {
		fewest = min(fewest, g.Replicas)
		if g.MemoryMiB == 0 {
			warnings = append(warnings, fmt.Sprintf("GPU %d: its memory is not known, so clients of %s have no limit of it", g.Index, p.Resource))
			continue
		}
		commands = append(commands, fmt.Sprintf("set_default_device_pinned_mem_limit %d %dM", g.Index, g.MemoryMiB/g.Replicas))
	}
	return append(commands, fmt.Sprintf("set_default_active_thread_percentage %d", 100/fewest)), warnings
}
