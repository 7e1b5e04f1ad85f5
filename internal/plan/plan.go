// Package plan is the costed list of what to do for a Snapshot: the nodes to
// launch, the pods that go on nodes that exist, and the pods that go nowhere,
// with the reasons. Check says whether a plan is right without knowing how it
// was made.
package plan

import "github.com/kerfdev/kerf/internal/model"

// A Plan answers one Snapshot. Pods are named by their index in Snapshot.Pods.
type Plan struct {
	Launches []Launch
	Binds    []Bind
	Unplaced []model.Refusal
	// Cost is the price of all launches, in $/h.
	Cost float64
	// Bound is a price, in $/h, that no plan that places the same pods can go
	// below; internal/solve proves it, and its documentation says what it leaves
	// out. 0 is no claim.
	Bound float64
	// Standing is the price of the nodes that exist and are kept, in $/h; nodes
	// without a known price count as zero.
	Standing float64
}

// Gap returns how far Cost may be from the least possible one, as a part of
// it, and whether a bound says anything about it. Costs below a hundredth of a
// cent apart count as equal.
func (p Plan) Gap() (gap float64, known bool) {
	if p.Bound <= 0 {
		return 0, p.Cost == 0
	}
	if p.Cost-p.Bound < 1e-4 {
		return 0, true
	}
	return p.Cost/p.Bound - 1, true
}

// A Launch is one node to order.
type Launch struct {
	Pool         string
	Type         string
	Zones        []string // every zone in which it may be launched for this price, sorted
	CapacityType string
	Price        float64 // $/h
	Estimated    bool    // the price is not a quoted one
	// Alternatives are the types that hold the same pods, cheapest first, for
	// the cloud to fall back on; it starts with Type.
	Alternatives []string
	// Labels are those of the pool's template plus the choices made for it.
	Labels      map[string]string
	Config      string // device config that its labels select
	Sharing     model.SharingKind
	Allocatable model.Resources // with what its GPUs advertise
	Devices     []model.Device
	DaemonSets  []string        // "namespace/name" of those that run there
	Overhead    model.Resources // what they take
	Pods        []int           // sorted
	Used        model.Resources // by Pods, without Overhead
	// OnDevice tells for pods with device shares which devices they sit on.
	OnDevice map[int][]int
}

// A Bind predicts pods onto a node that exists.
type Bind struct {
	Node     string
	Pods     []int // sorted
	OnDevice map[int][]int
}
