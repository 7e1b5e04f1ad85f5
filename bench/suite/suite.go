// Package suite is Kerf's benchmark: it plans every workload with Kerf and with
// Karpenter's own scheduler, one after the other in one process, and shows what
// each costs, in dollars and in CPU time.
package suite

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/kerfdev/kerf/internal/rival"
	"github.com/kerfdev/kerf/internal/solve"
)

// Options say what to run.
type Options struct {
	// Full runs Karpenter on the large workloads too, where it takes many
	// minutes; without it their last measured figures stand in.
	Full bool
	// Only runs the workloads whose name contains it.
	Only string
	// Workers is how many nodes Karpenter tries at once.
	Workers int
	// Steps replaces the budget of Kerf's solver in every workload; 0 leaves them.
	Steps int64
}

// A Row is one workload and what came of it.
type Row struct {
	Workload
	Pods   int
	Absent string // why it was not run, "" when it was
	Kerf   Outcome
	Rival  Outcome
	// Recorded is the day on which Rival was measured when it was not now.
	Recorded string
	Judged   Judgement
	Alone    float64 // $/h with a node for every pod
	Wrong    []error // what plan.Check and Karpenter's rules say against Kerf's plan
}

// An Outcome is a plan's figures.
type Outcome struct {
	Nodes     int
	Unplaced  int
	Dollars   float64 // $/h
	Bound     float64 // $/h that no plan can go below; 0 = not known
	CPU, Wall time.Duration
	Proof     time.Duration // CPU time of the bound
	MiB       float64
}

// known reports whether anything was measured.
func (o Outcome) known() bool { return o.CPU > 0 || o.Wall > 0 }

// String gives the figures in a line.
func (o Outcome) String() string {
	if !o.known() {
		return "not measured"
	}
	s := fmt.Sprintf("%d nodes, %.2f $/h, %.3f CPU-s, %.3f s", o.Nodes, o.Dollars, o.CPU.Seconds(), o.Wall.Seconds())
	if o.Unplaced > 0 {
		s += fmt.Sprintf(", %d pods not placed", o.Unplaced)
	}
	return s
}

// Run runs the workloads in order and tells on w what it is at.
func Run(w io.Writer, o Options) []Row {
	var out []Row
	rivals := map[string]Outcome{}
	for _, l := range workloads {
		if !strings.Contains(l.Name, o.Only) {
			continue
		}
		fmt.Fprintf(w, "%s: ", l.Name)
		row := run(l, o, rivals)
		switch {
		case row.Absent != "":
			fmt.Fprintln(w, row.Absent)
		default:
			fmt.Fprintf(w, "kerf %s, karpenter %s\n", row.Kerf, row.Rival)
		}
		for i, err := range row.Wrong {
			if i == 3 {
				fmt.Fprintf(w, "  and %d more\n", len(row.Wrong)-3)
				break
			}
			fmt.Fprintln(w, "  wrong:", err)
		}
		out = append(out, row)
	}
	return out
}

func run(l Workload, o Options, rivals map[string]Outcome) Row {
	row := Row{Workload: l}
	s, err := l.build()
	if err != nil {
		row.Absent = "left out: " + err.Error()
		return row
	}
	row.Pods, row.Alone = len(s.Pods), alone(s)
	if o.Steps > 0 {
		l.options.Steps = o.Steps
	}
	prove := int64(proveSteps)
	if l.modest {
		prove = 0
	}
	answer, spent := kerf(s, l.options, prove)
	row.Kerf = outcome(answer, spent)
	row.Wrong = append(plan.Check(s, answer), rival.Check(s, answer)...)
	if prove > 0 && !l.again {
		quick, _ := solve.Solve(s, solve.Options{Steps: quickSteps, CPUOnGPU: l.options.CPUOnGPU})
		row.Judged = judge(s, answer, quick)
	}
	if err := row.Judged.against(answer.Bound); err != nil {
		row.Wrong = append(row.Wrong, err)
	}
	row.Rival, row.Recorded, err = karpenter(l, s, o, rivals)
	if err != nil {
		row.Wrong = append(row.Wrong, err)
	}
	return row
}

func outcome(p plan.Plan, spent cost) Outcome {
	out := Outcome{Nodes: len(p.Launches), Dollars: p.Cost, Bound: p.Bound, CPU: spent.CPU, Wall: spent.Wall, Proof: spent.Proof, MiB: spent.MiB}
	for _, r := range p.Unplaced {
		out.Unplaced += len(r.Pods)
	}
	return out
}

// karpenter runs Karpenter, or finds its figures: it sees no shares, so that
// workloads which differ in them alone are one to it.
func karpenter(l Workload, s model.Snapshot, o Options, done map[string]Outcome) (Outcome, string, error) {
	if had, ok := done[l.rival]; ok {
		return had, "", nil
	}
	if l.long && !o.Full {
		was := recorded[l.rival]
		return was.Outcome, was.day, nil
	}
	r, err := rival.Run(s, rival.Options{Workers: o.Workers})
	if err != nil {
		return Outcome{}, "", errors.Join(errors.New("karpenter did not run"), err)
	}
	out := Outcome{Nodes: len(r.Nodes), Unplaced: len(r.Unplaced), Dollars: r.Cost, CPU: r.CPU, Wall: r.Wall}
	done[l.rival] = out
	return out, "", nil
}
