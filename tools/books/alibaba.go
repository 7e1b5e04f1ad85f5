package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

const alibabaLabel = "karpenter.k8s.alibabacloud/instance-"

var ecsScheme = regexp.MustCompile(`^ecs\.([a-z]+)(?:-[0-9]+tb)?([0-9]+)`)

// ecsArm are the families with Arm processors; the source calls all amd64.
var ecsArm = regexp.MustCompile(`^ecs\.(ebm)?[cgr](6r|8y)\.`)

// ecsGPU names the GPUs of which the ECS API's own name is known.
var ecsGPU = map[string]string{
	"t4": "nvidia-t4", "v100-16gb": "nvidia-v100", "v100-32gb": "nvidia-v100",
	"p4": "nvidia-p4", "p100": "nvidia-p100", "a10": "nvidia-a10",
}

func alibaba(dir string) (cloudBook, error) {
	b := cloudBook{
		name: "alibaba", date: "2024-12-31", currency: "CNY 7.3",
		columns: append(
			baseColumns(alibabaLabel+"cpu", alibabaLabel+"memory", alibabaLabel+"gpu-count"),
			alibabaLabel+"category", alibabaLabel+"generation", alibabaLabel+"family", alibabaLabel+"size",
			alibabaLabel+"gpu-manufacturer", alibabaLabel+"gpu-name",
		),
		typesFrom: []string{
			"cloudpilot-ai/priceserver @de6fe92 (2024-10-16), Apache-2.0: CPU, memory and GPU count",
			"GPU model and memory follow from the family's name; vgn and sgn types are slices of unknown size and are left out",
		},
		priceFrom: []string{
			"cloudpilot-ai/karpenter-provider-alibabacloud @cb536af (2025-09-25), Apache-2.0: on demand, of 2024-12-31, CNY by their magnitude; no spot",
			"cloudpilot-ai/priceserver @de6fe92 (2024-10-16), Apache-2.0: zones",
		},
		types: map[string][]string{}, regions: map[string]*region{},
	}
	path := filepath.Join(dir, "alibaba_instance_types.csv")
	if err := b.zonesOf(path, "", nil); err != nil {
		return b, err
	}
	for name, r := range b.regions {
		r.basis = "on demand list prices of 2024-12, 7.3 CNY to the dollar, spot not known"
		if last := name[len(name)-1]; last < '0' || last > '9' {
			r.zonePrefix += "-" // cn-beijing-a, but us-east-1a
		}
	}
	return b, rows(path, func(row map[string]string) error {
		name := row["type"]
		if strings.HasPrefix(name, "ecs.vgn") || strings.HasPrefix(name, "ecs.sgn") {
			return nil
		}
		cells, err := alibabaRow(row)
		if err != nil {
			return err
		}
		if err := b.addType(cells); err != nil {
			return err
		}
		onDemand, err := amount(row["odCNYh"])
		if err != nil || onDemand == "" {
			return err
		}
		return b.addPrice(row["region"], name, price{onDemand: "~" + onDemand, zones: letters(row["zones"])})
	})
}

func alibabaRow(row map[string]string) ([]string, error) {
	name := row["type"]
	p := ecsScheme.FindStringSubmatch(name)
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("type name %q does not follow ecs.family.size", name)
	}
	category, generation := "", ""
	if p != nil {
		category, generation = p[1], p[2]
	}
	arch := row["arch"]
	if ecsArm.MatchString(name) {
		arch = "arm64"
	}
	g, maker := gpuCells{}, ""
	if row["gpuName"] != "" {
		g, maker = gpuCells{row["gpuCount"], row["gpuMemMiB"], row["gpuName"]}, "NVIDIA"
	}
	cells, err := g.cells("nvidia", "")
	if err != nil {
		return nil, err
	}
	out := append([]string{name, arch, row["vcpu"], row["memMiB"], ""}, cells...)
	return append(out, category, generation, "ecs."+parts[1], parts[2], maker, ecsGPU[row["gpuName"]]), nil
}
