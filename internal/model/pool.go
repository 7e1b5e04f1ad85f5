package model

import (
	"time"

	"github.com/kerfdev/kerf/api/deviceconfig"
)

// An Operator relates a label's value to a requirement's values.
type Operator string

// The operators of Karpenter 1.15 requirements; pods use the first six.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte"
	Lte          Operator = "Lte"
)

// A Requirement restricts the values of one label.
type Requirement struct {
	Key       string
	Operator  Operator
	Values    []string
	MinValues int // a pool's flexibility demand; 0 = none
	Line      int // where it was written, 0 when unknown
}

// Labels that decide which device config or MIG layout a node gets.
const (
	LabelDeviceConfig = "nvidia.com/device-plugin.config"
	LabelMIGConfig    = "nvidia.com/mig.config"
)

// Well-known node labels of Kubernetes 1.37 and Karpenter 1.15.
const (
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelRegion       = "topology.kubernetes.io/region"
	LabelArch         = "kubernetes.io/arch"
	LabelOS           = "kubernetes.io/os"
	LabelHostname     = "kubernetes.io/hostname"
	LabelCapacityType = "karpenter.sh/capacity-type"
	LabelNodePool     = "karpenter.sh/nodepool"
)

// Capacity types.
const (
	Spot     = "spot"
	OnDemand = "on-demand"
	Reserved = "reserved"
)

// A Pool is a NodePool: a template for nodes and the limits on them.
type Pool struct {
	Name          string
	Weight        int // 0 to 100, higher is tried first
	Labels        map[string]string
	Annotations   map[string]string
	Requirements  []Requirement
	Taints        []Taint
	StartupTaints []Taint
	Limits        Resources // absent = unlimited; includes "nodes"
	Replicas      int64     // static pools; 0 = dynamic
	Static        bool
	NodeClass     string // "EC2NodeClass/default", or ""
	Kubelet       Kubelet
	Disruption    Disruption
	CPUOnGPU      bool      // pods that ask for no GPU may use its GPU nodes like any other
	Unusable      []Verdict // why nothing can be launched from it; empty = usable
	Place         Place
}

// Kubelet holds what a NodeClass changes about a node's allocatable, its disk
// included. Zero values mean the cloud's defaults.
type Kubelet struct {
	MaxPods        int64
	PodsPerCore    int64
	KubeReserved   Resources
	SystemReserved Resources
	EvictionHard   map[string]string // "memory.available": "5%" or "100Mi"
	RootBytes      int64             // size of the volume that becomes ephemeral-storage
	LocalDisks     bool              // ephemeral-storage is the type's own NVMe disks, where it has any
}

// Usual reports whether nothing differs from the cloud's defaults.
func (k Kubelet) Usual() bool {
	return k.MaxPods == 0 && k.PodsPerCore == 0 && len(k.KubeReserved)+len(k.SystemReserved)+len(k.EvictionHard) == 0 &&
		k.RootBytes == 0 && !k.LocalDisks
}

// Disruption is when a pool's nodes go away again.
type Disruption struct {
	Policy           string        // WhenEmpty, WhenEmptyOrUnderutilized, Balanced
	ConsolidateAfter time.Duration // negative = Never
	ExpireAfter      time.Duration // negative = Never
}

// Sharing is every device config that a node may select.
type Sharing struct {
	// Configs by name, as in the device plugin's ConfigMap.
	Configs map[string]deviceconfig.Config
	Default string // config for nodes without the label; "" = none configured
	// MIG layouts by name, as in a mig-parted file.
	MIG map[string]deviceconfig.MIGConfig
	// Consumable says that the cluster hands out whole GPUs in parts of their
	// memory and compute, as HAMi's scheduler does: every GPU that no config
	// shares then has Device.Shares.
	Consumable bool
	// Places of the configs by name, for messages.
	Places map[string]Place
}
