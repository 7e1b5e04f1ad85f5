package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// ec2Type is what is read of one type of EC2's DescribeInstanceTypes.
type ec2Type struct {
	InstanceType  string
	Hypervisor    string
	ProcessorInfo struct {
		SupportedArchitectures   []string
		SustainedClockSpeedInGhz float64
		Manufacturer             string
	}
	VCpuInfo            struct{ DefaultVCpus int64 }
	MemoryInfo          ec2Memory
	InstanceStorageInfo struct {
		TotalSizeInGB int64
		NvmeSupport   string
	}
	EbsInfo struct {
		EbsOptimizedSupport string
		EbsOptimizedInfo    struct{ MaximumBandwidthInMbps int64 }
	}
	NetworkInfo struct {
		DefaultNetworkCardIndex      int
		Ipv4AddressesPerInterface    int64
		EncryptionInTransitSupported bool
		NetworkCards                 []struct {
			MaximumNetworkInterfaces int64
			BaselineBandwidthInGbps  float64
		}
		EfaInfo struct{ MaximumEfaInterfaces int64 }
	}
	GpuInfo                  struct{ Gpus []ec2GPU }
	InferenceAcceleratorInfo struct{ Accelerators []ec2Accelerator }
	NeuronInfo               struct{ NeuronDevices []ec2Accelerator }
}

type ec2Memory struct{ SizeInMiB int64 }

// ec2GPU is a kind of GPU. LogicalGpuCount and GpuPartitionSize are given of
// types that hold a part of a GPU; Count is 0 there.
type ec2GPU struct {
	Name, Manufacturer string
	Count              int64
	LogicalGpuCount    int64
	GpuPartitionSize   float64
	MemoryInfo         ec2Memory
}

type ec2Accelerator struct {
	Name, Manufacturer string
	Count              int64
	CoreInfo           struct{ Count int64 }
}

// check finds what a plan cannot do without, and numbers that cannot be. The
// upper bounds are far above what is sold; they keep sums from overflowing.
func (e *ec2Type) check() error {
	for _, n := range []struct {
		field         string
		value         int64
		least, beyond int64
	}{
		{"VCpuInfo.DefaultVCpus", e.VCpuInfo.DefaultVCpus, 1, 1 << 20},
		{"MemoryInfo.SizeInMiB", e.MemoryInfo.SizeInMiB, 1, 1 << 36},
		{"NetworkInfo.Ipv4AddressesPerInterface", e.NetworkInfo.Ipv4AddressesPerInterface, 0, 1 << 16},
		{"NetworkInfo.EfaInfo.MaximumEfaInterfaces", e.NetworkInfo.EfaInfo.MaximumEfaInterfaces, 0, 1 << 16},
		{"InstanceStorageInfo.TotalSizeInGB", e.InstanceStorageInfo.TotalSizeInGB, 0, 1 << 36},
	} {
		if n.value < n.least || n.value >= n.beyond {
			return fmt.Errorf("%s is %d; expected a number from %d to %d", n.field, n.value, n.least, n.beyond-1)
		}
	}
	if e.InstanceType == "" {
		return errors.New("InstanceType is empty")
	}
	if len(e.ProcessorInfo.SupportedArchitectures) == 0 {
		return errors.New("ProcessorInfo.SupportedArchitectures is empty; expected x86_64 or arm64")
	}
	return e.checkDevices()
}

func (e *ec2Type) checkDevices() error {
	const most = 1 << 16
	for i, g := range e.GpuInfo.Gpus {
		if min(g.Count, g.LogicalGpuCount, g.MemoryInfo.SizeInMiB) < 0 || max(g.Count, g.LogicalGpuCount) > most || g.MemoryInfo.SizeInMiB > 1<<36 {
			return fmt.Errorf("GpuInfo.Gpus[%d]: Count %d, LogicalGpuCount %d, MemoryInfo.SizeInMiB %d; expected numbers of zero or more", i, g.Count, g.LogicalGpuCount, g.MemoryInfo.SizeInMiB)
		}
		if !(g.GpuPartitionSize >= 0 && g.GpuPartitionSize <= 1) {
			return fmt.Errorf("GpuInfo.Gpus[%d].GpuPartitionSize is %v; expected a share from 0 to 1", i, g.GpuPartitionSize)
		}
	}
	for i, n := range e.NeuronInfo.NeuronDevices {
		if min(n.Count, n.CoreInfo.Count) < 0 || max(n.Count, n.CoreInfo.Count) > most {
			return fmt.Errorf("NeuronInfo.NeuronDevices[%d]: Count %d, CoreInfo.Count %d; expected numbers of zero or more", i, n.Count, n.CoreInfo.Count)
		}
	}
	return nil
}

