package suite

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kerfdev/kerf/internal/rival"
)

// A Report is what a run of the benchmark shows.
type Report struct {
	Rows      []Row
	Small     Small
	Processes []Process
	Machine   Machine
}

// A Machine is where and when the benchmark ran.
type Machine struct {
	Day, CPU, Go string
	Cores        int
	Load         string // load averages of 1, 5 and 15 minutes when it began, "" when unknown
}

func machine() Machine {
	m := Machine{Day: time.Now().UTC().Format("2006-01-02"), CPU: runtime.GOARCH, Go: runtime.Version(), Cores: runtime.NumCPU()}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(data))[:3], " ")
	}
	return m
}

func (m Machine) String() string {
	s := fmt.Sprintf("%s, %d CPUs, %s, %s", m.CPU, m.Cores, m.Go, m.Day)
	if m.Load != "" {
		s += ", load average at the start " + m.Load
	}
	return s
}

var columns = []string{
	"workload", "pods", "Kerf nodes", "$/h", "CPU ms", "wall ms", "MiB", "bound $/h", "gap", "bound CPU s",
	"Karpenter nodes", "$/h", "CPU s", "wall s", "$/h, Kerf to Karpenter", "CPU, Karpenter to Kerf", "one pod a node $/h",
}

// cells are a row's figures in the order of columns; what is not known is a dash.
func (r Row) cells() []string {
	if r.Absent != "" {
		return append([]string{r.Name}, strings.Fields(strings.Repeat("– ", len(columns)-1))...)
	}
	mark := ""
	if r.Recorded != "" {
		mark = "*"
	}
	out := []string{
		r.Name, fmt.Sprint(r.Pods), fmt.Sprint(r.Kerf.Nodes), dollars(r.Kerf.Dollars), figure(ms(r.Kerf.CPU)), figure(ms(r.Kerf.Wall)), figure(r.Kerf.MiB),
		dollars(r.Kerf.Bound), percent(r.Kerf.gap()), figure(r.Kerf.Proof.Seconds()),
	}
	if !r.Rival.known() {
		return append(out, "–", "–", "–", "–", "–", "–", dollars(r.Alone))
	}
	return append(out,
		fmt.Sprint(r.Rival.Nodes)+mark, dollars(r.Rival.Dollars)+mark, figure(r.Rival.CPU.Seconds())+mark, figure(r.Rival.Wall.Seconds())+mark,
		fmt.Sprintf("%.2f", r.Kerf.Dollars/r.Rival.Dollars), times(r.Rival.CPU, r.Kerf.CPU), dollars(r.Alone),
	)
}

// gap is how far above the bound a cost is, negative when the bound is not known.
func (o Outcome) gap() float64 {
	if o.Bound <= 0 {
		return -1
	}
	return o.Dollars/o.Bound - 1
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func dollars(v float64) string {
	if v <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", v)
}

func percent(v float64) string {
	if v < 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*v)
}

