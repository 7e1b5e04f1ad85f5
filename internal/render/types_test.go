package render

import (
	"bytes"
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

func TestTypes(t *testing.T) {
	l := Listing{Region: "us-east-1", Basis: "of 2026-07-20", Types: []model.InstanceType{
		{
			Name: "c6i.large", Capacity: model.Resources{model.CPU: 2000, model.Memory: 4*gi - gi/8},
			Offerings: []model.Offering{{CapacityType: model.OnDemand, Price: 0.085}},
		},
		{
			Name: "g5.12xlarge", Capacity: model.Resources{model.CPU: 48000, model.Memory: 178 * gi},
			GPUs:      []model.GPU{{Model: "a10g", Count: 4, MemoryMiB: 24576, Fraction: 1}},
			Offerings: []model.Offering{{CapacityType: model.OnDemand, Price: 5.672}, {CapacityType: model.Spot, Price: 2.8, Estimated: true}},
		},
		{
			Name: "g6f.large", Capacity: model.Resources{model.CPU: 2000, model.Memory: 7*gi + gi/2},
			GPUs:      []model.GPU{{Model: "l4", Count: 1, MemoryMiB: 2861, Fraction: 0.125}},
			Offerings: []model.Offering{{CapacityType: model.OnDemand, Price: 0.2024}},
		},
		{Name: "p9.unsold", Capacity: model.Resources{model.CPU: 4000, model.Memory: 16 * gi}, GPUs: []model.GPU{{Model: "t4", Count: 1, MemoryMiB: 16384, Fraction: 1}}},
	}}
	for name, o := range map[string]Options{"types-100.txt": {Unicode: true}, "types-64.txt": {Width: 64}} {
		var out bytes.Buffer
		if err := Types(&out, l, o); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.Bytes())
	}
}
