package model

// A Code says which check refused a pod. Codes are stable: they appear in JSON.
type Code string

// The codes, in the order in which the checks are made.
const (
	// The pod itself, wherever it would go.
	CodeInvalid   Code = "invalid"   // the API server refuses it
	CodeGuard     Code = "guard"     // the guard refuses it; Key is the rule
	CodeQuota     Code = "quota"     // a ResourceQuota is used up
	CodeGated     Code = "gated"     // scheduling gates are set
	CodeScheduler Code = "scheduler" // another scheduler places it
	CodeClaims    Code = "claims"    // it uses DRA resource claims
	CodeVolume    Code = "volume"    // its volumes leave no node, or a claim does not exist

	// The pod on a pool or on a node.
	CodeUnusable    Code = "unusable"     // the pool cannot launch anything; the node is not ready
	CodeTaint       Code = "taint"        // a taint is not tolerated
	CodeRequirement Code = "requirement"  // selector or affinity against labels and requirements
	CodeNoType      Code = "no-type"      // no instance type is left after the requirements
	CodeNoResource  Code = "no-resource"  // nothing there advertises the resource
	CodeMaxRequest  Code = "max-request"  // failRequestsGreaterThanOne
	CodeTooBig      Code = "too-big"      // more than the largest type or the node's free space
	CodeNoOffering  Code = "no-offering"  // not sold in the zones and capacity types left
	CodeMinValues   Code = "min-values"   // fewer values than the pool's minValues demands
	CodeLimit       Code = "limit"        // the pool's limits
	CodeSpread      Code = "spread"       // topology spread
	CodeAffinity    Code = "pod-affinity" // pod affinity or anti-affinity
	CodeHostPort    Code = "host-port"    // the port is taken
	CodeFractional  Code = "fractional"   // only fractional GPUs are left and the pool does not name them
	CodeCPUOnGPU    Code = "cpu-on-gpu"   // a pod without GPUs is kept off GPU nodes
)

// A Verdict is one refusal: which check, on which key, what was asked and what
// is offered. Words are made of it by internal/explain.
type Verdict struct {
	Code    Code
	Pool    string   // pool it speaks of, or ""
	Node    string   // node it speaks of, or ""
	Key     string   // label key, resource name, taint key, port ...
	Wanted  []string // values asked, as written
	Offered []string // values that are there
	Asked   int64    // amount asked, in the resource's unit
	Have    int64    // amount offered: the largest, or the limit
	Used    int64    // amount already taken, for limits and quotas
	Config  string   // device config, for CodeMaxRequest and CodeNoResource
	Detail  string   // the API server's or plugin's own words, when those are the reason
	Remedy  []Remedy // single changes after which the pod would be placed; tried, not guessed
}

// A RemedyKind is a change that a person can make.
type RemedyKind string

// The kinds of remedy.
const (
	RemedyTolerate   RemedyKind = "tolerate"    // add a toleration for Key to the pod
	RemedyDropLabel  RemedyKind = "drop-label"  // remove Key from the pod's selector or affinity
	RemedySetLabel   RemedyKind = "set-label"   // select Key=Values in the pod
	RemedyAddValue   RemedyKind = "add-value"   // add Values to Key in the pool's requirements
	RemedyAsk        RemedyKind = "ask"         // ask Amount of resource Key instead
	RemedyRename     RemedyKind = "rename"      // ask resource Values[0] instead of Key
	RemedyRaiseLimit RemedyKind = "raise-limit" // raise limits.Key of the pool to Amount
	RemedyAllowMore  RemedyKind = "allow-more"  // set failRequestsGreaterThanOne: false in the config
	RemedyUsePool    RemedyKind = "use-pool"    // select pool Values[0]
	RemedyNameFamily RemedyKind = "name-family" // name instance family Values[0] in the pool
	RemedyLabelPool  RemedyKind = "label-pool"  // add label Key=Values[0] to the pool's template
	RemedyFix        RemedyKind = "fix"         // what Values[0] says, in the pod
)

// A Remedy is one change and what it changes.
type Remedy struct {
	Kind   RemedyKind
	Key    string
	Values []string
	Amount int64
}

// A Trace is what was noted on the way to a plan.
type Trace struct {
	Refusals []Refusal
	Relaxed  []Relaxation
	Steps    int64 // units of search spent
}

// A Refusal holds every verdict on one shape that could not be placed, in the
// order of the pools, then the nodes.
type Refusal struct {
	Pods     []int // indexes into Snapshot.Pods
	Verdicts []Verdict
}

// A Relaxation is a preference that was given up so that pods could be placed.
type Relaxation struct {
	Pods []int
	What string // "nodeAffinity", "podAffinity", "topologySpread", "PreferNoSchedule"
	Key  string
}
