package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func load(t testing.TB, region string) Book {
	t.Helper()
	b, err := Load(region)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func typeOf(t testing.TB, b Book, name string) model.InstanceType {
	t.Helper()
	it, ok := b.Type(name)
	if !ok {
		t.Fatalf("%s has no type %s", b.Region, name)
	}
	return it
}

// Loading is part of every run of kerf plan, which has 1.5 s in all.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load("us-east-1"); err != nil {
			b.Fatal(err)
		}
	}
}

// Every region loads, sorted, with sound offerings: what the other packages
// take for granted.
func TestEveryRegionLoads(t *testing.T) {
	for _, region := range Regions() {
		b := load(t, region)
		if b.Date == "" || b.PriceBasis == "" || len(b.Zones) == 0 || !slices.IsSorted(b.Zones) {
			t.Errorf("%s: date %q, basis %q, zones %v", region, b.Date, b.PriceBasis, b.Zones)
		}
		if !slices.IsSortedFunc(b.Types, func(a, b model.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: types are not sorted by name", region)
		}
		sold := 0
		for _, it := range b.Types {
			checkType(t, b, it)
			sold += min(1, len(it.Offerings))
		}
		if sold == 0 {
			t.Errorf("%s sells nothing", region)
		}
	}
}

func checkType(t *testing.T, b Book, it model.InstanceType) {
	t.Helper()
	if it.Labels[model.LabelInstanceType] != it.Name || it.Labels[model.LabelRegion] != b.Region {
		t.Errorf("%s %s: labels %v", b.Region, it.Name, it.Labels)
	}
	for name, v := range it.Capacity {
		if v <= 0 || it.Allocatable[name] > v || it.Allocatable[name] < 0 {
			t.Errorf("%s %s: %s: capacity %d, allocatable %d", b.Region, it.Name, name, v, it.Allocatable[name])
		}
	}
	for _, g := range it.GPUs {
		if g.Count <= 0 || g.MemoryMiB <= 0 || g.Model == "" || g.Fraction <= 0 || g.Fraction > 1 {
			t.Errorf("%s %s: GPU %+v", b.Region, it.Name, g)
		}
	}
	sorted := slices.Clone(it.Offerings)
	sortOfferings(sorted)
	if diff := cmp.Diff(sorted, it.Offerings); diff != "" {
		t.Errorf("%s %s: offerings out of order:\n%s", b.Region, it.Name, diff)
	}
	for _, o := range it.Offerings {
		if o.Price <= 0 || !slices.Contains(b.Zones, o.Zone) {
			t.Errorf("%s %s: offering %+v", b.Region, it.Name, o)
		}
	}
}

func TestAWSHasEveryType(t *testing.T) {
	b := load(t, "us-east-1")
	count := map[string]int{}
	for _, it := range b.Types {
		count["all"]++
		count[it.Labels[model.LabelArch]]++
		if len(it.Offerings) == 0 {
			count["not sold"]++
		}
		if it.Labels[awsLabel+"hypervisor"] == "" {
			count["metal"]++
		}
		for _, g := range it.GPUs {
			count[g.Manufacturer]++
			if g.Fraction < 1 {
				count["fractional"]++
			}
		}
	}
	want := map[string]int{
		"all": 1363, "amd64": 967, "arm64": 396, "not sold": 18, "metal": 143, "nvidia": 65, "amd": 5, "fractional": 5,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The labels of g4dn.xlarge as the Karpenter documentation lists them.
func TestLabelsOfAGPUType(t *testing.T) {
	want := map[string]string{
		"karpenter.k8s.aws/instance-capability-flex":                 "false",
		"karpenter.k8s.aws/instance-category":                        "g",
		"karpenter.k8s.aws/instance-cpu":                             "4",
		"karpenter.k8s.aws/instance-cpu-manufacturer":                "intel",
		"karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz":   "2500",
		"karpenter.k8s.aws/instance-ebs-bandwidth":                   "3500",
		"karpenter.k8s.aws/instance-encryption-in-transit-supported": "true",
		"karpenter.k8s.aws/instance-family":                          "g4dn",
		"karpenter.k8s.aws/instance-generation":                      "4",
		"karpenter.k8s.aws/instance-gpu-count":                       "1",
		"karpenter.k8s.aws/instance-gpu-manufacturer":                "nvidia",
		"karpenter.k8s.aws/instance-gpu-memory":                      "16384",
		"karpenter.k8s.aws/instance-gpu-name":                        "t4",
		"karpenter.k8s.aws/instance-hypervisor":                      "nitro",
		"karpenter.k8s.aws/instance-local-nvme":                      "125",
		"karpenter.k8s.aws/instance-memory":                          "16384",
		"karpenter.k8s.aws/instance-network-bandwidth":               "5000",
		"karpenter.k8s.aws/instance-size":                            "xlarge",
		"karpenter.k8s.aws/instance-tenancy":                         "default",
		"kubernetes.io/arch":                                         "amd64",
		"kubernetes.io/os":                                           "linux",
		"node.kubernetes.io/instance-type":                           "g4dn.xlarge",
		"topology.kubernetes.io/region":                              "us-east-1",
	}
	got := typeOf(t, load(t, "us-east-1"), "g4dn.xlarge").Labels
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLabelsByType(t *testing.T) {
	tests := map[string]struct {
		region, name string
		want         map[string]string // "-" = absent
	}{
		"a part of a GPU is counted as none, as EC2 does": {"us-east-1", "g6f.large", map[string]string{
			awsLabel + "gpu-count": "0", awsLabel + "gpu-name": "l4", awsLabel + "gpu-memory": "2861",
		}},
		"bare metal has a hypervisor label without a value": {"us-east-1", "g4dn.metal", map[string]string{
			awsLabel + "hypervisor": "", awsLabel + "size": "metal", awsLabel + "gpu-count": "8",
		}},
		"a family with a dash": {"us-east-1", "m7i-flex.large", map[string]string{
			awsLabel + "category": "m", awsLabel + "generation": "7", awsLabel + "family": "m7i-flex", awsLabel + "capability-flex": "true",
		}},
		"a high-memory family": {"us-east-1", "u-6tb1.112xlarge", map[string]string{
			awsLabel + "category": "u", awsLabel + "generation": "1", awsLabel + "family": "u-6tb1",
		}},
		"an accelerator is not a GPU": {"us-east-1", "trn1.32xlarge", map[string]string{
			awsLabel + "accelerator-name": "trainium", awsLabel + "accelerator-count": "16", awsLabel + "accelerator-manufacturer": "aws", awsLabel + "gpu-name": "-",
		}},
		"a GPU on an Arm processor": {"us-west-2", "g5g.xlarge", map[string]string{
			model.LabelArch: "arm64", awsLabel + "gpu-name": "t4g", awsLabel + "cpu-manufacturer": "aws", model.LabelRegion: "us-west-2",
		}},
		"no local disk, no label": {"us-east-1", "m5.large", map[string]string{awsLabel + "local-nvme": "-", awsLabel + "gpu-count": "-"}},
		"Google Cloud": {"us-central1", "g2-standard-4", map[string]string{
			"karpenter.k8s.gcp/instance-family": "g2", "karpenter.k8s.gcp/instance-shape": "standard", "karpenter.k8s.gcp/instance-size": "4",
			"karpenter.k8s.gcp/instance-generation": "2", "karpenter.k8s.gcp/instance-gpu-name": "nvidia-l4",
			"cloud.google.com/gke-accelerator": "nvidia-l4", "karpenter.k8s.gcp/instance-cpu": "4",
		}},
		"Google Cloud on Arm": {"us-central1", "t2a-standard-4", map[string]string{model.LabelArch: "arm64"}},
		"Azure": {"eastus", "Standard_NC24ads_A100_v4", map[string]string{
			"karpenter.azure.com/sku-family": "N", "karpenter.azure.com/sku-series": "NCads_v4", "karpenter.azure.com/sku-version": "4",
			"karpenter.azure.com/sku-gpu-name": "A100", "karpenter.azure.com/sku-gpu-count": "1", "kubernetes.azure.com/sku-cpu": "24",
		}},
		"Azure without a GPU": {"eastus", "Standard_D2s_v3", map[string]string{
			"karpenter.azure.com/sku-gpu-count": "0", "karpenter.azure.com/sku-gpu-name": "-",
		}},
		"Alibaba Cloud": {"cn-beijing", "ecs.gn6i-c4g1.xlarge", map[string]string{
			"karpenter.k8s.alibabacloud/instance-family": "ecs.gn6i-c4g1", "karpenter.k8s.alibabacloud/instance-category": "gn",
			"karpenter.k8s.alibabacloud/instance-gpu-name": "nvidia-t4", "karpenter.k8s.alibabacloud/instance-gpu-count": "1",
		}},
		"Alibaba Cloud on Arm": {"cn-beijing", "ecs.g8y.large", map[string]string{model.LabelArch: "arm64"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			it := typeOf(t, load(t, tt.region), tt.name)
			got := map[string]string{}
			for l := range tt.want {
				v, ok := it.Labels[l]
				if !ok {
					v = "-"
				}
				got[l] = v
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tt.name, diff)
			}
		})
	}
}

// Allocatable as the Karpenter documentation lists it for AL2023.
func TestResources(t *testing.T) {
	b := load(t, "us-east-1")
	tests := map[string]struct {
		want model.Resources
	}{
		"g4dn.xlarge": {model.Resources{
			"cpu": 3920, "memory": 14481 << 20, "ephemeral-storage": 17 << 30, "pods": 29, "nvidia.com/gpu": 1, "vpc.amazonaws.com/pod-eni": 39,
		}},
		"g6f.large": {model.Resources{
			"cpu": 1930, "memory": 7002 << 20, "ephemeral-storage": 17 << 30, "pods": 20, "nvidia.com/gpu": 1, "vpc.amazonaws.com/pod-eni": 10,
		}},
		"a1.2xlarge": {model.Resources{
			"cpu": 7910, "memory": 14103 << 20, "ephemeral-storage": 17 << 30, "pods": 58, "vpc.amazonaws.com/pod-eni": 38,
		}},
		"g4ad.16xlarge": {model.Resources{
			"cpu": 63770, "memory": 239554 << 20, "ephemeral-storage": 17 << 30, "pods": 234, "amd.com/gpu": 4, "vpc.amazonaws.com/pod-eni": 6,
		}},
		"trn1.32xlarge": {model.Resources{
			"cpu": 127610, "memory": 481894 << 20, "ephemeral-storage": 17 << 30, "pods": 247, "vpc.amazonaws.com/efa": 8,
			"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32, "vpc.amazonaws.com/pod-eni": 82,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, typeOf(t, b, name).Allocatable); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestGPUs(t *testing.T) {
	tests := map[string]struct {
		region, name string
		want         []model.GPU // hardware only
	}{
		"an eighth of an L4 is one GPU of that size": {"us-east-1", "g6f.large", []model.GPU{{Manufacturer: "nvidia", Model: "l4", Count: 1, MemoryMiB: 2861, Fraction: .125}}},
		"half an L4":                   {"us-east-1", "gr6f.4xlarge", []model.GPU{{Manufacturer: "nvidia", Model: "l4", Count: 1, MemoryMiB: 11444, Fraction: .5}}},
		"several whole ones":           {"us-east-1", "g5.12xlarge", []model.GPU{{Manufacturer: "nvidia", Model: "a10g", Count: 4, MemoryMiB: 22888, Fraction: 1}}},
		"an accelerator is not a GPU":  {"us-east-1", "inf2.xlarge", nil},
		"Google's eighth":              {"us-central1", "g4-standard-6", []model.GPU{{Manufacturer: "nvidia", Model: "rtx-pro-server-6000", Count: 1, MemoryMiB: 12288, Fraction: .125}}},
		"one model with two memories":  {"us-central1", "a2-ultragpu-1g", []model.GPU{{Manufacturer: "nvidia", Model: "a100", Count: 1, MemoryMiB: 81920, Fraction: 1}}},
		"Azure's sixth has its memory": {"eastus", "Standard_NV6ads_A10_v5", []model.GPU{{Manufacturer: "nvidia", Model: "a10", Count: 1, MemoryMiB: 4096, Fraction: .166667}}},
		"Azure's AMD":                  {"eastus", "Standard_NV4as_v4", []model.GPU{{Manufacturer: "amd", Model: "mi25", Count: 1, MemoryMiB: 2048, Fraction: .125}}},
		"an FPGA is not a GPU":         {"eastus", "Standard_NP10s", nil},
		"a SKU that names its model":   {"eastus", "Standard_NC32ads_A10_v4", []model.GPU{{Manufacturer: "nvidia", Model: "a10", Count: 2, MemoryMiB: 24576, Fraction: 1}}},
		"Alibaba Cloud":                {"cn-beijing", "ecs.gn7i-c16g1.4xlarge", []model.GPU{{Manufacturer: "nvidia", Model: "a10", Count: 1, MemoryMiB: 24576, Fraction: 1}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := slices.Clone(typeOf(t, load(t, tt.region), tt.name).GPUs)
			for i := range got {
				got[i].Product, got[i].Family, got[i].Compute = "", "", ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tt.name, diff)
			}
		})
	}
}

// GPUs carry what feature discovery says of them, slices included.
func TestGPUsAreDescribed(t *testing.T) {
	tests := map[string]struct{ region, name, product, family, compute string }{
		"a whole GPU":            {"us-east-1", "g4dn.xlarge", "Tesla-T4", "turing", "7.5"},
		"an eighth":              {"us-east-1", "g6f.large", "NVIDIA-L4-3Q", "ada-lovelace", "8.9"},
		"a memory of two":        {"us-east-1", "p4de.24xlarge", "NVIDIA-A100-SXM4-80GB", "ampere", "8.0"},
		"Azure's cards":          {"eastus", "Standard_NC24ads_A100_v4", "NVIDIA-A100-80GB-PCIe", "ampere", "8.0"},
		"AMD has no such labels": {"us-east-1", "g4ad.xlarge", "", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := typeOf(t, load(t, tt.region), tt.name).GPUs[0]
			want := [3]string{tt.product, tt.family, tt.compute}
			if got := [3]string{g.Product, g.Family, g.Compute}; got != want {
				t.Errorf("%s: %q, want %q", tt.name, got, want)
			}
		})
	}
	for _, region := range Regions() {
		for _, it := range load(t, region).Types {
			for _, g := range it.GPUs {
				if g.Manufacturer == "nvidia" && g.Compute == "" {
					t.Errorf("%s %s: %s %d MiB is not described", region, it.Name, g.Model, g.MemoryMiB)
				}
			}
		}
	}
}

// Types whose GPUs are slices of unknown size or unknown share are not there at
// all: they would be taken for whole GPUs or for cheap CPUs.
func TestTypesLeftOut(t *testing.T) {
	for region, names := range map[string][]string{
		"cn-beijing": {"ecs.vgn6i-m4-vws.xlarge", "ecs.sgn7i-vws-m2.xlarge"},
		"eastus":     {"Standard_NV4ads_V710_v5"},
	} {
		for _, name := range names {
			if _, ok := load(t, region).Type(name); ok {
				t.Errorf("%s: %s is there", region, name)
			}
		}
	}
}

func TestOfferings(t *testing.T) {
	everywhere := func(region, letters, capacityType string, price float64, estimated bool) []model.Offering {
		var out []model.Offering
		for _, l := range letters {
			out = append(out, model.Offering{Zone: region + string(l), CapacityType: capacityType, Price: price, Estimated: estimated})
		}
		return out
	}
	tests := map[string]struct {
		region, name string
		want         []model.Offering
	}{
		"spot is estimated and comes first, us-east-1 on demand is quoted": {"us-east-1", "g4dn.xlarge", append(
			everywhere("us-east-1", "abc", model.Spot, 0.18936, true), everywhere("us-east-1", "abc", model.OnDemand, 0.526, false)...)},
		"other AWS regions are estimated altogether": {"ap-northeast-1", "g5.12xlarge", append(
			everywhere("ap-northeast-1", "acd", model.Spot, 2.55009, true), everywhere("ap-northeast-1", "acd", model.OnDemand, 8.22609, true)...)},
		"a spot price equal to the one on demand is none": {"us-east-1", "a1.large", everywhere("us-east-1", "abc", model.OnDemand, 0.051, false)},
		"no spot figures, on demand only":                 {"us-east-1", "g6f.large", everywhere("us-east-1", "abc", model.OnDemand, 0.202, false)},
		"a type that the region does not list":            {"eu-west-1", "g6.xlarge", nil},
		"a type without any price":                        {"us-east-1", "p5e.48xlarge", nil},
		"Google's spot is quoted":                         {"us-central1", "g4-standard-6", append(everywhere("us-central1-", "abc", model.Spot, 0.2238, false), everywhere("us-central1-", "abc", model.OnDemand, 0.55956, false)...)},
		"Google's zones by type":                          {"asia-southeast1", "g2-standard-4", append(everywhere("asia-southeast1-", "b", model.Spot, 0.52327, false), everywhere("asia-southeast1-", "b", model.OnDemand, 0.87202, false)...)},
		"Azure's zones are numbers":                       {"australiaeast", "Standard_NC4as_T4_v3", everywhere("australiaeast-", "123", model.OnDemand, 0.684, false)},
		"an Azure region without zones":                   {"australiacentral", "Standard_NC4as_T4_v3", everywhere("", "0", model.OnDemand, 0.684, false)},
		"yuan become dollars and count as estimated":      {"alibaba:us-east-1", "ecs.gn6i-c4g1.xlarge", everywhere("us-east-1", "ab", model.OnDemand, 1.067123, true)},
		"Chinese zones have a dash":                       {"cn-chengdu", "ecs.gn6i-c4g1.xlarge", everywhere("cn-chengdu-", "ab", model.OnDemand, 1.432877, true)},
		"a price of zero is no price":                     {"alibaba:us-east-1", "ecs.ebmgn7ix.32xlarge", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := typeOf(t, load(t, tt.region), tt.name).Offerings
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tt.name, diff)
			}
		})
	}
}

func TestRegionNames(t *testing.T) {
	tests := map[string]struct {
		region string
		want   string // cloud and region, or a part of the error
	}{
		"AWS":                               {"us-east-1", "aws us-east-1"},
		"AWS with a prefix":                 {"aws:eu-west-1", "aws eu-west-1"},
		"Google Cloud":                      {"us-central1", "gcp us-central1"},
		"Google Cloud with a prefix":        {"gcp:us-central1", "gcp us-central1"},
		"Azure":                             {"japaneast", "azure japaneast"},
		"a Chinese region is Alibaba's":     {"cn-beijing", "alibaba cn-beijing"},
		"a name of AWS's and Alibaba's":     {"ap-northeast-1", "aws ap-northeast-1"},
		"the same of Alibaba's":             {"alibaba:ap-northeast-1", "alibaba ap-northeast-1"},
		"AWS's even without an AWS book":    {"eu-central-1", `no prices are known for AWS region "eu-central-1", only for ap-northeast-1, eu-west-1, us-east-1, us-west-2`},
		"a hint at Alibaba's":               {"us-west-1", "say alibaba:us-west-1"},
		"a typing mistake":                  {"us-centrall1", `the nearest name is "us-central1"`},
		"a prefix that is no cloud":         {"ovh:gra", `there is no cloud "ovh"`},
		"a region that the cloud has not":   {"gcp:us-east-1", `the nearest name is "us-east1"`},
		"no region":                         {"", `no region "" is known; regions are`},
		"a bracket does not break the book": {"us-east-1]\n", "no region"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := Load(tt.region)
			got := b.Cloud + " " + b.Region
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("Load(%q) gives %q; want %q", tt.region, got, tt.want)
			}
		})
	}
}

func TestUnpricedRegion(t *testing.T) {
	b, err := Unpriced("eu-central-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Types) != 1363 || len(typeOf(t, b, "g4dn.xlarge").Offerings) != 0 {
		t.Errorf("%d types; g4dn.xlarge %v", len(b.Types), typeOf(t, b, "g4dn.xlarge").Offerings)
	}
	if diff := cmp.Diff([]string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}, b.Zones); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := Unpriced("moon"); err == nil {
		t.Error("moon is taken for an AWS region")
	}
}
