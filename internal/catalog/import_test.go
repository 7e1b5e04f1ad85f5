package catalog

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

//go:embed testdata/describe-instance-types.json
var described []byte

// What EC2 says of a type, read by the importer, is the type as the book has it.
func TestImportedTypesEqualTheBooks(t *testing.T) {
	types, err := ParseInstanceTypes(described)
	if err != nil {
		t.Fatal(err)
	}
	book := load(t, "us-east-1")
	got, notes := book.With(types, nil)
	if len(types) != 4 || len(notes) != 0 {
		t.Errorf("%d types, notes %v", len(types), notes)
	}
	for _, it := range types {
		if diff := cmp.Diff(typeOf(t, book, it.Name), typeOf(t, got, it.Name)); diff != "" {
			t.Errorf("%s: -book +imported\n%s", it.Name, diff)
		}
	}
}

const small = `{"InstanceType": "x9.large", "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
 "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 4096}, "GpuInfo": {"Gpus": [
 {"Name": "L4", "Manufacturer": "NVIDIA", "Count": 0, "MemoryInfo": {"SizeInMiB": 5722}}]}}`

func TestImportForms(t *testing.T) {
	tests := map[string]string{
		"one page":                     `{"InstanceTypes": [` + small + `]}`,
		"a bare list":                  `[` + small + `]`,
		"pages one after the other":    `{"InstanceTypes": []} {"InstanceTypes": [` + small + `]}`,
		"a list of pages":              `[{"InstanceTypes": [` + small + `]}, {"InstanceTypes": []}]`,
		"the same type on two pages":   `{"InstanceTypes": [` + small + `]}{"InstanceTypes": [` + small + `]}`,
		"a single type":                small,
		"fields that are null":         `{"InstanceTypes": [` + strings.Replace(small, `"VCpuInfo"`, `"EbsInfo": null, "VCpuInfo"`, 1) + `], "NextToken": null}`,
		"fields that are not modelled": `{"InstanceTypes": [` + strings.Replace(small, `"VCpuInfo"`, `"MediaAcceleratorInfo": {"Accelerators": []}, "VCpuInfo"`, 1) + `]}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			types, err := ParseInstanceTypes([]byte(text))
			if err != nil || len(types) != 1 {
				t.Fatalf("%d types, %v", len(types), err)
			}
			it := types[0]
			want := []model.GPU{{Manufacturer: "nvidia", Model: "l4", Count: 1, MemoryMiB: 5722, Fraction: .25}}
			want[0].Product, want[0].Family, want[0].Compute = it.GPUs[0].Product, it.GPUs[0].Family, it.GPUs[0].Compute
			if diff := cmp.Diff(want, it.GPUs); diff != "" {
				t.Errorf("GPUs: -want +got\n%s", diff)
			}
			if it.Capacity[model.Pods] != 110 || it.Labels[awsLabel+"family"] != "x9" {
				t.Errorf("pods %d, labels %v", it.Capacity[model.Pods], it.Labels)
			}
		})
	}
}

func TestImportErrorsNameTheLine(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"nothing":             {"", "no instance types found; expected the JSON that aws ec2 describe-instance-types prints"},
		"no types":            {`{"InstanceTypes": []}`, "no instance types found"},
		"another command":     {"{\n\"Reservations\": []}", `line 1: expected an object with a list InstanceTypes`},
		"a number":            {"\n5", "line 2: expected an object with a list InstanceTypes"},
		"a type in a word":    {"{\"InstanceTypes\": [\n\"g5.xlarge\"]}", "line 2: expected an object that describes an instance type"},
		"cut off":             {"{\"InstanceTypes\": [\n{\"InstanceType\": \"g5.xl", "line 2: the JSON ends too early"},
		"not JSON":            {"{\n\"InstanceTypes\": [\n}", "line 3: not JSON"},
		"YAML":                {"InstanceTypes:\n", "line 1: not JSON"},
		"a word for a number": {"{\"InstanceTypes\": [\n\n{\"InstanceType\": \"g5.xlarge\",\n\"VCpuInfo\": {\"DefaultVCpus\": \"four\"}}]}", "line 4: VCpuInfo.DefaultVCpus is a JSON string; expected int64"},
		"no CPUs":             {"{\"InstanceTypes\": [\n{\"InstanceType\": \"g5.xlarge\"}]}", `line 2: instance type "g5.xlarge": VCpuInfo.DefaultVCpus is 0; expected a number from 1 to 1048575`},
		"no name":             {strings.Replace(small, "x9.large", "", 1), `line 1: instance type "": InstanceType is empty`},
		"no architecture":     {strings.Replace(small, `"x86_64"`, "", 1), "ProcessorInfo.SupportedArchitectures is empty; expected x86_64 or arm64"},
		"negative GPUs":       {strings.Replace(small, `"Count": 0`, `"Count": -1`, 1), "GpuInfo.Gpus[0]: Count -1"},
		"a partition above 1": {strings.Replace(small, `"Count": 0`, `"Count": 0, "GpuPartitionSize": 2`, 1), "GpuPartitionSize is 2; expected a share from 0 to 1"},
		"two descriptions":    {"[" + small + ",\n" + strings.Replace(small, "4096", "8192", 1) + "]", `line 4: instance type "x9.large" was already described, differently, on line 1: keep one`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			types, err := ParseInstanceTypes([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%d types, error %v; want %q", len(types), err, tt.want)
			}
		})
	}
}

func TestNameParts(t *testing.T) {
	tests := map[string][4]string{
		"g4dn.xlarge":         {"g", "4", "g4dn", "xlarge"},
		"u-6tb1.metal":        {"u", "1", "u-6tb1", "metal"},
		"u7in-16tb.224xlarge": {"u", "7", "u7in-16tb", "224xlarge"},
		"p6-b200.48xlarge":    {"p", "6", "p6-b200", "48xlarge"},
		"mac2-m2.metal":       {"mac", "2", "mac2-m2", "metal"},
		"odd":                 {"", "", "", ""},
		"x.large":             {"", "", "x", "large"},
	}
	for name, want := range tests {
		c, g, f, s := nameParts(name)
		if got := [4]string{c, g, f, s}; got != want {
			t.Errorf("nameParts(%q) = %q, want %q", name, got, want)
		}
	}
}

// No input makes the importer panic, and what it accepts is sound.
func FuzzParseInstanceTypes(f *testing.F) {
	f.Add(described)
	f.Add([]byte(small))
	f.Add([]byte(`[{"InstanceTypes": [`))
	f.Add([]byte(`[[[[]]]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		types, err := ParseInstanceTypes(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") && !strings.HasPrefix(err.Error(), "no instance types") {
				t.Errorf("an error without a line: %v", err)
			}
			return
		}
		for _, it := range types {
			for name, v := range it.Capacity {
				if v < 0 || it.Allocatable[name] < 0 || it.Allocatable[name] > v {
					t.Errorf("%s: %s: capacity %d, allocatable %d", it.Name, name, v, it.Allocatable[name])
				}
			}
		}
	})
}
