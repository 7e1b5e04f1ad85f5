package catalog

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func TestParsePrices(t *testing.T) {
	tests := map[string]struct {
		text string
		want []Price
	}{
		"CSV with a header, comments and empty cells": {
			"# ours\nregion,type,capacityType,zone,price\n\nus-east-1,g4dn.xlarge,spot,us-east-1a,0.171\n,g5.xlarge,,,0.85\n,p3.2xlarge,on-demand,,-\n,p3.8xlarge,,,\n",
			[]Price{
				{Region: "us-east-1", Type: "g4dn.xlarge", CapacityType: "spot", Zone: "us-east-1a", Price: .171, Line: 4},
				{Type: "g5.xlarge", CapacityType: "on-demand", Price: .85, Line: 5},
				{Type: "p3.2xlarge", CapacityType: "on-demand", NotSold: true, Line: 6},
				{Type: "p3.8xlarge", NotSold: true, Line: 7},
			},
		},
		"CSV of a spreadsheet": {
			"\ufeffRegion, Type, CapacityType, Zone, Price\r\n\"us-east-1\",\"g5.xlarge\",\"reserved\",\"\",\"$0.5\"\r\n",
			[]Price{{Region: "us-east-1", Type: "g5.xlarge", CapacityType: "reserved", Price: .5, Line: 2}},
		},
		"JSON from type to price": {
			"{\"g5.xlarge\": 0.85,\n\"p3.2xlarge\": null}",
			[]Price{
				{Type: "g5.xlarge", CapacityType: "on-demand", Price: .85, Line: 1},
				{Type: "p3.2xlarge", NotSold: true, Line: 2},
			},
		},
		"JSON with regions, capacity types and zones": {
			"{\"us-east-1\": {\n\"g4dn.xlarge\": {\n\"on-demand\": 0.5,\n\"spot\": {\"us-east-1a\": 0.171, \"us-east-1b\": null}}}}",
			[]Price{
				{Region: "us-east-1", Type: "g4dn.xlarge", CapacityType: "on-demand", Price: .5, Line: 3},
				{Region: "us-east-1", Type: "g4dn.xlarge", CapacityType: "spot", Zone: "us-east-1a", Price: .171, Line: 4},
				{Region: "us-east-1", Type: "g4dn.xlarge", CapacityType: "spot", Zone: "us-east-1b", NotSold: true, Line: 4},
			},
		},
		"a spot price history: the newest of each zone, Linux only": {
			`{"SpotPriceHistory": [
			 {"AvailabilityZone": "us-east-1a", "InstanceType": "g5.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.41", "Timestamp": "2026-11-01T00:00:00+00:00"},
			 {"AvailabilityZone": "us-east-1a", "InstanceType": "g5.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.43", "Timestamp": "2026-11-02T00:00:00+00:00"},
			 {"AvailabilityZone": "us-east-1a", "InstanceType": "g5.xlarge", "ProductDescription": "Windows", "SpotPrice": "0.9", "Timestamp": "2026-11-03T00:00:00+00:00"},
			 {"AvailabilityZone": "us-east-1b", "InstanceType": "g5.xlarge", "SpotPrice": "0.39", "Timestamp": "2026-11-02T00:00:00+00:00"}]}`,
			[]Price{
				{Type: "g5.xlarge", CapacityType: "spot", Zone: "us-east-1a", Price: .43},
				{Type: "g5.xlarge", CapacityType: "spot", Zone: "us-east-1b", Price: .39},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePrices([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestPriceErrorsNameTheLine(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"nothing":                    {"", "no prices found; expected CSV with the columns region,type,capacityType,zone,price, or JSON"},
		"a header alone":             {csvHeader + "\n", "no prices found"},
		"too few columns":            {csvHeader + "\nus-east-1,g5.xlarge,1.0\n", `line 2: 3 columns in "us-east-1,g5.xlarge,1.0"; expected the five of region,type,capacityType,zone,price`},
		"no type":                    {",,spot,,1\n", "line 1: the instance type is empty"},
		"an unknown capacity type":   {"\n,g5.xlarge,ondemand,,1\n", `line 2: capacity type "ondemand" of g5.xlarge; expected on-demand, spot or reserved`},
		"a price that is no number":  {",g5.xlarge,spot,,cheap\n", `line 1: price "cheap" of g5.xlarge; expected dollars for an hour`},
		"a negative price":           {",g5.xlarge,spot,,-1\n", `line 1: price "-1" of g5.xlarge`},
		"infinity":                   {",g5.xlarge,spot,,Inf\n", `line 1: price "Inf" of g5.xlarge`},
		"JSON that is broken":        {"{\n\"g5.xlarge\": 1,,}", "line 2: not JSON"},
		"JSON that is cut off":       {"{\n\"g5.xlarge\": {", "line 2: "},
		"JSON with a list":           {"{\n\"g5.xlarge\": [1]}", `line 2: "[" under "g5.xlarge"; expected a price`},
		"JSON with a truth":          {"{\"g5.xlarge\": true}", `line 1: true under "g5.xlarge"; expected a price`},
		"JSON too deep":              {"{\"a\": {\"b\": {\n\"c\": 1}}}", `line 2: price 1 under "a > b > c"; expected a type, or a region and a type`},
		"JSON with a price in words": {"{\"g5.xlarge\": \"cheap\"}", `line 1: price "cheap" of g5.xlarge`},
		"more than one JSON value":   {"{\"g5.xlarge\": 1}\n{}", "line 2: text after the end of the JSON"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePrices([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, error %v; want %q", got, err, tt.want)
			}
		})
	}
}

func offering(zone, capacityType string, price float64, estimated bool) model.Offering {
	return model.Offering{Zone: zone, CapacityType: capacityType, Price: price, Estimated: estimated}
}

func TestWithPrices(t *testing.T) {
	book := load(t, "us-east-1")
	tests := map[string]struct {
		prices []Price
		want   []model.Offering // of g6f.large, in the book 0.202 on demand in three zones
		notes  []string
	}{
		"a price for every zone": {
			[]Price{{Type: "g6f.large", CapacityType: model.OnDemand, Price: .1}},
			[]model.Offering{offering("us-east-1a", model.OnDemand, .1, false), offering("us-east-1b", model.OnDemand, .1, false), offering("us-east-1c", model.OnDemand, .1, false)},
			nil,
		},
		"spot in one zone comes first": {
			[]Price{{Region: "us-east-1", Type: "g6f.large", CapacityType: model.Spot, Zone: "us-east-1b", Price: .05}},
			[]model.Offering{
				offering("us-east-1b", model.Spot, .05, false), offering("us-east-1a", model.OnDemand, .202, false),
				offering("us-east-1b", model.OnDemand, .202, false), offering("us-east-1c", model.OnDemand, .202, false),
			},
			nil,
		},
		"a zone that the book does not have": {
			[]Price{{Type: "g6f.large", CapacityType: model.OnDemand, NotSold: true}, {Type: "g6f.large", CapacityType: model.OnDemand, Zone: "us-east-1f", Price: .3}},
			[]model.Offering{offering("us-east-1f", model.OnDemand, .3, false)},
			nil,
		},
		"equal prices go by zone, then capacity type": {
			[]Price{{Type: "g6f.large", CapacityType: model.Spot, Zone: "us-east-1a", Price: .202}, {Type: "g6f.large", CapacityType: model.OnDemand, Zone: "us-east-1c", NotSold: true}},
			[]model.Offering{offering("us-east-1a", model.OnDemand, .202, false), offering("us-east-1a", model.Spot, .202, false), offering("us-east-1b", model.OnDemand, .202, false)},
			nil,
		},
		"not sold at all": {
			[]Price{{Type: "g6f.large", CapacityType: model.Spot, Price: .05}, {Type: "g6f.large", NotSold: true}},
			nil, nil,
		},
		"prices of other regions": {
			[]Price{{Region: "eu-west-1", Type: "g6f.large", CapacityType: model.Spot, Price: .05}, {Type: "g6f.large", CapacityType: model.Spot, Zone: "us-west-2a", Price: .05}},
			typeOf(t, book, "g6f.large").Offerings,
			[]string{"none of the given prices is for region us-east-1; they are for eu-west-1, us-west-2a"},
		},
		"a type that is not known": {
			[]Price{{Type: "g9.large", CapacityType: model.Spot, Price: .05, Line: 7}},
			typeOf(t, book, "g6f.large").Offerings,
			[]string{`price of "g9.large": no such instance type is known`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, notes := book.With(nil, tt.prices)
			if diff := cmp.Diff(tt.want, typeOf(t, got, "g6f.large").Offerings); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			var texts []string
			for _, n := range notes {
				texts = append(texts, n.Text)
			}
			if diff := cmp.Diff(tt.notes, texts); diff != "" {
				t.Errorf("notes: -want +got\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(load(t, "us-east-1"), book); diff != "" {
		t.Errorf("the book was written to: -before +after\n%s", diff)
	}
}

func TestWithANewType(t *testing.T) {
	types, err := ParseInstanceTypes([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	b, notes := load(t, "us-east-1").With(types, []Price{{Type: "x9.large", CapacityType: model.Spot, Zone: "us-east-1d", Price: .1}})
	it := typeOf(t, b, "x9.large")
	want := []model.Offering{offering("us-east-1d", model.Spot, .1, false)}
	if diff := cmp.Diff(want, it.Offerings); diff != "" || len(notes) != 0 {
		t.Errorf("notes %v, offerings -want +got\n%s", notes, diff)
	}
	if it.Labels[model.LabelRegion] != "us-east-1" || types[0].Labels[model.LabelRegion] != "" {
		t.Errorf("region %q, of the argument %q", it.Labels[model.LabelRegion], types[0].Labels[model.LabelRegion])
	}
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"}, b.Zones); diff != "" {
		t.Errorf("zones: -want +got\n%s", diff)
	}
	if want := "1 given prices, else on demand list of 2026-07-20, spot estimated 2025-07"; b.PriceBasis != want {
		t.Errorf("basis %q, want %q", b.PriceBasis, want)
	}
}

func TestWithTypesOfAnotherCloud(t *testing.T) {
	types, err := ParseInstanceTypes([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	b, notes := load(t, "us-central1").With(types, nil)
	if _, ok := b.Type("x9.large"); ok || len(notes) != 1 || notes[0].Code != "types-elsewhere" {
		t.Errorf("x9.large is there: %v; notes %v", ok, notes)
	}
}

// No input makes the reader panic, and every price that it accepts is usable.
func FuzzParsePrices(f *testing.F) {
	f.Add([]byte("region,type,capacityType,zone,price\nus-east-1,g5.xlarge,spot,us-east-1a,0.4\n"))
	f.Add([]byte(`{"us-east-1": {"g5.xlarge": {"on-demand": 1, "spot": {"us-east-1a": 0.4}}}, "p3.2xlarge": null}`))
	f.Add([]byte(`{"SpotPriceHistory": [{"AvailabilityZone": "us-east-1a", "InstanceType": "g5.xlarge", "SpotPrice": "0.41"}]}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		prices, err := ParsePrices(data)
		if err != nil {
			return
		}
		for _, p := range prices {
			if p.Type == "" || (!isCapacityType(p.CapacityType) && !p.NotSold) || !(p.Price >= 0) || math.IsInf(p.Price, 0) {
				t.Errorf("unusable price %+v", p)
			}
		}
	})
}
