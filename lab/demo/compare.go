package demo

import (
	"fmt"

	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/rival"
	"github.com/kerfdev/kerf/internal/source"
)

// A comparison is what Karpenter's own scheduler buys for the same manifests.
type comparison struct {
	nodes, unplaced int
	price           float64 // $/h
}

// compare asks it. Karpenter counts the GPUs of a type, whatever the device
// plugin makes of them.
func compare() (comparison, error) {
	loaded, err := intake.Load([]source.File{
		{Name: "cluster.yaml", Data: clusterManifests}, {Name: "workloads.yaml", Data: workloadManifests},
	}, intake.Options{Region: "us-east-1"})
	if err != nil {
		return comparison{}, fmt.Errorf("read the demo's manifests: %w", err)
	}
	r, err := rival.Run(loaded.Snapshot, rival.Options{})
	if err != nil {
		return comparison{}, fmt.Errorf("ask karpenter's scheduler: %w", err)
	}
	return comparison{nodes: len(r.Nodes), unplaced: len(r.Unplaced), price: r.Cost}, nil
}