// instanceType is the type as Karpenter's AWS provider 1.15 sees it.
func (e *ec2Type) instanceType() model.InstanceType {
	m := machine{
		name: e.InstanceType, arch: e.arch(), vcpu: e.VCpuInfo.DefaultVCpus, memMiB: e.MemoryInfo.SizeInMiB, pods: e.pods(),
		labels: map[string]string{}, capacity: model.Resources{},
	}
	e.label(m.labels)
	e.labelDevices(m.labels)
	for _, g := range e.GpuInfo.Gpus {
		m.gpus = append(m.gpus, g.gpu())
	}
	for _, n := range e.NeuronInfo.NeuronDevices {
		m.capacity["aws.amazon.com/neuron"] += n.Count
		m.capacity["aws.amazon.com/neuroncore"] += n.Count * n.CoreInfo.Count
	}
	if n := e.NetworkInfo.EfaInfo.MaximumEfaInterfaces; n > 0 {
		m.capacity["vpc.amazonaws.com/efa"] = n
	}
	return clouds()[0].instanceType(&m)
}

// arch is the first architecture that Kubernetes knows; of none it stays EC2's
// own word, which no pool asks for (x86_64_mac).
func (e *ec2Type) arch() string {
	for _, a := range e.ProcessorInfo.SupportedArchitectures {
		switch a {
		case "x86_64":
			return "amd64"
		case "arm64":
			return "arm64"
		}
	}
	return e.ProcessorInfo.SupportedArchitectures[0]
}

// pods is the limit by the interfaces of the default network card, 0 when they
// are not given.
func (e *ec2Type) pods() int64 {
	n := e.NetworkInfo
	if n.DefaultNetworkCardIndex < 0 || n.DefaultNetworkCardIndex >= len(n.NetworkCards) || n.Ipv4AddressesPerInterface <= 0 {
		return 0
	}
	cards := n.NetworkCards[n.DefaultNetworkCardIndex].MaximumNetworkInterfaces
	if cards <= 0 || cards > 1<<16 || n.Ipv4AddressesPerInterface > 1<<16 {
		return 0
	}
	return cards*(n.Ipv4AddressesPerInterface-1) + 2
}

const awsLabel = "karpenter.k8s.aws/instance-"

// label sets the labels of the machine itself.
func (e *ec2Type) label(labels map[string]string) {
	category, generation, family, size := nameParts(e.InstanceType)
	flex := strings.Contains(family, "-flex")
	for l, v := range map[string]string{
		"category": category, "generation": generation, "family": family, "size": size,
		"cpu-manufacturer":  kebab(e.ProcessorInfo.Manufacturer),
		"network-bandwidth": whole(e.bandwidth()),
		"local-nvme":        whole(e.localNVMe()),
	} {
		if v != "" {
			labels[awsLabel+l] = v
		}
	}
	if e.EbsInfo.EbsOptimizedSupport == "default" {
		labels[awsLabel+"ebs-bandwidth"] = strconv.FormatInt(e.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps, 10)
	}
	labels[awsLabel+"cpu"] = strconv.FormatInt(e.VCpuInfo.DefaultVCpus, 10)
	labels[awsLabel+"memory"] = strconv.FormatInt(e.MemoryInfo.SizeInMiB, 10)
	labels[awsLabel+"cpu-sustained-clock-speed-mhz"] = strconv.FormatFloat(math.Round(e.ProcessorInfo.SustainedClockSpeedInGhz*1000), 'f', -1, 64)
	labels[awsLabel+"hypervisor"] = e.Hypervisor
	labels[awsLabel+"capability-flex"] = strconv.FormatBool(flex)
	labels[awsLabel+"encryption-in-transit-supported"] = strconv.FormatBool(e.NetworkInfo.EncryptionInTransitSupported)
}

