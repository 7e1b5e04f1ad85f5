// Package discovery tells a cluster what a node's GPUs are: labels, a condition
// and events on the Node object. It takes the place of NVIDIA's
// gpu-feature-discovery v0.20.0 and of the node feature discovery behind it.
//
// The labels are those of gpu.NodeLabels, from which the planner predicts them
// too; here come those that need a clock, or say only that GPUs are there. They
// are kept on the Node by server-side apply under a field manager of their own,
// so that a label that does not hold any more goes, and everybody else's labels
// are left alone. An agent that ends leaves them; Remove is for an uninstall.
//
// Only the REST calls that are needed are made, without client-go's typed
// clients and caches, which would be most of the agent's memory.
package discovery

import (
	"strconv"
	"time"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/nvml"
)

const (
	// LabelPresent says that a node has NVIDIA GPUs; the device plugin's chart
	// selects nodes by it.
	LabelPresent = "nvidia.com/gpu.present"
	// LabelTimestamp says since when the labels are kept, in Unix seconds.
	LabelTimestamp = "nvidia.com/gfd.timestamp"
)

// Labels returns all labels of a node, and what about them is ambiguous. since
// is when the agent started; the zero time leaves the timestamp out (flag
// gfd.noTimestamp). A machine without GPUs has no labels.
func Labels(inv nvml.Inventory, cfg deviceconfig.Config, since time.Time) (labels map[string]string, warnings []string) {
	if len(inv.GPUs)+len(inv.Unreadable) == 0 {
		return nil, nil
	}
	labels, warnings = gpu.NodeLabels(inv.Node(), cfg)
	if labels == nil {
		labels = map[string]string{} // there are GPUs, and none of them answers
	}
	labels[LabelPresent] = "true"
	if !since.IsZero() {
		labels[LabelTimestamp] = strconv.FormatInt(since.Unix(), 10)
	}
	return labels, warnings
}
