package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// gpuCells are the GPU columns of a row as the source has them.
type gpuCells struct{ count, memMiB, name string }

var memorySuffix = regexp.MustCompile(`(-nvl)?-[0-9]+gb$`)

// model names a GPU as EC2 does: in lower case, without its memory.
func model(name string) string {
	if name == "rtx-pro-6000" {
		return "rtx-pro-server-6000"
	}
	return memorySuffix.ReplaceAllString(name, "")
}

// cells returns maker, name, count, memory and fraction. Without a count there
// is no GPU and all are empty.
func (g gpuCells) cells(maker, fraction string) ([]string, error) {
	if g.count == "" || g.count == "0" {
		return make([]string, 5), nil
	}
	f := 1.0
	if fraction != "" {
		var err error
		if f, err = strconv.ParseFloat(fraction, 64); err != nil {
			return nil, fmt.Errorf("gpuFraction %q is not a number", fraction)
		}
	}
	return []string{maker, model(g.name), g.count, g.memMiB, share(f)}, nil
}

// zonesOf makes the regions of a file with a zones column: the letters that a
// region's rows name, or a, b, c. Rows that name none are taken to be sold in
// the first three.
func (b *cloudBook) zonesOf(path, dash string, known map[string]string) error {
	seen, unknown, cpu := map[string]string{}, map[string]bool{}, map[string]bool{}
	err := rows(path, func(row map[string]string) error {
		in := row["region"]
		seen[in] += row["zones"]
		unknown[in] = unknown[in] || row["zones"] == ""
		cpu[in] = cpu[in] || row["gpuCount"] == "" || row["gpuCount"] == "0"
		return nil
	})
	for name, zones := range seen {
		zones = letters(zones)
		if known[name] != "" {
			zones = known[name]
		}
		if zones == "" {
			zones = "abc"
		}
		zones = first3(zones)
		r := &region{zonePrefix: name + dash, zones: zones, rows: map[string]price{}}
		if unknown[name] {
			r.notes = append(r.notes, "for some types it is not known which zones sell them: zones "+strings.Join(strings.Split(zones, ""), ", ")+" are assumed")
		}
		if !cpu[name] {
			r.notes = append(r.notes, onlyGPU)
		}
		b.regions[name] = r
	}
	return err
}

const onlyGPU = "only types with a GPU have prices in this region"
