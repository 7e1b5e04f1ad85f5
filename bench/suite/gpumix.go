package suite

import (
	"cmp"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// gpuRows are AWS GPU types (shapes from EC2, on-demand prices of us-east-1 of
// 2026-07-20): CPUs, MiB, GPUs, model, MiB a GPU, $/h.
var gpuRows = []struct {
	name        string
	cpu, mem    int64
	gpus        int64
	gpu         string
	gpuMem      int64
	dollarsHour float64
}{
	{"g4dn.xlarge", 4, 16384, 1, "t4", 15360, 0.526},
	{"g4dn.2xlarge", 8, 32768, 1, "t4", 15360, 0.752},
	{"g4dn.4xlarge", 16, 65536, 1, "t4", 15360, 1.204},
	{"g4dn.8xlarge", 32, 131072, 1, "t4", 15360, 2.176},
	{"g4dn.12xlarge", 48, 196608, 4, "t4", 15360, 3.912},
	{"g4dn.16xlarge", 64, 262144, 1, "t4", 15360, 4.352},
	{"g4dn.metal", 96, 393216, 8, "t4", 15360, 7.824},
	{"g5.xlarge", 4, 16384, 1, "a10g", 22888, 1.006},
	{"g5.2xlarge", 8, 32768, 1, "a10g", 22888, 1.212},
	{"g5.4xlarge", 16, 65536, 1, "a10g", 22888, 1.624},
	{"g5.8xlarge", 32, 131072, 1, "a10g", 22888, 2.448},
	{"g5.12xlarge", 48, 196608, 4, "a10g", 22888, 5.672},
	{"g5.16xlarge", 64, 262144, 1, "a10g", 22888, 4.096},
	{"g5.24xlarge", 96, 393216, 4, "a10g", 22888, 8.144},
	{"g5.48xlarge", 192, 786432, 8, "a10g", 22888, 16.288},
	{"g6.xlarge", 4, 16384, 1, "l4", 22888, 0.8048},
	{"g6.2xlarge", 8, 32768, 1, "l4", 22888, 0.9776},
	{"g6.4xlarge", 16, 65536, 1, "l4", 22888, 1.3232},
	{"g6.8xlarge", 32, 131072, 1, "l4", 22888, 2.0144},
	{"g6.12xlarge", 48, 196608, 4, "l4", 22888, 4.6016},
	{"g6.16xlarge", 64, 262144, 1, "l4", 22888, 3.3968},
	{"g6.24xlarge", 96, 393216, 4, "l4", 22888, 6.6752},
	{"g6.48xlarge", 192, 786432, 8, "l4", 22888, 13.3504},
	{"p3.2xlarge", 8, 62464, 1, "v100", 16384, 3.06},
	{"p3.8xlarge", 32, 249856, 4, "v100", 16384, 12.24},
	{"p3.16xlarge", 64, 499712, 8, "v100", 16384, 24.48},
	{"p4d.24xlarge", 96, 1179648, 8, "a100", 40960, 21.957642},
	{"p5.4xlarge", 16, 262144, 1, "h100", 81920, 6.88},
	{"p5.48xlarge", 192, 2097152, 8, "h100", 81920, 55.04},
}

// Spot prices are made up and fixed: on demand x zone x family.
var (
	spotZones    = map[string]float64{"us-east-1a": 0.42, "us-east-1b": 0.38, "us-east-1c": 0.47}
	spotFamilies = map[string]float64{"g4dn": 0.95, "g5": 1.10, "g6": 1.00, "p3": 0.80, "p4d": 1.25, "p5": 1.15}
	mixZones     = []string{"us-east-1a", "us-east-1b", "us-east-1c"}
)

const (
	awsLabel     = "karpenter.k8s.aws/instance-"
	gpuNameLabel = awsLabel + "gpu-name"
)

// gpuMix is n pods of which 60, 20, 12 and 8 % ask for 1, 2, 4 and 8 GPUs, with
// 1 to 5 CPUs and 4 to 24 GiB a GPU; a quarter of those with one or two want
// one model, a tenth of all want one zone.
func gpuMix(n int, spot, metal bool) func() (model.Snapshot, error) {
	return func() (model.Snapshot, error) {
		d := draw{rand.New(rand.NewSource(42))}
		s := model.Snapshot{Region: "us-east-1", Types: mixTypes(spot, metal), Pools: []model.Pool{{Name: "default"}}}
		for i := range n {
			s.Pods = append(s.Pods, model.Pod{Namespace: "default", Name: fmt.Sprintf("pod-%05d", i+1), Spec: d.gpuPod()})
		}
		return s, nil
	}
}

func (d draw) gpuPod() *model.PodSpec {
	gpus := int64(1)
	switch x := d.Intn(100); {
	case x >= 92:
		gpus = 8
	case x >= 80:
		gpus = 4
	case x >= 60:
		gpus = 2
	}
	cpu, mem := int64(1+d.Intn(5)), int64(4+d.Intn(21))
	p := &model.PodSpec{
		Labels:   map[string]string{"app": "train-" + d.letter()},
		Requests: model.Resources{model.Pods: 1, model.CPU: cpu * gpus * 1000, model.Memory: mem * gpus * gi, model.NvidiaGPU: gpus},
	}
	selector := map[string]string{}
	if gpus <= 2 && d.Intn(4) == 0 {
		selector[gpuNameLabel] = []string{"t4", "l4", "a10g"}[d.Intn(3)]
	}
	if d.Intn(10) == 0 {
		selector[model.LabelZone] = mixZones[d.Intn(3)]
	}
	if len(selector) > 0 {
		p.NodeSelector = selector
	}
	return p
}

// mixTypes are the types of gpuRows with room for 110 pods and what EKS keeps.
func mixTypes(spot, metal bool) []model.InstanceType {
	var out []model.InstanceType
	for _, r := range gpuRows {
		if !metal && strings.HasSuffix(r.name, ".metal") {
			continue
		}
		family, size, _ := strings.Cut(r.name, ".")
		t := model.InstanceType{
			Name:     r.name,
			Capacity: model.Resources{model.CPU: r.cpu * 1000, model.Memory: int64(float64(r.mem)*0.925) * mi, model.Pods: 110, model.EphemeralStorage: 100 * gi, model.NvidiaGPU: r.gpus},
			GPUs:     []model.GPU{{Manufacturer: "nvidia", Model: r.gpu, Count: r.gpus, MemoryMiB: r.gpuMem, Fraction: 1}},
			Labels: map[string]string{
				model.LabelInstanceType: r.name, model.LabelArch: "amd64", model.LabelOS: "linux", model.LabelRegion: "us-east-1",
				awsLabel + "category": family[:1], awsLabel + "family": family, awsLabel + "generation": family[1:2], awsLabel + "size": size,
				awsLabel + "cpu": fmt.Sprint(r.cpu), awsLabel + "memory": fmt.Sprint(r.mem), gpuNameLabel: r.gpu,
				awsLabel + "gpu-manufacturer": "nvidia", awsLabel + "gpu-count": fmt.Sprint(r.gpus), awsLabel + "gpu-memory": fmt.Sprint(r.gpuMem),
			},
		}
		t.Allocatable = t.Capacity.Clone()
		t.Allocatable[model.CPU] -= keptCPU(r.cpu * 1000)
		t.Allocatable[model.Memory] -= (11*110 + 255 + 100) * mi
		t.Offerings = mixOfferings(r.dollarsHour, family, spot)
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b model.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func mixOfferings(price float64, family string, spot bool) []model.Offering {
	var out []model.Offering
	for _, z := range mixZones {
		out = append(out, model.Offering{Zone: z, CapacityType: model.OnDemand, Price: price})
		if spot {
			out = append(out, model.Offering{Zone: z, CapacityType: model.Spot, Price: math.Round(price*spotZones[z]*spotFamilies[family]*1e6) / 1e6})
		}
	}
	slices.SortStableFunc(out, func(a, b model.Offering) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}

// keptCPU is what EKS keeps of so many thousandths of a core: 6 % of the first
// core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest.
func keptCPU(milli int64) int64 {
	kept, left := 0.0, milli
	for _, step := range []struct {
		upTo int64
		part float64
	}{{1000, .06}, {1000, .01}, {2000, .005}, {math.MaxInt64, .0025}} {
		n := min(left, step.upTo)
		kept += float64(n) * step.part
		left -= n
	}
	return int64(kept)
}
