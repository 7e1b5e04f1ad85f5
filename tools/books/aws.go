package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed aws_labels.csv
var awsLabels string

const awsLabel = "karpenter.k8s.aws/instance-"

// awsColumns is the header of the AWS types. A cell may name labels after the
// column's own name; a cell with + is an extended resource.
var awsColumns = []string{
	"name", "arch", "vcpu " + awsLabel + "cpu", "memMiB " + awsLabel + "memory", "pods",
	"gpuMaker " + awsLabel + "gpu-manufacturer", "gpuName " + awsLabel + "gpu-name",
	"gpuCount " + awsLabel + "gpu-count", "gpuMemMiB " + awsLabel + "gpu-memory", "gpuFraction",
	awsLabel + "category", awsLabel + "family", awsLabel + "generation", awsLabel + "size", awsLabel + "capability-flex",
	awsLabel + "cpu-manufacturer", awsLabel + "cpu-sustained-clock-speed-mhz", awsLabel + "hypervisor",
	awsLabel + "encryption-in-transit-supported", awsLabel + "network-bandwidth", awsLabel + "ebs-bandwidth",
	awsLabel + "local-nvme", awsLabel + "accelerator-manufacturer", awsLabel + "accelerator-name", awsLabel + "accelerator-count",
	"+aws.amazon.com/neuron", "+aws.amazon.com/neuroncore", "+vpc.amazonaws.com/efa", "+vpc.amazonaws.com/pod-eni",
}

// familyScheme splits "g4dn.xlarge" into category and generation as Karpenter does.
var familyScheme = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+).*\.`)

// awsZones are the letters of the first three zones that a new account gets.
var awsZones = map[string]string{"us-east-1": "abc", "us-west-2": "abc", "eu-west-1": "abc", "ap-northeast-1": "acd"}

func aws(dir string) (cloudBook, error) {
	b := cloudBook{
		name: "aws", date: "2026-07-20", currency: "USD", columns: awsColumns,
		typesFrom: []string{
			"aws/karpenter-provider-aws @1d92708 (2026-08-21), Apache-2.0: labels, capacity and pod limits of every type",
			"the fraction of a GPU in g6f and gr6f follows from the GPU memory",
		},
		priceFrom: []string{
			"aws/karpenter-provider-aws @1d92708 (2026-08-21), Apache-2.0: on demand in us-east-1, of 2026-07-20",
			"hjacobs/kube-resource-report @2f50d84 (2020-10-02) and skypilot-org/skypilot-catalog @00148f2: the ratio of other regions to us-east-1 by family",
			"alexei-led/spotinfo @05e9331 (2025-07-28), Apache-2.0: the average saving of spot by region and type, and what is sold where",
		},
		types: map[string][]string{}, regions: map[string]*region{},
	}
	if err := b.awsTypes(filepath.Join(dir, "aws_instance_types.json")); err != nil {
		return b, err
	}
	return b, b.awsPrices(filepath.Join(dir, "aws_prices.csv"))
}

// awsTypes reads the table of types: cols names the cells of each of rows.
func (b *cloudBook) awsTypes(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var table struct {
		Cols []string
		Rows [][]any
	}
	if err := json.Unmarshal(data, &table); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	extra, err := awsExtra()
	if err != nil {
		return err
	}
	for _, cells := range table.Rows {
		cell := func(col string) any { return cells[slices.Index(table.Cols, col)] }
		row, err := awsRow(cell, extra)
		if err != nil {
			return err
		}
		if err := b.addType(row); err != nil {
			return err
		}
	}
	return nil
}

// awsExtra reads the facts that the data folder lacks, by type.
func awsExtra() (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	err := records(strings.NewReader(awsLabels), "aws_labels.csv", func(row map[string]string) error {
		out[row["type"]] = row
		return nil
	})
	return out, err
}

func awsRow(cell func(string) any, extra map[string]map[string]string) ([]string, error) {
	name := text(cell("name"))
	more, ok := extra[name]
	if !ok {
		return nil, fmt.Errorf("aws_labels.csv lacks type %s: add its clock, encryption and branch interfaces", name)
	}
	parts := familyScheme.FindStringSubmatch(name)
	family, size, _ := strings.Cut(name, ".")
	if parts == nil || size == "" {
		return nil, fmt.Errorf("type name %q does not follow family.size", name)
	}
	hypervisor := text(cell("hypervisor"))
	if hypervisor == "" {
		hypervisor = `""` // bare metal: the label is there, its value is empty
	}
	cores, err := extended(cell("extended"), "aws.amazon.com/neuroncore")
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", name, err)
	}
	neuron := ""
	if cores != "" {
		neuron = text(cell("accelCount"))
	}
	return []string{
		name, text(cell("arch")), text(cell("vcpu")), text(cell("memMiB")), text(cell("maxPods")),
		text(cell("gpuManufacturer")), text(cell("gpuName")), text(cell("gpuCount")), text(cell("gpuMemMiB")), text(cell("gpuFraction")),
		parts[1], family, parts[2], size, strconv.FormatBool(strings.Contains(family, "-flex")),
		text(cell("cpuManufacturer")), more["clockMHz"], hypervisor,
		more["encrypted"], text(cell("networkMbps")), text(cell("ebsMbps")),
		text(cell("localNVMeGB")), text(cell("accelManufacturer")), text(cell("accelName")), text(cell("accelCount")),
		neuron, cores, text(cell("efa")), more["podENI"],
	}, nil
}

// extended returns one count of the cell that maps resource names to counts.
func extended(cell any, name string) (string, error) {
	if cell == nil {
		return "", nil
	}
	m, ok := cell.(map[string]any)
	if !ok {
		return "", fmt.Errorf("extended is %T, not an object", cell)
	}
	return text(m[name]), nil
}

// text writes a JSON cell: "" for null.
func text(cell any) string {
	switch v := cell.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func (b *cloudBook) awsPrices(path string) error {
	for name, zones := range awsZones {
		basis := "on demand list of 2026-07-20, spot estimated 2025-07"
		if name != "us-east-1" {
			basis = "on demand estimated from us-east-1 of 2026-07-20, spot estimated 2025-07"
		}
		b.regions[name] = &region{
			zonePrefix: name, zones: zones, basis: basis, rows: map[string]price{},
			notes: []string{"which zones sell a type is not known: zones " + strings.Join(strings.Split(zones, ""), ", ") + " are assumed for all"},
		}
	}
	return rows(path, func(row map[string]string) error {
		if b.regions[row["region"]] == nil {
			return fmt.Errorf("region %q: its zones are not known; add them to awsZones", row["region"])
		}
		if row["regionListing"] == "unlisted" {
			return nil // the Spot Advisor does not list it there: not sold
		}
		p, err := awsPrice(row)
		if err != nil {
			return err
		}
		return b.addPrice(row["region"], row["type"], p)
	})
}

// awsPrice marks what is not a quoted price. A saving of 0 % is the advisor's
// way to say that it knows nothing: no spot price then.
func awsPrice(row map[string]string) (price, error) {
	onDemand, err := amount(row["odUSDh"])
	if err != nil {
		return price{}, err
	}
	if row["odBasis"] != "exact" {
		onDemand = "~" + onDemand
	}
	if row["spotUSDh_est"] == "" || row["spotSavingsPct"] == "0" {
		return price{onDemand: onDemand}, nil
	}
	spot, err := amount(row["spotUSDh_est"])
	return price{onDemand: onDemand, spot: "~" + spot}, err
}
