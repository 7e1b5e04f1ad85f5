package model

// A Pod is one pod, pending or bound. Pods that come from one template share
// their Spec.
type Pod struct {
	Namespace string
	Name      string
	Owner     string // "Deployment team-a/web", or "" for a bare pod
	Node      string // name of the node it is bound to, "" when pending
	Spec      *PodSpec
}

// A PodSpec is what decides where a pod may run, after the API server's
// defaulting. Two pods with equal specs in one namespace are interchangeable.
type PodSpec struct {
	Labels map[string]string
	// Requests is what the scheduler counts for the pod (Kubernetes 1.37:
	// containers plus sidecars against init containers, overhead and pod-level
	// resources added), with "pods": 1.
	Requests   Resources
	Containers []Container

	NodeSelector  map[string]string
	NodeAffinity  []Term         // required; a node must match one of them; empty = any
	NodePreferred []WeightedTerm // preferred, in the order given
	PodAffinity   []PodTerm      // required and preferred, together or apart
	Spread        []Spread
	Tolerations   []Toleration
	HostPorts     []HostPort
	Volumes       []Volume // claims whose volumes restrict the nodes
	Shares        []DeviceShare

	Priority      int32
	SchedulerName string   // "" is the default scheduler
	Gates         []string // scheduling gates: the pod waits for someone else
	Claims        []string // names of DRA resource claims
	SafeToMove    bool     // false when annotated karpenter.sh/do-not-disrupt

	// Refused holds the API server's words for why the pod can never be
	// created, and what a quota or LimitRange leaves out. Not empty = not planned.
	Refused []Verdict
	Place   Place
}

// A Container is one container of a pod: what it asks and what it may see.
type Container struct {
	Name       string
	Init       bool // runs before the others and ends
	Sidecar    bool // init container with restartPolicy Always
	Image      string
	Requests   Resources
	Limits     Resources
	Env        []Env
	EnvFrom    []string // "ConfigMap team-a/settings" and the like
	Privileged bool
	Caps       []string // added capabilities
}

// An Env is one environment variable of a container.
type Env struct {
	Name  string
	Value string
	From  string // "" for a literal, else the kind of its source: "configMapKeyRef", "fieldRef" ...
	Line  int
}

// A Term is a conjunction of requirements.
type Term []Requirement

// A WeightedTerm is a preference; Weight is 1 to 100.
type WeightedTerm struct {
	Weight int32
	Term   Term
}

// A PodTerm says that a pod wants to be, or not to be, in one topology domain
// with the pods that Selector picks.
type PodTerm struct {
	Anti        bool
	Weight      int32 // 0 = required, else a preference of 1 to 100
	Selector    Selector
	Namespaces  []string // resolved: the namespaces whose pods count, sorted
	TopologyKey string
}

// A Selector picks pods by their labels. The zero value picks none; a Selector
// with All set and no requirement picks every pod.
type Selector struct {
	All  bool // the selector was given, if only as {}
	Term Term // over In, NotIn, Exists, DoesNotExist
}

// A Spread is one topology spread constraint.
type Spread struct {
	MaxSkew           int32
	TopologyKey       string
	Soft              bool // ScheduleAnyway
	Selector          Selector
	MinDomains        int32 // 0 = unset
	IgnoreAffinity    bool  // nodeAffinityPolicy: Ignore
	HonorTaints       bool  // nodeTaintsPolicy: Honor
	SelectorNamespace string
}

// A HostPort is a port that the pod takes on its node.
type HostPort struct {
	IP       string // "" and "0.0.0.0" are every address
	Port     int32
	Protocol string // TCP, UDP or SCTP
}

// A Volume is a claim that can be attached only on nodes that match one of Terms.
type Volume struct {
	Claim string
	Terms []Term // empty = anywhere
}

// A DeviceShare asks for Count devices that back Resource, and of each of them
// the amounts in PerDevice, as HAMi's nvidia.com/gpumem and gpucores do. It is
// packed per device: two halves of two devices are not one whole.
type DeviceShare struct {
	Resource  string
	Count     int64
	PerDevice Resources
}

// Of returns what the share takes of a device with these amounts. A percentage
// of a device's memory is that many MiB too, rounded down as HAMi 2.10 does, so
// that pods which ask in either way are counted together.
func (s DeviceShare) Of(have Resources) Resources {
	percent, memory := s.PerDevice[SharePercent], have[ShareMemory]
	if percent <= 0 || memory <= 0 {
		return s.PerDevice
	}
	return s.PerDevice.Plus(Resources{ShareMemory: percent * memory / 100}, 1)
}

// Effects of a taint.
const (
	NoSchedule       = "NoSchedule"
	PreferNoSchedule = "PreferNoSchedule"
	NoExecute        = "NoExecute"
)

// A Taint keeps pods off a node unless they tolerate it.
type Taint struct {
	Key    string
	Value  string
	Effect string
}

// A Toleration lets a pod onto nodes with a taint. An empty Key with Exists
// tolerates every taint; an empty Effect matches every effect. Operator "" is Equal.
type Toleration struct {
	Key      string
	Operator string // "", "Equal", "Exists", "Lt", "Gt"
	Value    string
	Effect   string
	Assumed  bool // added by the ExtendedResourceToleration admission plugin
}
