package catalog

import (
	"math"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// keeps says what a cloud's nodes keep from their pods. The package comment
// gives the rules in words.
type keeps struct {
	label       string                          // prefix of the cloud's own labels
	pods        int64                           // default limit, where a type has none of its own
	disk        int64                           // bytes of the root disk
	kubeDisk    int64                           // bytes of it that the kubelet keeps
	evictMemory int64                           // bytes kept by memory.available
	memory      func(m *machine) int64          // bytes that reach the node
	kube        func(m *machine) (int64, int64) // cpu in thousandths and bytes that the kubelet keeps
}

// A step takes a rate of what lies between the step before and its end.
type step struct {
	upTo int64
	rate float64
}

var (
	cpuSteps      = []step{{1000, .06}, {2000, .01}, {4000, .005}, {math.MaxInt64, .0025}}
	azureCPUSteps = []step{{1000, .06}, {2000, .04}, {4000, .02}, {math.MaxInt64, .01}}
	memorySteps   = []step{{4096, .25}, {8192, .20}, {16384, .10}, {131072, .06}, {math.MaxInt64, .02}} // MiB
)

// stepped adds up the steps, each rounded down as the providers do.
func stepped(amount int64, steps []step) int64 {
	var sum, from int64
	for _, s := range steps {
		if amount <= from {
			break
		}
		sum += int64(float64(min(amount, s.upTo)-from) * s.rate)
		from = s.upTo
	}
	return sum
}

// less takes a share in thousandths, rounded up to whole MiB, from an amount of MiB.
func less(memMiB, perMille int64) int64 { return (memMiB - (memMiB*perMille+999)/1000) * mi }

var awsKeeps = keeps{
	label: "karpenter.k8s.aws/", pods: 110, disk: 20 * gi, kubeDisk: gi, evictMemory: 100 * mi,
	memory: func(m *machine) int64 {
		if m.arch == "arm64" {
			return less(m.memMiB-64, 75)
		}
		return less(m.memMiB, 75)
	},
	kube: func(m *machine) (int64, int64) { return stepped(m.vcpu*1000, cpuSteps), (255 + 11*m.pods) * mi },
}

var gcpKeeps = keeps{
	label: "karpenter.k8s.gcp/", pods: 110, disk: 100 * gi, kubeDisk: 41 * gi, evictMemory: 100 * mi,
	memory: func(m *machine) int64 { return less(m.memMiB, 70) },
	kube: func(m *machine) (int64, int64) {
		const proxy = 100
		if m.name == "e2-micro" || m.name == "e2-small" || m.name == "e2-medium" {
			return 1060 + proxy, stepped(m.memMiB, memorySteps) * mi // shared cores
		}
		return stepped(m.vcpu*1000, cpuSteps) + proxy, stepped(m.memMiB, memorySteps) * mi
	},
}

var azureKeeps = keeps{
	label: "karpenter.azure.com/", pods: 110, disk: 128e9, evictMemory: 750 * mi,
	memory: func(m *machine) int64 { return less(m.memMiB, 75) },
	kube: func(m *machine) (int64, int64) {
		return stepped(m.vcpu*1000, azureCPUSteps), stepped(m.memMiB, memorySteps) * mi
	},
}

var alibabaKeeps = keeps{
	label: "karpenter.k8s.alibabacloud/", pods: 110, disk: 40 * gi,
	memory: func(m *machine) int64 { return less(m.memMiB, 75) },
	kube: func(m *machine) (int64, int64) {
		return stepped(m.vcpu*1000, cpuSteps), (min(255+11*m.pods, m.memMiB/4) + 200) * mi
	},
}

// evictDisk is what nodefs.available keeps of a disk by default.
func evictDisk(disk int64) int64 { return (disk + 9) / 10 }

// fill completes the capacity of a machine and returns its allocatable.
func (k *keeps) fill(m *machine) model.Resources {
	if m.pods == 0 {
		m.pods = k.pods
	}
	c := m.capacity
	c[model.CPU] = m.vcpu * 1000
	c[model.Memory] = k.memory(m)
	c[model.EphemeralStorage] = k.disk
	c[model.Pods] = m.pods
	cpu, memory := k.kube(m)
	out := c.Clone()
	out[model.CPU] = max(0, out[model.CPU]-cpu)
	out[model.Memory] = max(0, out[model.Memory]-memory-k.evictMemory)
	out[model.EphemeralStorage] -= k.kubeDisk + evictDisk(k.disk)
	return out
}

// keepsOf returns the rules of the cloud whose labels a type carries; AWS's when
// it carries none.
func keepsOf(t model.InstanceType) keeps {
	for _, c := range clouds()[1:] {
		for l := range t.Labels {
			if strings.HasPrefix(l, c.keeps.label) {
				return c.keeps
			}
		}
	}
	return awsKeeps
}

// Allocatable returns what a node of the type offers to pods under the kubelet
// settings of its NodeClass. With none it is t.Allocatable. As in Karpenter
// 1.15: a kubeReserved or evictionHard entry replaces the default of its
// resource or signal, systemReserved comes on top, podsPerCore lowers maxPods,
// and the memory that the kubelet keeps does not follow maxPods. Of the
// signals, memory.available and nodefs.available count, as a percentage of the
// capacity (100 % turns them off) or as a quantity; a value that is neither
// leaves the default. The disk is that of the NodeClass, or with instanceStorePolicy
// RAID0 the NVMe disks of a type that has any.
func Allocatable(t model.InstanceType, k model.Kubelet) model.Resources {
	t = withDisk(t, k)
	out := t.Allocatable.Clone()
	if k.MaxPods > 0 {
		out[model.Pods] = k.MaxPods
	}
	if k.PodsPerCore > 0 {
		out[model.Pods] = min(out[model.Pods], k.PodsPerCore*t.Capacity[model.CPU]/1000)
	}
	if len(k.KubeReserved)+len(k.SystemReserved)+len(k.EvictionHard) == 0 {
		return out
	}
	evicts := map[string]int64{
		model.Memory:           keepsOf(t).evictMemory,
		model.EphemeralStorage: evictDisk(t.Capacity[model.EphemeralStorage]),
	}
	for name, v := range k.KubeReserved {
		byDefault := t.Capacity[name] - t.Allocatable[name] - evicts[name]
		out[name] += byDefault - v
	}
	for name, v := range k.SystemReserved {
		out[name] -= v
	}
	for signal, name := range map[string]string{"memory.available": model.Memory, "nodefs.available": model.EphemeralStorage} {
		if v, ok := threshold(k.EvictionHard[signal], t.Capacity[name]); ok {
			out[name] += evicts[name] - v
		}
	}
	for name, v := range out {
		out[name] = max(0, v)
	}
	return out
}

// withDisk returns the type with the disk of a NodeClass: the kubelet keeps as
// much of it as of the default one, and eviction a tenth.
func withDisk(t model.InstanceType, k model.Kubelet) model.InstanceType {
	disk := k.RootBytes
	if nvme, err := strconv.ParseInt(t.Labels[awsLabel+"local-nvme"], 10, 32); err == nil && k.LocalDisks {
		disk = nvme * 1e9
	}
	if disk <= 0 {
		return t
	}
	usual := t.Capacity[model.EphemeralStorage]
	kept := usual - t.Allocatable[model.EphemeralStorage] - evictDisk(usual)
	t.Capacity, t.Allocatable = t.Capacity.Clone(), t.Allocatable.Clone()
	t.Capacity[model.EphemeralStorage] = disk
	t.Allocatable[model.EphemeralStorage] = max(0, disk-kept-evictDisk(disk))
	return t
}

// threshold reads an eviction threshold: "5%" of capacity, or a quantity.
func threshold(s string, capacity int64) (int64, bool) {
	percent, ok := strings.CutSuffix(s, "%")
	if !ok {
		return quantity(s)
	}
	p, err := strconv.ParseFloat(percent, 64)
	if err != nil || !(p >= 0 && p <= 100) {
		return 0, false
	}
	if p == 100 {
		return 0, true
	}
	return int64(math.Ceil(float64(capacity) / 100 * p)), true
}

// suffixes of Kubernetes quantities, two letters before one.
var suffixes = []struct {
	text string
	unit float64
}{
	{"Ki", 1 << 10},
	{"Mi", 1 << 20},
	{"Gi", 1 << 30},
	{"Ti", 1 << 40},
	{"Pi", 1 << 50},
	{"Ei", 1 << 60},
	{"m", 1e-3},
	{"k", 1e3},
	{"M", 1e6},
	{"G", 1e9},
	{"T", 1e12},
	{"P", 1e15},
	{"E", 1e18},
}

// quantity reads a Kubernetes quantity of zero or more as bytes, rounded up.
func quantity(s string) (int64, bool) {
	unit := 1.0
	for _, x := range suffixes {
		if number, ok := strings.CutSuffix(s, x.text); ok {
			s, unit = number, x.unit
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	v = math.Ceil(v * unit)
	if err != nil || !(v >= 0 && v < math.MaxInt64) {
		return 0, false
	}
	return int64(v), true
}
