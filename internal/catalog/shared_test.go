package catalog

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

// source opens a file of the data that the books are made of. Without it the
// test is skipped: the books are in the program.
func source(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the source data is not here (%s); nothing to compare with", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Capacity, pod limits and allocatable that the package computes are those that
// Karpenter's documentation lists, for every AWS type.
func TestAWSTypesAgreeWithTheirSource(t *testing.T) {
	var table struct {
		Cols []string
		Rows [][]any
	}
	if err := json.Unmarshal(source(t, "aws_instance_types.json"), &table); err != nil {
		t.Fatal(err)
	}
	b := load(t, "us-east-1")
	for _, row := range table.Rows {
		number := func(col string) int64 {
			v, _ := row[slices.Index(table.Cols, col)].(float64)
			return int64(v)
		}
		it := typeOf(t, b, row[slices.Index(table.Cols, "name")].(string))
		for _, x := range []struct {
			what      string
			got, want int64
		}{
			{"cpu", it.Capacity[model.CPU], number("vcpu") * 1000},
			{"allocatable cpu", it.Allocatable[model.CPU], number("allocCpuMilli")},
			{"allocatable memory", it.Allocatable[model.Memory], number("allocMemMiB") * mi},
			{"pods", it.Allocatable[model.Pods], number("maxPods")},
			{"efa", it.Allocatable["vpc.amazonaws.com/efa"], number("efa")},
		} {
			if x.got != x.want {
				t.Errorf("%s: %s is %d, want %d", it.Name, x.what, x.got, x.want)
			}
		}
	}
}

func TestAWSPricesAgreeWithTheirSource(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(string(source(t, "aws_prices.csv")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	books := map[string]Book{}
	for _, row := range rows[1:] {
		region, name := row[0], row[1]
		if books[region].Region == "" {
			books[region] = load(t, region)
		}
		it := typeOf(t, books[region], name)
		onDemand, estimated := priceOf(it, model.OnDemand)
		spot, _ := priceOf(it, model.Spot)
		wantOnDemand, wantSpot := strings.TrimSuffix(row[2], ".0"), row[5]
		if row[4] == "unlisted" {
			wantOnDemand, wantSpot = "", ""
		}
		if strings.HasPrefix(name, "a1.") {
			wantSpot = ""
		}
		if onDemand != wantOnDemand || spot != wantSpot || (onDemand != "" && estimated != (row[3] != "exact")) {
			t.Errorf("%s %s: on demand %q (estimated %v), spot %q; want %q, %q", region, name, onDemand, estimated, spot, wantOnDemand, wantSpot)
		}
	}
}

// priceOf writes the price of a capacity type, "" when it is not offered.
func priceOf(it model.InstanceType, capacityType string) (string, bool) {
	for _, o := range it.Offerings {
		if o.CapacityType == capacityType {
			return strconv.FormatFloat(o.Price, 'f', -1, 64), o.Estimated
		}
	}
	return "", false
}
