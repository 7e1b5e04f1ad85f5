package solve

import (
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// Options change how a plan is sought. The zero value is what kerf plan uses.
type Options struct {
	// Steps bounds the search, in items looked at; 0 is the default of 1 million,
	// up to some tenths of a second. The same number gives the same plan.
	Steps int64
	// Prove is how many steps may be spent on proving that no plan can be much
	// cheaper: Plan.Bound. 0 proves nothing.
	Prove int64
	// CPUOnGPU lets pods that ask for no GPU use GPU nodes like any other.
	CPUOnGPU bool
	// IgnorePreferences plans as if preferred affinities, ScheduleAnyway spreads
	// and PreferNoSchedule taints were not there.
	IgnorePreferences bool
}

const defaultSteps = 1_000_000

// A world is what all attempts at one Snapshot share.
type world struct {
	opts       Options
	snap       *model.Snapshot
	group      group
	market     *market
	classifier *classifier
}

// Solve plans for a Snapshot. Nodes that exist are used first; what they
// cannot hold is launched at the lowest price that was found, pools of higher
// weight before others. Pods that go nowhere are in Plan.Unplaced with the
// reasons, which Trace.Refusals repeats. The Snapshot is not written to, and
// the same Snapshot and Options give the same plan.
func Solve(s model.Snapshot, o Options) (plan.Plan, model.Trace) {
	w := newWorld(&s, o)
	a, relaxed := w.best()
	p, trace := a.finish(relaxed)
	if o.Prove > 0 {
		p.Bound = w.bound(p, a.worths())
	}
	return p, trace
}

func newWorld(s *model.Snapshot, o Options) *world {
	if o.Steps <= 0 {
		o.Steps = defaultSteps
	}
	w := &world{opts: o, snap: s, group: groupPods(s)}
	var specs []*model.PodSpec
	for i := range w.group.shapes {
		specs = append(specs, w.group.shapes[i].spec)
	}
	for i := range s.DaemonSets {
		specs = append(specs, s.DaemonSets[i].Spec)
	}
	d := newDims(specs)
	w.group.vectors(d)
	w.market = newMarket(s, &w.group, d)
	w.classifier = newClassifier(w.market)
	return w
}
