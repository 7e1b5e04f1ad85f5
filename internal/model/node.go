package model

// AnnotationHeld is on a node that kerf-controller has cordoned until the node is
// what was ordered; it says what is missing. Such a node counts as one that
// comes up, not as one that a person has cordoned.
const AnnotationHeld = "kerf.dev/held"

// A Node is a node that exists or has been ordered.
type Node struct {
	Name         string
	Pool         string // "" when no pool owns it
	Type         string
	Zone         string
	CapacityType string
	Labels       map[string]string
	Taints       []Taint
	Allocatable  Resources // as the node reports it, or as predicted while InFlight
	Devices      []Device
	Limits       map[string]int64 // as Advertisement.MaxRequest
	Price        float64          // $/h, 0 when unknown
	InFlight     bool             // ordered, not registered
	Unready      string           // why no pod can go there: "cordoned", "not ready" ...; "" = ready
	Leaving      bool             // being drained or deleted: its pods need a place
	Place        Place
}

// A Device is one physical GPU of a node, or of the node that an instance type
// would become.
type Device struct {
	Model     string    // as EC2 names it in lower case: "t4", "a10g"
	Resources Resources // what this device adds to the node: {"nvidia.com/gpu": 10}
	Shares    Resources // consumable amounts, packed per device; nil when not consumable
}

// SplitDevices divides what a node advertises of GPUs evenly among its physical
// GPUs, given by their models; the first ones take what is left over.
func SplitDevices(models []string, advertised Resources) []Device {
	out := make([]Device, len(models))
	count := int64(len(models))
	for i := range out {
		out[i] = Device{Model: models[i], Resources: Resources{}}
		for name, total := range advertised {
			share := total / count
			if int64(i) < total%count {
				share++
			}
			out[i].Resources[name] = share
		}
	}
	return out
}

// A GPU is the hardware of one kind of GPU in an instance type.
type GPU struct {
	Manufacturer string // "nvidia", "amd"
	Model        string // "t4", "a100"
	Product      string // as GFD labels it: "Tesla-T4"; "" when unknown
	Count        int64
	MemoryMiB    int64   // per GPU, or per slice of a fractional type
	Fraction     float64 // share of a whole GPU that each is: 1, or 0.125 for g6f.large
	Family       string  // GFD's nvidia.com/gpu.family: "turing", "ampere" ...; "" when unknown
	Compute      string  // CUDA compute capability "7.5"; "" when unknown
}

// An InstanceType is what a cloud sells, with where and for how much.
type InstanceType struct {
	Name        string
	Labels      map[string]string // every label that a node of this type carries whatever the offering
	Capacity    Resources
	Allocatable Resources // capacity less what the kubelet and the system keep; GPUs of the bare hardware
	GPUs        []GPU
	Offerings   []Offering // cheapest first; ties by zone, then capacity type
}

// An Offering is an instance type in a zone with a capacity type and a price.
type Offering struct {
	Zone         string
	CapacityType string
	Price        float64 // $/h
	Estimated    bool    // the price is not a quoted one
}

// SharingKind is how one physical GPU serves several requests.
type SharingKind string

// The kinds of sharing. The zero value means one request a GPU.
const (
	Exclusive   SharingKind = ""
	TimeSlicing SharingKind = "time-slicing"
	MPS         SharingKind = "mps"
	MIG         SharingKind = "mig"
	Consumable  SharingKind = "consumable"
)

// An Advertisement is what a node's GPUs give under a device config: the answer
// of internal/gpu, the same for the planner and for the node agent.
type Advertisement struct {
	Config    string // name of the device config, "" for none
	Kind      SharingKind
	Resources Resources         // extended resources that the node advertises
	Labels    map[string]string // nvidia.com/* labels that feature discovery sets
	Devices   []Device          // one per physical GPU, in index order
	// MaxRequest is the largest amount of a resource that one container may ask
	// (failRequestsGreaterThanOne); absent = no such rule.
	MaxRequest map[string]int64
}
