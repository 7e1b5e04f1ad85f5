package solve

import (
	"bytes"
	"testing"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// A thousand pods over every type of a region: the plan holds, a second run
// gives the same bytes, and more steps never cost more.
func TestAFleetIsPlannedTheSameWayTwice(t *testing.T) {
	s := fleet(t, 1000, 60)
	var costs []float64
	for _, steps := range []int64{1, 400_000} {
		p, trace := Solve(s, Options{Steps: steps})
		for _, err := range plan.Check(s, p) {
			t.Fatal(err)
		}
		first, err := plan.Encode(s, p, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, trace = Solve(s, Options{Steps: steps})
		second, err := plan.Encode(s, p, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%d steps: two runs differ", steps)
		}
		costs = append(costs, p.Cost)
	}
	if costs[1] > costs[0] {
		t.Errorf("%.3f $/h with many steps, %.3f with few", costs[1], costs[0])
	}
}

// A preference that costs nothing decides where a pod goes, unless preferences
// are ignored.
func TestPreferencesCanBeIgnored(t *testing.T) {
	s := parse(t, `
zones us-east-1a us-east-1b
only on-demand
use m6i.large
pool any
pod web cpu=1 memory=1Gi
    prefer 10 in zone us-east-1b
`)
	for want, o := range map[int]Options{1: {}, 2: {IgnorePreferences: true}} {
		p, _ := Solve(s, o)
		if len(p.Launches) != 1 || len(p.Launches[0].Zones) != want {
			t.Errorf("%+v: launches %+v, want one in %d zones", o, p.Launches, want)
		}
	}
}

// Nothing to plan is a plan.
func TestAnEmptySnapshot(t *testing.T) {
	p, trace := Solve(model.Snapshot{}, Options{})
	if len(p.Launches)+len(p.Binds)+len(p.Unplaced)+len(trace.Relaxed) > 0 || p.Cost != 0 {
		t.Errorf("%+v", p)
	}
}