// labelDevices sets the labels of GPUs and accelerators, which exist only where
// there is exactly one kind.
func (e *ec2Type) labelDevices(labels map[string]string) {
	if g := e.GpuInfo.Gpus; len(g) == 1 {
		labels[awsLabel+"gpu-name"] = kebab(g[0].Name)
		labels[awsLabel+"gpu-manufacturer"] = kebab(g[0].Manufacturer)
		labels[awsLabel+"gpu-count"] = strconv.FormatInt(g[0].Count, 10)
		labels[awsLabel+"gpu-memory"] = strconv.FormatInt(g[0].MemoryInfo.SizeInMiB, 10)
	}
	a := e.NeuronInfo.NeuronDevices
	if len(a) == 0 {
		a = e.InferenceAcceleratorInfo.Accelerators
	}
	if len(a) == 1 {
		labels[awsLabel+"accelerator-name"] = kebab(a[0].Name)
		labels[awsLabel+"accelerator-manufacturer"] = kebab(cmp.Or(a[0].Manufacturer, "aws"))
		labels[awsLabel+"accelerator-count"] = strconv.FormatInt(a[0].Count, 10)
	}
}

// bandwidth is the baseline of every card together, in Mbps.
func (e *ec2Type) bandwidth() int64 {
	sum := 0.0
	for _, c := range e.NetworkInfo.NetworkCards {
		sum += c.BaselineBandwidthInGbps
	}
	if !(sum > 0 && sum < 1<<30) {
		return 0
	}
	return int64(math.Round(sum * 1000))
}

func (e *ec2Type) localNVMe() int64 {
	if e.InstanceStorageInfo.NvmeSupport == "unsupported" {
		return 0
	}
	return e.InstanceStorageInfo.TotalSizeInGB
}

// gpu is the GPU with the share of a whole one that it is. A type with no
// whole GPU but with GPU memory holds a part of one, whose size EC2 may not say.
func (g ec2GPU) gpu() model.GPU {
	out := model.GPU{Manufacturer: kebab(g.Manufacturer), Model: kebab(g.Name), Count: g.Count, MemoryMiB: g.MemoryInfo.SizeInMiB, Fraction: 1}
	if g.GpuPartitionSize > 0 && g.GpuPartitionSize < 1 {
		out.Fraction = g.GpuPartitionSize
	}
	if g.Count == 0 {
		out.Count = max(1, g.LogicalGpuCount)
		if out.Fraction == 1 {
			out.Fraction = partOf(out.Model, out.MemoryMiB)
		}
	}
	return out
}

// partOf guesses the share of a GPU from its memory, by the GPUs of which EC2
// sells parts: eighths of an L4.
func partOf(name string, memMiB int64) float64 {
	if name != "l4" {
		return 1
	}
	const eighth = 22888 / 8
	return min(1, math.Max(1, math.Round(float64(memMiB)/eighth))/8)
}

// nameParts splits "g4dn.xlarge" into g, 4, g4dn and xlarge, "u-6tb1.metal" into
// u, 1, u-6tb1 and metal, as Karpenter does. What the name lacks is "".
func nameParts(name string) (category, generation, family, size string) {
	family, size, ok := strings.Cut(name, ".")
	if !ok || strings.Contains(size, ".") {
		return "", "", "", ""
	}
	rest := strings.TrimLeft(family, "abcdefghijklmnopqrstuvwxyz")
	category = family[:len(family)-len(rest)]
	if memory, ok := strings.CutPrefix(rest, "-"); ok {
		if digits := digitsOf(memory); digits != "" && strings.HasPrefix(memory[len(digits):], "tb") {
			rest = memory[len(digits)+2:]
		}
	}
	generation = digitsOf(rest)
	if category == "" || generation == "" {
		return "", "", family, size
	}
	return category, generation, family, size
}

// digitsOf returns the digits that s begins with.
func digitsOf(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }

// kebab writes a name as label value: "Radeon Pro V520" is radeon-pro-v520.
func kebab(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "-")) }

// whole writes a number, "" for zero.
func whole(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
