package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const azureLabel = "karpenter.azure.com/sku-"

// skuScheme splits Standard_NC24ads_A100_v4: family, subfamily, vCPUs,
// constrained vCPUs, features, accelerator, version.
var skuScheme = regexp.MustCompile(`^Standard_([A-Z])([A-Z]*)([0-9]+)(?:-([0-9]+))?([a-z]*)(?:_cc)?(?:_([A-Z]+[0-9]+[A-Z]*))?(?:_[0-9]+)?(?:_v([0-9]))?$`)

// azureGPU gives model and MiB of SKUs whose source rows name none: the first
// carry the model in their name, NV v2 is the M60 generation.
var azureGPU = map[string]gpuCells{
	"Standard_NC8ads_A10_v4":  {"1", "24576", "a10"},
	"Standard_NC16ads_A10_v4": {"1", "24576", "a10"},
	"Standard_NC32ads_A10_v4": {"2", "24576", "a10"},
	"Standard_NV6s_v2":        {"1", "8192", "m60"},
	"Standard_NV12s_v2":       {"2", "8192", "m60"},
	"Standard_NV24s_v2":       {"4", "8192", "m60"},
}

// azureZoneless are the regions without availability zones. Their nodes carry
// zone "0".
var azureZoneless = map[string]bool{
	"australiacentral": true, "australiacentral2": true, "australiasoutheast": true, "canadaeast": true,
	"germanynorth": true, "jioindiacentral": true, "jioindiawest": true, "koreasouth": true, "northcentralus": true,
	"norwaywest": true, "southafricawest": true, "southindia": true, "switzerlandwest": true, "uaecentral": true,
	"ukwest": true, "westcentralus": true, "westus": true,
}

func azure(dir string) (cloudBook, error) {
	b := cloudBook{
		name: "azure", date: "2026-06-18", currency: "USD",
		columns: append(
			baseColumns(azureLabel+"cpu kubernetes.azure.com/sku-cpu", azureLabel+"memory kubernetes.azure.com/sku-memory", ""),
			azureLabel+"name", azureLabel+"family", azureLabel+"series", azureLabel+"version",
			azureLabel+"gpu-count", azureLabel+"gpu-manufacturer", azureLabel+"gpu-name",
		),
		typesFrom: []string{
			"kubernetes/autoscaler @55c37cd (2026-08-22), Apache-2.0: CPU, memory and GPU count",
			"GPU model, memory and fraction follow from the SKU's name; NP SKUs are FPGA machines and count no GPU; NV*_V710_v5 are left out, as their fraction is not known",
		},
		priceFrom: []string{"Azure/karpenter-provider-azure @352646f (2026-08-21), Apache-2.0: on demand, of 2026-06-18; no spot"},
		types:     map[string][]string{}, regions: map[string]*region{},
	}
	err := rows(filepath.Join(dir, "azure_instance_types.csv"), func(row map[string]string) error {
		if strings.Contains(row["type"], "_V710_") || row["memMiB"] == "0" {
			return nil // B1ls: half a GiB, which the source rounds to none
		}
		cells, err := azureRow(row)
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
		if b.regions[row["region"]] == nil {
			b.regions[row["region"]] = azureRegion(row["region"])
		}
		return b.addPrice(row["region"], row["type"], price{onDemand: onDemand})
	})
	b.azureNotes()
	return b, err
}

func azureRegion(name string) *region {
	r := &region{zonePrefix: name + "-", zones: "123", basis: "on demand list prices of 2026-06, spot not known", rows: map[string]price{}}
	if azureZoneless[name] {
		r.zonePrefix, r.zones = "", "0"
		return r
	}
	r.notes = append(r.notes, "which zones sell a type is not known: zones 1, 2, 3 are assumed for all")
	return r
}

// azureNotes says of which regions the source has GPU SKUs only.
func (b *cloudBook) azureNotes() {
	for _, r := range b.regions {
		cpu := false
		for name := range r.rows {
			cpu = cpu || !strings.HasPrefix(name, "Standard_N")
		}
		if !cpu {
			r.notes = append(r.notes, onlyGPU)
		}
	}
}

// azureRow makes a type's row. The memory label counts whole GiB, in MiB.
func azureRow(row map[string]string) ([]string, error) {
	name := row["type"]
	p := skuScheme.FindStringSubmatch(name)
	if p == nil {
		return nil, fmt.Errorf("SKU %q does not follow the naming scheme", name)
	}
	g, err := azureGPUOf(row)
	if err != nil {
		return nil, fmt.Errorf("SKU %s: %w", name, err)
	}
	maker, label := "", ""
	if g.name != "" {
		maker, label = "nvidia", cmp.Or(p[6], strings.ToUpper(model(g.name)))
	}
	if strings.HasPrefix(g.name, "mi") {
		maker = "amd"
	}
	cells, err := g.cells(maker, row["gpuFraction"])
	if err != nil {
		return nil, err
	}
	version := cmp.Or(p[7], "1")
	series := p[1] + p[2] + p[5]
	if p[7] != "" {
		series += "_v" + p[7]
	}
	out := append([]string{name, row["arch"], row["vcpu"], row["memMiB"], ""}, cells...)
	return append(out, name, p[1], series, version, cmp.Or(g.count, "0"), maker, label), nil
}

// azureGPUOf returns the GPUs of a SKU, the memory of a fractional one being
// that of its slice.
func azureGPUOf(row map[string]string) (gpuCells, error) {
	if g, ok := azureGPU[row["type"]]; ok {
		return g, nil
	}
	if row["gpuName"] == "" {
		return gpuCells{}, nil // no GPU, or an FPGA
	}
	g := gpuCells{count: row["gpuCount"], memMiB: row["gpuMemMiB"], name: row["gpuName"]}
	if strings.HasPrefix(row["type"], "Standard_NC") && g.name == "a100-80gb" {
		g.name = "a100-pcie" // the NC series has cards, ND has modules
	}
	if row["gpuFraction"] == "" {
		return g, nil
	}
	f, err1 := strconv.ParseFloat(row["gpuFraction"], 64)
	mem, err2 := strconv.Atoi(g.memMiB)
	if err := cmp.Or(err1, err2); err != nil {
		return gpuCells{}, err
	}
	g.memMiB = strconv.Itoa(int(float64(mem)*f + 0.5))
	return g, nil
}
