package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

const gcpLabel = "karpenter.k8s.gcp/instance-"

// baseColumns are those that every cloud but AWS has; pods are the cloud's default.
func baseColumns(cpuLabels, memLabels, countLabels string) []string {
	return []string{
		"name", "arch", "vcpu " + cpuLabels, "memMiB " + memLabels, "pods",
		"gpuMaker", "gpuName", strings.TrimSpace("gpuCount " + countLabels), "gpuMemMiB", "gpuFraction",
	}
}

// gcpArm are the families with Arm processors.
var gcpArm = map[string]bool{"t2a": true, "c4a": true, "n4a": true, "a4x": true}

// gcpGPU names a GPU as the accelerator API does.
var gcpGPU = map[string]string{
	"l4": "nvidia-l4", "a100-40gb": "nvidia-tesla-a100", "a100-80gb": "nvidia-a100-80gb",
	"h100-80gb": "nvidia-h100-80gb", "rtx-pro-6000": "nvidia-rtx-pro-6000",
}

// gcpZones are the zones of regions whose letters do not begin at a.
var gcpZones = map[string]string{"europe-west1": "bcd", "us-east1": "bcd"}

func gcp(dir string) (cloudBook, error) {
	b := cloudBook{
		name: "gcp", date: "2026-08-06", currency: "USD",
		columns: append(
			baseColumns(gcpLabel+"cpu", gcpLabel+"memory", gcpLabel+"gpu-count"),
			gcpLabel+"family", gcpLabel+"shape", gcpLabel+"generation", gcpLabel+"size",
			gcpLabel+"gpu-name cloud.google.com/gke-accelerator",
		),
		typesFrom: []string{
			"Cyclenerd/google-cloud-pricing-cost-calculator @dac3128 (2026-08-20), Apache-2.0: CPU, memory and GPU count",
			"GPU memory and fractions follow from the type's name",
		},
		priceFrom: []string{
			"cloudpilot-ai/karpenter-provider-gcp @417f047 (2026-08-06), Apache-2.0: on demand and spot",
			"Cyclenerd/google-cloud-pricing-cost-calculator @dac3128 (2026-08-20), Apache-2.0: zones, of older types only",
		},
		types: map[string][]string{}, regions: map[string]*region{},
	}
	path := filepath.Join(dir, "gcp_instance_types.csv")
	if err := b.zonesOf(path, "-", gcpZones); err != nil {
		return b, err
	}
	err := rows(path, func(row map[string]string) error {
		cells, err := gcpRow(row)
		if err != nil {
			return err
		}
		if err := b.addType(cells); err != nil {
			return err
		}
		onDemand, err := amount(row["odUSDh"])
		if err != nil {
			return err
		}
		spot, err := amount(row["spotUSDh"])
		if err != nil {
			return err
		}
		return b.addPrice(row["region"], row["type"], price{onDemand, spot, gcpZonesOf(row)})
	})
	for _, r := range b.regions {
		r.basis = "on demand and spot list prices of 2026-08"
	}
	return b, err
}

// gcpZonesOf returns the zones of a row, without zones that do not exist.
func gcpZonesOf(row map[string]string) string {
	real := gcpZones[row["region"]]
	return strings.Map(func(r rune) rune {
		if real != "" && !strings.ContainsRune(real, r) {
			return -1
		}
		return r
	}, letters(row["zones"]))
}

// gcpRow splits c3-standard-8-lssd into family, shape and size as the Karpenter
// provider does: with four parts the size is the one before the last.
func gcpRow(row map[string]string) ([]string, error) {
	name := row["type"]
	parts := strings.Split(name, "-")
	family, shape, size, generation := parts[0], "", "", ""
	if len(parts) >= 2 {
		shape, size = parts[1], parts[len(parts)-1]
		generation = family[len(family)-1:]
	}
	if len(parts) > 3 {
		size = parts[len(parts)-2]
	}
	if len(family) == 3 {
		generation = family[1:2]
	}
	arch := "amd64"
	if gcpArm[family] {
		arch = "arm64"
	}
	g := gpuCells{count: row["gpuCount"], memMiB: row["gpuMemMiB"], name: row["gpuName"]}
	label := gcpGPU[row["gpuName"]]
	switch {
	case row["gpuName"] == "":
		g = gpuCells{}
	case label == "":
		return nil, fmt.Errorf("GPU %q: add it to gcpGPU", row["gpuName"])
	case family == "a3" && shape == "megagpu":
		label = "nvidia-h100-mega-80gb"
	}
	cells, err := g.cells("nvidia", row["gpuFraction"])
	if err != nil {
		return nil, err
	}
	out := append([]string{name, arch, row["vcpu"], row["memMiB"], ""}, cells...)
	return append(out, family, shape, generation, size, label), nil
}
