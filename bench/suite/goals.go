package suite

import (
	"fmt"
	"strings"
	"time"
)

// A goal is what a workload's figures have to reach. Times are CPU times.
type goal struct {
	workload string
	wants    string
	// reached returns the figure that the goal is about and whether it is reached.
	reached func(Row) (string, bool)
}

var goals = allGoals()

func allGoals() []goal {
	out := []goal{
		{"diverse 10000", "100 times less CPU than Karpenter", fasterThan(100)},
		{"diverse 10000", "no more nodes than Karpenter, nor more pods left out", func(r Row) (string, bool) {
			return fmt.Sprintf("%d and %d to %d and %d", r.Kerf.Nodes, r.Kerf.Unplaced, r.Rival.Nodes, r.Rival.Unplaced), r.Kerf.Nodes <= r.Rival.Nodes && r.Kerf.Unplaced <= r.Rival.Unplaced
		}},
		{"diverse 10000", "no higher $/h than Karpenter for the same pods", cheaperThan(1)},
	}
	for _, n := range []string{"1000", "5000"} {
		for _, kind := range []string{" spot", " spot, no metal", "", ", no metal"} {
			name := "gpu " + n + kind
			out = append(out,
				goal{name, "300 times less CPU than Karpenter", fasterThan(300)},
				goal{name, "$/h at most 1.01 of the bound", within(1)})
			if kind != "" { // on demand with bare metal the optimum is at 0.74
				out = append(out, goal{name, "$/h at most 0.72 of Karpenter's", cheaperThan(0.72)})
			}
		}
	}
	out = append(out,
		goal{"openb default shares, first answer", "7,193 $/h in 5 ms", atMost(7193, 5*time.Millisecond)},
		goal{"openb default shares", "6,800 $/h in 200 ms", atMost(6800, 200*time.Millisecond)},
		goal{"openb default shares, long search", "6,740 $/h in 5 s", atMost(6740, 5*time.Second)},
		goal{"openb default whole", "7,300 $/h in 200 ms", atMost(7300, 200*time.Millisecond)},
	)
	for _, trace := range []string{"gpushare40", "gpushare100", "multigpu50", "cpu250", "gpuspec33"} {
		for _, mode := range []string{" shares", " whole"} {
			out = append(out, goal{"openb " + trace + mode, "within 2.5 % of the bound in 5 s", within(2.5)})
		}
	}
	for _, b := range []struct {
		workload string
		dollars  float64
	}{
		{"default shares", 6620}, {"default whole", 7095}, {"gpushare40 shares", 6200}, {"gpushare100 shares", 4570}, {"multigpu50 shares", 14700}, {"cpu250 shares", 7520},
	} {
		out = append(out, goal{"openb " + b.workload, "a bound of at least " + thousands(b.dollars) + " $/h", func(r Row) (string, bool) {
			return dollars(r.Kerf.Bound), r.Kerf.Bound >= b.dollars
		}})
	}
	return out
}

func fasterThan(factor float64) func(Row) (string, bool) {
	return func(r Row) (string, bool) {
		return times(r.Rival.CPU, r.Kerf.CPU), r.Kerf.CPU > 0 && r.Rival.CPU.Seconds() >= factor*r.Kerf.CPU.Seconds()
	}
}

func cheaperThan(factor float64) func(Row) (string, bool) {
	return func(r Row) (string, bool) {
		got := fmt.Sprintf("%.3f", r.Kerf.Dollars/r.Rival.Dollars)
		if more := r.Kerf.Unplaced - r.Rival.Unplaced; more > 0 {
			got += fmt.Sprintf(" with %d pods more left out", more)
		}
		return got, r.Kerf.Dollars <= factor*r.Rival.Dollars && r.Kerf.Unplaced <= r.Rival.Unplaced
	}
}

// within asks for a plan at most so many percent above the bound, in five seconds.
func within(most float64) func(Row) (string, bool) {
	return func(r Row) (string, bool) {
		gap := r.Kerf.gap()
		return percent(gap), gap >= 0 && 100*gap <= most && r.Kerf.CPU <= 5*time.Second && r.Kerf.Unplaced <= r.Rival.Unplaced
	}
}

func atMost(most float64, in time.Duration) func(Row) (string, bool) {
	return func(r Row) (string, bool) {
		return fmt.Sprintf("%s in %s ms", dollars(r.Kerf.Dollars), figure(ms(r.Kerf.CPU))), r.Kerf.Dollars <= most && r.Kerf.CPU <= in && r.Kerf.Unplaced == 0
	}
}

// memory is the most MiB that any run of Kerf may hold.
const memory = 200

// judged lists every goal whose workload was run, with its figure.
func (r Report) judged() (met int, missed []string) {
	count := func(ok bool, name, wants, got string) {
		if ok {
			met++
			return
		}
		missed = append(missed, fmt.Sprintf("%s: %s, and it is %s", name, wants, got))
	}
	rows, most := map[string]Row{}, 0.0
	for _, row := range r.Rows {
		if row.Absent != "" {
			continue
		}
		rows[row.Name] = row
		most = max(most, row.Kerf.MiB)
		count(len(row.Wrong) == 0, row.Name, "a plan that breaks no rule", fmt.Sprintf("one that breaks %d", len(row.Wrong)))
		if j := row.Judged; j.known() {
			count(j.reaches(row.Kerf.Bound), row.Name, "a bound of at least glpsol's for the assignment program, "+dollars(j.Assignment), dollars(row.Kerf.Bound))
		}
	}
	for _, g := range goals {
		if row, ok := rows[g.workload]; ok && (row.Rival.known() || !strings.Contains(g.wants, "Karpenter")) {
			got, reached := g.reached(row)
			count(reached, g.workload, g.wants, got)
		}
	}
	if len(rows) > 0 {
		count(most <= memory, "all workloads", fmt.Sprintf("at most %d MiB", memory), figure(most))
	}
	for _, p := range r.Processes {
		if p.MiB > 0 {
			count(p.MiB <= memory, "kerf plan, "+p.About, fmt.Sprintf("at most %d MiB", memory), figure(p.MiB))
		}
	}
	if s := r.Small; s.Instances > 0 {
		count(100*s.Optimal >= 95*s.Instances, smallFleets, "95 % at the optimum", fmt.Sprintf("%d of %d", s.Optimal, s.Instances))
		count(s.Worst <= 1.02, smallFleets, "never 2 % above it", percent(s.Worst-1))
		count(len(s.Wrong) == 0, smallFleets, "plans that break no rule", fmt.Sprintf("%d that do", len(s.Wrong)))
	}
	return met, missed
}

// verdict says which goals are missed.
func (r Report) verdict() string {
	met, missed := r.judged()
	if len(missed) == 0 {
		return fmt.Sprintf("All %d goals are met.\n", met)
	}
	return fmt.Sprintf("%d of %d goals are met. Missed:\n- %s\n", met, met+len(missed), strings.Join(missed, "\n- "))
}