// figure writes three digits.
func figure(v float64) string {
	switch {
	case v <= 0:
		return "–"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func times(a, b time.Duration) string {
	if a <= 0 || b <= 0 {
		return "–"
	}
	return figure(a.Seconds()/b.Seconds()) + "×"
}

// Text is the report for a terminal.
func (r Report) Text() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	short := []string{"workload", "pods", "nodes", "$/h", "CPU ms", "wall ms", "MiB", "bound", "gap", "proof s", "K nodes", "K $/h", "K CPU s", "K wall s", "$/h ratio", "CPU ratio", "one each"}
	if len(r.Rows) > 0 {
		fmt.Fprintln(w, strings.Join(short, "\t")+"\t")
	}
	for _, row := range r.Rows {
		fmt.Fprintln(w, strings.Join(row.cells(), "\t")+"\t")
	}
	w.Flush()
	b.WriteString("\n" + r.notes() + "\n")
	if proof := r.proof(); len(proof) > 0 {
		fmt.Fprintln(w, strings.Join([]string{"bound of", "Kerf", "assignment, glpsol", "to it", "patterns", "configuration, glpsol", "to it", "glpsol s"}, "\t")+"\t")
		for _, cells := range proof {
			fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
		}
		w.Flush()
		b.WriteString("\n" + r.agreement() + "\n\n")
	}
	for _, p := range r.Processes {
		fmt.Fprintf(&b, "kerf plan, %s: %s\n", p.About, p)
	}
	return b.String() + "\n" + r.verdict()
}

// proof are the bounds that were judged, a row each.
func (r Report) proof() [][]string {
	var out [][]string
	for _, row := range r.Rows {
		if j := row.Judged; j.known() {
			bound := row.Kerf.Bound
			out = append(out, []string{
				row.Name, dollars(bound), dollars(j.Assignment), off(bound, j.Assignment), fmt.Sprint(j.Nodes), dollars(j.Patterns), off(bound, j.Patterns), figure(j.Took.Seconds()),
			})
		}
	}
	return out
}

// off is how far a bound is from a figure of glpsol's, in percent.
func off(bound, optimum float64) string {
	if math.Abs(bound/optimum-1) <= agreement {
		return "equal"
	}
	return fmt.Sprintf("%+.3f %%", 100*(bound/optimum-1))
}

// agreement says in a sentence or two what another solver makes of the bounds,
// and why it was not asked where it was not.
func (r Report) agreement() string {
	all, reach, wrong := 0, 0, 0
	var absent []string
	for _, row := range r.Rows {
		if why := row.Judged.Absent; why != "" && !slices.Contains(absent, why) {
			absent = append(absent, why)
		}
		if !row.Judged.known() {
			continue
		}
		all++
		if row.Judged.reaches(row.Kerf.Bound) {
			reach++
		}
		if row.Judged.against(row.Kerf.Bound) != nil {
			wrong++
		}
	}
	var said []string
	if all > 0 {
		said = append(said, fmt.Sprintf("Of %d bounds %d are as high as glpsol's optimum of the assignment program, and %d are above that of the configuration program, which none may be.", all, reach, wrong))
	}
	if len(absent) > 0 {
		said = append(said, "Not judged: "+strings.Join(absent, "; ")+".")
	}
	return strings.Join(said, " ")
}

// notes are what stands below the table.
func (r Report) notes() string {
	var b strings.Builder
	if s := r.Small; s.Instances > 0 {
		fmt.Fprintf(&b, "Small fleets (%d random instances, optima of %d to %d nodes): %d at the exact optimum, the worst %.2f %% above it, %.1f ms each; Kerf's own bound proves %d of them.\n",
			s.Instances, s.Nodes[0], s.Nodes[1], s.Optimal, 100*(s.Worst-1), ms(s.CPU)/float64(s.Instances), s.Proven)
	}
	days := map[string]bool{}
	for _, row := range r.Rows {
		if row.Recorded != "" && !days[row.Recorded] {
			days[row.Recorded] = true
			fmt.Fprintf(&b, "* Karpenter's figures of %s; BENCH_FULL=1 measures them anew.\n", row.Recorded)
		}
	}
	for _, row := range r.Rows {
		if row.Absent != "" {
			fmt.Fprintf(&b, "%s: %s.\n", row.Name, row.Absent)
		}
		if len(row.Wrong) > 0 {
			fmt.Fprintf(&b, "%s: the plan breaks %d rules, the first: %v.\n", row.Name, len(row.Wrong), row.Wrong[0])
		}
	}
	return b.String()
}

const preface = `# Benchmark

Written by ` + "`make bench`" + ` on %s.

Each workload is planned by Kerf and then by the scheduler of Karpenter %s (the library, in the same process). Both get the same pods,
types and prices. Karpenter's plan is priced at the cheapest offering that each node leaves open, which is its best case; its time is that of the
scheduler's Solve alone, Kerf's is that of everything from the Snapshot to the plan; the bound, which is proven afterwards, has its own column. CPU time is user and system time of
the process, the measure to compare on a machine that does other work too. Every plan of Kerf is checked by ` + "`plan.Check`" + ` and by Karpenter's own rules for a pod
on a node. MiB is the most memory that the process held for Go meanwhile. The bound is what Kerf proves that no plan can go below. "One pod a node" gives each pod the cheapest node that holds it.

- diverse: the mix of Karpenter's own benchmark on its 400 made-up types: a fifth each generic, spread over zones, spread over hosts, together in a zone, apart on hosts.
- gpu: 60, 20, 12 and 8 %% of the pods ask for 1, 2, 4 and 8 GPUs; 29 AWS types in three zones; spot prices are made up.
- openb: the pods of Alibaba's GPU trace (8,152 to 9,420) on AWS us-east-1 on demand, families c, m, r, g and p, three zones. "shares" lets pods share a GPU by thousandths, "whole" gives each
  pod whole GPUs, which is all that Karpenter sees either way. CPU pods may use GPU nodes.

`

// Markdown is the report as bench/RESULTS.md.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, preface, r.Machine, rival.Version)
	fmt.Fprintf(&b, "| %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)-1))
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(strings.Join(row.cells(), " | "), "*", `\*`))
	}
	for line := range strings.Lines(r.notes()) {
		fmt.Fprintf(&b, "\n%s", strings.Replace(line, "* ", `\* `, 1))
	}
	b.WriteString(r.bounds())
	b.WriteString(r.memory())
	fmt.Fprintf(&b, "\n## Goals\n\n%s", strings.Replace(r.verdict(), "\n- ", "\n\n- ", 1))
	return b.String()
}

const judges = `
## The bounds, by another solver

GLPK's ` + "`glpsol`" + ` solves two linear programs for each workload, which the benchmark writes from the pods, the types and plans that ` + "`plan.Check`" + ` has passed, without
any of the code that makes the bound. The assignment program hands pods out to types of node in fractions, with the cuts of dual feasible functions: a
bound below its optimum has been left short. The configuration program takes the nodes of two of Kerf's plans in fractions: a bound above its optimum is wrong.

`

// bounds is the section about what another solver makes of the bounds.
func (r Report) bounds() string {
	proof, says := r.proof(), r.agreement()
	if says == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(judges)
	if len(proof) > 0 {
		b.WriteString("| workload | bound $/h | assignment $/h | bound to it | different nodes | configuration $/h | bound to it | glpsol s |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
		for _, cells := range proof {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		b.WriteString("\n")
	}
	b.WriteString(says + "\n")
	return b.String()
}

// memory is the section about whole runs of kerf plan.
func (r Report) memory() string {
	if len(r.Processes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n## The process `kerf plan`, from files to the table\n\nAll types of us-east-1, the default effort, the proof included.\n\n| input | MB | CPU s | wall s | MiB at most |\n|---|---:|---:|---:|---:|\n")
	for _, p := range r.Processes {
		if p.Absent != "" {
			fmt.Fprintf(&b, "| %s: %s | – | – | – | – |\n", p.About, p.Absent)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.About, figure(float64(p.Input)/1e6), figure(p.CPU.Seconds()), figure(p.Wall.Seconds()), figure(p.MiB))
	}
	return b.String()
}
