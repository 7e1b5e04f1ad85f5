// Package compare plans the same files with Kerf and with Karpenter's own
// scheduler and shows the two plans side by side: what each costs and takes,
// which nodes it orders, which pods only one of them places, and why they
// differ. It is a program of its own, kerf-compare, since Karpenter's libraries
// would make kerf three times as large.
package compare

import (
	"errors"
	"fmt"
	"time"

	"github.com/kerfdev/kerf/internal/effort"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/overlay"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/kerfdev/kerf/internal/rival"
	"github.com/kerfdev/kerf/internal/solve"
)

// Options say how to compare. The zero value compares with Karpenter as it comes.
type Options struct {
	// NodeOverlay gives Karpenter the NodeOverlays that kerf overlay writes.
	NodeOverlay bool
	// Limit ends Karpenter's search; 0 lets it finish.
	Limit time.Duration
}

// A Comparison is two plans for one Snapshot.
type Comparison struct {
	Snapshot  model.Snapshot
	Kerf      plan.Plan
	Wall, CPU time.Duration // of Kerf's solver, the bound included
	Karpenter rival.Result
	// Overlays are the NodeOverlays that Karpenter was given, or those that it
	// would need to count right.
	Overlays []overlay.Overlay
	Given    bool // Karpenter had the overlays
}

// Of plans a Snapshot both ways. It fails when Kerf's plan does not hold, which
// is a mistake in Kerf, and when the Snapshot cannot be put to Karpenter.
func Of(s model.Snapshot, o Options) (Comparison, error) {
	c := Comparison{Snapshot: s, Given: o.NodeOverlay}
	c.Overlays, _ = overlay.For(s)
	cpu, start := rival.CPUTime(), time.Now()
	c.Kerf, _ = solve.Solve(s, effort.Options(effort.Steps))
	c.Wall, c.CPU = time.Since(start), rival.CPUTime()-cpu
	if errs := plan.Check(s, c.Kerf); len(errs) > 0 {
		return c, fmt.Errorf("kerf's plan does not hold: %w", errors.Join(errs[:min(3, len(errs))]...))
	}
	var err error
	c.Karpenter, err = rival.Run(s, rival.Options{Overlay: o.NodeOverlay, Limit: o.Limit})
	return c, err
}

// unplaced counts the pods that Kerf does not place.
func (c *Comparison) unplaced() int {
	n := 0
	for _, r := range c.Kerf.Unplaced {
		n += len(r.Pods)
	}
	return n
}

// asked counts the pods that want a place: those that are not bound to a node that stays.
func (c *Comparison) asked() int {
	n := c.unplaced()
	for _, l := range c.Kerf.Launches {
		n += len(l.Pods)
	}
	for _, b := range c.Kerf.Binds {
		n += len(b.Pods)
	}
	return n
}
